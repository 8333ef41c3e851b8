// Masks: one row from scores to probabilities, the same mask in the words of others, and a row that sees no key.

const rowBox = el("section", { class: "tl-m-row" }), codeBox = el("section", { class: "tl-m-code" }), emptyBox = el("section", { class: "tl-m-noKey" });
const MOST_SHOWN = 24; // columns of a row of numbers; more are left out and counted

const titled = (title, sub, ...more) => el("h2", {}, el("span", {}, title), el("small", {}, sub, more));
const link = (text, press, options = {}) => el("button", { type: "button", class: "tl-m-link", onclick: press, ...options }, text);

// A section is written anew; what had the focus in it keeps it, by its data-keep.
function write(place, ...content) {
  const held = place.contains(document.activeElement) ? document.activeElement.dataset.keep : null;
  const scrolled = [...place.querySelectorAll(".tl-m-scroll")].map((each) => each.scrollLeft);
  place.replaceChildren(...content.flat(Infinity).filter(Boolean));
  [...place.querySelectorAll(".tl-m-scroll")].forEach((each, n) => { each.scrollLeft = scrolled[n] || 0; });
  if (held) [...place.querySelectorAll("[data-keep]")].find((each) => each.dataset.keep === held)?.focus();
}

function drawRow() {
  const grid = here(), row = view.shown.row, at = view.chosen.mask_row;
  const move = (step) => () => { const next = at + step; if (next >= 0 && next < grid.rows) chooseRow(grid.name, next); };
  const title = titled(t("pipeline"), t("pipeline_of", { query: grid.queries[at], number: at, attention: attentionName(grid.name), layer: grid.layer + 1, head: view.chosen.head + 1 }), " · ",
    link(t("previous_row"), move(-1), { data: { keep: "previous" }, "aria-disabled": at === 0 ? "true" : null }), " / ", link(t("next_row"), move(1), { data: { keep: "next" }, "aria-disabled": at === grid.rows - 1 ? "true" : null }));
  if (!row) { write(rowBox, title, el("p", { class: "tl-m-quiet" }, t(view.shown.shapes_only ? "no_numbers" : "no_row"))); return; }
  const count = Math.min(grid.columns, MOST_SHOWN), limit = Math.max(...[...row.dots, ...row.scaled].map((value) => Math.abs(numeral(value))).filter(Number.isFinite), 1e-9);
  const best = row.scaled.map(numeral).reduce((top, value, j, all) => (value > all[top] ? j : top), 0), open = row.visible.map((seen, j) => (seen ? numeral(row.scaled[j]) : -Infinity)), highest = Math.max(...open);
  const empty = !row.visible.some(Boolean);
  const reasons = rulesOf(grid, grid.cells[at * grid.columns + best]).map(ruleName).join(t("comma"));
  const sum = (value, digits) => { const number = numeral(value); return Number.isFinite(number) ? number.toFixed(digits) : asNumber(number); };
  const steps = [
    ["q·k", row.dots, "signed", "", t("says_dots", { d: view.shown.d_head })],
    [view.shown.scaled ? `÷ √${view.shown.d_head}` : t("not_scaled"), row.scaled, "signed", "", t(view.shown.scaled ? "says_scaled" : "says_unscaled")],
    [t("plus_mask"), row.masked, "masked", "", empty ? t("says_none") : row.visible[best] ? t("says_masked") : t("says_best", { key: grid.keys[best], why: reasons || t("odd_shut") })],
    ["exp(· − max)", row.exps, "plain", sum(row.exps_sum, 3), empty ? "" : t("says_exp", { max: minus(Number.isFinite(highest) ? highest.toFixed(3) : "−∞") })],
    ["÷ Σ", row.weights, "probability", sum(row.weights_sum, 6), numeral(row.max_hidden) === 0 ? t("says_weights") : t("says_leak", { value: asNumber(numeral(row.max_hidden)) })],
    ...(row.dropout ? [[t("dropout", { p: row.dropout }), row.dropped, "plain", sum(row.dropped_sum, 3), t("says_dropout")]] : []),
  ];
  const head = el("tr", {}, el("th"), grid.keys.slice(0, count).map((name) => el("th", { scope: "col", class: `tl-m-key${padded(name)}` }, name)), el("th", { scope: "col", class: "tl-m-edge" }, "Σ"), el("th", { scope: "col", class: "tl-m-what" }, t("what_happens")));
  const body = steps.map(([name, values, kind, total, says], n) => el("tr", {}, el("th", { scope: "row" }, el("span", { class: "tl-m-step", "aria-hidden": "true" }, String(n + 1)), name),
    values.slice(0, count).map((value, j) => stepCell(numeral(value), kind, row.visible[j], limit)), el("td", { class: `tl-m-edge${n === 4 ? " tl-m-strong" : ""}` }, total), el("td", { class: "tl-m-what" }, says)));
  const notes = [
    grid.columns > count ? t("more_columns", { count: grid.columns - count }) : null,
    row.off !== null && numeral(row.off) > 1e-4 ? el("b", { class: "tl-m-bad" }, `✗ ${t("row_differs", { value: asNumber(numeral(row.off)) })}`) : null,
    view.chosen.mask_heads === "mean" ? t("row_of_head", { head: view.chosen.head + 1 }) : null,
  ].filter(Boolean);
  write(rowBox, title, el("div", { class: "tl-m-scroll", tabindex: 0, role: "region", "aria-label": t("pipeline"), data: { keep: "row" } }, el("table", {}, el("thead", {}, head), el("tbody", {}, body))),
    el("p", { class: "tl-m-legend" }, t("scores_from", { low: minus((-limit).toFixed(1)) }), el("i", { class: "tl-m-ramp-d" }), t("scores_to", { high: limit.toFixed(1) }), " · ", t("probabilities_from"), el("i", { class: "tl-m-ramp-p" }), "1 · ", el("i", { class: "tl-m-swatch" }), t("masked")),
    notes.length ? el("p", { class: "tl-m-note" }, notes.map((each, n) => [n ? " " : "", each])) : null);
}

function stepCell(value, kind, visible, limit) {
  if (Number.isNaN(value)) return el("td", { class: "tl-m-nan" }, "NaN");
  if (kind === "masked" && !visible) return el("td", { class: "tl-m-shut" }, Number.isFinite(value) ? asPower(value) : "−∞");
  if (!visible && value === 0) return el("td", { class: "tl-m-shut" }, "0");
  if (kind === "plain") return el("td", { class: visible ? null : "tl-m-leaking" }, value.toFixed(3));
  const { part, ramp, css } = along({ kind: kind === "probability" ? "probability" : "signed", limit }, value);
  return el("td", { class: `${css} tl-m-number${part > WHITE_FROM[ramp] ? " tl-m-lw" : ""}${part > BLACK_FROM[ramp] ? " tl-m-db" : ""}${visible || kind === "signed" ? "" : " tl-m-leaking"}`, style: `--at:${part.toFixed(3)}` }, minus(Math.abs(value) >= 1e4 ? value.toExponential(1) : value.toFixed(3)));
}

// -------------------------------------------------------------------------------------------------------- conventions

const CONVENTIONS = { scaled_dot_product_attention: "attend", MultiheadAttention: "ignore", Transformer: "ignore", additive: "additive", flex_attention: "attend" };
const SHORT = { scaled_dot_product_attention: "F.sdpa", MultiheadAttention: "nn.MultiheadAttention", Transformer: "nn.Transformer", additive: "bias", flex_attention: "FlexAttention" };
const API = { scaled_dot_product_attention: "F.scaled_dot_product_attention", MultiheadAttention: "nn.MultiheadAttention", Transformer: "nn.Transformer", additive: "scores + bias", flex_attention: "flex_attention(mask_mod)" };
const snippetNow = () => view.shown.snippets.find((each) => each.api === view.api) || view.shown.snippets[0];

function drawCode() {
  const grid = here(), snippet = snippetNow(), [i, j] = view.cursor[grid.name] || [view.chosen.mask_row, Math.min(view.chosen.mask_row + 1, grid.columns - 1)];
  const row = Math.min(i, grid.rows - 1), column = Math.min(j, grid.columns - 1), shut = shutAt(grid, row, column), kind = CONVENTIONS[snippet.api];
  const say = el("p", { class: "tl-m-legend" }, t("cell_is", { query: grid.queries[row], key: grid.keys[column] }), " ", [["attend", shut ? "False" : "True"], ["ignore", shut ? "True" : "False"], ["keep", shut ? "0" : "1"], ["additive", shut ? "−inf" : "0"]].map(([name, value], n) => [n ? " · " : "", el(name === kind ? "mark" : "span", { class: name === kind ? "tl-m-mark" : null }, `${t(`means_${name}`)}${t("colon")}`, el("code", {}, value))]), ". ", t("ours_is"));
  const choices = el("div", { class: "tl-m-tabs", role: "radiogroup", "aria-label": t("conventions") }, view.shown.snippets.map((each) => el("button", { type: "button", role: "radio", "aria-checked": String(each === snippet), tabindex: each === snippet ? 0 : -1, data: { keep: each.api }, title: API[each.api], onclick: () => { view.api = each.api; drawCode(); } }, SHORT[each.api] || each.api)));
  window.TL.roving(choices, () => [...choices.children], { vertical: false });
  const copied = el("span", { class: "tl-m-quiet", role: "status" }, view.copied?.code === snippet.code ? t(view.copied.done ? "copied" : "not_copied") : "");
  // Told by a redraw: while the clipboard answers, new numbers from the server may have replaced this very line.
  const copy = el("button", { type: "button", class: "tl-m-link", data: { keep: "copy" }, onclick: async () => { view.copied = { code: snippet.code, done: await window.TL.copy(snippet.code) }; drawCode(); } }, t("copy"));
  const meaning = el("p", { class: "tl-m-means" }, el("b", { class: kind === "ignore" ? "tl-m-warn" : "tl-m-ok" }, kind === "ignore" ? "! " : "✓ ", t(`means_${kind}_long`)), " ", t(`note_${snippet.api}`), snippet.runs ? null : ` ${t("not_in_this_torch")}`, el("span", { class: "tl-m-copy" }, copied, " ", copy));
  write(codeBox, titled(t("conventions"), attentionName(grid.name)), choices, say, meaning, el("pre", { tabindex: 0, class: "tl-m-scroll", "aria-label": t("code_of", { api: API[snippet.api] || snippet.api }), data: { keep: "code", api: snippet.api } }, coloured(snippet.code)));
}

// Names of torch, words of the language, comments: enough colour to read by.
function coloured(code) {
  const parts = [];
  let last = 0;
  for (const found of code.matchAll(/#.*|"[^"]*"|\b(?:import|from|as|def|return|for|in|not|or|and|None|True|False)\b|\b\d[\d_.e]*\b/g)) {
    parts.push(code.slice(last, found.index));
    const text = found[0];
    parts.push(el("span", { class: text[0] === "#" ? "tl-m-com" : text[0] === '"' ? "tl-m-str" : /\d/.test(text[0]) ? "tl-m-num" : "tl-m-kw" }, text));
    last = found.index + text.length;
  }
  return [...parts, code.slice(last)];
}

// ------------------------------------------------------------------------------------------------------- a row without

const FILL_NAMES = { exclude: "fill_exclude", "-inf": "fill_inf", finfo_min: "fill_finfo", "-1e9": "fill_1e9" };

function drawEmpty() {
  const told = view.shown.empty, grid = gridOf(told.attention), keys = told.rows.find((row) => row.weights)?.weights.length || 0, count = keys > 8 ? 6 : keys, real = keys === grid.columns;
  const by = Object.groupBy ? Object.groupBy(told.rows, (row) => row.fill) : told.rows.reduce((all, row) => ({ ...all, [row.fill]: [...(all[row.fill] || []), row] }), {});
  const head = el("tr", {}, el("th"), Array.from({ length: count }, (_, j) => el("th", { scope: "col", class: `tl-m-key${padded(grid.keys[j])}` }, real ? grid.keys[j] : `k${j}`)), el("th", { scope: "col", class: "tl-m-edge" }, "Σ"), el("th", { scope: "col", class: "tl-m-edge" }, "float16"), el("th", { scope: "col", class: "tl-m-edge" }, t("gradient")), el("th", { scope: "col", class: "tl-m-what" }, t("what_follows")));
  const body = ["-inf", "-1e9", "finfo_min", "exclude"].map((fill) => {
    const [full, half] = by[fill], now = view.shown.fill === fill, mark = { zeros: "✓", nan: "✗", even: "!", refused: "✗" }[full.what];
    return el("tr", { class: now ? "tl-m-now" : null }, el("th", { scope: "row" }, el("code", {}, t(FILL_NAMES[fill])), now ? el("small", {}, ` ${t("this_run")}`) : null),
      Array.from({ length: count }, (_, j) => emptyCell(full, j)),
      el("td", { class: "tl-m-edge" }, full.what === "nan" ? "NaN" : Number(full.sum).toFixed(3)), el("td", { class: "tl-m-edge" }, half.what === "refused" ? t("refused") : half.what === "nan" ? "NaN" : half.what === "zeros" ? "0" : asProbability(numeral(half.weights[0]))),
      el("td", { class: "tl-m-edge" }, t(`gradient_${full.gradient}`)), el("td", { class: `tl-m-what tl-m-${{ zeros: "ok", nan: "bad", even: "warn", refused: "bad" }[full.what]}` }, `${mark} ${t(`empty_${full.what}`)}`));
  });
  const where = told.found ? t("empty_at", { attention: attentionName(told.attention), query: grid.queries[told.row], number: told.row }) : t("empty_nowhere");
  write(emptyBox, el("h2", {}, told.found ? el("b", { class: "tl-m-warn", "aria-hidden": "true" }, "!") : null, el("span", {}, t("no_key")), el("small", {}, where, told.found && (told.attention !== view.chosen.mask_at || told.row !== view.chosen.mask_row) ? [" · ", link(t("go_there"), () => chooseRow(told.attention, told.row), { data: { keep: "go" } })] : null)),
    el("div", { class: "tl-m-scroll", tabindex: 0, role: "region", "aria-label": t("no_key"), data: { keep: "table" } }, el("table", {}, el("thead", {}, head), el("tbody", {}, body))), el("p", { class: "tl-m-note" }, t("no_key_says")));
}

function emptyCell(row, j) {
  if (row.what === "nan") return el("td", { class: "tl-m-nan" }, "NaN");
  if (row.what === "zeros") return el("td", { class: "tl-m-shut" }, "0");
  const value = numeral(row.weights[j]);
  return el("td", { class: "tl-x-p tl-m-number", style: `--at:${value.toFixed(3)}` }, value.toFixed(3).slice(1));
}

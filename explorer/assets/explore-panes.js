// The four panes of the selected tensor: formula, tensor, code, check. One entry in, all four change.
const PANES = ["formula", "tensor", "code", "check"];

function buildPane(name, state) {
  return el("section", { class: `tl-x-pane tl-x-pane-${name}`, id: `tl-x-${name}`, "aria-labelledby": `tl-x-${name}-title`, tabindex: "-1" },
    name === "formula" ? null : el("span", { class: "tl-x-link", "aria-hidden": "true" }, "↔"),
    el("div", { class: "tl-x-pane-head" }, el("h3", { id: `tl-x-${name}-title` }, state.t(`pane_${name}`)), el("span", { class: "tl-x-subject" }), el("span", { class: "tl-x-aside" })),
    el("div", { class: "tl-x-pane-body" }));
}

function drawPanes(state) {
  const row = state.rowOf(state.key), detail = state.detail;
  for (const name of PANES) {
    const pane = state.host.querySelector(`#tl-x-${name}`);
    const fill = (subject, aside, body, then) => {
      pane.querySelector(".tl-x-subject").replaceChildren(...[subject].flat().filter(Boolean));
      pane.querySelector(".tl-x-aside").replaceChildren(...[aside].flat().filter(Boolean));
      pane.querySelector(".tl-x-pane-body").replaceChildren(...[body].flat(3).filter(Boolean));
      then?.();
    };
    if (!row) fill(null, null, el("p", { class: "tl-x-hint" }, state.t(`empty_${name}`)));
    else if (detail || name === "check") DRAW[name](fill, row, detail, state);
  }
}

// Where the paper has it, in the page's language.
function place({ section, equation }, t) {
  if (section === "–") return t("not_in_paper");
  return equation ? t("place_equation", { section, number: equation }) : `§${section}`;
}

const DRAW = {
  formula(fill, row, detail, state) {
    const { t, payload } = state, formula = payload.formulas[row.formula], found = detail.formula;
    if (!formula || !found) return fill(null, null, el("p", { class: "tl-x-hint" }, t("no_formula")));
    const terms = found.terms.map((term) => el("tr", {}, el("td", { class: `tl-x-symbol${term.role ? ` tl-m${term.role}` : ""}` }, TL.markup(term.math)), el("td", {}, term.shape),
      el("td", { class: "tl-x-from" }, term.key ? ["← ", rowLink(term, state)] : term.note ? el("code", {}, term.note) : null)));
    const reader = found.result.key ? ["→ ", rowLink(found.result, state)] : null;
    return fill(null, place(formula, t), [
      el("div", { class: "tl-x-math", tabindex: "0", role: "group", "aria-label": t("pane_formula") }, formula.block.map((part) => el("span", {}, TL.markup(part)))),
      el("table", { class: "tl-x-terms" }, el("tbody", {}, terms, el("tr", { class: "tl-x-result" }, el("td", { class: "tl-x-symbol" }, TL.markup(found.result.math)), el("td", {}, found.result.shape), el("td", { class: "tl-x-from" }, reader)))),
      el("p", { class: "tl-x-say" }, found.sentence), el("p", { class: "tl-x-axes" }, axisWords(row, t)),
    ], () => state.later(() => shrink(state.host.querySelector(".tl-x-math"))));
  },

  tensor(fill, row, detail, state) {
    const { t, payload } = state, tensor = detail.tensor, name = el("code", {}, row.name);
    if (payload.shapes_only) {
      return fill(name, row.shape.join("×"), [el("p", { class: "tl-x-hint" }, t("tensor_shapes_only", { count: TL.count(tensor.count), bytes: byteWords(tensor.bytes) })), el("p", { class: "tl-x-hint" }, t("shapes_only", costWords(payload)))]);
    }
    if (tensor.look.kind === "ids") return fill(name, row.shape.join("×"), [idTable(row, tensor, state), statistics(tensor, t)]);
    const map = slice(tensor, state.sample, state.head);
    const { width } = state;
    const reading = el("output", { class: "tl-x-reading" }, t("reading_hint"));
    const where = panelWords(tensor, state), caption = t("map_label", { name: row.name, where, rows: map.rows, columns: map.columns });
    const big = fits(map, width) ? mapTable(map, t, caption, width) : mapPicture(map, t, width, caption, (words) => { reading.textContent = words; });
    return fill(name, legend(tensor, t), [thumbGrid(tensor, state), el("div", { class: "tl-x-big" }, big), fits(map, width) ? null : reading, tensor.top ? topTable(tensor, state) : null, remarks(map, tensor, where, t), statistics(tensor, t)]);
  },

  code(fill, row, detail, state) {
    const { t } = state, code = detail.code;
    if (!code) return fill(null, row.source, el("p", { class: "tl-x-hint" }, t("no_code")));
    const made = new Set(code.made), feeds = new Set(code.feeds);
    const changed = new Set(code.changed);
    const css = (n) => (changed.has(n) ? "tl-x-changed" : made.has(n) ? "tl-x-made" : n === code.noted ? "tl-x-noted" : feeds.has(n) ? "tl-x-feeds" : null);
    const lines = code.lines.map(([n, pieces]) => el("div", { class: n ? css(n) : "tl-x-cut", data: { n: n || "⋯" }, "aria-current": made.has(n) || (!made.size && n === code.noted) ? "true" : null },
      pieces.map(([text, kind]) => (kind ? el("span", { class: `tl-c-${kind}` }, text) : text)), n && !pieces.length ? " " : null));
    const box = el("div", { class: "tl-x-code", tabindex: "0", role: "region", "aria-label": `${code.file}, ${code.function}` }, lines);
    const linesOf = { made: lineWords(code.made, t), noted: lineWords([code.noted], t), feeds: lineWords(code.feeds, t) };
    const said = t(`code_${made.size ? "made" : "noted"}${feeds.size ? "_fed" : ""}`, linesOf);
    const broken = code.changed.length ? el("p", { class: "tl-x-say tl-x-bad" }, t("code_changed", { changed: lineWords(code.changed, t) })) : null;
    fill(null, [`${code.file.replace("transformer_core/", "")} : ${code.noted}`], [box, broken, el("p", { class: "tl-x-say" }, said)]);
    const mark = box.querySelector(".tl-x-changed") || box.querySelector(".tl-x-made, .tl-x-noted");
    if (mark) state.later(() => { box.scrollTop = Math.max(mark.offsetTop - box.clientHeight / 2, 0); });
    return undefined;
  },

  check(fill, row, detail, state) {
    const { t, payload } = state, about = row.checks.map((n) => payload.checks[n]);
    const held = about.filter((check) => check.state !== "bad").length;
    const all = el("button", { type: "button", class: "tl-x-row-link", onclick: () => openChecks(state) }, t("all_checks", { total: payload.checks.length }));
    if (!about.length) return fill(null, all, el("p", { class: "tl-x-hint" }, t(payload.shapes_only ? "no_checks_shapes" : "no_checks")));
    const order = [...about].sort((a, b) => "bad warn ok".indexOf(a.state) - "bad warn ok".indexOf(b.state) || b.level - a.level);
    return fill(null, [t("checks_of", { held, total: about.length }), " · ", all], [el("ul", { class: "tl-x-checks", tabindex: "0", "aria-labelledby": "tl-x-check-title" }, order.map((check) => checkLine(check, t))), about.some((check) => check.limit > 0) ? rulerLegend(t) : null]);
  },
};

// A formula wider than its pane is set smaller, down to what can still be read; beyond that it scrolls.
function shrink(host) {
  if (!host) return;
  const widest = Math.max(...[...host.children].map((part) => part.scrollWidth));
  if (widest > host.clientWidth) host.style.setProperty("--shrink", Math.max(host.clientWidth / widest, 0.72).toFixed(3));
}

function rowLink(term, state) {
  return el("button", { type: "button", class: "tl-x-row-link", title: term.key, onclick: () => state.select({ key: term.key }, true), "aria-label": `#${term.index} ${term.name}: ${state.t("go_to_row", { key: term.key })}` }, `#${term.index} `, el("code", {}, term.name));
}

// B 2 sentences · H 4 heads · q 5 queries · k 7 keys
function axisWords(row, t) {
  const parts = row.axes.split(" ").map((axis, n) => [el("b", {}, axis), ` ${(row.shape[n] === 1 && t(`axis_${axis}_one`)) || t(`axis_${axis}`, { n: row.shape[n] }) || row.shape[n]}`]);
  return parts.flatMap((part, n) => (n ? [" · ", ...part] : part));
}

// line 52 · lines 44, 46 · lines 12–15
function lineWords(numbers, t) {
  const run = numbers.length > 2 && numbers.at(-1) - numbers[0] === numbers.length - 1;
  return t(numbers.length > 1 ? "lines" : "line", { numbers: run ? `${numbers[0]}–${numbers.at(-1)}` : numbers.join(t("list_comma")) });
}

// ------------------------------------------------------------------------------------------------------------- tensor

function panelWords(tensor, state) {
  const { t } = state, said = [];
  if (tensor.look.sample) said.push(t("sentence_n", { n: state.sample + 1 }));
  if (tensor.look.head) said.push(t("head_n", { n: state.head + 1 }));
  return said.join(t("comma"));
}

function legend(tensor, t) {
  const { kind } = tensor.look;
  if (kind === "mask") return [el("i", { class: "tl-x-swatch tl-x-open" }), t("open"), el("i", { class: "tl-x-swatch tl-x-hatch" }), t("masked")];
  if (kind === "probability") return ["0", el("i", { class: "tl-x-ramp tl-x-ramp-p" }), "1"];
  return [asNumber(-tensor.limit), el("i", { class: "tl-x-ramp tl-x-ramp-d" }), asNumber(tensor.limit)];
}

// All sentences × heads as small maps; each is a radio button with a sentence of its own.
function thumbGrid(tensor, state) {
  const { t } = state, maps = tensor.thumbs;
  if (!maps || (tensor.look.sample ? tensor.shape[0] : 1) * maps.shape[1] === 1) return null;
  const [samples, heads, rows, columns] = maps.shape, codes = decoded(maps);
  const total = tensor.look.sample ? tensor.shape[0] : 1, few = total <= 2 && heads <= 8 && maps.only === null;
  const lines = few ? Array.from({ length: samples }, (_, n) => n) : [state.sample];
  const across = Math.min(heads, 8), gap = 8, label = tensor.look.sample && few && total > 1 ? 46 : 0;
  const wide = Math.min(Math.floor((356 - label - gap * (across - 1)) / across), tensor.look.head ? 66 : 300), high = tensor.look.head ? Math.max(Math.min(Math.round((wide * rows) / columns), few ? 33 : 30), 22) : 26;
  const entropies = tensor.whole && tensor.look.attends && tensor.look.kind === "probability" && heads <= 8 ? Array.from({ length: heads }, (_, head) => entropy(slice(tensor, state.sample, head))) : null;
  const button = (sample, head) => {
    const chosen = sample === state.sample && (!tensor.look.head || head === state.head);
    const at = mapOffset(maps, maps.only === null ? sample : 0, head);
    return el("button", { type: "button", role: "radio", class: "tl-x-thumb", "aria-checked": String(chosen), tabindex: chosen ? "0" : "-1", "aria-label": [tensor.look.sample ? t("sentence_n", { n: sample + 1 }) : "", tensor.look.head ? t("head_n", { n: head + 1 }) : ""].filter(Boolean).join(t("comma")), data: { sample, head } },
      svg("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, "aria-hidden": "true" }, heat(codes, at, rows, columns, tensor.look.kind, { x: 0.5, y: 0.5, w: wide - 1, h: high - 1 })));
  };
  const grid = el("div", { class: "tl-x-thumbs", role: "radiogroup", "aria-label": t("all_maps", { samples: total, heads }), style: { "grid-template-columns": `${label ? `${label - 6}px ` : ""}repeat(${across}, ${wide}px)` } },
    heads > 1 && heads <= 8 ? [label ? el("span", { class: "tl-x-thumb-corner", "aria-hidden": "true" }, entropies ? t("entropy") : "") : null,
      Array.from({ length: heads }, (_, head) => el("span", { class: `tl-x-thumb-head${head === state.head ? " tl-x-now" : ""}`, "aria-hidden": "true" }, wide > 50 ? t("head_n", { n: head + 1 }) : head + 1, entropies && wide > 50 ? el("i", {}, asProbability(entropies[head])) : null))] : null,
    lines.map((sample) => [label ? el("span", { class: `tl-x-thumb-line${sample === state.sample ? " tl-x-now" : ""}`, "aria-hidden": "true" }, t("sentence_short", { n: sample + 1 })) : null, Array.from({ length: heads }, (_, head) => button(sample, head))]));
  grid.addEventListener("click", (event) => {
    const each = event.target.closest(".tl-x-thumb");
    if (each) state.select({ sample: Number(each.dataset.sample), head: tensor.look.head ? Number(each.dataset.head) : state.head });
  });
  grid.addEventListener("keydown", (event) => {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!step || !event.target.closest(".tl-x-thumb")) return;
    event.preventDefault();
    if (few && label) state.step(step[0], tensor.look.head ? step[1] : step[1], true);
    else state.step(tensor.look.head ? 0 : step[0] + step[1], tensor.look.head ? step[0] + step[1] : 0, true);
  });
  return [total > 1 && !few ? sentencePicker(total, state) : null, grid];
}

function sentencePicker(total, state) {
  const { t } = state;
  const pick = el("select", { class: "tl-x-sentences", "aria-label": t("sentence") }, Array.from({ length: total }, (_, n) => el("option", { value: n, selected: n === state.sample }, t("sentence_n", { n: n + 1 }))));
  pick.value = String(state.sample);
  pick.addEventListener("change", () => state.select({ sample: Number(pick.value) }));
  return el("p", { class: "tl-x-sentence-line" }, pick, ` ${t("of_sentences", { total })}`);
}

// Mean over the rows of the entropy of each, as a share of what it could be: 0 one key, 1 all alike.
function entropy(map) {
  let sum = 0, rows = 0;
  for (let i = 0; i < map.rows; i += 1) {
    let each = 0, open = 0;
    for (let j = 0; j < map.columns; j += 1) {
      const p = map.value(i, j);
      if (!isHidden(map, i, j)) open += 1;
      if (p > 0) each -= p * Math.log(p);
    }
    if (open > 1) { sum += each / Math.log(open); rows += 1; }
  }
  return rows ? sum / rows : 0;
}

function idTable(row, tensor, state) {
  const { t, payload } = state, side = row.key === "src" ? "src" : "tgt";
  const numbers = TL.b64f32(tensor.values), pads = payload.figure.pad[side], columns = tensor.shape.at(-1), rows = tensor.whole ? tensor.shape[0] : 0;
  const lines = Array.from({ length: rows }, (_, i) => el("tr", { class: i === state.sample ? "tl-x-now" : null }, el("th", { scope: "row", class: "tl-x-q" }, t("sentence_short", { n: i + 1 })),
    Array.from({ length: columns }, (_, j) => el("td", { class: pads?.[i]?.[j] ? "tl-x-hatch tl-x-dim" : null }, el("span", { class: "tl-x-word" }, clipped(tensor.columns?.[i]?.[j] ?? "", 60, TOKEN_FONT())), el("code", {}, numbers[i * columns + j])))));
  return el("div", { class: "tl-x-big", tabindex: "0", role: "group", "aria-label": row.key }, rows ? el("table", { class: "tl-x-map tl-x-map-ids" }, el("tbody", {}, lines)) : el("p", { class: "tl-x-hint" }, t("too_many_ids", { count: TL.count(tensor.count) })));
}

function topTable(tensor, state) {
  const { t } = state, kind = tensor.look.kind, map = { kind, limit: tensor.limit };
  const names = tensor.rows?.[state.sample] || tensor.top.map((_, i) => String(i));
  const lines = tensor.top.map((line, i) => el("tr", {}, el("th", { scope: "row", class: "tl-x-q" }, names[i]), line.map(([word, value]) => {
    const number = value === null ? NaN : value;
    if (!Number.isFinite(number)) return el("td", { class: "tl-x-nan" }, "NaN");
    const { part, ramp, css } = along(map, number);
    return el("td", { class: `${css} tl-x-cell${part > WHITE_FROM[ramp] ? " tl-x-lw" : ""}${part > BLACK_FROM[ramp] ? " tl-x-db" : ""}`, style: `--at:${part.toFixed(3)}` }, el("span", { class: "tl-x-word" }, clipped(word, 44, TOKEN_FONT())), ` ${kind === "probability" ? asProbability(number) : asCell(number)}`);
  })));
  return el("div", { class: "tl-x-big" }, el("table", { class: "tl-x-map tl-x-map-top", "aria-label": t("top_words") }, el("caption", {}, t("top_words")), el("tbody", {}, lines)));
}

// What the map says in words: which one it is, what falls on masked keys, padding queries, block means.
function remarks(map, tensor, where, t) {
  const said = [];
  if (map.attends && map.kind === "probability") said.push(leakWords(map, tensor, t));
  if (map.attends && map.sides[0]) {
    const pads = map.rowNames.filter((name) => name === "∅").length;
    if (pads && map.block[0] === 1) said.push(t(pads === 1 ? "pad_query" : "pad_queries", { count: pads }));
  }
  const blind = Array.from({ length: map.rows }, (_, i) => i).filter((i) => map.kind !== "signed" && blindRow(map, i)).length;
  if (blind && map.block[0] === 1) said.push(t(blind === 1 ? "blind_row" : "blind_rows", { count: blind }));
  if (map.block[0] * map.block[1] > 1) said.push(t("block_means", { rows: map.block[0], columns: map.block[1] }));
  if (tensor.sums) said.push(t("sums_between", { low: tensor.sums[0].toFixed(6), high: tensor.sums[1].toFixed(6) }));
  return el("p", { class: "tl-x-say" }, where ? [el("b", {}, where, t("stop")), " "] : null, said.join(t("space")));
}

function leakWords(map, tensor, t) {
  let cells = 0, sum = 0;
  for (let i = 0; i < map.rows; i += 1) for (let j = 0; j < map.columns; j += 1) if (isHidden(map, i, j)) { cells += 1; sum += map.value(i, j); }
  if (!cells) return t("nothing_masked");
  const leak = tensor.leak ?? sum;
  if (Number.isNaN(leak)) return t("leak_nan", { cells });
  return leak === 0 ? t("leak_none", { cells: tensor.leak === undefined ? cells : "" }) : t("leak", { sum: asNumber(leak) });
}

function statistics(tensor, t) {
  const found = tensor.statistics;
  if (!found || found.min === null) return found?.nan || found?.inf ? el("p", { class: "tl-x-statistics tl-x-bad" }, t("odd_numbers", { nan: found.nan, inf: found.inf })) : null;
  const parts = ["min", "max", "mean", "std"].map((name) => [t(name), " ", el("b", {}, asNumber(found[name]))]);
  return el("p", { class: "tl-x-statistics" }, t("of_numbers", { count: TL.count(tensor.count) }), parts.map((part) => [" · ", ...part]), found.nan || found.inf ? el("b", { class: "tl-x-bad" }, ` · ${t("odd_numbers", { nan: found.nan, inf: found.inf })}`) : null);
}

// -------------------------------------------------------------------------------------------------------------- checks

const RULER = { low: -12, high: 0, width: 196, edge: 4 };

// 1.8e-07 as 1.8·10⁻⁷
const pretty = (text) => text.replace(/\d(?:\.\d+)?e[+-]\d+/g, (number) => (Number(number) === 0 ? "0" : asPower(Number(number)))).replaceAll(" - ", " − ");

function checkLine(check, t) {
  const limit = check.limit > 0 ? `≤ ${asPower(check.limit)}` : t("exact");
  return el("li", { class: `tl-x-check tl-x-check-${check.state}` }, el("span", { class: `tl-x-${check.state} tl-x-mark` }, el("span", { "aria-hidden": "true" }, MARK[check.state]), el("span", { class: "tl-vh" }, t(`state_${check.state}`))),
    el("span", { class: "tl-x-claim", title: check.claim }, check.title),
    el("span", { class: "tl-x-found" }, el("span", {}, pretty(check.say)), el("span", { class: "tl-x-limit" }, limit)),
    check.limit > 0 ? ruler(check) : null, el("span", { class: "tl-x-blind-to" }, el("b", {}, t("cannot_see")), " ", check.blind));
}

// Where the measured difference lies on a log scale, and from where on it would be too much.
function ruler(check) {
  const { low, high, width, edge } = RULER, at = (number) => edge + ((Math.min(Math.max(Math.log10(number), low), high) - low) / (high - low)) * (width - 2 * edge);
  const limit = short(at(check.limit)), found = check.off === null ? width - edge : check.off === 0 ? null : short(at(check.off));
  const ticks = [-12, -9, -6, -3, 0].map((power) => svg("path", { d: `M${short(at(10 ** power))} 5v4`, class: "tl-x-rule" }));
  const dot = found === null ? svg("path", { d: "M2 7l5-3.5v7z", class: "tl-x-dot-ok" })
    : check.state === "bad" ? svg("path", { d: `M${found - 3} 4l6 6m0-6l-6 6`, class: "tl-x-dot-bad" }) : svg("circle", { cx: found, cy: 7, r: 3.2, class: "tl-x-dot-ok" });
  return svg("svg", { class: "tl-x-ruler", viewBox: `0 0 ${width} 14`, width, height: 14, "aria-hidden": "true" }, svg("path", { d: `M${edge} 7H${width - edge}`, class: "tl-x-rule" }),
    svg("path", { d: `M${limit} 7H${width - edge}`, class: "tl-x-beyond" }), ticks, svg("path", { d: `M${limit} 2v10`, class: "tl-x-edge" }), dot);
}

function rulerLegend(t) {
  return el("p", { class: "tl-x-ruler-legend", "aria-hidden": "true" }, svg("svg", { width: 9, height: 9 }, svg("circle", { cx: 4.5, cy: 4.5, r: 3.2, class: "tl-x-dot-ok" })), t("measured"), svg("svg", { width: 5, height: 11 }, svg("path", { d: "M2 0v11", class: "tl-x-edge" })), t("limit"), el("span", {}, "10⁻¹² … 1"));
}

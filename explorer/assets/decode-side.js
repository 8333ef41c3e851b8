// Decode: what is chosen. In the sidebar the model or a trap, the method and its numbers; above the tree the sentence, or
// the table of probabilities of a trap.

const sourceBox = el("section", { class: "tl-d-source" });
const METHODS = ["greedy", "sample", "beam", "exhaustive"];
const FROM = ["model", "greedy_trap", "length_trap"];
const NUMBERS = { dec_temperature: [0.05, 20, 0.05], dec_top_k: [0, 1000000, 1], dec_top_p: [0.01, 1, 0.01], dec_seed: [0, 2147483647, 1], dec_length: [1, 64, 1] };
const chosen = () => ({ ...(view.shown?.chosen || view.first || {}), ...view.pending });

// What the server refused, where it was asked for; with the changes that lead out as buttons.
function problem(...fields) {
  const why = view.refused;
  if (!why || !(fields.includes(why.field) || (fields.includes("") && !PLACES.includes(why.field)))) return null;
  return el("div", { class: "tl-refusal", role: "alert", id: `tl-d-error-${why.field || "all"}` }, el("p", {}, el("span", { "aria-hidden": "true" }, "✗ "), why.text[window.TL.lang()]),
    why.choices.length || why.train ? el("div", { class: "tl-choices" }, why.choices.map((each, n) => el("button", { type: "button", class: "tl-d-button", data: { keep: `way-${n}` }, onclick: () => ask({ ...view.wanted, ...each.changes }) }, each.label[window.TL.lang()])), why.train ? el("button", { type: "button", class: "tl-d-button", onclick: toTrain }, t("train_on")) : null) : null);
}
const PLACES = ["dec_text", "dec_table", "dec_method", "dec_width", "dec_norm", "dec_temperature", "dec_top_k", "dec_top_p", "dec_seed", "dec_length"];

function toTrain() {
  document.querySelectorAll("#tl-tabs > .tab-wrapper [role=tab]")[2]?.click();
}

// ------------------------------------------------------------------------------------------------------------ sidebar

const group = (word, more = null) => el("div", { class: "tl-group" }, el("h2", {}, t(word)), more);

function segments(label, name, options, value) {
  const seg = el("div", { class: "tl-d-seg", role: "radiogroup", "aria-label": label }, options.map(([key, text]) => el("button", { type: "button", role: "radio", "aria-checked": String(key === value), tabindex: key === value ? 0 : -1, data: { keep: `${name}-${key}` }, onclick: () => ask({ [name]: key }) }, text)));
  if (!options.some(([key]) => key === value)) seg.firstChild.tabIndex = 0;
  window.TL.roving(seg, () => [...seg.children], { vertical: false });
  return el("div", { class: "tl-d-field", id: `tl-f-${name}` }, el("span", { "aria-hidden": "true" }, label), seg, problem(name));
}

function number(name, says = null) {
  const [min, max, step] = NUMBERS[name], wrong = view.refused?.field === name;
  return el("div", { class: "tl-d-field tl-d-number", id: `tl-f-${name}` }, el("label", { for: `tl-d-${name}` }, t(name)),
    el("input", { type: "number", id: `tl-d-${name}`, min, max, step, value: view.typed?.[name] ?? chosen()[name], "aria-invalid": wrong ? "true" : null, "aria-describedby": wrong ? `tl-d-error-${name}` : null, data: { keep: name }, oninput: (event) => later(name, event.currentTarget.value) }),
    problem(name) || (says ? el("p", { class: "tl-d-hint" }, says) : null));
}

// A number half typed is not a mistake yet.
function later(name, text) {
  (view.typed ??= {})[name] = text;
  clearTimeout(view.typing);
  view.typing = setTimeout(() => { if (text.trim() !== "" && Number.isFinite(Number(text))) ask({ [name]: Number(text) }); }, 350);
}

function drawSide() {
  const place = document.querySelector("#tl-d-side .tl-d-side");
  if (!place) return;
  const held = keepFocus(place), now = chosen(), trap = now.dec_from !== "model";
  const methods = METHODS.map((name) => [name, t(`method_${name}`)]);
  put(place, group("subject"), facts(),
    group("traps"), el("ul", { class: "tl-d-traps" }, FROM.slice(1).map((name) => el("li", {}, el("button", { type: "button", "aria-pressed": String(now.dec_from === name), title: t(`${name}_says`), data: { keep: name }, onclick: () => { ask({ ...view.shown?.traps?.[name], ...(now.dec_from === name ? { dec_from: "model", dec_table: "", dec_length: 16 } : { dec_from: name, dec_table: "" }), dec_step: 0, dec_node: "" }); if (phone()) window.TL.frame.openSide(false); } }, now.dec_from === name ? "▸ " : "", t(name))))),
    trap ? el("p", { class: "tl-d-hint" }, t(`${now.dec_from}_says`)) : null,
    group("method"), segmentsGrid(methods, now.dec_method), problem("dec_method"), el("p", { class: "tl-d-hint" }, t(`method_${now.dec_method}_says`)),
    now.dec_method === "beam" ? el("div", { class: "tl-d-field", id: "tl-f-dec_width" }, el("span", { "aria-hidden": "true" }, t("dec_width")), widths(now.dec_width), problem("dec_width")) : null,
    now.dec_method === "sample" ? [number("dec_temperature", t("temperature_says")), number("dec_top_k", t("top_k_says")), number("dec_top_p", t("top_p_says")), number("dec_seed")] : null,
    ["beam", "exhaustive"].includes(now.dec_method) ? segments(t("dec_norm"), "dec_norm", [["off", t("norm_off")], ["on", t("norm_on")]], now.dec_norm) : null,
    number("dec_length", view.shown?.longest && view.shown.longest < now.dec_length ? t("longest", { longest: view.shown.longest }) : null));
  giveFocus(place, held);
}

function widths(value) {
  const seg = el("div", { class: "tl-d-seg", role: "radiogroup", "aria-label": t("dec_width") }, [1, 2, 3, 4, 5, 6, 7, 8].map((n) => el("button", { type: "button", role: "radio", "aria-checked": String(n === value), tabindex: n === value ? 0 : -1, data: { keep: `width-${n}` }, onclick: () => ask({ dec_width: n }) }, String(n))));
  window.TL.roving(seg, () => [...seg.children], { vertical: false });
  return seg;
}

// Four names are too long for one line of the sidebar.
function segmentsGrid(options, value) {
  const seg = el("div", { class: "tl-d-seg tl-d-grid", role: "radiogroup", "aria-label": t("method"), id: "tl-f-dec_method" }, options.map(([key, text]) => el("button", { type: "button", role: "radio", "aria-checked": String(key === value), tabindex: key === value ? 0 : -1, data: { keep: `method-${key}` }, onclick: () => ask({ dec_method: key }) }, text)));
  window.TL.roving(seg, () => [...seg.children]);
  return seg;
}

// Whose probabilities these are, in one sentence; a model that has learned nothing says so, with the way to Train.
function facts() {
  const subject = view.shown?.subject, lang = window.TL.lang();
  if (!subject) return el("p", { class: "tl-d-hint" }, t("no_subject"));
  if (subject.kind === "trap") return [el("p", { class: "tl-d-hint" }, t("subject_trap", { symbols: subject.vocabulary })), problem("")];
  const values = { task: subject.title[lang], step: window.TL.count(subject.step ?? 0), seed: subject.seed, parameters: window.TL.count(subject.parameters), words: window.TL.count(subject.vocabulary) };
  return [el("p", { class: `tl-d-subject${subject.kind === "fresh" ? " tl-d-fresh" : ""}` }, subject.kind === "fresh" ? el("b", { "aria-hidden": "true" }, "! ") : null, t(`subject_${subject.kind}`, values), " ", el("button", { type: "button", class: "tl-d-link", data: { keep: "train" }, onclick: toTrain }, t(subject.kind === "fresh" ? "to_train" : "train_on"))),
    subject.fault ? el("p", { class: "tl-d-hint" }, t("subject_fault")) : null, problem("")];
}

// ----------------------------------------------------------------------------------------------- the sentence, the table

function drawSource() {
  const held = keepFocus(sourceBox), now = chosen();
  if (now.dec_from !== "model") put(sourceBox, tableEditor());
  else put(sourceBox, sentence(now));
  giveFocus(sourceBox, held);
}

function sentence(now) {
  const source = view.shown?.source, wrong = view.refused?.field === "dec_text", typed = view.text ?? (now.dec_text || source?.text || "");
  const field = el("input", { type: "text", id: "tl-d-text", maxlength: 400, spellcheck: "false", autocomplete: "off", lang: source?.lang || null, value: typed, placeholder: t("text_example"), "aria-invalid": wrong ? "true" : null, "aria-describedby": wrong ? "tl-d-error-dec_text" : "tl-d-read", data: { keep: "text" },
    oninput: (event) => { view.text = event.currentTarget.value; }, onkeydown: (event) => { if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); decodeText(); } } });
  const held = source?.items ? el("button", { type: "button", class: "tl-d-button", data: { keep: "next" }, onclick: () => { view.text = null; ask({ dec_text: "", dec_item: now.dec_text ? now.dec_item : (now.dec_item + 1) % source.items, dec_step: 0, dec_node: "" }); } }, t("next_held_out")) : null;
  const unknown = source?.unknown.length ? el("p", { class: "tl-d-warn" }, "! ", t("unknown", { words: source.unknown.join(t("comma")), sign: source.sign })) : null;
  return [
    el("div", { class: "tl-d-typed" }, el("label", { for: "tl-d-text" }, t("sentence")), field, el("button", { type: "button", class: "tl-d-button tl-d-primary", data: { keep: "go" }, onclick: decodeText }, t("decode")), held),
    problem("dec_text") || el("p", { class: "tl-d-read", id: "tl-d-read" }, source ? [t(source.typed ? "read_typed" : "read_held_out", { n: source.item + 1 }), " ", el("span", { class: "tl-d-tokens" }, source.tokens.join(" ")), el("span", { class: "tl-d-quiet" }, ` · ${t("n_tokens", { n: source.tokens.length })}`), source.known ? el("span", { class: "tl-d-quiet" }, ` · ${t("known", { words: source.known })}`) : null] : view.refused ? "" : t("waiting")), unknown,
  ];
}

function decodeText() {
  const text = (view.text ?? chosen().dec_text ?? "").trim();
  if (view.text === null || view.text === undefined) { ask({}); return; }
  ask({ dec_text: text, dec_step: 0, dec_node: "" });
}

// Rows are what has been written so far, columns the next token. A row that does not add up to 1 is refused at its place.
function tableEditor() {
  const table = view.shown?.table;
  const own = () => el("button", { type: "button", class: "tl-d-button", data: { keep: "own" }, onclick: () => { view.cells = {}; ask({ dec_table: "" }); } }, t("table_reset"));
  // A link can bring a table that is none, and there is nothing yet that could be shown instead.
  if (!table) return problem("dec_table") ? [problem("dec_table"), own()] : view.refused ? "" : el("p", { class: "tl-d-quiet" }, t("waiting"));
  const cell = (row, i, j) => el("td", {}, el("input", { type: "number", min: 0, max: 1, step: 0.01, value: view.cells?.[`${i}-${j}`] ?? row.p[j], "aria-label": t("table_cell", { token: table.symbols[j], after: row.after.length ? row.after.join(" ") : t("start") }), data: { keep: `cell-${i}-${j}` }, oninput: (event) => edited(i, j, event.currentTarget.value) }));
  const bad = view.refused?.field === "dec_table";
  return [el("div", { class: "tl-d-edit" }, titled(t("table"), t("table_says")), table.edited || bad ? own() : null),
    el("table", { class: "tl-d-table", "aria-label": t("table") }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("after")), table.symbols.map((symbol) => el("th", { scope: "col" }, symbol)), el("th", { scope: "col" }, "Σ"))),
      el("tbody", {}, table.rows.map((row, i) => { const sum = row.p.reduce((total, p, j) => total + Number(view.cells?.[`${i}-${j}`] ?? p), 0), off = Math.abs(sum - 1) > 5e-4; return el("tr", {}, el("th", { scope: "row" }, row.after.length ? row.after.join(" ") : t("start")), row.p.map((_, j) => cell(row, i, j)), el("td", { class: off ? "tl-d-bad" : "tl-d-quiet", data: { sum: i } }, `${off ? "✗ " : ""}${Number(sum.toFixed(4))}`)); }))), problem("dec_table")];
}

function edited(i, j, text) {
  (view.cells ??= {})[`${i}-${j}`] = text;
  const sum = view.shown.table.rows[i].p.reduce((total, p, k) => total + Number(view.cells[`${i}-${k}`] ?? p), 0), place = sourceBox.querySelector(`[data-sum="${i}"]`), off = Math.abs(sum - 1) > 5e-4;
  place.textContent = `${off ? "✗ " : ""}${Number(sum.toFixed(4))}`;
  place.className = off ? "tl-d-bad" : "tl-d-quiet";
  clearTimeout(view.typing);
  view.typing = setTimeout(() => { if (text.trim() !== "") ask({ dec_table: tableText() }); }, 700);
}

// "EOS,A,B/:0,0.6,0.4/A:0.3,0.38,0.32", as explorer/decode_table.py reads it.
function tableText() {
  const { symbols, rows } = view.shown.table;
  return [symbols.join(","), ...rows.map((row, i) => `${row.after.join(".")}:${row.p.map((p, j) => { const typed = view.cells?.[`${i}-${j}`]; return typed === undefined || typed.trim() === "" ? p : Number(typed); }).join(",")}`)].join("/");
}

// -------------------------------------------------------------------------------------------------- focus over redraws

function keepFocus(place) {
  const at = document.activeElement;
  if (!at || !place.contains(at) || !at.dataset.keep) return null;
  return { keep: at.dataset.keep, value: at.matches("input") ? at.value : null, start: at.type === "text" ? at.selectionStart : null };
}

function giveFocus(place, held) {
  if (!held || place.contains(document.activeElement)) return;
  const again = [...place.querySelectorAll("[data-keep]")].find((each) => each.dataset.keep === held.keep);
  if (!again) return;
  if (held.value !== null && again.matches("input")) again.value = held.value;
  again.focus();
  if (held.start !== null) again.setSelectionRange(held.start, held.start);
}

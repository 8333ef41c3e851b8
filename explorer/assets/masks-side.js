// Masks: the sidebar. Rules by attention, a condition of one's own, the paint, the fill, what is looked at, traps, files.

const SIDE_RULES = RULE_ORDER.filter((kind) => kind !== "where" && kind !== "custom");
const SELF_ONLY = ["prefix", "documents"];

const sideHead = (word, more = null) => el("div", { class: "tl-group" }, el("h2", {}, t(word)), more);

function segments(label, name, options, value, choose, named = true) {
  const group = el("div", { class: "tl-m-seg", role: "radiogroup", "aria-label": label }, options.map(([key, text, title]) => el("button", { type: "button", role: "radio", "aria-checked": String(key === value), tabindex: key === value ? 0 : -1, title, data: { keep: `${name}-${key}` }, onclick: () => choose(key) }, text)));
  if (!options.some(([key]) => key === value) && group.firstChild) group.firstChild.tabIndex = 0;
  window.TL.roving(group, () => [...group.children], { vertical: false });
  return el("div", { class: "tl-m-field" }, named ? el("span", { class: "tl-m-label", "aria-hidden": "true" }, label) : null, group);
}

// Few to choose from are buttons side by side, many a list.
function choice(label, name, count, value, choose, first = []) {
  const options = [...first, ...Array.from({ length: count }, (_, n) => [n, String(n + 1)])];
  if (options.length <= 9) return segments(label, name, options, value, choose);
  return el("div", { class: "tl-m-field" }, el("label", { class: "tl-m-label", for: `tl-m-${name}` }, label), el("select", { id: `tl-m-${name}`, data: { keep: name }, onchange: (event) => { const found = options[event.currentTarget.selectedIndex]; choose(found[0]); } }, options.map(([key, text]) => el("option", { selected: key === value }, text))));
}

function drawSide() {
  const place = document.querySelector("#tl-m-side .tl-m-side");
  if (!place || !view.shown) return;
  const typing = place.contains(document.activeElement) && document.activeElement.matches("input[type=text], input[type=number]") ? document.activeElement : null;
  const typed = typing ? { keep: typing.dataset.keep, value: typing.value, at: typing.selectionStart } : null;
  const open = document.activeElement?.matches?.(".tl-m-side select");
  if (open) return; // a list that is open would close
  write(place, rulesPart(), conditionPart(), paintPart(), fillPart(), lookPart(), trapsPart(), filesPart());
  if (typed) {
    const again = [...place.querySelectorAll("input")].find((each) => each.dataset.keep === typed.keep);
    if (again) {
      again.value = typed.value;
      again.focus();
      if (again.type === "text") again.setSelectionRange(typed.at, typed.at);
    }
  }
}

function rulesPart() {
  const names = grids().map((grid) => grid.name);
  const head = el("tr", {}, el("td"), names.map((name) => el("th", { scope: "col", title: attentionName(name) }, w(`sidebar.${name}_short`))));
  const rows = SIDE_RULES.map((kind) => el("tr", {}, el("th", { scope: "row", title: t(`rule_${kind}_says`) }, el("b", { class: "tl-m-letter" }, LETTER[kind]), t(`rule_${kind}`)), names.map((name) => el("td", {}, name === "cross" && SELF_ONLY.includes(kind) ? el("span", { "aria-hidden": "true" }, "–") : ruleTick(name, kind)))));
  return [sideHead("layers", el("span", { class: "tl-m-joined" }, t("joined"))), el("div", { class: "tl-masks tl-m-rules" }, el("table", { "aria-label": t("layers") }, el("thead", {}, head), el("tbody", {}, rows))), problem("rules")];
}

function ruleTick(name, kind) {
  const rule = gridOf(name).all_rules.find((each) => kindOf(each) === kind), said = { rule: t(`rule_${kind}`), attention: attentionName(name) };
  const tick = el("input", { type: "checkbox", checked: Boolean(rule), "aria-label": t("rule_of", said), data: { keep: `${kind}-${name}` }, onchange: () => { view.asked = "rules"; toggleLayer(gridOf(name), kind); refresh(); } });
  if (!START[kind] || !rule) return tick;
  const size = el("input", { type: "number", min: 1, max: kind === "random" ? 99 : view.shown.longest, step: 1, value: rule.split(":")[1], "aria-label": t("size_of", said), data: { keep: `size-${kind}-${name}` }, oninput: (event) => {
    const number = event.currentTarget.value;
    if (!/^[0-9]{1,4}$/.test(number)) return;
    clearTimeout(view.sizing);
    view.sizing = setTimeout(() => { view.asked = "rules"; putRule(name, kind, `${kind}:${number}`); }, 200);
  } });
  return [tick, size];
}

// ---------------------------------------------------------------------------------------------------------- condition

function conditionPart() {
  const grid = here(), rule = grid.all_rules.find((each) => kindOf(each) === "where"), now = rule ? rule.slice(6) : "";
  const held = view.typed[grid.name] ?? now;
  const field = el("input", { type: "text", id: "tl-m-condition", maxlength: 200, spellcheck: "false", autocomplete: "off", value: held, placeholder: START.where, data: { keep: "condition" }, "aria-invalid": view.error?.where === "condition" ? "true" : null, "aria-describedby": view.error?.where === "condition" ? "tl-m-error-condition" : "tl-m-condition-says",
    oninput: (event) => { view.typed[grid.name] = event.currentTarget.value; }, onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); applyCondition(grid.name, event.currentTarget.value); } } });
  return el("div", { class: "tl-m-where" },
    el("div", { class: "tl-m-field" }, el("label", { class: "tl-m-label", for: "tl-m-condition" }, el("b", { class: "tl-m-letter" }, LETTER.where), t("condition", { attention: w(`sidebar.${grid.name}_short`) })),
      el("div", { class: "tl-m-line" }, field, el("button", { type: "button", class: "tl-m-button", data: { keep: "set" }, onclick: () => applyCondition(grid.name, document.getElementById("tl-m-condition").value) }, t("set")))),
    problem("condition") || el("p", { class: "tl-m-hint tl-m-if-near", id: "tl-m-condition-says" }, t("condition_says")));
}

function applyCondition(name, text) {
  view.asked = "condition";
  view.error = null;
  const wanted = text.trim();
  const rules = gridOf(name).all_rules.filter((each) => kindOf(each) !== "where");
  if (wanted) rules.push(`where:${wanted}`);
  edit({ [name]: rules });
}

// What the server refused, at the place where it was asked for.
function problem(where) {
  if (view.error?.where !== where) return null;
  const { text, choices, nearest } = view.error;
  const better = nearest ? el("button", { type: "button", class: "tl-m-button", onclick: () => { view.typed[here().name] = nearest.slice(6); applyCondition(here().name, nearest.slice(6)); } }, nearest.slice(6)) : null;
  return el("div", { class: "tl-refusal", role: "alert", id: `tl-m-error-${where}` }, el("p", {}, el("span", { "aria-hidden": "true" }, "✗ "), text[window.TL.lang()]), el("div", { class: "tl-choices" }, better, (choices || []).map((each) => el("button", { type: "button", class: "tl-m-button", onclick: () => { view.error = null; edit(each.changes); } }, each.label))));
}

// -------------------------------------------------------------------------------------------------------------- paint

function paintPart() {
  const grid = here(), painted = paintedOf(grid).includes(0);
  return [
    el("div", { class: "tl-m-line" }, el("button", { type: "button", class: "tl-m-button tl-m-paint", "aria-pressed": String(view.painting), data: { keep: "paint" }, onclick: () => { setPainting(!view.painting); if (view.painting && phone()) window.TL.frame.openSide(false); } }, "✎ ", t("paint")),
      el("button", { type: "button", class: "tl-m-button", disabled: !painted, data: { keep: "clear" }, onclick: () => { view.draft[grid.name] = new Uint8Array(grid.rows * grid.columns).fill(1); commitPaint(grid); } }, t("clear"))),
    el("p", { class: "tl-m-hint", title: t("paint_training") }, t("paint_says"), view.shown.linked[grid.name] ? null : [" ", el("b", {}, t("not_linked"))]), problem("paint"),
  ];
}

function fillPart() {
  const fills = [["-inf", t("fill_inf")], ["-1e9", t("fill_1e9")], ["finfo_min", t("fill_finfo_short"), t("fill_finfo")], ["exclude", t("fill_exclude_short"), t("fill_exclude")]];
  return [sideHead("fill"), segments(t("fill_label"), "fill", fills, view.shown.fill, (fill) => { view.shown.fill = fill; view.asked = "fill"; edit({ fill }); refresh(); }, false), problem("fill")];
}

function lookPart() {
  const { chosen, shown } = view, layers = Math.max(...Object.values(shown.layers));
  return [
    sideHead("look_at"),
    grids().length < 2 ? null : segments(t("attention"), "at", grids().map((grid) => [grid.name, w(`sidebar.${grid.name}_short`), attentionName(grid.name)]), chosen.mask_at, (name) => look({ mask_at: name, mask_row: Math.min(chosen.mask_row, gridOf(name).rows - 1) }, 0)),
    choice(t("sentence"), "sample", shown.samples, chosen.sample, (sample) => look({ sample }, 0)),
    layers > 1 ? choice(t("layer"), "layer", layers, chosen.mask_layer, (layer) => look({ mask_layer: layer }, 0)) : null,
    choice(t("head"), "head", shown.heads, chosen.mask_heads === "mean" ? "mean" : chosen.head, (head) => look(head === "mean" ? { mask_heads: "mean" } : { mask_heads: "one", head }, 0), shown.heads > 1 ? [["mean", t("mean"), t("mean_says")]] : []),
    segments(t("grid_shows"), "show", ["mask", "scores", "weights"].map((name) => [name, t(`show_${name}`)]), chosen.mask_show, (name) => look({ mask_show: name }, 0)),
  ];
}

function trapsPart() {
  return [sideHead("traps"), el("ul", { class: "tl-m-traps" }, ["window_padding", "left_padding", "true_ignores", "causal_shifted"].map((name) => {
    const on = view.shown.traps.includes(name);
    return el("li", {}, el("button", { type: "button", "aria-pressed": String(on), title: t(`trap_${name}_says`), data: { keep: name, trap: name }, onclick: () => { setTrap(name); if (phone()) window.TL.frame.openSide(false); } }, on ? "▸ " : "", t(`trap_${name}`)));
  })), view.shown.traps.length ? el("p", { class: "tl-m-hint" }, t(`trap_${view.shown.traps[0]}_says`)) : null, problem("trap")];
}

function filesPart() {
  const grid = here(), file = el("input", { type: "file", accept: ".csv,text/csv,text/plain", class: "tl-vh", id: "tl-m-file", tabindex: -1, "aria-label": t("upload_label"), onchange: (event) => { upload(event.currentTarget.files[0]); event.currentTarget.value = ""; } });
  return [
    sideHead("files", el("span", { class: "tl-m-joined" }, w(`sidebar.${grid.name}_short`))),
    el("div", { class: "tl-m-line" }, [["csv", "CSV"], ["json", "JSON"], ["svg", "SVG"], ["png", "PNG"], ["torch", "torch"]].map(([what, text]) => el("button", { type: "button", class: "tl-m-button", title: t(`save_${what}`), "aria-label": t(`save_${what}`), data: { keep: `save-${what}`, save: what }, onclick: () => save(what) }, text))),
    el("div", { class: "tl-m-line" }, file, el("button", { type: "button", class: "tl-m-button", data: { keep: "upload" }, onclick: () => file.click() }, t("upload"))),
    problem("file") || el("p", { class: "tl-m-hint" }, t("upload_says", { rows: grid.rows, columns: grid.columns })),
  ];
}

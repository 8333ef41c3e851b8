// Masks: the three grids. Small ones are tables with numbers, large ones one picture with a cursor; both are painted by
// pointer and keys, and show it at once.

const HATCHED = "tl-m-hatching";
const gridBox = el("div", { class: "tl-m-grids" });
const readBox = el("output", { class: "tl-m-read", "aria-live": "polite" });
const sections = new Map(); // attention -> its section and what is drawn in it

const isLarge = (grid) => grid.rows > LARGE.rows || grid.columns > LARGE.columns;
const isNow = (grid, i) => grid.name === view.chosen.mask_at && i === view.chosen.mask_row;
const padded = (name) => (name === "∅" ? " tl-m-pad" : "");

function drawGrids() {
  const names = grids().map((grid) => grid.name);
  const held = document.activeElement?.closest?.(".tl-m-grid")?.dataset.attention;
  for (const [name, section] of sections) if (!names.includes(name)) { section.node.remove(); sections.delete(name); }
  for (const grid of grids()) {
    decode(grid);
    if (!sections.has(grid.name)) sections.set(grid.name, makeSection(grid.name));
    const section = sections.get(grid.name);
    gridBox.append(section.node);
    drawSection(grid, section, held === grid.name);
  }
  gridBox.dataset.count = names.length;
  gridBox.dataset.alone = view.alone;
}

function makeSection(name) {
  const parts = { head: el("h2"), layers: el("div", { class: "tl-m-layers", role: "group" }), map: el("div", { class: "tl-m-map" }), say: el("p", { class: "tl-m-say" }) };
  parts.node = el("section", { class: "tl-m-grid", data: { attention: name } }, parts.head, el("div", { class: "tl-m-body" }, parts.layers, el("span", { class: "tl-m-equals", "aria-hidden": "true" }, "="), parts.map), parts.say);
  listen(parts.map, name);
  return parts;
}

function drawSection(grid, parts, focused) {
  const alone = view.alone === grid.name, many = grids().length > 1;
  const facts = [`${grid.rows} × ${grid.columns}`, t("cells_open", { open: openCells(grid), total: grid.rows * grid.columns })];
  if (grid.averaged > 1) facts.push(t("averaged", { heads: grid.averaged }));
  const wide = many && !phone() ? el("button", { type: "button", class: "tl-m-wide", "aria-pressed": String(alone), title: t(alone ? "show_all" : "show_alone"), "aria-label": `${t(alone ? "show_all" : "show_alone")}: ${attentionName(grid.name)}`, onclick: () => { view.alone = alone ? "" : grid.name; refresh(); } }, alone ? "⤡" : "⤢") : null;
  const buttonHeld = document.activeElement === parts.head.querySelector("button");
  parts.head.replaceChildren(el("span", {}, attentionName(grid.name)), el("small", {}, facts.join(" · ")), wide || "");
  if (buttonHeld) parts.head.querySelector("button")?.focus();
  drawLayers(grid, parts);
  drawMap(grid, parts);
  if (focused) focusCell(grid, parts);
  drawSay(grid, parts);
}

// What stands below: the conjunction, empty rows, the largest probability on a hidden key, and where the model errs.
function drawSay(grid, parts) {
  const terms = layersOf(grid).filter((layer) => layer.on).map((layer) => ruleText(layer.rule));
  const lines = [el("i", {}, "allowed"), " = ", terms.length ? terms.join(" ∧ ") : t("everything"), ". "];
  const empty = emptyRows(grid);
  if (empty.length) lines.push(el("b", { class: "tl-m-warn" }, "! ", t(empty.length > 1 ? "rows_empty" : "row_empty", { rows: empty.slice(0, 4).map((i) => i).join(", ") + (empty.length > 4 ? " …" : "") })), " ");
  if (grid.sums && grid.max_hidden !== 0) lines.push(el("b", { class: "tl-m-bad" }, "✗ ", t("max_hidden_bad", { value: asNumber(numeral(grid.max_hidden)) })), " ");
  else if (grid.sums) lines.push(el("span", { class: "tl-m-ok" }, t("max_hidden_zero")), " ");
  if (grid.odd) lines.push(el("b", { class: "tl-m-bad" }, "✗ ", t("odd_cells", { count: grid.odd })), " ");
  if (grid.rows !== grid.columns && grid.rules.some((rule) => /^(causal|window|strided|block)/.test(rule))) lines.push(el("span", { class: "tl-m-quiet" }, t("aligned")), " ");
  parts.say.replaceChildren(...lines);
}

const emptyRows = (grid) => Array.from({ length: grid.rows }, (_, i) => i).filter((i) => visibleIn(grid, i) === 0);
const numeral = (value) => (value === "nan" || value === null || value === undefined ? NaN : Number(value === "inf" ? Infinity : value === "-inf" ? -Infinity : value));

// ------------------------------------------------------------------------------------------------------------- layers

function drawLayers(grid, parts) {
  const held = parts.layers.contains(document.activeElement) ? document.activeElement.dataset.kind : null;
  parts.layers.setAttribute("aria-label", t("layers_of", { attention: attentionName(grid.name) }));
  const layers = layersOf(grid), side = layers.length > 4 ? 24 : 34;
  parts.layers.replaceChildren(...layers.map((layer) => el("button", {
    type: "button", class: "tl-m-layer", role: "switch", "aria-checked": String(layer.on), data: { kind: layer.kind },
    "aria-label": t("layer_switch", { rule: layer.on ? ruleText(layer.rule) : ruleName(layer.kind), attention: attentionName(grid.name) }), title: layer.kind === "where" ? ruleText(layer.rule) : null,
    onclick: () => toggleLayer(grid, layer.kind),
  }, layerPicture(grid, layer, side), el("span", { "aria-hidden": "true" }, el("b", {}, layer.on ? "●" : "○"), ruleName(layer.kind)))));
  if (held) [...parts.layers.children].find((each) => each.dataset.kind === held)?.focus();
}

// What a rule hides by itself.
function layerPicture(grid, layer, side) {
  const scale = side / Math.max(grid.rows, grid.columns), width = grid.columns * scale, height = grid.rows * scale;
  let d = "";
  if (layer.bit) {
    for (let i = 0; i < grid.rows; i += 1) {
      for (let j = 0; j < grid.columns;) {
        let end = j;
        while (end < grid.columns && bitsAt(grid, i, end) & layer.bit) end += 1;
        if (end > j) d += `M${short(j * scale)} ${short(i * scale)}h${short((end - j) * scale)}v${short(scale)}h-${short((end - j) * scale)}z`;
        j = end + (end === j ? 1 : 0);
      }
    }
  }
  return svg("svg", { width: short(width + 2), height: short(height + 2), viewBox: `-1 -1 ${short(width + 2)} ${short(height + 2)}`, "aria-hidden": "true" },
    svg("rect", { x: -0.5, y: -0.5, width: short(width + 1), height: short(height + 1), class: "tl-m-frame" }), svg("path", { d, class: "tl-m-shade" }));
}

// --------------------------------------------------------------------------------------------------------------- maps

function drawMap(grid, parts) {
  const room = parts.map.clientWidth || 300;
  parts.map.dataset.kind = isLarge(grid) ? "picture" : "table";
  if (isLarge(grid)) { drawPicture(grid, parts, room); return; }
  const sums = grid.sums ? 58 : 0, many = grid.columns > 9 && room < 400, entropy = grid.sums && room > 250 && !many ? 34 : 0, label = many ? 38 : Math.min(56, Math.max(30, Math.floor(room * 0.16)));
  const roomy = room > 620, high = Math.max(15, Math.min(27, Math.floor((view.alone ? 420 : 190) / grid.rows)));
  const wide = Math.max(15, Math.min(roomy ? 46 : view.chosen.mask_show === "scores" ? 38 : 31, Math.floor((room - label - sums - entropy - 32) / grid.columns)));
  grid.slim = wide < 27;
  const head = el("tr", {}, el("th", { class: "tl-m-corner" }, el("span", { class: "tl-vh" }, t("query_key"))),
    grid.keys.map((name) => el("th", { scope: "col", class: `tl-m-key${padded(name)}`, title: name }, name)),
    grid.sums ? el("th", { scope: "col", class: "tl-m-edge" }, t("row_sum")) : null, el("th", { scope: "col", class: "tl-m-edge", title: t("sees_says") }, t("sees")),
    entropy ? el("th", { scope: "col", class: "tl-m-edge", title: t("entropy_says") }, "H") : null);
  const body = grid.queries.map((name, i) => el("tr", { data: { i }, class: rowClass(grid, i) },
    el("th", { scope: "row", class: `tl-m-query${padded(name)}` }, el("button", { type: "button", tabindex: -1, title: t("choose_row", { name }), data: { pick: i } }, name)),
    grid.keys.map((_, j) => tableCell(grid, i, j)), sideCells(grid, i, entropy)));
  const foot = grid.sums ? el("tr", { class: "tl-m-sums" }, el("th", { scope: "row" }, t("column_sum")), grid.column_sums.map((sum) => sumBar(sum, grid)), el("td"), el("td"), entropy ? el("td") : null) : null;
  const table = el("table", { role: "grid", "aria-label": t("grid_label", { attention: attentionName(grid.name), what: t(`show_${view.chosen.mask_show}`) }), style: { "--high": `${high}px`, "--wide": `${wide}px`, "--name": `${label}px` }, class: [changing() ? "tl-m-old" : "", wide < 19 ? "tl-m-tight" : ""].join(" ").trim() || null },
    el("thead", {}, head), el("tbody", {}, body), foot ? el("tfoot", {}, foot) : null);
  parts.map.replaceChildren(table);
  setStop(grid, parts);
}

const rowClass = (grid, i) => [visibleIn(grid, i) === 0 ? "tl-m-empty" : "", isNow(grid, i) ? "tl-m-now" : ""].join(" ").trim() || null;

function tableCell(grid, i, j) {
  const node = el("td", { role: "gridcell", tabindex: -1, data: { i, j } });
  dressCell(grid, node, i, j);
  return node;
}

// One cell as it is now: used for all of them, and again for the one that is painted.
function dressCell(grid, node, i, j) {
  const bits = bitsAt(grid, i, j), shut = (bits & SHUT) !== 0, shown = view.chosen.mask_show, number = numberAt(grid, i, j), odd = oddBits(bits);
  let css = shut ? "tl-m-shut" : "tl-m-open", text = shut ? lettersOf(grid, bits) : "", at = null;
  if (shown === "scores" && shut) text = "−∞";
  if (shown !== "mask" && number !== null && (!shut || (shown === "weights" && number !== 0))) {
    if (!Number.isFinite(number)) { css = Number.isNaN(number) ? "tl-m-nan" : "tl-m-inf"; text = asNumber(number); }
    else if (!(shut && grid.cells[i * grid.columns + j] !== bits)) {
      const { part, ramp, css: ramped } = along({ kind: shown === "weights" ? "probability" : "signed", limit: grid.limit || 1 }, number);
      css = `${ramped} tl-m-number${part > WHITE_FROM[ramp] ? " tl-m-lw" : ""}${part > BLACK_FROM[ramp] ? " tl-m-db" : ""}`;
      text = shown === "weights" ? asProbability(number) : grid.slim ? minus(Math.abs(number) < 10 ? number.toFixed(1) : number.toFixed(0)) : asCell(number);
      at = part.toFixed(3);
    }
  }
  node.className = css + (odd ? " tl-m-odd" : "");
  if (at === null) node.style.removeProperty("--at"); else node.style.setProperty("--at", at);
  node.textContent = text;
  node.setAttribute("aria-label", cellSentence(grid, i, j));
}

function sideCells(grid, i, entropy) {
  const empty = visibleIn(grid, i) === 0, cells = [];
  if (grid.sums) {
    const sum = numeral(grid.sums[i]), off = !empty && !(Math.abs(sum - 1) <= 5e-3);
    cells.push(el("td", { class: `tl-m-edge tl-m-total${off ? " tl-m-bad" : ""}` }, empty ? `! ${Number.isFinite(sum) ? sum.toFixed(4) : asNumber(sum)}` : `${off ? "✗ " : ""}${Number.isFinite(sum) ? sum.toFixed(6) : asNumber(sum)}`));
  }
  cells.push(el("td", { class: "tl-m-edge tl-m-count" }, String(visibleIn(grid, i))));
  if (entropy) cells.push(el("td", { class: "tl-m-edge tl-m-entropy" }, Number.isFinite(numeral(grid.entropy[i])) ? Math.abs(grid.entropy[i]).toFixed(2) : "NaN"));
  return cells;
}

function sumBar(sum, grid) {
  const value = numeral(sum), most = Math.max(1, ...grid.column_sums.map(numeral).filter(Number.isFinite));
  return el("td", {}, el("span", {}, el("i", { style: { height: `${Number.isFinite(value) ? Math.round((14 * value) / most) : 0}px` } })), Number.isFinite(value) ? (value === 0 ? "0" : value.toFixed(1)) : "NaN");
}

// A large grid: runs of equal cells are one path, so that a click may draw it all again.
function drawPicture(grid, parts, room) {
  const left = 50, right = 26, top = 16, below = 22, tall = view.alone && !phone() ? 440 : 230;
  const size = Math.max(2, Math.min((room - left - right) / grid.columns, phone() ? 99 : tall / grid.rows));
  const at = { x: left, y: top, w: size * grid.columns, h: size * grid.rows };
  const shown = view.chosen.mask_show === "weights" ? "probability" : view.chosen.mask_show === "scores" ? "signed" : "mask";
  const kind = grid.numbers ? shown : "mask";
  const width = at.x + at.w + right, height = at.y + at.h + (grid.sums ? below : 4);
  const picture = svg("svg", { class: "tl-m-picture", viewBox: `0 0 ${short(width)} ${short(height)}`, width: short(width), height: short(height), role: "img", tabindex: 0, "aria-label": t("picture_label", { attention: attentionName(grid.name), rows: grid.rows, columns: grid.columns }) });
  parts.plot = { at, size, kind, picture, cells: svg("g"), cursor: svg("rect", { class: "tl-m-cursor", visibility: "hidden", width: short(Math.max(size, 4)), height: short(Math.max(size, 4)) }) };
  const map = { rows: grid.rows, columns: grid.columns, rowNames: grid.queries, columnNames: grid.keys, sides: ["q", "k"], kind };
  const most = Math.max(1, ...(grid.column_sums || []).map(numeral).filter(Number.isFinite));
  const bars = (grid.column_sums || []).map((sum, j) => svg("rect", { x: short(at.x + j * size), y: short(at.y + at.h + 3), width: short(Math.max(size - 0.5, 1)), height: short((14 * (numeral(sum) || 0)) / most), class: "tl-m-bar" }));
  parts.plot.counts = svg("g");
  picture.append(parts.plot.cells, ...axisNames(map, at, size, size, false), parts.plot.counts, ...bars, parts.plot.cursor);
  paintPicture(grid, parts);
  parts.map.replaceChildren(picture);
}

function hatching() {
  return svg("defs", {}, svg("pattern", { id: HATCHED, width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 4, height: 4, class: "tl-m-hatch-ground" }), svg("line", { x1: 0, y1: 0, x2: 0, y2: 4, class: "tl-m-hatch-line" })));
}

function paintPicture(grid, parts) {
  const { at, size, kind, cells, counts } = parts.plot, codes = new Uint8Array(grid.rows * grid.columns);
  const limit = grid.limit || 1, marks = [];
  for (let i = 0; i < grid.rows; i += 1) {
    let visible = 0;
    for (let j = 0; j < grid.columns; j += 1) {
      const place = i * grid.columns + j, bits = bitsAt(grid, i, j), number = kind === "mask" ? 0 : grid.numbers[place];
      if (!(bits & SHUT)) visible += 1;
      if (bits & SHUT && !(kind === "probability" && number !== 0 && grid.cells[place] === bits)) codes[place] = HIDDEN;
      else if (!Number.isFinite(number)) codes[place] = Number.isNaN(number) ? NOT_A_NUMBER : INFINITE;
      else codes[place] = kind === "mask" ? 0 : Math.min(Math.max(Math.round(kind === "probability" ? number * STEPS : MIDDLE + (number / limit) * MIDDLE), 0), STEPS);
    }
    marks.push(svg("rect", { x: short(at.x + at.w + 3), y: short(at.y + i * size), width: short(visible ? Math.max((20 * visible) / grid.columns, 0.5) : 20), height: short(Math.max(size - 0.4, 0.8)), class: visible ? "tl-m-bar" : "tl-m-none" }));
  }
  cells.replaceChildren(...heat(codes, 0, grid.rows, grid.columns, kind, at), nowFrame(grid, at, size));
  counts.replaceChildren(...marks);
}

const nowFrame = (grid, at, size) => svg("rect", { x: short(at.x - 2), y: short(at.y + (view.chosen.mask_row || 0) * size - 0.5), width: short(at.w + 4), height: short(size + 1), class: "tl-m-line", visibility: grid.name === view.chosen.mask_at ? "visible" : "hidden" });

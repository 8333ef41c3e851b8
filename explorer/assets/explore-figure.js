// Figure 1 of the paper as it is for this model: towers laid out from bottom to top, shapes on the wires, small maps of
// every head in the attention blocks. A block is a button; the figure is one Tab stop, arrows move in it.
const FIGURE_WIDTH = 392;
const GEOMETRY = {
  left: { frame: [2, 170], block: [16, 144], centre: 88, residual: 9, side: -1, maps: 31 },
  right: { frame: [216, 172], block: [228, 144], centre: 300, residual: 380, side: 1, maps: 31 },
  alone: { frame: [196, 190], block: [208, 164], centre: 290, residual: 380, side: 1, maps: 60 },
};
const MAPS_AT_MOST = 16;

function drawFigure(host, state) {
  const { payload, t } = state, { figure } = payload;
  const places = figure.towers.length === 2 ? [GEOMETRY.left, GEOMETRY.right] : [GEOMETRY.alone];
  const drawings = figure.towers.map((tower, n) => drawTower(tower, places[n], state));
  const top = Math.min(...drawings.map((drawing) => drawing.top)), height = Math.max(Math.ceil(110 - top), 430);
  const shift = height - 110;
  const picture = svg("svg", {
    class: "tl-x-fig1", viewBox: `0 0 ${FIGURE_WIDTH} ${height}`, role: "group", "aria-label": t("figure_label"),
  }, marks(), svg("g", { transform: `translate(0 ${shift})` },
    drawings.map((drawing) => drawing.under), drawings.length === 2 ? memoryWire(drawings, state) : null, drawings.map((drawing) => drawing.over)));
  picture.addEventListener("click", (event) => {
    const block = event.target.closest("[data-block]"), layer = event.target.closest("[data-layer]");
    if (layer) state.chooseLayer(layer.dataset.stack, Number(layer.dataset.layer));
    else if (block) state.selectBlock(block.dataset.block);
  });
  picture.addEventListener("keydown", (event) => figureKey(event, picture, state));
  host.replaceChildren(picture);
  markFigure(host, state);
}

function marks() {
  const arrow = (id, colour) => svg("marker", { id, viewBox: "0 0 8 8", refX: "6.5", refY: "4", markerWidth: "7", markerHeight: "7", orient: "auto" },
    svg("path", { d: "M0 .8 7 4 0 7.2z", fill: colour }));
  return svg("defs", {}, svg("pattern", { id: "tl-x-hatching", width: "4", height: "4", patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: "4", height: "4", fill: "var(--hatchbg)" }), svg("rect", { width: "1", height: "4", fill: "var(--hatch)" })),
    arrow("tl-x-arrow", "var(--edge)"), arrow("tl-x-arrow-q", "var(--qcol)"), arrow("tl-x-arrow-k", "var(--kcol)"), arrow("tl-x-arrow-v", "var(--vcol)"));
}

const wire = (d, end = true, role = "") => svg("path", { d, class: `tl-x-wire${role ? ` tl-x-wire-${role}` : ""}`, "marker-end": end ? `url(#tl-x-arrow${role ? `-${role}` : ""})` : null });
const residual = (d) => svg("path", { d, class: "tl-x-residual", "marker-end": "url(#tl-x-arrow)" });
const label = (x, y, text, css = "", anchor = "start") => svg("text", { x, y, class: css, "text-anchor": anchor }, text);

// A tower relative to y = 0, the lower edge of its layer frame. `under` are frames and wires, `over` are blocks and labels.
function drawTower(tower, place, state) {
  const under = [], over = [], { centre } = place, id = (item) => item.id.replace("{i}", state.layer[tower.stack]);
  const wires = [], put = (item, y, high) => over.push(blockFor(item, id(item), place, y, high, state));
  let y = 0, memoryAt = null;
  tower.layer.forEach((sublayer, n) => {
    const core = sublayer.find((item) => item.kind === "attention" || item.kind === "ffn");
    const first = sublayer[0] === core ? null : sublayer[0], last = sublayer.at(-1);
    const cross = core.id.endsWith("cross_attention"), start = y;
    let tapAt = start - (n === 0 ? 12 : 8), tapX = centre;
    if (first) {
      const bottom = start - (n === 0 ? 21 : 17);
      wires.push(wire(`M${centre} ${start}V${bottom + 2}`));
      put(first, bottom - 16, 16);
      y = bottom - 16;
    }
    const gap = core.kind === "ffn" ? (first ? 9 : 22) : cross ? 23 : first ? 26 : n === 0 ? 38 : 30;
    const bottom = y - gap, high = core.kind === "ffn" ? 24 : place.maps + 27;
    if (core.kind === "ffn") {
      wires.push(wire(`M${centre} ${y}V${bottom + 2}`));
      if (!first) over.push(label(centre + 6, y - 8, shapeOf(state, previous(tower, n, id)), "tl-x-shape tl-x-halo-sunken"));
    } else if (cross) {
      wires.push(wire(`M${centre} ${y}V${y - 4}H${centre + 40}V${bottom + 2}`, true, "q"));
      memoryAt = y - 12;
      if (!first) [tapAt, tapX] = [y - 4, centre + 40];
      over.push(...letters(centre, bottom));
    } else {
      const fork = bottom + 17;
      wires.push(wire(`M${centre} ${y}V${fork}`, false), wire(`M${centre} ${fork}H${centre - 40}V${bottom + 2}`, true, "v"),
        wire(`M${centre} ${fork}V${bottom + 2}`, true, "k"), wire(`M${centre} ${fork}H${centre + 40}V${bottom + 2}`, true, "q"));
      over.push(...letters(centre, bottom));
    }
    put(core, bottom - high, high);
    y = bottom - high;
    const rise = core.kind === "ffn" ? 8 : 10, lastHigh = last.kind === "add" ? 14 : 16;
    wires.push(wire(`M${centre} ${y}V${y - rise + 2}`));
    put(last, y - rise - lastHigh, lastHigh);
    const end = y - rise - lastHigh / 2;
    const into = last.kind === "add" ? centre + place.side * 9 : place.side < 0 ? place.block[0] - 1.5 : place.block[0] + place.block[1] + 1.5;
    wires.push(residual(`M${tapX} ${tapAt}H${place.residual}V${end}H${into}`));
    y -= rise + lastHigh;
  });
  const frameTop = y - 12, [x, wide] = place.frame;
  if (tower.layers > 1) under.push(svg("rect", { class: "tl-x-frame-behind", x: x + 4, y: frameTop - 4, width: wide, height: -frameTop, rx: 6 }));
  under.push(svg("rect", { class: "tl-x-frame", x, y: frameTop, width: wide, height: -frameTop, rx: 6 }), ...wires);
  over.push(layerPicker(tower, x + 2, frameTop - 8, state));
  const top = drawAbove(tower, place, y, frameTop, state, over, under);
  drawBelow(tower, place, state, over, under);
  return { under: svg("g", {}, under), over: svg("g", {}, over), top: top.top, exit: top.exit, memoryAt, place };
}

const letters = (centre, bottom) => [["v", -40], ["k", 0], ["q", 40]].map(([name, dx]) => label(centre + dx + 5, bottom + 13, name, `tl-x-letter tl-x-letter-${name}`));

// The tensor that flows into sub-layer n: what the one before hands on.
function previous(tower, n, id) {
  return n === 0 ? tower.below.at(-1).id : id(tower.layer[n - 1].at(-1));
}

function drawAbove(tower, place, from, frameTop, state, over, under) {
  const { centre } = place, { t } = state;
  let y = from, top = frameTop - 24, exit = null;
  for (const item of tower.above) {
    if (item.kind === "wire") { // the memory: to the other tower, or up to whatever stands on it
      exit = Math.min(y, frameTop) - 20;
      if (state.payload.figure.towers.length === 2) return { top: exit - 18, exit: [y, exit] };
      const next = Math.min(y, frameTop) - 30;
      under.push(wire(`M${centre} ${y}V${next + 4}`));
      over.push(textBlock(item.id, centre + 8, next + 16, `${t("block_memory")} ${shapeOf(state, "memory")}`, "start", state));
      y = next + 4;
      top = next - 6;
      continue;
    }
    const bottom = item.id === "probabilities" ? y - 11 : Math.min(y - 11, frameTop - 22);
    under.push(wire(`M${centre} ${y}V${bottom + 2}`));
    if (item.id === "logits" && y - bottom > 18 && item.label !== "classifier") over.push(label(centre + 6, bottom + 14, shapeOf(state, previousOf(tower, state)), "tl-x-shape tl-x-halo"));
    over.push(blockFor(item, item.id, place, bottom - 16, 16, state));
    y = bottom - 16;
    top = y - 8;
  }
  if (tower.above.some((item) => item.id === "probabilities")) {
    under.push(wire(`M${centre} ${y}V${y - 8}`));
    over.push(label(centre + 6, y - 3, shapeOf(state, "probabilities"), "tl-x-shape tl-x-halo"));
    const out = state.payload.figure.out[state.sample];
    const pads = state.payload.figure.pad.tgt?.[state.sample];
    if (out) over.push(tokenLine(out, out.length > 1 ? pads : null, place, y - 15, "tl-x-token", true));
    top = y - 29;
  }
  return { top, exit };
}

const previousOf = (tower, state) => tower.layer.at(-1).at(-1).id.replace("{i}", state.layer[tower.stack]);

function drawBelow(tower, place, state, over, under) {
  const { centre, side } = place, { figure } = state.payload;
  const [tokens, embedding, ...rest] = tower.below, plus = rest.at(-1), wave = rest.length > 1 ? rest[0] : null;
  under.push(wire(`M${centre} 79V57`), wire(`M${centre} 38V26`, false), wire(`M${centre} 9V0`, false));
  over.push(label(centre + 6, 72, shapeOf(state, tokens.id), "tl-x-shape"), label(centre + 6, 36, shapeOf(state, plus.id), "tl-x-shape"));
  over.push(blockFor(embedding, embedding.id, place, 38, 17, state), blockFor(plus, plus.id, place, 9, 16, state));
  if (wave) {
    under.push(wire(`M${centre + side * 22} 17H${centre + side * 9.5}`));
    over.push(blockFor(wave, wave.id, place, 9, 16, state));
    over.push(label(centre + side * 45, 21, "PE", "tl-x-muted", side < 0 ? "end" : "start"));
  }
  over.push(tokenBlock(tokens.id, figure[tower.side], figure.pad[tower.side], place, state));
}

// ------------------------------------------------------------------------------------------------------------- blocks

// A space between the words of a block: drawn nowhere, but whoever reads the text alone does not run them together.
const spaced = (parts) => parts.flat().filter(Boolean).flatMap((part) => [part, " "]);

// What is printed in a block is in its name too, so that it can be called by what one sees.
function block(id, state, children, name = "") {
  const group = svg("g", { class: "tl-x-block", role: "button", tabindex: "-1", "aria-pressed": "false", data: { block: id } }, spaced(children));
  const seen = [...group.querySelectorAll("text:not([aria-hidden])")].map((text) => text.textContent).filter(Boolean).join(" ");
  group.setAttribute("aria-label", blockName(id, seen.startsWith(name) ? seen : `${name} ${seen}`.trim(), state));
  return group;
}

function blockFor(item, id, place, y, high, state) {
  const [x, wide] = place.block, { t } = state;
  const name = t(`block_${item.label || item.kind}`);
  if (item.kind === "plus" || item.kind === "add") {
    const cy = y + high / 2;
    return block(id, state, [svg("circle", { class: "tl-x-shell", cx: place.centre, cy, r: 7.5 }), svg("path", { class: "tl-x-sign", d: `M${place.centre - 4} ${cy}h8M${place.centre} ${cy - 4}v8` })], t(`block_${item.kind}`));
  }
  if (item.kind === "wave") {
    const cx = place.centre + place.side * 31;
    return block(id, state, [svg("circle", { class: "tl-x-shell", cx, cy: 17, r: 8.5 }), svg("path", { class: "tl-x-sign", d: `M${cx - 5} 17c2-6 3.5-6 5 0s3 6 5 0` })], name);
  }
  const shell = svg("rect", { class: "tl-x-shell", x, y, width: wide, height: high, rx: 3 });
  if (item.kind === "attention") return block(id, state, [shell, ...attentionInside(item, id, place, y, state, name)], name);
  const middle = y + high / 2 + 4;
  return block(id, state, [shell, label(x + 8, middle, name, "tl-x-name"), label(x + wide - 18, middle, blockNote(item, id, state), "tl-x-muted", "end"), tick(id, x + wide - 6, middle, state)], name);
}

function blockNote(item, id, state) {
  const { figure } = state.payload, { t } = state;
  if (item.kind === "ffn") return figure.active[id] === undefined ? "" : t("active", { percent: Math.round(100 * figure.active[id]) });
  if (item.id === "probabilities") return figure.loss === null ? "" : t("loss", { loss: figure.loss.toFixed(figure.loss < 10 ? 4 : 2) });
  return item.note;
}

function attentionInside(item, id, place, y, state, name) {
  const [x, wide] = place.block, maps = state.payload.maps[`${id}/weights`];
  const inside = [label(x + 8, y + 14, name, "tl-x-name tl-x-strong"), tick(id, x + wide - 6, y + 14, state)];
  if (!maps) {
    const row = state.rowOf(`${id}/weights`);
    return [...inside, label(x + 8, y + 38, row ? `${row.shape.join("×")} · ${state.t(state.payload.shapes_only ? "no_numbers" : "map_elsewhere")}` : "", "tl-x-muted")];
  }
  const [, heads, rows, columns] = maps.shape, count = Math.min(heads, MAPS_AT_MOST), lines = count > 8 ? 2 : 1;
  const across = Math.ceil(count / lines), gap = across > 4 ? 2 : 4, width = Math.min((wide - 12 - gap * (across - 1)) / across, 1.5 * place.maps), high = (place.maps - 2 * (lines - 1)) / lines;
  const start = x + (wide - across * width - gap * (across - 1)) / 2, codes = decoded(maps);
  for (let head = 0; head < count; head += 1) {
    const box = { x: start + (head % across) * (width + gap), y: y + 21 + Math.floor(head / across) * (high + 2), w: width, h: high };
    inside.push(svg("g", { class: "tl-x-head", data: { head } }, heat(codes, mapOffset(maps, state.sample, head), rows, columns, "probability", box)));
  }
  return inside;
}

// ✓, ! or ✗: the worst of the checks whose entries lie in the block.
function tick(id, x, y, state) {
  const verdict = state.verdictOf(state.payload.blocks[id]?.rows || []);
  return verdict.total ? svg("text", { x, y, "text-anchor": "end", class: `tl-x-tick tl-x-${verdict.state}`, "aria-hidden": "true" }, MARK[verdict.state]) : null;
}

const MARK = { ok: "✓", warn: "!", bad: "✗" };

function blockName(id, name, state) {
  const { payload, t } = state, found = payload.blocks[id], layer = /\.layers\.(\d+)/.exec(id);
  const where = layer ? t(id.startsWith("encoder") ? "in_encoder" : "in_decoder", { layer: Number(layer[1]) + 1 }) : "";
  const verdict = state.verdictOf(found?.rows || []);
  const tensors = found ? found.rows.map((n) => payload.rows[n].name).join(", ") : "";
  return [name, where, tensors, verdict.total ? t("checks_of", { held: verdict.held, total: verdict.total }) : ""].filter(Boolean).join(", ");
}

// A label on a wire that is a button too.
function textBlock(id, x, y, text, anchor, state) {
  const wide = textWidth(text, AXIS_FONT()) + 8, left = anchor === "end" ? x - wide + 4 : anchor === "middle" ? x - wide / 2 : x - 4;
  return block(id, state, [svg("rect", { class: "tl-x-shell tl-x-bare", x: left, y: y - 11, width: wide, height: 15, rx: 2 }), label(x, y, text, "tl-x-shape", anchor)], text);
}

function memoryWire([encoder, decoder], state) {
  const { exit, place } = encoder, between = 192, y = decoder.memoryAt, { centre } = decoder.place;
  const path = `M${place.centre} ${exit[0]}V${exit[1]}H${between}V${y}H${centre - 40}`;
  return svg("g", {}, wire(path, false), wire(`M${centre - 40} ${y}H${centre}V${y - 9}`, true, "k"), wire(`M${centre - 41} ${y}H${centre - 40}V${y - 9}`, true, "v"),
    textBlock("memory", place.centre + 6, exit[1] - 5, `memory ${shapeOf(state, "memory")}`, "start", state));
}

function layerPicker(tower, x, y, state) {
  const { t } = state, now = state.layer[tower.stack], stack = tower.stack;
  const word = t("layer"), start = tower.layers > 5 ? x + 6 : x + textWidth(word, AXIS_FONT()) + 11;
  const total = `/ ${tower.layers}`, after = 29 + textWidth(total, AXIS_FONT()) + 10;
  const pick = (layer, dx, text, chosen, name) => svg("g", {
    class: "tl-x-layer", role: "radio", "aria-checked": String(chosen), tabindex: chosen ? "0" : "-1", "aria-label": name, data: { layer, stack },
  }, svg("circle", { cx: start + dx, cy: y - 4, r: 7.5 }), label(start + dx, y, text, "", "middle"));
  const many = tower.layers > 5; // then there is no room for the word between the frame's edge and the wire
  const places = many ? [Math.max(now - 1, 0), now, Math.min(now + 1, tower.layers - 1)] : Array.from({ length: tower.layers }, (_, i) => i);
  const buttons = many
    ? [pick(places[0], 0, "‹", false, t("layer_before")), pick(now, 19, now + 1, true, t("layer_of", { layer: now + 1, layers: tower.layers })), label(start + 29, y, total, "tl-x-muted"), pick(places[2], after, "›", false, t("layer_after"))]
    : places.map((layer) => pick(layer, layer * 18, layer + 1, layer === now, t("layer_of", { layer: layer + 1, layers: tower.layers })));
  return svg("g", { role: "radiogroup", class: "tl-x-layers", "aria-label": t(stack === "encoder" ? "encoder_layer" : "decoder_layer") }, many ? null : label(x, y, word, "tl-x-muted"), buttons);
}

// -------------------------------------------------------------------------------------------------------------- tokens

function tokenBlock(id, sentences, pads, place, state) {
  if (!sentences?.length) return null;
  const chosen = Math.min(state.sample, sentences.length - 1), other = sentences.length > 1 ? (chosen === 0 ? 1 : chosen - 1) : null;
  const order = other === null ? [chosen] : [Math.min(chosen, other), Math.max(chosen, other)];
  const [x, wide] = place.block;
  const lines = order.map((n, line) => tokenLine(sentences[n], pads?.[n], place, 91 + line * 14, n === chosen ? "tl-x-token" : "tl-x-token tl-x-muted"));
  const shell = svg("rect", { class: "tl-x-shell tl-x-bare", x: x - 6, y: 80, width: wide + 12, height: 15 + 14 * (order.length - 1), rx: 3 });
  return block(id, state, [shell, ...lines], id);
}

// Tokens spread over the width of a tower; those that do not fit are counted.
function tokenLine(tokens, pads, place, y, css, dashes = false) {
  const [x, wide] = [place.block[0] - 4, place.block[1] + 8];
  let shown = tokens.map((token, i) => (dashes && pads?.[i] ? "–" : clipped(token, 60, TOKEN_FONT())));
  const widths = shown.map((token) => textWidth(token, TOKEN_FONT()));
  let count = shown.length, total = widths.reduce((sum, width) => sum + width, 0);
  while (count > 1 && total + 4 * (count - 1) + (count < shown.length ? 24 : 0) > wide) { count -= 1; total -= widths[count]; }
  const rest = shown.length - count, room = wide - (rest ? 24 : 0);
  shown = shown.slice(0, count);
  const gap = Math.min((room - total) / Math.max(count, 1), 18);
  let at = x + (room - total - gap * (count - 1)) / 2;
  const parts = shown.map((token, i) => {
    const part = label(short(at), y, token, pads?.[i] ? `${css} tl-x-pad` : css);
    at += widths[i] + gap;
    return part;
  });
  if (rest) parts.push(label(x + wide, y, `+${rest}`, "tl-x-muted", "end"));
  return svg("g", {}, spaced(parts));
}

function shapeOf(state, id) {
  const found = state.payload.blocks[id];
  const row = found ? state.payload.rows[found.best] : state.rowOf(id);
  return row ? row.shape.join("×") : "";
}

// ----------------------------------------------------------------------------------------------------- selection, keys

function markFigure(host, state) {
  const chosen = state.blockOf(state.key);
  const blocks = [...host.querySelectorAll("[data-block]")];
  for (const each of blocks) each.setAttribute("aria-pressed", String(each.dataset.block === chosen));
  const stop = blocks.find((each) => each.dataset.block === chosen) || blocks[0];
  for (const each of blocks) each.setAttribute("tabindex", each === stop ? "0" : "-1");
  for (const head of host.querySelectorAll(".tl-x-head")) head.classList.toggle("tl-x-now", head.closest("[data-block]").dataset.block === chosen && Number(head.dataset.head) === state.head);
}

function figureKey(event, picture, state) {
  const layer = event.target.closest("[data-layer]"), here = event.target.closest("[data-block]");
  if (event.key === "Enter" || event.key === " ") {
    if (layer) state.chooseLayer(layer.dataset.stack, Number(layer.dataset.layer));
    else if (here) state.selectBlock(here.dataset.block);
    else return;
    event.preventDefault();
    return;
  }
  const arrow = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
  if (layer && arrow) {
    event.preventDefault();
    const step = arrow[0] || -arrow[1];
    state.chooseLayer(layer.dataset.stack, state.layer[layer.dataset.stack] + step, true);
    return;
  }
  if (!here || !arrow) return;
  event.preventDefault();
  const from = middle(here), blocks = [...picture.querySelectorAll("[data-block]")].filter((each) => each !== here).map((each) => ({ each, at: middle(each) }));
  const same = (at) => Math.abs(at.x - from.x) < 90;
  const ahead = blocks.filter(({ at }) => (arrow[1] ? same(at) && (at.y - from.y) * arrow[1] > 3 : (at.x - from.x) * arrow[0] > 12));
  ahead.sort((a, b) => (arrow[1] ? Math.abs(a.at.y - from.y) + Math.abs(a.at.x - from.x) / 4 - Math.abs(b.at.y - from.y) - Math.abs(b.at.x - from.x) / 4
    : Math.hypot(a.at.x - from.x, 3 * (a.at.y - from.y)) - Math.hypot(b.at.x - from.x, 3 * (b.at.y - from.y))));
  if (!ahead.length) return;
  here.setAttribute("tabindex", "-1");
  ahead[0].each.setAttribute("tabindex", "0");
  ahead[0].each.focus();
}

function middle(each) {
  const box = each.getBoundingClientRect();
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

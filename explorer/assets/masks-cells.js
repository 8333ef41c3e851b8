// Masks: what is on screen, which cells are hidden and why, and the cells painted here before the server has answered.
// A cell is a whole number as explorer/grids.py makes it: a bit a rule, one for paint, one for what the model really hid.

const { w } = window.TL;
const sent = window.TL.unpacked(props);
const box = element.querySelector(".tl-studio");
const ATTENTIONS = ["encoder_self", "decoder_self", "cross"];
const PAINT = 1 << 14, SHUT = 1 << 15, REASON_BITS = PAINT - 1;
const LETTER = { padding: "p", causal: "c", window: "w", prefix: "f", block: "b", strided: "s", random: "r", documents: "d", where: "q", custom: "x" };
const RULE_ORDER = Object.keys(LETTER);
const FIXED = { encoder_self: ["padding", "causal", "window", "custom"], decoder_self: ["padding", "causal", "window", "custom"], cross: ["padding", "custom"] };
const LARGE = { rows: 14, columns: 16 }; // beyond it a grid is one picture

// gradio may mount a view more than once, and tells nothing of an answer that equals the one before: each counts from elsewhere.
const view = {
  shown: null, chosen: {}, number: Math.floor(Math.random() * 1e6) * 1000, flight: 0, flying: "", looking: false, trap: "", asking: 0, resting: 0, rested: "", deaf: 0, pending: {}, file: null, painting: false, stroke: null,
  draft: {}, cursor: {}, known: {}, alone: "", probe: {}, scale: null, measuring: new Set(), error: null, api: "", room: "", typed: {}, asked: "", of: "",
};

const t = (key, values) => w(`masks.${key}`, values);
const kindOf = (rule) => rule.split(":")[0];
const ruleName = (rule) => t(`rule_${kindOf(rule)}`);
const ruleText = (rule) => (rule.includes(":") ? `${ruleName(rule)} ${rule.slice(rule.indexOf(":") + 1)}` : ruleName(rule));
const attentionName = (name) => t(name);
const grids = () => view.shown?.attentions || [];
const gridOf = (name) => grids().find((grid) => grid.name === name);
const here = () => gridOf(view.chosen.mask_at) || grids()[0];
const phone = () => matchMedia("(max-width: 768px)").matches;

// ------------------------------------------------------------------------------------------------------ painted layers

// "3x4." and the bits in base64 for addresses, as explorer/painted.py has it; every cell open is no word at all.
function wordOf(cells, rows, columns) {
  if (cells.every(Boolean)) return "";
  const bytes = new Uint8Array(Math.ceil((rows * columns) / 8));
  cells.forEach((open, at) => { if (open) bytes[at >> 3] |= 128 >> (at & 7); });
  let raw = "";
  for (const byte of bytes) raw += String.fromCharCode(byte);
  return `${rows}x${columns}.${btoa(raw).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

function cellsOf(told, rows, columns) {
  const cells = new Uint8Array(rows * columns).fill(1);
  if (!told) return cells;
  const bytes = window.TL.b64u8(told.slice(told.indexOf(".") + 1).replaceAll("-", "+").replaceAll("_", "/"));
  for (let at = 0; at < cells.length; at += 1) cells[at] = (bytes[at >> 3] >> (7 - (at & 7))) & 1;
  return cells;
}

const paintedOf = (grid) => view.draft[grid.name] || (view.draft[grid.name] = cellsOf(grid.custom, grid.rows, grid.columns));

// --------------------------------------------------------------------------------------------------------------- cells

function decode(grid) {
  grid.cells ??= new Uint16Array(window.TL.b64u8(grid.bits).buffer);
  grid.numbers ??= grid.values ? window.TL.b64f32(grid.values) : null;
  return grid;
}

// The bits of a cell, with the paint of this moment over what the server said.
function bitsAt(grid, i, j) {
  const at = i * grid.columns + j, told = grid.cells[at], draft = view.draft[grid.name];
  if (!draft) return told;
  const paint = draft[at] ? 0 : PAINT;
  if ((told & PAINT) === paint) return told;
  const reasons = (told & REASON_BITS) | paint;
  return reasons | (reasons ? SHUT : 0);
}

const shutAt = (grid, i, j) => (bitsAt(grid, i, j) & SHUT) !== 0;
const oddBits = (bits) => Boolean(bits & SHUT) !== Boolean(bits & ~SHUT);
const rulesOf = (grid, bits) => [...grid.rules.filter((_, n) => bits & (1 << n)), ...(bits & PAINT ? ["custom"] : [])];
const lettersOf = (grid, bits) => rulesOf(grid, bits).map((rule) => LETTER[kindOf(rule)]).join("");
const numberAt = (grid, i, j) => (grid.numbers ? grid.numbers[i * grid.columns + j] : null);

function visibleIn(grid, i) {
  let count = 0;
  for (let j = 0; j < grid.columns; j += 1) if (!shutAt(grid, i, j)) count += 1;
  return count;
}

function openCells(grid) {
  let count = 0;
  for (let i = 0; i < grid.rows; i += 1) count += visibleIn(grid, i);
  return count;
}

// "masked: window, painted", and where the model did otherwise than its rules say.
function stateWords(grid, bits) {
  const why = rulesOf(grid, bits).map(ruleName).join(t("comma"));
  if (oddBits(bits)) return bits & SHUT ? t("odd_shut") : t("odd_open", { why });
  return bits & SHUT ? t("masked_by", { why }) : t("open");
}

function cellSentence(grid, i, j) {
  const bits = bitsAt(grid, i, j), number = numberAt(grid, i, j), shown = view.chosen.mask_show;
  const value = shown === "mask" || number === null || (bits & SHUT && number === 0) ? null : asPrecise(number);
  return [t("at_query", { name: grid.queries[i], number: i }), t("at_key", { name: grid.keys[j], number: j }), value, stateWords(grid, bits)].filter(Boolean).join(" · ");
}

// ----------------------------------------------------------------------------------------------------------- the wire

const chosenNow = () => ({ ...view.chosen });

// One event is on its way at a time, so that none overtakes another; what is wanted meanwhile goes next, changes first.
function send() {
  if (view.flight) return;
  if (view.trap) fly("trap", { trap: view.trap });
  else if (Object.keys(view.pending).length || view.file) fly("edit", { changes: view.pending, chosen: chosenNow(), file: view.file });
  else if (view.looking) fly("look", { chosen: chosenNow() });
}

function fly(name, data) {
  view.number += 1;
  Object.assign(view, { flight: view.number, flying: name, looking: false, trap: "" });
  if (name === "edit") Object.assign(view, { pending: {}, file: null });
  box.dataset.state = "busy";
  clearTimeout(view.patience);
  view.patience = setTimeout(() => { view.flight = 0; send(); }, 30000); // an answer that is lost
  trigger(name, { number: view.number, ...data });
}

const changing = () => Boolean(view.flight && view.flying !== "look");
const unsettled = () => Boolean(view.flight || view.asking || view.looking || view.resting || view.stroke || view.trap || Object.keys(view.pending).length);

function edit(changes) {
  Object.assign(view.pending, changes);
  send();
}

// Another place to look at. Arrows held down ask once.
function look(changes, wait = 40) {
  Object.assign(view.chosen, changes);
  box.dataset.state = "busy";
  clearTimeout(view.asking);
  view.asking = setTimeout(() => {
    view.asking = 0;
    view.looking = true;
    send();
  }, wait);
  refresh();
}

function setTrap(name) {
  Object.assign(view, { asked: "trap", draft: {}, trap: name });
  send();
}

function measured(what) {
  if (view.measuring.has(what)) return;
  view.measuring.add(what);
  view.number += 1;
  trigger("measure", { number: view.number, what, chosen: chosenNow() });
  setTimeout(() => { if (view.measuring.delete(what)) refresh(); }, 60000);
  refresh();
}

// ---------------------------------------------------------------------------------------------------------- the rules

// A rule in, changed or out; kinds stand in one order, as the sidebar of Explore has them.
function putRule(attention, kind, rule) {
  const rules = gridOf(attention).all_rules.filter((each) => kindOf(each) !== kind);
  if (rule) rules.push(rule);
  rules.sort((a, b) => RULE_ORDER.indexOf(kindOf(a)) - RULE_ORDER.indexOf(kindOf(b)));
  gridOf(attention).all_rules = rules;
  edit({ [attention]: rules });
}

// A layer by its switch. One that was switched off here is remembered, so that it comes back as it was.
function toggleLayer(grid, kind) {
  const known = (view.known[grid.name] ??= {});
  if (kind === "custom") {
    const now = wordOf(paintedOf(grid), grid.rows, grid.columns);
    if (now) known.custom = now;
    const next = now ? "" : known.custom || "";
    view.draft[grid.name] = cellsOf(next.startsWith(`${grid.rows}x${grid.columns}.`) ? next : "", grid.rows, grid.columns);
    if (!now && !next) { setPainting(true); return; }
    commitPaint(grid);
    return;
  }
  const on = grid.all_rules.find((rule) => kindOf(rule) === kind);
  if (on) known[kind] = on;
  putRule(grid.name, kind, on ? null : known[kind] || (START[kind] ? `${kind}:${START[kind]}` : kind));
}

const START = { window: 2, prefix: 2, block: 2, strided: 2, random: 50, where: "q - k < 3" };

function layersOf(grid) {
  const kinds = new Set([...FIXED[grid.name], ...grid.all_rules.map(kindOf), ...Object.keys(view.known[grid.name] || {})]);
  return RULE_ORDER.filter((kind) => kinds.has(kind)).map((kind) => {
    const rule = grid.all_rules.find((each) => kindOf(each) === kind);
    const bit = kind === "custom" ? PAINT : 1 << grid.rules.findIndex((each) => kindOf(each) === kind);
    const on = kind === "custom" ? paintedOf(grid).includes(0) : Boolean(rule);
    return { kind, on, rule: rule || kind, bit: on && (kind === "custom" || grid.rules.some((each) => kindOf(each) === kind)) ? bit : 0 };
  });
}

function commitPaint(grid) {
  clearTimeout(view.resting);
  view.resting = 0;
  view.asked = "paint";
  edit({ [`${grid.name}_custom`]: wordOf(paintedOf(grid), grid.rows, grid.columns) });
  refresh();
}

function setPainting(on) {
  view.painting = on;
  box.dataset.painting = on ? "on" : "off";
  refresh();
}

// Explore: one selection (tensor, sentence, head) behind the figure, the ledger and the four panes. Selecting is local and
// instant; the server is asked only for numbers that are not here yet, and is told what is selected so that the link says it.
const box = element.querySelector(".tl-explore");
const sent = TL.unpacked(props);
const RECENT = 1500; // ms in which a selection made here may still be on its way to the server

const state = {
  host: box, payload: null, detail: null, key: "", sample: 0, head: 0, layer: { encoder: 0, decoder: 0 }, open: new Set(), find: "",
  number: new Map(), details: new Map(), cleared: false, probing: 0,
  t: (key, values) => TL.say(state.payload?.words[key] ?? "", values),
  rowOf: (key) => state.payload.rows[state.number.get(key)],
  groupOf: (key) => state.payload.groups.find((group) => group.rows.includes(state.number.get(key))),
  blockOf: (key) => Object.keys(state.payload.blocks).find((id) => state.payload.blocks[id].rows.includes(state.number.get(key))),
  verdictOf, select, selectBlock, chooseLayer, clear, step, later, width: 356,
};

// What has to measure the new page waits for the frame in which it is laid out anyway: one layout instead of three.
function later(work) {
  requestAnimationFrame(() => { if (state.payload) work(); });
}

// The checks that speak of these rows, each counted once, and the worst of their verdicts.
function verdictOf(rows) {
  const about = new Set(rows.flatMap((n) => state.payload.rows[n]?.checks || []));
  const states = [...about].map((n) => state.payload.checks[n].state);
  const worst = states.includes("bad") ? "bad" : states.includes("warn") ? "warn" : "ok";
  return { total: states.length, held: states.filter((each) => each !== "bad").length, state: worst };
}

// -------------------------------------------------------------------------------------------------------------- a run

function receive() {
  const { value } = sent;
  if (!value || !value.rows) return;
  const before = state.payload, again = before !== null && before.lang === value.lang;
  const start = performance.now();
  state.payload = { ...value, maps: { ...value.maps } };
  state.details.clear();
  state.number = new Map(value.rows.map((row, n) => [row.key, n]));
  if (!again) build();
  box.dataset.state = value.error ? "stopped" : value.shapes_only ? "shapes" : "run";
  const stays = keepsSelection(before, value), shownBefore = state.key;
  if (!stays) Object.assign(state, { key: value.selected.key, sample: value.selected.sample, head: value.selected.head, cleared: false, told: null });
  inside();
  keep(value.detail);
  followLayer();
  keepOpen(before, shownBefore);
  drawFigure(box.querySelector(".tl-x-picture-box"), state);
  drawCaption();
  drawLedger(state);
  if (!before || state.key !== shownBefore) later(reveal);
  if (!showDetail()) tell();
  refreshChecks(state);
  box.dataset.ready = value.run;
  box.dataset.milliseconds = (performance.now() - start).toFixed(1);
}

// Groups stay open or folded as they were; all open stays all open, and the group of a new selection opens.
function keepOpen(before, shownBefore) {
  const paths = state.payload.groups.map((group) => group.path), own = state.groupOf(state.key)?.path;
  const all = before?.groups.every((group) => state.open.has(group.path));
  const still = all ? paths : paths.filter((path) => state.open.has(path));
  const alone = !before || (state.key !== shownBefore && still.length <= 1);
  state.open = new Set(alone ? [] : still);
  if (own && (alone || state.key !== shownBefore)) state.open.add(own);
}

// What is selected here stays when the same run is only described anew, or when the server cannot know of it yet.
function keepsSelection(before, value) {
  if (!before) return false;
  const [run, known] = [before, value].map((each) => each.run.split("-")[0]);
  if (run === known) return true;
  if (state.cleared) return false; // nothing is selected: a new run shows its most telling tensor again
  return Boolean(state.told) && performance.now() - state.told.at < RECENT && state.number.has(state.key);
}

// The selected row, moved into sight inside the ledger and nowhere else: the page itself does not jump.
function reveal() {
  const scroll = box.querySelector(".tl-x-scroll"), row = scroll.querySelector('tr[aria-selected="true"]');
  if (!row || scroll.scrollHeight <= scroll.clientHeight) return;
  const top = row.offsetTop - 24, bottom = row.offsetTop + row.offsetHeight;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  else if (bottom > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = bottom - scroll.clientHeight + 21;
}

// Sentence and head that this run has.
function inside() {
  const last = (axis) => Math.max(...state.payload.rows.filter((row) => row.axes.split(" ").includes(axis)).map((row) => row.shape[row.axes.split(" ").indexOf(axis)]), 1) - 1;
  state.sample = Math.min(state.sample, last("B"));
  state.head = Math.min(state.head, last("H"));
}

function followLayer() {
  for (const tower of state.payload.figure.towers) state.layer[tower.stack] = Math.min(state.layer[tower.stack], tower.layers - 1);
  const found = /^(encoder|decoder)\.layers\.(\d+)/.exec(state.key);
  if (found) state.layer[found[1]] = Number(found[2]);
  if (!state.seen) for (const tower of state.payload.figure.towers) if (tower.stack !== found?.[1]) state.layer[tower.stack] = tower.layers - 1;
  state.seen = true;
}

// ---------------------------------------------------------------------------------------------------------- selection

function select(change, scroll = false) {
  const before = { ...state };
  Object.assign(state, change);
  state.cleared = !state.key;
  inside();
  const moved = state.key !== before.key, shown = state.sample !== before.sample || state.head !== before.head;
  if (!moved && !shown) return;
  const layers = JSON.stringify(state.layer);
  if (moved && state.key) {
    followLayer();
    const group = state.groupOf(state.key)?.path;
    if (group && !state.open.has(group)) { // one module open at a time, unless all are
      if (state.open.size <= 1) state.open.clear();
      state.open.add(group);
      drawRows(state);
    } else {
      drawBar(state);
      markRows(state);
    }
  } else if (moved) drawRows(state);
  if (JSON.stringify(state.layer) !== layers || state.sample !== before.sample) redrawFigure();
  else markFigure(box.querySelector(".tl-x-picture-box"), state);
  if (scroll) later(reveal);
  showDetail();
  tell();
}

function redrawFigure() {
  const picture = box.querySelector(".tl-x-picture-box"), focused = picture.contains(document.activeElement) ? document.activeElement.dataset : null;
  drawFigure(picture, state);
  if (!focused) return;
  const same = [...picture.querySelectorAll("[data-block], [data-layer]")].find((each) => (focused.block ? each.dataset.block === focused.block || each.getAttribute("aria-pressed") === "true" : each.dataset.stack === focused.stack && each.getAttribute("aria-checked") === "true"));
  same?.focus();
}

function selectBlock(id) {
  const found = state.payload.blocks[id];
  if (found) select({ key: state.payload.rows[found.rows.includes(state.number.get(state.key)) ? state.number.get(state.key) : found.best].key }, true);
}

// Another layer of one stack; a selection in that stack moves to the same tensor there.
function chooseLayer(stack, layer, focus = false) {
  const tower = state.payload.figure.towers.find((each) => each.stack === stack);
  const to = Math.min(Math.max(layer, 0), tower.layers - 1);
  const key = state.key.replace(new RegExp(`^${stack}\\.layers\\.\\d+`), `${stack}.layers.${to}`);
  state.layer[stack] = to;
  if (key !== state.key && state.number.has(key)) select({ key }, true);
  const weights = `${stack}.layers.${to}.self_attention/weights`;
  if (!hasMaps(stack, to) && !state.payload.shapes_only && state.number.has(weights) && !state.key.startsWith(`${stack}.`)) select({ key: weights }, true); // its maps come with it
  redrawFigure();
  if (focus) box.querySelector(`.tl-x-layer[data-stack="${stack}"][aria-checked="true"]`)?.focus();
}

const hasMaps = (stack, layer) => Object.keys(state.payload.maps).some((key) => key.startsWith(`${stack}.layers.${layer}.`));

function clear() {
  if (!state.key) return;
  state.open.clear();
  select({ key: "" });
}

// The next or previous sentence and head of the selected tensor.
function step(samples, heads, focus = false) {
  const row = state.rowOf(state.key);
  if (!row) return false;
  const size = (axis) => { const n = row.axes.split(" ").indexOf(axis); return n < 0 ? 1 : row.shape[n]; };
  const turn = (now, by, total) => (now + by + total) % total;
  select({ sample: row.sample ? turn(state.sample, samples, size("B")) : state.sample, head: row.head ? turn(state.head, heads, size("H")) : state.head });
  if (focus) box.querySelector('.tl-x-thumb[aria-checked="true"]')?.focus();
  return true;
}

// ------------------------------------------------------------------------------------------------------------- details

// A tensor without heads has one map for all of them.
function detailName(key, sample, head) {
  const row = state.rowOf(key);
  return `${key}|${row?.sample ? sample : 0}|${row?.head ? head : 0}`;
}

function keep(detail) {
  if (!detail || detail.run !== state.payload?.run) return;
  state.details.set(detailName(detail.key, detail.sample, detail.head), detail);
  if (detail.tensor?.whole || detail.tensor?.look.kind === "ids" || state.payload.shapes_only) state.details.set(detail.key, detail);
  if (detail.maps) {
    const fresh = Object.keys(detail.maps).some((key) => !(key in state.payload.maps));
    Object.assign(state.payload.maps, detail.maps);
    if (fresh) redrawFigure();
  }
}

// What is here is shown at once; what is not keeps the old panes on screen until it comes. Says whether it was here.
function showDetail() {
  if (!state.key) { state.detail = null; drawPanes(state); box.dataset.waiting = "no"; return true; }
  const found = state.details.get(detailName(state.key, state.sample, state.head)) || state.details.get(state.key);
  box.dataset.waiting = found ? "no" : "yes";
  if (!found) return false;
  state.detail = found;
  const held = document.activeElement?.closest?.(".tl-x-thumb");
  drawPanes(state);
  if (held) box.querySelector('.tl-x-thumb[aria-checked="true"]')?.focus();
  box.dataset.shown = `${state.key}|${state.sample}|${state.head}`;
  return true;
}

function tell() {
  if (!state.key) return;
  clearTimeout(state.telling);
  state.told = { at: performance.now() };
  state.telling = setTimeout(() => trigger("select", { key: state.key, sample: state.sample, head: state.head }), 30);
}

function arrive() {
  const { detail } = sent;
  keep(detail);
  if (state.payload && detail?.run === state.payload.run && box.dataset.waiting === "yes") showDetail();
}

// --------------------------------------------------------------------------------------------------------------- frame

function build() {
  const { t } = state;
  const jump = PANES.map((name) => el("button", { type: "button", onclick: () => jumpTo(name) }, t(`pane_${name}`)));
  box.replaceChildren(
    el("div", { class: "tl-x-top" },
      el("div", { class: "tl-x-figure", role: "group", "aria-labelledby": "tl-x-figure-title" }, el("div", { class: "tl-x-caption" }), el("div", { class: "tl-x-picture-box" })), buildLedger(state)),
    el("div", { class: "tl-x-band" }, PANES.map((name) => buildPane(name, state))),
    el("nav", { class: "tl-x-jump", "aria-label": t("jump") }, jump));
  state.find = "";
  watchJump();
  watchRoom();
  watchWidth();
  registerKeys();
}

// How much room the page has decides its layout: not the window, since the projector size makes all of it a quarter larger.
function watchRoom() {
  const phone = matchMedia("(max-width: 768px)");
  let hidden = false;
  const measure = () => {
    const width = box.clientWidth;
    if (hidden && width) later(reveal); // back from another tab, which lost the place
    hidden = !width;
    if (hidden) return;
    box.dataset.room = phone.matches ? "phone" : width > 1124 ? "wide" : width > 964 ? "middle" : "narrow";
    const ledger = box.querySelector(".tl-x-ledger-box").clientWidth;
    box.dataset.ledger = phone.matches ? "list" : ledger >= 700 ? "full" : ledger >= 590 ? "tight" : "least";
    if (state.payload) fitFormulas(state);
  };
  state.roomy?.disconnect();
  state.roomy = new ResizeObserver(measure);
  state.roomy.observe(box);
  measure();
}

// The tensor pane draws for the width it has, measured when that changes and not at every drawing.
function watchWidth() {
  const pane = box.querySelector("#tl-x-tensor .tl-x-pane-body");
  state.sizing?.disconnect();
  state.sizing = new ResizeObserver(([change]) => {
    const width = Math.max(Math.min(Math.round(change.contentRect.width), 520), 240);
    if (Math.abs(width - state.width) < 4) return;
    state.width = width;
    if (state.payload && state.detail) drawPanes(state);
  });
  state.sizing.observe(pane);
}

function drawCaption() {
  const { t, payload } = state, arrow = (name) => el("span", { class: "tl-x-key" }, svg("svg", { width: 18, height: 9, "aria-hidden": "true" }, svg("path", { class: `tl-x-wire tl-x-wire-${name}`, d: "M0 4.5H14", "marker-end": `url(#tl-x-arrow-${name})` })), t(`role_${name}`));
  box.querySelector(".tl-x-caption").replaceChildren(
    el("h2", { id: "tl-x-figure-title" }, t("figure")), el("p", {}, t(payload.shapes_only ? "figure_says_shapes" : "figure_says"), " ", el("span", { class: "tl-x-wide" }, t("figure_keys")), el("span", { class: "tl-x-narrow" }, t("figure_tap"))),
    el("p", { class: "tl-x-keys" }, ["q", "k", "v"].map(arrow)),
    el("p", { class: "tl-x-keys" }, el("span", { class: "tl-x-key" }, "0 ", el("i", { class: "tl-x-ramp tl-x-ramp-p" }), " 1 ", t("probability")), el("span", { class: "tl-x-key" }, el("i", { class: "tl-x-swatch tl-x-hatch" }), t("masked"))));
}

function jumpTo(name) {
  const pane = box.querySelector(`#tl-x-${name}`);
  pane.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  pane.focus({ preventScroll: true });
}

// The bar on a phone marks the pane that is being read.
function watchJump() {
  state.seeing?.disconnect();
  const buttons = [...box.querySelectorAll(".tl-x-jump button")], seen = new Set();
  state.seeing = new IntersectionObserver((changes) => {
    for (const { isIntersecting, target } of changes) seen[isIntersecting ? "add" : "delete"](target.id);
    const first = PANES.findIndex((name) => seen.has(`tl-x-${name}`));
    buttons.forEach((button, n) => button.setAttribute("aria-current", String(n === first)));
  }, { rootMargin: "-20% 0px -60% 0px" });
  for (const name of PANES) state.seeing.observe(box.querySelector(`#tl-x-${name}`));
}

function registerKeys() {
  const say = (key) => () => state.t(key);
  TL.keys("explore", [
    { keys: ["↑", "↓", "←", "→"], say: say("keys_arrows") }, { keys: ["Enter"], say: say("keys_enter") },
    { keys: ["["], say: say("keys_head_before"), run: () => step(0, -1) }, { keys: ["]"], say: say("keys_head_after"), run: () => step(0, 1) },
    { keys: ["{"], say: say("keys_sentence_before"), run: () => step(-1, 0) }, { keys: ["}"], say: say("keys_sentence_after"), run: () => step(1, 0) },
    { keys: ["/"], say: say("keys_find"), run: () => { openFind(state); return true; } },
    { keys: ["a", "A"], say: say("keys_open"), run: () => { openAll(state); return true; } },
    { keys: ["c", "C"], say: say("keys_checks"), run: () => { openChecks(state); return true; } },
    { keys: ["Escape"], show: ["Esc"], say: say("keys_clear"), run: () => { if (!state.key) return false; clear(); return true; } },
  ]);
}

TL.on("checks", () => openChecks(state));
watch("value", receive);
watch("detail", arrive);
TL.on("look", ({ key }) => { if (element.isConnected && state.number.has(key)) select({ key }, true); }); // asked for on another tab
watch("answered", () => refreshChecks(state, sent.answered?.refused));
receive();

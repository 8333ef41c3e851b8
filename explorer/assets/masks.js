// Masks: the wire, and the order of drawing. The server is asked only while this tab is shown.
//
// props.value     an answer: {number, shown?: explorer/studio.py: shown, refused?}
// props.measured  what was measured: {number, probe? | scale? | refused?}
// Events: "look" {number, chosen}, "edit" {number, changes, chosen, file}, "trap" {number, trap}, "measure" {number, what}, "leave" {}.

const topBox = el("div", { class: "tl-m-top" }), alertBox = el("div", { class: "tl-m-alert" });
const patterns = svg("svg", { width: 0, height: 0, class: "tl-m-patterns", "aria-hidden": "true" }, hatching());
const frameBox = el("p", { class: "tl-m-waiting" });
const mainBox = el("div", { class: "tl-m-main", hidden: true }, gridBox, el("div", { class: "tl-m-second" }, rowBox, codeBox), el("div", { class: "tl-m-third" }, emptyBox, probeBox), el("div", { class: "tl-m-fourth" }, viewsBox, scaleBox));
box.replaceChildren(patterns, topBox, alertBox, frameBox, mainBox);
let drawing = 0;

const shownNow = () => window.TL.tab() === "masks";

// ---------------------------------------------------------------------------------------------------------- answers

function take() {
  const answer = sent.value;
  if (!answer || answer.number !== view.flight) return; // another mount's, or one that was given up
  const flown = view.flying;
  view.flight = 0;
  clearTimeout(view.patience);
  if (flown === "edit" && !answer.refused) view.behind = true;
  if (flown !== "look") view.deaf = performance.now() + 150; // the frame tells of this change too
  if (answer.refused) refuse(answer.refused);
  else receive(answer.shown, flown);
  send();
  if (!shownNow()) leave();
  refresh();
}

// Explore is told of the changes when it is opened, and of the last one even if that was still on its way.
function leave() {
  if (!view.behind || view.flight) return;
  view.behind = false;
  trigger("leave", {});
}

// A refused change is taken back: the page shows what is run.
function refuse(refused) {
  view.refused = refused;
  if (!view.shown) return; // a link's rules that cannot be computed: nothing to go back to
  view.error = { where: view.asked || "rules", ...refused };
  if (!view.stroke) view.draft = {};
  view.looking = true;
}

function receive(shown, flown) {
  view.refused = null;
  if (flown !== "look") view.error = null;
  view.shown = shown;
  view.chosen = view.asking || view.looking ? { ...shown.chosen, ...view.chosen } : { ...shown.chosen };
  for (const grid of shown.attentions) {
    decode(grid);
    const known = (view.known[grid.name] ??= {});
    for (const rule of grid.all_rules) known[kindOf(rule)] = rule;
    if (grid.custom) known.custom = grid.custom;
    const draft = view.draft[grid.name], pending = `${grid.name}_custom` in view.pending || view.stroke?.name === grid.name || (view.resting && view.rested === grid.name);
    if (draft && (!pending || draft.length !== grid.rows * grid.columns)) delete view.draft[grid.name];
    const told = grid.all_rules.find((rule) => kindOf(rule) === "where");
    if (view.error?.where !== "condition") view.typed[grid.name] = told ? told.slice(6) : "";
  }
  if (phone() && !view.alone) view.alone = shown.chosen.mask_at;
  if (view.alone && !gridOf(view.alone)) view.alone = "";
  probeLater();
}

function hear() {
  const answer = sent.measured;
  if (!answer) return;
  if (answer.probe) { view.probe[answer.probe.side] = answer.probe; view.measuring.delete(answer.probe.side); if (view.probeError) delete view.probeError[answer.probe.side]; }
  if (answer.scale) { view.scale = answer.scale; view.measuring.delete("scale"); }
  if (answer.refused) { const side = [...view.measuring][0]; view.measuring.clear(); (view.probeError ??= {})[side] = answer.refused.text; } else probeLater();
  if (view.shown) { drawProbe(); drawScale(); }
}

// Another view, or the address, changed the run: what is shown is asked for again. The address also follows what is looked
// at here, which is no news.
function follow(opened) {
  const query = window.TL.frame.query(), of = JSON.stringify(Object.entries(query).filter(([name]) => !name.startsWith("mask_") && name !== "sample" && name !== "head"));
  const looking = Boolean(view.asking || view.looking || view.flight); // this address does not know of it yet
  const same = of === view.of && (looking || (Number(query.sample || 0) === view.chosen.sample && Number(query.head || 0) === view.chosen.head));
  if (!shownNow()) return;
  view.of = of;
  if (opened !== true && (same || changing() || performance.now() < view.deaf)) return;
  if (!view.shown) {
    for (const name of ["mask_at", "mask_show", "mask_heads"]) if (query[name]) view.chosen[name] = query[name];
    for (const name of ["mask_layer", "mask_row", "sample", "head"]) if (/^[0-9]{1,4}$/.test(query[name] || "")) view.chosen[name] = Number(query[name]);
  } else if (!looking) for (const name of ["sample", "head"]) view.chosen[name] = Number(query[name] || 0);
  look({}, 60);
}

// ----------------------------------------------------------------------------------------------------------- drawing

function drawTop() {
  const names = grids().map((grid) => grid.name);
  const pick = phone() && names.length > 1 ? segments(t("attention"), "alone", names.map((name) => [name, attentionName(name)]), view.alone, (name) => { view.alone = name; look({ mask_at: name, mask_row: Math.min(view.chosen.mask_row, gridOf(name).rows - 1) }, 0); }) : null;
  const paint = phone() ? el("button", { type: "button", class: "tl-m-button tl-m-paint", "aria-pressed": String(view.painting), data: { keep: "paint-here" }, onclick: () => setPainting(!view.painting) }, "✎ ", t("paint")) : null;
  const used = RULE_ORDER.filter((kind) => grids().some((grid) => (kind === "custom" ? grid.custom || view.draft[grid.name]?.includes(0) : grid.all_rules.some((rule) => kindOf(rule) === kind))));
  write(topBox, pick, paint, el("p", { class: "tl-m-key-line" }, el("i", { class: "tl-m-swatch" }), t("hatched_is"), used.map((kind) => [" · ", el("b", {}, LETTER[kind]), " ", t(`rule_${kind}`)])));
  topBox.append(readBox);
}

function draw() {
  drawing = 0;
  if (!element.isConnected || !box.clientWidth) return;
  frameBox.hidden = Boolean(view.shown);
  frameBox.textContent = view.refused ? `✗ ${view.refused.text[window.TL.lang()]}` : t("waiting");
  mainBox.hidden = !view.shown;
  if (!view.shown) return;
  box.dataset.room = phone() ? "phone" : box.clientWidth > 1000 ? "wide" : "narrow";
  if (!phone() && view.room === "phone") view.alone = "";
  view.room = box.dataset.room;
  if (phone() && !view.alone) view.alone = view.chosen.mask_at;
  drawTop();
  write(alertBox, view.shown.stopped ? el("p", { class: "tl-m-problem" }, "✗ ", t("stopped", { reason: view.shown.stopped })) : null, view.shown.shapes_only ? el("p", { class: "tl-m-problem" }, t("shapes_only")) : null);
  drawGrids();
  drawRow();
  drawCode();
  drawEmpty();
  drawProbe();
  drawViews();
  drawScale();
  drawSide();
  box.dataset.ready = `${view.shown.run}-${window.TL.lang()}-${view.shown.chosen.mask_show}`;
  box.dataset.state = unsettled() ? "busy" : "shown";
}
function refresh() { if (!drawing) drawing = requestAnimationFrame(draw); }

const ears = [
  window.TL.on("language", refresh), window.TL.on("query", follow), window.TL.on("theme", refresh), window.TL.on("projector", refresh),
  window.TL.on("tab", (tab) => { if (tab === "masks") { follow(true); refresh(); } else if (tab === "explore") leave(); }), window.TL.on("anew", () => { view.draft = {}; view.known = {}; view.error = null; view.probe = {}; view.chosen = {}; }),
];
new ResizeObserver(refresh).observe(box);
const watchdog = setInterval(() => {
  if (element.isConnected) return;
  clearInterval(watchdog);
  ears.forEach((off) => off());
}, 2000);

window.TL.keys("masks", [
  { keys: ["↑", "↓", "←", "→"], say: () => t("key_move") },
  { keys: [" "], say: () => t("key_paint") },
  { keys: ["i", "I"], show: ["I"], say: () => t("key_invert") },
  { keys: ["Enter"], say: () => t("key_row") },
  { keys: ["[", "]"], say: () => t("key_head"), run: (key) => { if (!view.shown) return false; const next = view.chosen.head + (key === "]" ? 1 : -1); if (next >= 0 && next < view.shown.heads) look({ head: next, mask_heads: "one" }); return true; } },
  { keys: ["{", "}"], say: () => t("key_sentence"), run: (key) => { if (!view.shown) return false; const next = view.chosen.sample + (key === "}" ? 1 : -1); if (next >= 0 && next < view.shown.samples) look({ sample: next }); return true; } },
  { keys: ["Escape"], show: ["Esc"], say: () => t("key_escape"), run: () => { if (view.painting) { setPainting(false); return true; } if (view.alone && !phone()) { view.alone = ""; refresh(); return true; } return false; } },
]);

watch("value", take);
watch("measured", hear);
setPainting(false);
if (sent.value) take();
follow(true);
refresh();

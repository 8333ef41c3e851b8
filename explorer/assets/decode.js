// Decode: the wire, and the order of drawing. The server is asked only while this tab is shown.
//
// props.value     an answer: {number, shown?: explorer/decoding_view.py: shown, refused?}
// props.measured  what was measured afterwards: {number, what: truth | ways | cache, id, found? | refused?}
// Events: "ask" {number, changes}, "measure" {number, what}, "look" {dec_step, dec_node, dec_head}, which the page remembers.

const emptyBox = el("p", { class: "tl-d-waiting" }), staleBox = el("p", { class: "tl-d-stale", hidden: true }), alertBox = el("div", { class: "tl-d-alert" });
const legendBox = el("p", { class: "tl-d-legend", id: "tl-d-legend" });
const leftBox = el("div", { class: "tl-d-left" }, sourceBox, alertBox, emptyBox, el("section", { class: "tl-d-search" }, el("div", { class: "tl-d-head" }), transportBox, treeBox, legendBox), hypBox);
const rightBox = el("div", { class: "tl-d-right" }, lookBox, mapBox), mainBox = el("div", { class: "tl-d-columns" }, leftBox, rightBox);
const lowBox = el("div", { class: "tl-d-low" }, truthBox, waysBox, cacheBox);
box.replaceChildren(staleBox, mainBox, lowBox);
const shownNow = () => window.TL.tab() === "decode";

// ---------------------------------------------------------------------------------------------------------- the wire

// Changes are put together until the answer before has come: one question is on its way at a time.
function ask(changes) {
  Object.assign(view.pending, changes);
  if (view.waiting) { view.again = true; refresh(); return; }
  view.number += 1;
  Object.assign(view, { waiting: view.number, again: false, flown: view.pending, pending: {}, sentCells: { ...view.cells }, sentTyped: { ...view.typed } });
  clearTimeout(view.slow);
  view.slow = setTimeout(refresh, 300);
  clearTimeout(view.patience);
  view.patience = setTimeout(() => { view.waiting = 0; refresh(); }, 60000); // an answer that is lost
  box.dataset.state = "busy";
  trigger("ask", { number: view.number, changes: view.flown });
}

function take() {
  const answer = sent.value;
  if (!answer || answer.number !== view.waiting) return;
  view.waiting = 0;
  clearTimeout(view.slow);
  clearTimeout(view.patience);
  if (answer.refused) Object.assign(view, { refused: answer.refused, first: answer.chosen, wanted: view.flown });
  else receive(answer.shown);
  if (view.again) ask({});
  refresh();
  measureNext();
}

// What was typed while an answer was under way is kept; what was sent is answered.
const unsent = (held, gone) => Object.fromEntries(Object.entries(held || {}).filter(([name, text]) => gone?.[name] !== text));

// A place in the tree that is still there stays chosen.
function receive(shown) {
  const fresh = shown.id !== view.shown?.id, linked = !view.shown || "dec_step" in (view.flown || {});
  Object.assign(view, { shown, refused: null, cells: unsent(view.cells, view.sentCells), typed: unsent(view.typed, view.sentTyped), strayed: 0 });
  if ("dec_text" in (view.flown || {})) view.text = null;
  if (linked) {
    if (view.playing) play();
    Object.assign(view, { step: shown.chosen.dec_step, node: shown.chosen.dec_node, head: shown.chosen.dec_head });
  }
  if (!nodeOf(view.node)) view.node = "s";
  if (fresh) Object.assign(view, { truth: null, ways: null, cache: null, error: {} });
}

const PARTS = () => (view.shown?.source ? ["truth", "ways", "cache"] : ["truth"]);

// What takes longer is asked for one after another, once the tree stands there.
function measureNext() {
  if (!view.shown || !shownNow() || view.waiting || view.measuring || view.strayed > 2) return;
  const next = PARTS().find((what) => !view[what] && !view.error[what]);
  if (!next) { box.dataset.measured = view.shown.id; return; }
  view.measuring = next;
  view.number += 1;
  clearTimeout(view.measurePatience);
  view.measurePatience = setTimeout(() => { view.measuring = ""; }, 60000);
  trigger("measure", { number: view.number, what: next });
  refresh();
}

function hear() {
  const answer = sent.measured;
  if (!answer) return;
  clearTimeout(view.measurePatience);
  view.measuring = "";
  if (view.shown && answer.id === view.shown.id) {
    if (answer.refused) view.error[answer.what] = answer.refused.text;
    else view[answer.what] = answer.found;
  } else if (answer.refused && !answer.id) view.error[answer.what] = answer.refused.text;
  else view.strayed = (view.strayed || 0) + 1; // it belongs to other choices than those on screen
  refresh();
  measureNext();
}

function remember() {
  clearTimeout(view.remembering);
  view.remembering = setTimeout(() => trigger("look", { dec_step: view.step, dec_node: view.node.length <= 120 && view.node !== "s" ? view.node : "", dec_head: view.head }), 250);
}

// Another tab changed the model, or the address did: what is shown is asked for again.
function follow(opened) {
  const of = JSON.stringify(Object.entries(window.TL.frame.query()).filter(([name]) => !name.startsWith("dec_") && !/^(mask_|cmp_)/.test(name) && !["sample", "head", "selected", "picked"].includes(name)));
  if (!shownNow()) return;
  if (opened === true || of !== view.of) { view.of = of; ask({}); }
}

// ----------------------------------------------------------------------------------------------------------- drawing

function draw() {
  view.frame = 0;
  if (!element.isConnected) return;
  drawSide();
  if (!box.clientWidth) return;
  box.dataset.room = phone() ? "phone" : box.clientWidth > 1060 ? "wide" : "narrow";
  drawSource();
  staleBox.hidden = !view.shown || !view.waiting;
  staleBox.textContent = t("stale");
  put(alertBox, problemAlone());
  emptyBox.hidden = Boolean(view.shown);
  emptyBox.textContent = t(view.refused ? "empty_refused" : "empty");
  for (const part of [leftBox.querySelector(".tl-d-search"), hypBox, rightBox, lowBox]) part.hidden = !view.shown;
  if (!view.shown) { box.dataset.state = view.waiting ? "busy" : view.refused ? "refused" : "empty"; return; }
  const { shown } = view;
  put(leftBox.querySelector(".tl-d-head"), titled(t(`title_${shown.method}`), t(`title_${shown.method}_says`, { width: shown.width, length: shown.longest })));
  drawTransport();
  drawTree();
  put(legendBox, legend());
  drawHyps();
  drawLook();
  drawTruth();
  drawWays();
  // Without a model the right column has room for it.
  if (shown.source) { if (truthBox.parentNode !== lowBox) lowBox.prepend(truthBox); } else rightBox.append(truthBox);
  lowBox.hidden = !shown.source;
  box.dataset.ready = `${shown.id}-${window.TL.lang()}`;
  box.dataset.state = view.waiting ? "busy" : view.refused ? "refused" : "shown";
}
function refresh() { if (!view.frame) view.frame = requestAnimationFrame(draw); }

// On a phone the sidebar is not where the hand is, and where no search is shown this is all there is to say: then it
// stands here.
function problemAlone() {
  if (!view.refused || ["dec_text", "dec_table"].includes(view.refused.field)) return null;
  const said = phone() || !view.shown ? problem(view.refused.field, "") : null;
  said?.removeAttribute("id"); // the sidebar may say it too
  return said;
}

function legend() {
  const sampled = view.shown.method === "sample";
  const parts = [["kept", sampled ? "fate_drawn" : "fate_kept"], ["cut", sampled ? "fate_not_drawn" : "fate_cut"], ["finished", "fate_finished"], ["open", view.shown.stopped === "won" ? "fate_beaten" : "fate_open"]];
  const there = parts.filter(([fate]) => nodes().some((node) => node.fate === fate));
  return [there.map(([fate, word]) => el("span", {}, el("i", { class: `tl-d-key tl-d-${fate}`, "aria-hidden": "true" }, GLYPH[fate]), t(word))), el("span", {}, t("legend_numbers")), el("span", {}, el("i", { class: "tl-d-key-best", "aria-hidden": "true" }), t("legend_best"))];
}

const ears = [
  window.TL.on("language", refresh), window.TL.on("theme", refresh), window.TL.on("query", () => follow(false)), window.TL.on("decode-side", refresh),
  window.TL.on("tab", (tab) => { if (tab === "decode") { follow(true); refresh(); } }), window.TL.on("anew", () => { Object.assign(view, { pending: {}, refused: null, text: null, typed: {}, cells: {}, step: 0, node: "s", of: "" }); }),
];
new ResizeObserver(refresh).observe(box);
const watchdog = setInterval(() => {
  if (element.isConnected) return;
  clearInterval(watchdog);
  clearInterval(view.playing);
  ears.forEach((off) => off());
}, 2000);

const stepping = (by) => (key, event) => { if (!view.shown || event.target?.closest?.("[role=tab], [role=slider], [role=region], input, select")) return false; toStep(stepNow() + by); return true; };
window.TL.keys("decode", [
  { keys: ["→", "ArrowRight"], show: ["→"], say: () => t("key_next"), run: stepping(1) },
  { keys: ["←", "ArrowLeft"], show: ["←"], say: () => t("key_back"), run: stepping(-1) },
  { keys: [" "], say: () => t("key_play"), run: (key, event) => { if (!view.shown || event.target.closest?.("button, summary, [role=radio]")) return false; play(); return true; } },
  { keys: ["r", "R"], show: ["R"], say: () => t("key_start"), run: () => { if (!view.shown) return false; toStep(1); return true; } },
  { keys: ["e", "E"], show: ["E"], say: () => t("key_end"), run: () => { if (!view.shown) return false; toStep(lastStep()); return true; } },
  { keys: ["←", "→", "↑", "↓"], say: () => t("key_tree") },
  { keys: ["[", "]"], say: () => t("key_head"), run: (key) => { if (!view.shown?.source) return false; view.head = Math.max(0, Math.min(view.shown.subject.heads, view.head + (key === "]" ? 1 : -1))); remember(); drawMap(); return true; } },
]);

watch("value", take);
watch("measured", hear);
refresh();
follow(true);

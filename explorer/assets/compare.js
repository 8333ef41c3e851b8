// Compare: our model beside torch.nn. The server is asked for numbers only while this tab is shown.
//
// props.value  an answer: {reply, number, chosen: fields of the session, comparison?, jobs: [news]}
// props.job    news of the sweep and the speed while they run: {jobs: [news]}
// Three events go back: "command" with {do: compare | sweep | speed | stop | resync | reset, number}; "look" with fields of
// the session that the view switched, which the page remembers and shows in its controls; "apply" with changes of the model.
const sent = TL.unpacked(props);
const state = { value: null, way: "forward", key: "", chosen: {}, drawn: "", number: 0, waiting: 0, told: "", anew: true, turned: "", open: new Set() };
const box = element.querySelector(".tl-compare");
const shownNow = () => TL.tab() === "compare";

const parts = {
  verdict: el("p", { class: "tl-c-verdict", role: "status" }), facts: el("p", { class: "tl-c-facts" }), stale: el("p", { class: "tl-c-stale", hidden: true }),
  title: el("h2"), ways: el("div", { class: "tl-c-ways", role: "radiogroup" }), csv: el("button", { type: "button", class: "tl-c-button" }),
  frame: el("div", { class: "tl-c-frame" }), axis: el("div", { class: "tl-c-row tl-c-axis", "aria-hidden": "true" }), list: el("div", { class: "tl-c-list", role: "grid" }), legend: el("p", { class: "tl-c-legend" }), picked: el("p", { class: "tl-c-picked" }),
  card: el("section", { class: "tl-c-card" }), reading: el("section", { class: "tl-c-reading" }),
  sweepHead: el("div", { class: "tl-c-head" }), sweepBar: el("div", { class: "tl-c-bar", role: "progressbar", "aria-valuemin": 0 }, el("i")), panels: el("div", { class: "tl-c-panels" }),
  sweepCell: el("output", { class: "tl-c-told" }), sweepLegend: el("p", { class: "tl-c-legend" }), sweepSay: el("p", { class: "tl-c-say" }),
  speed: el("details", { class: "tl-c-speed" }), refusal: el("section", { class: "tl-c-refusal", role: "alert", hidden: true }),
};
const left = el("section", { class: "tl-c-left" }, el("div", { class: "tl-c-head" }, parts.title, parts.ways, parts.csv), parts.refusal, parts.stale, parts.frame, parts.verdict, parts.facts, parts.axis, parts.list, parts.picked, parts.legend);
const sweepBox = el("section", { class: "tl-c-sweep" }, parts.sweepHead, parts.sweepBar, parts.panels, parts.sweepLegend, parts.sweepCell, parts.sweepSay);
box.replaceChildren(el("div", { class: "tl-c-columns" }, left, el("div", { class: "tl-c-right" }, parts.card, parts.reading, sweepBox, parts.speed)));

// ---------------------------------------------------------------------------------------------------------- the wire

function command(what) {
  state.number += 1;
  if (["compare", "reset", "resync"].includes(what)) { state.waiting = state.number; clearTimeout(state.slow); state.slow = setTimeout(stale, 400); }
  trigger("command", { do: what, number: state.number });
}

// Changes come in bursts: a preset moves many controls. One question is enough for all of them.
function ask() {
  if (!shownNow()) return;
  clearTimeout(state.asking);
  state.asking = setTimeout(() => { command(state.anew ? "reset" : "compare"); state.anew = false; }, 40);
}

function take() {
  const answer = sent.value;
  if (!answer) return;
  let lacking = false;
  for (const news of answer.jobs || []) lacking = takeNews(news, answer.reply !== "stop") || lacking;
  if (answer.number >= state.waiting) state.chosen = { ...state.chosen, ...answer.chosen };
  // An answer that was under way does not turn back what was turned here meanwhile.
  if (state.turned && state.chosen.cmp_way !== state.turned) state.chosen.cmp_way = state.turned;
  else state.turned = "";
  if (answer.comparison && answer.number >= state.waiting) {
    state.waiting = 0;
    clearTimeout(state.slow);
    receive(answer.comparison);
  }
  refresh();
  if (lacking && answer.reply !== "resync") command("resync");
}

function hear() {
  let lacking = false;
  for (const news of sent.job?.jobs || []) lacking = takeNews(news, false) || lacking;
  if (lacking) command("resync");
  refreshJobs();
}

// The first divergence is selected, unless the row that was looked at is still there.
function receive(comparison) {
  const fresh = comparison.id !== state.value?.id;
  state.way = state.chosen.cmp_way || state.way;
  if (comparison.state === "refused") { state.refused = comparison; return; }
  state.refused = null;
  state.value = comparison;
  if (fresh && !current()) first(false);
}
const current = () => state.value?.ways[state.way].some((row) => row.key === state.key) && state.kept;

function first(focus = true) {
  const at = state.value?.first[state.way];
  state.kept = false;
  if (at === null || at === undefined) { if (!focus) state.key = ""; return false; }
  state.key = state.value.ways[state.way][at].key;
  if (focus) pickRow(state, parts, state.key, true);
  return true;
}

function turn(way) {
  if (way === state.way) return;
  Object.assign(state, { way, turned: way, key: "", kept: false });
  first(false);
  trigger("look", { cmp_way: way });
  refresh();
}

// ----------------------------------------------------------------------------------------------------------- drawing

// Old numbers stay until new ones are there, and are called old after a moment.
function stale() {
  parts.stale.hidden = !state.value || (!state.waiting && !state.refused);
  parts.stale.textContent = t(state.waiting ? "stale" : "stale_refused");
  box.dataset.state = state.waiting ? (state.value ? "stale" : "empty") : state.refused ? "refused" : state.value ? "compared" : "empty";
}

function drawHead() {
  parts.title.replaceChildren(el("span", {}, t("title")), el("small", {}, t(`title_${state.way}`)));
  parts.ways.setAttribute("aria-label", t("ways"));
  const focused = parts.ways.contains(document.activeElement);
  parts.ways.replaceChildren(...["forward", "backward"].map((way) => el("button", { type: "button", role: "radio", "aria-checked": String(way === state.way), tabindex: way === state.way ? 0 : -1, data: { way }, onclick: () => turn(way) }, t(`cmp_way_${way}`))));
  if (focused) parts.ways.querySelector('[aria-checked="true"]').focus();
  parts.csv.textContent = "CSV";
  parts.csv.disabled = !state.value;
  parts.csv.setAttribute("aria-label", t("csv"));
}

function drawRefusal() {
  const why = state.refused, said = why ? `${TL.lang()} ${why.text.en}` : "";
  parts.refusal.hidden = !why;
  if (said === state.told) return;
  state.told = said;
  parts.refusal.replaceChildren(...(why ? [el("p", {}, el("b", { "aria-hidden": "true" }, "✗ "), why.text[TL.lang()]), el("div", { class: "tl-c-acts" }, why.choices.map((choice) => el("button", { type: "button", class: "tl-c-button", onclick: () => act(choice.changes) }, choice.label[TL.lang()])))] : []));
}

// A way out is a choice of Compare, or one of the model, which the frame hands on.
function act(changes) {
  if (Object.keys(changes).every((name) => name.startsWith("cmp_"))) trigger("look", changes);
  else trigger("apply", { changes });
}

// The page does not scroll at a desk: list and cards get the room below whatever stands above them.
function fitHeight() {
  if (!box.clientWidth) return;
  const at = box.getBoundingClientRect(), zoom = at.width / box.offsetWidth || 1;
  const high = (window.innerHeight - at.top - document.scrollingElement.scrollTop) / zoom - 18;
  box.dataset.room = matchMedia("(max-width: 768px)").matches ? "phone" : box.clientWidth > 1100 ? "wide" : "narrow";
  box.style.setProperty("--tl-c-high", `${Math.max(Math.floor(high), 520)}px`);
}

function draw() {
  state.frame = 0;
  if (!element.isConnected) return;
  fitHeight();
  drawHead();
  drawRefusal();
  stale();
  box.querySelector(".tl-c-columns").classList.toggle("tl-c-without", !state.value);
  if (state.value && box.clientWidth) {
    const drawn = `${state.value.id} ${state.way} ${TL.lang()} ${Math.round(box.clientWidth / 20)}`;
    if (drawn !== state.drawn) {
      state.drawn = drawn;
      const focused = parts.list.contains(document.activeElement);
      drawVerdict(state, parts);
      drawRows(state, parts);
      pickRow(state, parts, state.key, focused);
      drawCard(state, parts);
      drawReading(state, parts);
    } else fitRows(state, parts);
  } else if (!state.value) {
    parts.frame.textContent = t(state.refused ? "empty_rows" : "empty");
    parts.card.replaceChildren(el("p", { class: "tl-c-quiet" }, t(state.refused ? "empty_refused" : "empty")));
    parts.reading.hidden = true;
  }
  drawOwn();
  drawJobs();
}
function refresh() { if (!state.frame) state.frame = requestAnimationFrame(draw); }
function refreshJobs() { if (!state.jobFrame) state.jobFrame = requestAnimationFrame(drawJobs); }

function drawJobs() {
  state.jobFrame = 0;
  if (!element.isConnected || !box.clientWidth) return;
  const held = document.activeElement?.dataset?.job;
  drawSweep(state, parts);
  drawSpeed(state, parts);
  box.dataset.sweep = LIVE.sweep.state || "none";
  box.dataset.speed = LIVE.speed.state || "none";
  if (held) [...box.querySelectorAll("[data-job]")].find((each) => each.dataset.job === held)?.focus();
}

// In the sidebar: the norm order is the model's own and is changed where the model is.
function drawOwn() {
  const place = document.getElementById("tl-c-own");
  if (!place) return;
  const order = state.value?.facts.norm_order;
  place.replaceChildren(order ? t("own_order", { order: t(`norm_${order}`) }) : t("own_any"), " ", el("button", { type: "button", class: "tl-c-link", onclick: toControls }, t("own_change")));
}

function toControls() {
  document.querySelector("#tl-tabs > .tab-wrapper [role=tab]")?.click();
  requestAnimationFrame(() => document.querySelector("#tl-f-norm_order [role=combobox]")?.focus());
}

// --------------------------------------------------------------------------------------------------------- listening

parts.list.addEventListener("click", (event) => { const row = event.target.closest("[role=row]"); if (row) { state.kept = true; pickRow(state, parts, row.dataset.key, true); } });
parts.list.addEventListener("dblclick", (event) => { const row = event.target.closest("[role=row]"); if (row && state.value.ways[state.way].find((each) => each.key === row.dataset.key)?.index !== null) openInExplore(row.dataset.key); });
parts.list.addEventListener("keydown", (event) => { state.kept = true; listKey(event, state, parts); });
TL.roving(parts.ways, () => [...parts.ways.children], { vertical: false });
parts.ways.addEventListener("keydown", (event) => { if (event.key.startsWith("Arrow")) document.activeElement?.click(); });
parts.csv.addEventListener("click", () => TL.download("compare.csv", rowsCsv(state), "text/csv;charset=utf-8"));

const runSide = (event) => {
  const what = event.target.closest(".tl-c-run [data-do]")?.dataset.do;
  if (!what) return;
  command(what);
  if (document.body.dataset.side === "open") TL.frame.openSide(false); // on a phone it lies over what is run
};
document.addEventListener("click", runSide);
const ears = [
  TL.on("language", () => { state.told = ""; parts.sweepCell.textContent = ""; refresh(); }), TL.on("tab", (tab) => { if (tab === "compare") { ask(); refresh(); } }),
  TL.on("anew", () => { state.anew = true; state.turned = ""; }), TL.on("query", () => ask()), TL.on("compare-side", refresh),
];
new ResizeObserver(refresh).observe(box);
window.addEventListener("resize", refresh);
const watchdog = setInterval(() => {
  if (element.isConnected) return;
  clearInterval(watchdog);
  ears.forEach((off) => off());
  document.removeEventListener("click", runSide);
  window.removeEventListener("resize", refresh);
}, 2000);

TL.keys("compare", [
  { keys: ["↑", "↓"], say: () => t("key_rows") },
  { keys: ["Enter"], say: () => t("open_explore") },
  { keys: ["f", "F"], show: ["F"], say: () => t("key_first"), run: () => { first(true); return true; } },
]);

watch("value", take);
watch("job", hear);
take();
refresh();
ask();

// Break it: the wire, the sidebar, and the order of drawing.

const root = element.querySelector(".tl-break");
const labBox = el("div", { class: "tl-b-lab" }, boardBox, faultBox);
root.replaceChildren(labBox, gameBox);
let drawn = 0;

// ------------------------------------------------------------------------------------------------------------- choosing

function pick(name, quiet) {
  if (!faultOf.has(name)) return;
  if (view.picked !== name) view.opened = "";
  view.picked = name;
  view.page = "fault";
  if (detail()?.name !== name) {
    clearTimeout(view.asking);
    view.asking = setTimeout(() => command("look", { fault: name }), 60); // arrows held down ask once
  }
  if (!quiet) trigger("pick", { picked: name });
  refresh();
}

// A click or Enter on a cell: its fault, and what that check says of it.
function choose(name, column) {
  pick(name);
  if (column && !column.folded) view.opened = column.name;
  refresh();
}

// -------------------------------------------------------------------------------------------------------------- sidebar

const sideParts = { find: null, body: null };

function drawSide() {
  const place = document.querySelector("#tl-b-side .tl-b-side");
  if (!place) return;
  if (!sideParts.body || !place.contains(sideParts.body)) {
    sideParts.find = el("input", { type: "search", class: "tl-b-find", oninput: (event) => { view.query = event.currentTarget.value; refresh(); } });
    sideParts.head = el("div", {});
    sideParts.body = el("div", { class: "tl-b-side-body" });
    place.replaceChildren(sideParts.head, sideParts.find, sideParts.body);
  }
  const heading = (word, more = "") => el("div", { class: "tl-group" }, el("h2", {}, t(word)), more);
  sideParts.head.replaceChildren(heading("fault"));
  for (const box of [sideParts.head, sideParts.find]) box.hidden = view.playing;
  sideParts.find.placeholder = t("find");
  sideParts.find.setAttribute("aria-label", t("find"));
  const radio = (name) => el("label", { class: "tl-b-choice" }, el("input", { type: "radio", name: "tl-b-group", value: name, checked: view.group === name, data: { keep: `group-${name}` }, onchange: () => { view.group = name; refresh(); } }),
    el("span", {}, name === "all" ? t("all") : t(`group_${name}`)), el("b", {}, String(name === "all" ? faults.length : faults.filter((fault) => fault.group === name).length)));
  const level = (number) => el("label", { class: "tl-b-choice" }, el("input", { type: "checkbox", checked: view.levels.has(number), data: { keep: `level-${number}` }, onchange: (event) => { if (event.currentTarget.checked) view.levels.add(number); else view.levels.delete(number); refresh(); } }),
    el("span", {}, `${number} ${t(`level_${number}`)}`), el("b", {}, String(checks.filter((check) => check.level === number).length)));
  const on = view.on !== "none" && faultOf.has(view.on);
  const seed = el("input", { type: "number", min: 1, max: 2147483647, step: 1, value: view.seed, id: "tl-b-seed", data: { keep: "seed" }, onchange: (event) => { view.seed = event.currentTarget.value; } });
  const wanted = () => { const number = Math.trunc(Number(seed.value)); return number >= 1 && number <= 2147483647 ? number : newSeed(); };
  keep(sideParts.body, [view.playing ? [] : [
    el("div", { class: "tl-b-choices", role: "radiogroup", "aria-label": t("group") }, ["all", ...groups].map(radio)),
    heading("checks"), el("div", { class: "tl-b-choices", role: "group", "aria-label": t("checks") }, levelsOf.map(level)), el("div", { class: "tl-b-tools" }, runButtons()),
    el("p", { class: "tl-b-note" }, board() ? where() : t("of_explore")),
    heading("also_on"), el("p", { class: "tl-b-note" }, t("also_on_says")),
    el("label", { class: "tl-b-choice tl-b-keep-on" }, el("input", { type: "checkbox", checked: on, disabled: !on && !view.picked, data: { keep: "keep-on" }, onchange: () => turn(on ? "none" : view.picked) }), el("span", {}, on ? t("on_now", { fault: titleOf(view.on) }) : t("keep_on"))),
  ],
    heading("game"), el("div", { class: "tl-b-seed" }, el("label", { for: "tl-b-seed" }, t("seed")), seed),
    el("div", { class: "tl-b-tools" }, view.playing ? button("leave", leave) : button("mystery", () => { closeSide(); play(wanted()); }), view.playing && game() ? button("class_link", copyClassLink, { title: t("class_link_says") }) : null),
    el("p", { class: "tl-b-note" }, t("game_says")),
  ]);
}

const closeSide = () => { if (document.body.dataset.side === "open") window.TL.frame.openSide(false); };

// -------------------------------------------------------------------------------------------------------------- drawing

function draw() {
  drawn = 0;
  if (!element.isConnected) return;
  root.dataset.page = view.page;
  root.dataset.playing = String(view.playing);
  labBox.hidden = view.playing;
  if (!view.playing) { drawBoard(); drawFault(); }
  drawGame();
  drawSide();
  root.dataset.ready = `${window.TL.lang()}-${board()?.state || "empty"}`;
}
function refresh() { if (!drawn) drawn = requestAnimationFrame(draw); }

function answer() {
  const told = data.value;
  if (!told) return;
  if (told.reply === "resync" && view.playing && view.played && !game()) play(view.played); // the tab was idle for too long
  view.refusal = told.refusal || (told.reply && told.reply !== "resync" ? null : view.refusal);
  refresh();
}

// What the address says: the fault looked at, the game, the fault that is on everywhere.
function follow(query) {
  view.on = query.fault || "none";
  if (view.linked && !query.game && view.playing) { view.playing = false; command("leave"); } // the page was reset
  view.linked = query.game;
  refresh();
}

watch("value", answer);
for (const name of ["board", "detail", "duel", "game"]) watch(name, refresh);
const ears = [window.TL.on("language", refresh), window.TL.on("query", follow), window.TL.on("tab", (tab) => { if (tab === "break") refresh(); })];
new ResizeObserver(() => { layout(); }).observe(scroller);

// A message may be lost, and a page may be mounted in the middle of a run: what is at work is asked for now and then.
const beat = setInterval(() => {
  if (!element.isConnected) { clearInterval(beat); for (const off of ears) off(); return; }
  const working = running() || race()?.state === "running" || game()?.findings.some((each) => !each.state) || (view.playing && !game()?.ledger.length);
  if (window.TL.tab() === "break" && working && performance.now() - view.heard > 3000) { view.heard = performance.now(); command("resync"); }
}, 1000);
for (const name of ["board", "duel", "game"]) watch(name, () => { view.heard = performance.now(); });

window.TL.keys("break", [
  { keys: ["ArrowUp", "ArrowDown"], show: ["↑", "↓"], say: () => t("key_fault") },
  { keys: ["ArrowLeft", "ArrowRight"], show: ["←", "→"], say: () => t("key_check") },
  { keys: ["Enter"], say: () => t("key_enter") },
  { keys: ["/"], say: () => t("find"), run: () => { if (!sideParts.find?.offsetParent) return false; sideParts.find.focus(); return true; } },
  { keys: ["Escape"], show: ["Esc"], say: () => t("back"), run: () => { if (view.page !== "fault" || view.playing) return false; view.page = "list"; view.opened = ""; refresh(); return true; } },
]);

const query = window.TL.frame.query();
Object.assign(view, { heard: performance.now(), seed: query.game || String(newSeed()) });
follow(query);
command("resync");
if (Number(query.game)) play(Number(query.game));
const start = faultOf.has(query.picked) ? query.picked : faults[0].name;
pick(start, true);
if (!faultOf.has(query.picked)) view.page = "list";
refresh();

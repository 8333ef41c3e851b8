// Break it: which check sees which fault. A table with one Tab stop; rows are faults, columns are checks by level.
//
// props.catalogue  the names of faults and checks, which never change: see explorer/faulting.py
// props.board      the matrix as it stands, whole: {state, doing, rows: {fault: "c.nw…"}, right, summary, of, …}
// props.detail     the fault looked at;  props.duel  its two curves;  props.game  the mystery game
// Three events go back: "command" with {do, …}, "apply" with {changes: {fault}}, "pick" with {picked} or {game}.
const { el, svg, count } = window.TL;
const data = window.TL.unpacked(props);
const { faults, checks, groups, rules } = data.catalogue;
const t = (key, values) => window.TL.w(`break.${key}`, values);
const say = (both) => both?.[window.TL.lang()] ?? both?.en ?? "";
const faultOf = new Map(faults.map((fault, i) => [fault.name, { ...fault, number: i + 1 }]));
const checkOf = new Map(checks.map((check, i) => [check.name, { ...check, index: i }]));
const titleOf = (name) => say((faultOf.get(name) || checkOf.get(name))?.title) || name;
// Columns and rows have room for a few words: in English the name itself says it, in Chinese the title is as short.
const shortOf = (name) => (window.TL.lang() === "zh" ? titleOf(name) : name.replaceAll("_", " "));
const gap = () => (window.TL.lang() === "zh" ? "" : " "); // between two sentences
const joined = (sentences) => sentences.filter(Boolean).join(gap());
const levelsOf = [...new Set(checks.map((check) => check.level))];
const STATES = { c: "caught", n: "not_seen", w: "passes_wrongly", s: "silent", ".": "not_run" };

const view = {
  picked: "", opened: "", query: "", group: "all", levels: new Set(levelsOf), folded: new Set(), page: "list",
  playing: false, refusal: null, asked: "", on: "none",
};
const part = (name) => (data[name] && Object.keys(data[name]).length ? data[name] : null); // {}: there is nothing of it
const board = () => part("board");
const running = () => board()?.state === "running";
const command = (what, more = {}) => trigger("command", { do: what, ...more });

// A button, by what it does; one that cannot be used now stays in the order of Tab and says so.
function button(name, act, options = {}) {
  return el("button", {
    type: "button", class: `tl-b-button ${options.kind || ""}`, data: { do: name }, "aria-disabled": options.off ? "true" : null,
    "aria-pressed": options.pressed === undefined ? null : String(options.pressed), title: options.title,
    onclick: (event) => { if (event.currentTarget.getAttribute("aria-disabled") !== "true") act(event); },
  }, options.text ?? t(name, options.values));
}

// ------------------------------------------------------------------------------------------------------ what is shown

function visibleFaults() {
  const wanted = view.query.trim().toLowerCase();
  return faults.filter((fault) => (view.group === "all" || fault.group === view.group)
    && (!wanted || [fault.name.replaceAll("_", " "), fault.title.en, fault.title.zh].some((name) => name.toLowerCase().includes(wanted))));
}

// A column is one check, or a whole level that was folded: then it stands for all its checks.
function columns() {
  return levelsOf.flatMap((level) => {
    const own = checks.map((check, index) => ({ level, name: check.name, title: check.title, indices: [index] })).filter((column, i) => checks[i].level === level);
    return view.folded.has(level) ? [{ level, folded: true, name: `level_${level}`, indices: own.flatMap((column) => column.indices) }] : own;
  });
}

const columnShort = (column) => (column.folded ? t(`level_${column.level}`) : shortOf(column.name));
const columnTitle = (column) => (column.folded ? t("folded", { level: t(`level_${column.level}`), checks: column.indices.length }) : say(column.title));

// Of several checks the best: one that catches is enough.
function mark(row, column) {
  const signs = column.indices.map((i) => row?.[i] ?? ".");
  return ["c", "w", "n", "s"].find((sign) => signs.includes(sign)) || ".";
}
const tally = (row, sign) => [...(row || "")].filter((each) => each === sign).length;

// --------------------------------------------------------------------------------------------------------- the table

const boardParts = {
  head: el("header", { class: "tl-b-head" }), table: el("table", { class: "tl-b-table", role: "grid" }), readout: el("p", { class: "tl-b-readout" }),
  legend: el("p", { class: "tl-b-legend" }), result: el("div", { class: "tl-b-result" }), status: el("p", { class: "tl-b-vh", role: "status" }),
};
const scroller = el("div", { class: "tl-b-scroll" }, boardParts.table);
const boardBox = el("section", { class: "tl-b-board" }, boardParts.head, boardParts.status, scroller, boardParts.readout, boardParts.legend, boardParts.result);
let drawnAs = "", cellsOf = new Map(), drawnRows = new Map();

function layout() {
  const shown = columns(), room = scroller.clientWidth || 700, bars = 54, least = 172;
  const width = Math.max(12, Math.min(22, Math.floor((room - least - bars) / shown.length)));
  const names = Math.max(least, room - bars - width * shown.length);
  for (const [name, value] of [["--w", width], ["--names", names], ["--total", names + bars + width * shown.length]]) boardParts.table.style.setProperty(name, `${value}px`);
  boardParts.table.dataset.tight = String(width < 15);
  for (const band of boardParts.table.querySelectorAll(".tl-b-level")) band.dataset.tight = String(band.colSpan * width < 70);
}

function drawTable() {
  const shown = columns(), rows = visibleFaults();
  const key = JSON.stringify([window.TL.lang(), [...view.folded], rows.map((fault) => fault.name)]);
  if (key !== drawnAs) { drawnAs = key; build(shown, rows); }
  layout();
  const marks = board()?.rows || {};
  const all = [...faults.map((fault) => marks[fault.name])];
  for (const fault of rows) {
    const parts = cellsOf.get(fault.name), row = marks[fault.name] || "";
    parts.row.setAttribute("aria-selected", String(fault.name === view.picked));
    parts.row.dataset.doing = String(running() && board().doing?.fault === fault.name);
    parts.row.dataset.on = String(fault.name === view.on);
    if (drawnRows.get(fault.name) === row) continue;
    drawnRows.set(fault.name, row);
    shown.forEach((column, i) => paint(parts.cells[i], mark(row, column)));
    const caught = tally(row, "c"), wrongly = tally(row, "w"), idle = board()?.idle.includes(fault.name);
    parts.row.dataset.idle = String(Boolean(idle));
    parts.bar.replaceChildren(...(idle ? [el("span", { class: "tl-b-idle", title: t("idle_says") }, t("idle"))] : row ? [el("i", { style: { "--n": String(caught) } }), el("b", {}, String(caught)), el("span", { class: "tl-b-vh" }, t("row_says", { caught, wrongly }))] : []));
    parts.wrongly.replaceChildren(...(wrongly ? [el("i", { class: "tl-b-mark", data: { v: "w" }, "aria-hidden": "true" }), String(wrongly)] : []));
  }
  shown.forEach((column, i) => {
    const ran = all.some((row) => row && mark(row, column) !== ".");
    const n = (sign) => all.filter((row) => row && mark(row, column) === sign).length;
    boardParts.caught[i].firstChild.textContent = ran ? String(n("c")) : "";
    boardParts.wrong[i].firstChild.textContent = ran ? String(n("w") || "·") : "";
  });
  rightRow();
}

function paint(cell, sign) {
  if (cell.dataset.v === sign) return;
  cell.dataset.v = sign;
  cell.setAttribute("aria-label", t(STATES[sign]));
}

function build(shown, rows) {
  cellsOf = new Map();
  drawnRows = new Map();
  const focused = boardBox.contains(document.activeElement) ? [document.activeElement.dataset.row, document.activeElement.dataset.col] : null;
  const level = (number) => el("th", { scope: "colgroup", class: "tl-b-level", colspan: shown.filter((column) => column.level === number).length, data: { level: number } },
    el("button", { type: "button", "aria-expanded": String(!view.folded.has(number)), title: t(view.folded.has(number) ? "unfold" : "fold", { level: t(`level_${number}`) }), onclick: () => fold(number) },
      el("span", { "aria-hidden": "true" }, view.folded.has(number) ? "▸" : "▾"), el("b", {}, String(number)), el("span", { class: "tl-b-level-name" }, t(`level_${number}`))));
  const first = (column, i) => i > 0 && shown[i - 1].level !== column.level ? "tl-b-first" : "";
  const titles = el("tr", { class: "tl-b-titles" }, el("th", { scope: "col", class: "tl-b-corner" }, t("faults_of", { shown: rows.length, all: faults.length })),
    shown.map((column, i) => el("th", { scope: "col", class: "tl-b-check", title: columnTitle(column) }, el("span", {}, el("span", {}, columnShort(column))))),
    el("th", { scope: "col", class: "tl-b-bars" }, t("caught_by")));
  const bands = el("tr", { class: "tl-b-bands" }, el("td", {}), levelsOf.map(level), el("td", {}));
  const bodies = groups.filter((group) => rows.some((fault) => fault.group === group)).map((group) => el("tbody", {},
    el("tr", { class: "tl-b-group" }, el("th", { scope: "rowgroup", colspan: shown.length + 2 }, t(`group_${group}`))),
    rows.filter((fault) => fault.group === group).map((fault) => line(fault, shown, first))));
  boardParts.right = el("td", { colspan: shown.length + 1 });
  const right = el("tbody", {}, el("tr", { class: "tl-b-right" }, el("th", { scope: "row" }, t("right_model")), boardParts.right));
  const foot = (name, word) => {
    boardParts[name] = shown.map((column, i) => el("td", { class: first(column, i) }, el("span", {})));
    return el("tr", { class: `tl-b-${name}` }, el("th", { scope: "row" }, t(word)), boardParts[name], el("td", {}));
  };
  boardParts.readout.textContent = "";
  boardParts.table.setAttribute("aria-label", t("table_label"));
  boardParts.table.replaceChildren(el("thead", {}, titles, bands), right, ...bodies, el("tfoot", {}, foot("caught", "faults_caught"), foot("wrong", "passed_wrongly")));
  const stop = boardParts.table.querySelector(`th[data-row="${view.picked}"]`) || boardParts.table.querySelector("th[data-row]");
  if (stop) stop.tabIndex = 0;
  if (focused) boardParts.table.querySelector(`[data-row="${focused[0]}"][data-col="${focused[1]}"]`)?.focus();
}

function line(fault, shown, first) {
  const at = (col) => ({ data: { row: fault.name, col }, tabindex: -1 });
  const cells = shown.map((column, i) => el("td", { class: first(column, i), ...at(i) }));
  const bar = el("span", { class: "tl-b-bar" }), wrongly = el("span", { class: "tl-b-wrongly" });
  const row = el("tr", { class: "tl-b-row", data: { fault: fault.name } },
    el("th", { scope: "row", title: say(fault.title), ...at(-1) }, el("span", { class: "tl-b-number" }, String(faultOf.get(fault.name).number)), el("span", { class: "tl-b-name" }, shortOf(fault.name))),
    cells, el("td", { class: "tl-b-bars" }, bar, wrongly));
  for (const cell of cells) cell.dataset.v = "";
  cellsOf.set(fault.name, { row, cells, bar, wrongly });
  return row;
}

function fold(level) {
  if (view.folded.has(level)) view.folded.delete(level);
  else view.folded.add(level);
  refresh();
}

// The right model has a row of its own: on it nothing may fail.
function rightRow() {
  const right = board()?.right;
  if (!boardParts.right) return;
  if (!right?.of) { boardParts.right.replaceChildren(); return; }
  const good = right.alarms.length === 0;
  boardParts.right.replaceChildren(el("b", { class: good ? "tl-b-ok" : "tl-b-bad" }, good ? "✓ " : "✗ "),
    t(good ? "right_holds" : "right_fails", { held: right.held, of: right.of, alarms: some(right.alarms) }));
}

// ------------------------------------------------------------------------------------------------- keys and the mouse

boardParts.table.addEventListener("keydown", (event) => {
  const here = event.target.closest?.("[data-row]");
  if (!here || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = [...boardParts.table.querySelectorAll("tr.tl-b-row")], at = rows.indexOf(here.parentElement), col = Number(here.dataset.col), last = columns().length - 1;
  const moves = { ArrowUp: [at - 1, col], ArrowDown: [at + 1, col], ArrowLeft: [at, col - 1], ArrowRight: [at, col + 1], Home: [at, -1], End: [at, last], PageUp: [at - 10, col], PageDown: [at + 10, col] };
  if (event.key === "Enter" || event.key === " ") { choose(here.dataset.row, columns()[col]); event.preventDefault(); return; }
  if (!moves[event.key]) return;
  event.preventDefault();
  const row = rows[Math.max(0, Math.min(rows.length - 1, moves[event.key][0]))], next = row.querySelector(`[data-col="${Math.max(-1, Math.min(last, moves[event.key][1]))}"]`);
  rove(next);
  next.focus();
});
boardParts.table.addEventListener("click", (event) => {
  const here = event.target.closest?.("[data-row]") || event.target.closest?.("tr.tl-b-row")?.querySelector("th");
  if (here) { rove(here); choose(here.dataset.row, columns()[Number(here.dataset.col)]); }
});
for (const name of ["focusin", "mouseover"]) boardParts.table.addEventListener(name, (event) => read(event.target.closest?.("[data-row]")));

function rove(cell) {
  for (const old of boardParts.table.querySelectorAll('[data-row][tabindex="0"]')) old.tabIndex = -1;
  cell.tabIndex = 0;
}

// The cell under the pointer or the focus, in words: columns are narrow and their heads far away.
function read(cell) {
  const column = cell && columns()[Number(cell.dataset.col)];
  for (const old of boardParts.table.querySelectorAll(".tl-b-at")) old.classList.remove("tl-b-at");
  if (!column) { boardParts.readout.textContent = cell ? titleOf(cell.dataset.row) : ""; return; }
  boardParts.table.querySelectorAll("th.tl-b-check")[Number(cell.dataset.col)]?.classList.add("tl-b-at");
  boardParts.readout.replaceChildren(el("b", {}, columnTitle(column)), ` · ${titleOf(cell.dataset.row)} · `, el("b", {}, t(STATES[cell.dataset.v || "."])));
}

// ------------------------------------------------------------------------------------------------ around the table

const where = () => {
  const of = board()?.of;
  if (!of) return "";
  const changed = of.changed.length ? gap() + t("with_changes", { changes: of.changed.map((name) => `${name} ${of.query[name]}`).join(t("comma")) }) : "";
  return t("where", { preset: say(of.preset), changes: changed, seed: of.seed });
};

// Only the choices that a matrix depends on; the address leaves out what is as in the preset.
function stale() {
  const of = board()?.of;
  if (!of) return false;
  const now = window.TL.frame.query(), names = data.catalogue.of;
  return names.some((name) => (now[name] ?? "") !== (of.query[name] ?? ""));
}

function drawBoard() {
  const now = board(), started = Boolean(now && now.state !== "empty");
  const clock = now?.finished ? new Date(now.finished * 1000).toLocaleTimeString(window.TL.lang() === "zh" ? "zh-CN" : "en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" }) : "";
  const lines = [el("h2", {}, t("title"))];
  if (view.refusal) lines.push(el("p", { class: "tl-b-refusal", role: "alert" }, el("b", { "aria-hidden": "true" }, "✗ "), say(view.refusal)));
  if (running()) {
    const done = now.asked - now.left, doing = now.doing;
    lines.push(el("p", { class: "tl-b-lead" }, t("running", { fault: doing.fault ? titleOf(doing.fault) : t("right_model"), level: t(`level_${doing.level}`), done, all: now.asked }), gap(), where()),
      el("div", { class: "tl-b-progress", role: "progressbar", "aria-label": t("progress"), "aria-valuemin": 0, "aria-valuemax": now.asked, "aria-valuenow": done, style: { "--done": `${(100 * done) / now.asked}%` } }));
  } else if (started) {
    lines.push(el("p", { class: "tl-b-lead" }, t(now.state === "stopped" ? "was_stopped" : "was_run", { time: clock, seconds: now.seconds.toFixed(1) }), gap(), where()));
    if (stale()) lines.push(el("p", { class: "tl-b-stale" }, el("b", { "aria-hidden": "true" }, "! "), t("stale")));
    if (now.of.half) lines.push(el("p", { class: "tl-b-stale" }, el("b", { "aria-hidden": "true" }, "! "), t(`half_${now.of.half}`)));
  } else lines.push(el("p", { class: "tl-b-lead" }, t("empty", { faults: faults.length, checks: checks.length })));
  lines.push(el("div", { class: "tl-b-tools" }, runButtons()));
  keep(boardParts.head, lines);
  boardBox.dataset.state = now?.state || "empty";
  drawTable();
  boardParts.legend.replaceChildren(...["c", "n", "w", "s"].map((sign) => el("span", {}, el("i", { class: "tl-b-mark", data: { v: sign }, "aria-hidden": "true" }), el("b", {}, t(STATES[sign])), " ", t(`means_${STATES[sign]}`))));
  drawResult(now);
  const spoken = joined(running() ? [t("spoken_running")] : started ? [t("spoken_done", { rows: Object.keys(now.rows).length }), resultText(now.summary)] : []);
  if (boardParts.status.textContent !== spoken) boardParts.status.textContent = spoken;
}

// The first few of a list that may be long.
const some = (names, most = 6) => names.slice(0, most).map(shortOf).join(t("comma")) + (names.length > most ? gap() + t("and_more", { n: names.length - most }) : "");
const list = (names) => names.map(shortOf).join(t("plus"));

function resultText(summary) {
  if (!summary?.rows) return "";
  const said = [];
  if (summary.smallest.length) said.push(t(summary.uncaught.length ? "smallest_some" : "smallest", { count: summary.rows - summary.uncaught.length, checks: list(summary.smallest), n: summary.smallest.length }));
  if (summary.uncaught.length) said.push(t("uncaught", { n: summary.uncaught.length, faults: some(summary.uncaught) }));
  if (summary.fooled) said.push(t("fooled", { check: shortOf(summary.fooled), times: summary.times }));
  if (!summary.all) said.push(t("not_all"));
  return joined(said);
}

function drawResult(now) {
  boardParts.result.hidden = running() || !now?.summary?.rows;
  boardParts.result.textContent = boardParts.result.hidden ? "" : resultText(now.summary);
}

// Children anew, with the focus where it was: on the button of the same name.
function keep(box, children) {
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.do || document.activeElement.dataset.keep : null;
  box.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (focused) box.querySelector(`[data-do="${focused}"], [data-keep="${focused}"]`)?.focus({ preventScroll: true });
}

const chosenLevels = () => levelsOf.filter((level) => view.levels.has(level));
const chosenChecks = () => checks.filter((check) => view.levels.has(check.level)).length;

function runAll() {
  const some = visibleFaults();
  view.refusal = null;
  command("run_all", { levels: chosenLevels(), faults: some.length < faults.length ? some.map((fault) => fault.name) : [] });
}

function runButtons() {
  const rows = visibleFaults().length, off = !view.levels.size;
  return [
    running() ? button("stop", () => command("stop"), { kind: "tl-b-primary" })
      : button("run_all", runAll, { kind: "tl-b-primary", off: off || !rows, values: { rows, checks: chosenChecks() } }),
    button("run_row", () => { view.refusal = null; command("run_row", { fault: view.picked, levels: chosenLevels(), anew: true }); }, { off: off || !view.picked || running() }),
  ];
}

// The panel Runs, part 4: the wire, what stands around the table, and drawing.
//
// props.value  the rows and what is under way: see explorer/run_rows.py; with reply, refusal, changes after a command
// props.job    where a series stands: {at, of, label, step, steps, running}
// props.file   a file that was asked for: {number, name, type, text | base64}
// Three events go back: "command" with {do, number, ...}, "load" for what puts settings into the page, and "apply" with
// choices of Explore that the page sets.
const held = { rows: [], chosen: "", width: 1, spread: null, series: null, again: null, lessons: [] };
let sent = 0, drawn = 0, refusal = null, refused = "", lacking = [], offered = remembered();

const command = (what, more) => { sent += 1; trigger("command", { do: what, number: sent, ...more }); };
const bring = (what, more) => { sent += 1; trigger("load", { do: what, number: sent, ...more }); };

function take() {
  const news = told.value;
  if (!news || typeof news !== "object" || !Array.isArray(news.rows)) return;
  const before = new Set(held.rows.map((row) => row.id));
  for (const row of news.rows) if (row.origin === "series" && !before.has(row.id)) fresh.add(row.id);
  Object.assign(held, { rows: news.rows, chosen: news.chosen, width: news.width, spread: news.spread, series: news.series, again: news.again });
  if (news.reply && news.reply !== "look") {
    refusal = news.refusal || null;
    refused = ["put_in", "take_up", "restore"].includes(news.reply) ? "record" : "";
  }
  if (news.reply === "stop") parts.series.dataset.state = "stopped"; // the server has heard it: no step after the one under way
  if (news.reply === "seeds" || news.reply === "lesson_run") stopped = false;
  if (news.lessons) held.lessons = news.lessons;
  if (news.lacking) lacking = news.lacking;
  if (["put_in", "take_up", "restore"].includes(news.reply) && !news.refusal) {
    offered = null;
    if (Object.keys(news.changes || {}).length) trigger("apply", { changes: news.changes });
  }
  refresh();
}

// ------------------------------------------------------------------------------------------- files out, and records in

function save() {
  const file = told.file;
  if (!file || file.number === saved) return;
  saved = file.number;
  window.TL.download(file.name, file.base64 ? window.TL.b64u8(file.base64) : file.text, file.type);
}
let saved = 0;

const MOST = 16 * 1024 * 1024, SENT = 200 * 1024;
const said = (key, values) => ({ en: window.TL.say(window.TL.words.en[`runs.${key}`], values), zh: window.TL.say(window.TL.words.zh[`runs.${key}`], values) });

// A record is judged on the server. What its repeat measures anew is left out first, then the server's limit is kept.
function lighter(text) {
  if (new Blob([text]).size <= SENT) return text;
  let record;
  try { record = JSON.parse(text.replace(/^\ufeff/, "")); } catch { return text.slice(0, SENT); }
  if (!record || typeof record !== "object") return text.slice(0, SENT);
  for (const part of [["looks"], ["accuracies", "rates", "grad_norms"]]) {
    for (const name of part) record[name] = [];
    const less = JSON.stringify(record);
    if (new Blob([less]).size <= SENT) return less;
  }
  return null;
}

function putIn(file) {
  if (!file) return;
  if (file.size > MOST) { refusal = said("file_large", { size: count(Math.ceil(file.size / 1024)), high: count(MOST / 1024) }); refresh(); return; }
  const reader = new FileReader();
  reader.onload = () => {
    const text = lighter(String(reader.result));
    refusal = text === null ? said("file_long") : null;
    if (text !== null) bring("put_in", { text });
    refresh();
  };
  reader.readAsText(file);
}

// -------------------------------------------------------------------------------- what this browser remembers of a run

// {text, task, seed, step, of}: the record that the chart kept at its last look, without the curve.
function remembered() {
  try {
    const text = JSON.parse(localStorage.getItem("tl-run-record") || "null"), record = JSON.parse(text || "null");
    return record && record.steps > 0 ? { text, task: record.task, seed: record.seed, step: record.steps, of: record.training?.steps ?? record.steps } : null;
  } catch { return null; }
}

function drawOffer() {
  const box = parts.offer, show = Boolean(offered) && !started;
  box.hidden = !show;
  if (!show) { box.replaceChildren(); return; }
  const task = window.TL.words.en[`train.task_${offered.task}`] ? window.TL.w(`train.task_${offered.task}`) : offered.task;
  const values = { task, seed: offered.seed, step: count(offered.step), of: count(offered.of) };
  box.replaceChildren(el("span", {}, t(offered.step < offered.of ? "offer" : "offer_whole", values)), " ",
    el("button", { type: "button", class: "tl-button tl-ru-primary", data: { key: "take-up" }, onclick: () => bring("take_up", { text: offered.text }) }, t(offered.step < offered.of ? "take_up" : "take_up_whole", values)),
    el("button", { type: "button", class: "tl-button", data: { key: "forget" }, onclick: () => { offered = null; try { localStorage.removeItem("tl-run-record"); } catch { /* it was not kept either */ } refresh(); } }, t("forget")));
}
let started = false; // a run of this visit takes the place of what was remembered

// ---------------------------------------------------------------------------------------------------- around the table

const parts = {
  offer: el("p", { class: "tl-ru-offer" }), refusal: el("p", { class: "tl-ru-refusal", role: "alert" }), again: el("div", { class: "tl-ru-again", role: "status" }),
  head: el("div", { class: "tl-ru-head" }), keeps: el("p", { class: "tl-ru-keeps" }), table: el("div", { class: "tl-ru-table" }),
  actions: el("div", { class: "tl-ru-actions", role: "group" }), series: el("div", { class: "tl-ru-series" }), hint: el("p", { class: "tl-ru-hint" }),
  spread: el("p", { class: "tl-ru-spread" }), overlay: el("div", { class: "tl-ru-overlay" }), chart: svg("svg", { class: "tl-ru-chart", role: "img" }), lessons: el("section", { class: "tl-ru-lessons" }),
  file: el("input", { type: "file", class: "tl-ru-vh", accept: ".json,application/json", tabindex: -1, onchange: (event) => { putIn(event.target.files[0]); event.target.value = ""; } }),
};
parts.overlay.append(parts.chart);
element.querySelector(".tl-runs").replaceChildren(parts.head, parts.offer, parts.refusal, parts.again, parts.table, parts.series, parts.actions,
  parts.hint, parts.spread, parts.overlay, parts.keeps, parts.lessons);

function drawHead() {
  parts.file.setAttribute("aria-label", t("put_in"));
  const row = chosenRow();
  parts.head.replaceChildren(el("h2", {}, t("title"), el("small", {}, row ? t("sub", { run: row.live ? `${row.seed}·` : row.id }) : t("sub_empty"))),
    el("button", { type: "button", class: "tl-button", data: { key: "put-in" }, onclick: () => parts.file.click() }, t("put_in")), parts.file);
  parts.keeps.textContent = t("keeps");
  parts.actions.setAttribute("aria-label", t("actions"));
  parts.refusal.textContent = refusal ? [refused ? t(`refused_record`) : "", both(refusal)].filter(Boolean).join(" ") : "";
}

// A run that repeats a record: how far it is, whether the losses are the recorded ones, and what else is not.
function drawAgain() {
  const again = held.again, lines = [];
  if (again) {
    const values = { step: count(again.step), to: count(again.to), compared: count(again.compared), differs: count(again.differs), here: String(again.here), there: String(again.there) };
    if (again.differs) {
      lines.push(["bad", t("again_differs", values)]);
      lines.push(["plain", again.elsewhere.length ? t("again_elsewhere", { list: again.elsewhere.map((one) => `${t(`m_${one.name}`)} ${one.from} → ${one.to}`).join(t("and")) }) : t("again_same_machine")]);
    } else if (again.step < again.to) lines.push(["plain", t(again.curve ? "again_going" : "again_going_light", values)]);
    else lines.push(["ok", t(again.curve ? "again_same" : again.compared ? "again_same_light" : "again_unknown", values)]);
    if (lacking.length) lines.push(["plain", t("again_lacking", { list: lacking.map((name) => (known(`f_${name}`) ? t(`f_${name}`) : name)).join(t("and")) })]);
  }
  const key = JSON.stringify(lines);
  if (parts.again.dataset.key === key) return;
  parts.again.dataset.key = key;
  parts.again.replaceChildren(...lines.map(([kind, text]) => el("p", { data: { kind } }, el("b", { "aria-hidden": "true" }, { bad: "✗ ", ok: "✓ ", plain: "" }[kind]), text)));
}

let stopped = false;
function drawSeries() {
  const job = told.job && held.series && told.job.of === held.series.of && told.job.running ? told.job : held.series, box = parts.series;
  box.hidden = !job || !held.series.running || stopped; // hidden at the click: what is still on its way must not bring it back
  if (box.hidden) { box.replaceChildren(); return; }
  const done = job.steps ? job.step / job.steps : 0;
  if (!box.firstChild) {
    box.append(el("p", {}), el("div", { class: "tl-ru-bar", role: "progressbar", "aria-valuemin": 0 }, el("i")),
      el("button", { type: "button", class: "tl-button", data: { key: "stop-series" }, onclick: () => { held.series.running = false; stopped = true; parts.series.dataset.state = "stopping"; drawSeries(); command("stop"); } }));
  }
  const [text, bar, stop] = box.children;
  text.textContent = t("series", { at: job.at, of: job.of, name: both(job.label), step: count(job.step), steps: count(job.steps) });
  bar.style.setProperty("--done", `${(100 * done).toFixed(1)}%`);
  for (const [name, value] of [["aria-valuenow", job.step], ["aria-valuemax", job.steps], ["aria-label", t("series_progress")]]) bar.setAttribute(name, value);
  stop.textContent = t("series_stop");
}

// ------------------------------------------------------------------------------------------------------------- drawing

function draw() {
  drawn = 0;
  if (!element.isConnected) return;
  const key = document.activeElement && element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const typing = document.activeElement?.id === "tl-ru-name";
  drawHead();
  drawOffer();
  drawAgain();
  drawTable();
  drawSeries();
  if (!typing) drawActions();
  drawSpread();
  drawOverlay();
  drawLessons();
  if (key && !typing) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}
function refresh() { if (!drawn) drawn = requestAnimationFrame(draw); }

watch("value", take);
watch("job", () => { if (told.job && held.series) Object.assign(held.series, { running: told.job.running }); drawSeries(); });
watch("file", save);
const ears = [window.TL.on("language", refresh), window.TL.on("tab", (tab) => { if (tab === "train") { command("look"); refresh(); } }),
  window.TL.on("run", (run) => { started = started || Boolean(run.run); command("look"); }), window.TL.on("query", refresh)];
const sight = new ResizeObserver(() => { if (element.isConnected) refresh(); else { sight.disconnect(); ears.forEach((off) => off()); } });
sight.observe(parts.overlay);
sight.observe(element);
take();
refresh();
command("look", { lessons: true });

// The panel Sentences, part 2: the choices, the way of a file to the server, and drawing.
//
// props.value  what the panel shows: see explorer/corpora.py; with reply, refusal, number after an event
// Two events go back: "piece" with {number, name, size} and then {number, text} for each piece of a file, one after the
// answer to the other, and "make" with {number, options, whole}.
let sent = 0, drawn = 0, refusal = null, busy = "", come = 0, file = null;

const parts = {
  head: el("div", { class: "tl-co-head" }), choices: el("div", { class: "tl-co-choices", role: "group" }), state: el("p", { class: "tl-co-state", role: "status" }),
  refusal: el("p", { class: "tl-co-refusal", role: "alert" }), report: el("section", { class: "tl-co-report" }), pairs: el("section", {}),
  file: el("input", { type: "file", class: "tl-vh", accept: ".tsv,.txt,.csv,text/plain,text/tab-separated-values", tabindex: -1, onchange: (event) => { begin(event.target.files[0]); event.target.value = ""; } }),
};
element.querySelector(".tl-corpus").replaceChildren(parts.head, parts.choices, parts.state, parts.refusal, el("div", { class: "tl-co-two" }, parts.report, parts.pairs));

const news = () => told.value;
const send = (event, data) => { sent += 1; trigger(event, { number: sent, ...data }); };
const make = (options, whole = false) => { busy = "making"; refusal = null; send("make", { options, whole }); refresh(); };

// ---------------------------------------------------------------------------------------------------- a file, in pieces

function begin(chosen) {
  if (!chosen) return;
  refusal = null;
  file = { blob: chosen, at: 0 };
  busy = "sending";
  come = 0;
  send("piece", { name: chosen.name, size: chosen.size });
  refresh();
}

async function next() {
  const most = news().most.piece, mine = file, part = mine.blob.slice(mine.at, mine.at + most);
  let bytes;
  try { bytes = new Uint8Array(await part.arrayBuffer()); } catch { if (file === mine) { file = null; busy = ""; refusal = said("unreadable"); refresh(); } return; }
  if (file !== mine) return; // another file was chosen meanwhile
  mine.at += bytes.length;
  let raw = "";
  for (let i = 0; i < bytes.length; i += 8192) raw += String.fromCharCode(...bytes.subarray(i, i + 8192));
  send("piece", { text: btoa(raw) });
}
const said = (key, values) => ({ en: window.TL.say(window.TL.words.en[`corpus.${key}`], values), zh: window.TL.say(window.TL.words.zh[`corpus.${key}`], values) });

function take() {
  const now = news();
  if (!now || typeof now !== "object") return;
  if (now.number !== undefined && now.number !== sent) return; // the answer to what was asked before
  if (now.refusal) { refusal = now.refusal; file = null; busy = ""; }
  else if (now.reply === "piece" && file) {
    come = now.come;
    if (come < file.blob.size) next();
    else { file = null; make({ origin: "file" }, true); }
  } else if (now.reply === "make") busy = "";
  refresh();
}

// -------------------------------------------------------------------------------------------------------------- choices

function number(key) {
  const [low, high] = news().numbers[key], id = `tl-co-${key}`;
  const box = el("input", { id, type: "number", min: low, max: high, step: 1, value: news().options[key], data: { key }, onchange: (event) => { const value = Number(event.target.value); make({ [key]: Number.isFinite(value) && event.target.value !== "" ? value : null }); } });
  return el("span", { class: "tl-co-number" }, el("label", { for: id }, t(key)), box);
}

function drawChoices(now) {
  const options = now.options, own = options.origin === "built_in";
  const radio = (key, current, label, change) => el("button", { type: "button", class: "tl-button", "aria-pressed": String(current), data: { key }, onclick: () => { if (!current) change(); } }, label);
  const turned = options.direction === "backward", names = [languageOf(now, turned ? 1 : 0), languageOf(now, turned ? 0 : 1)];
  const origin = el("span", { class: "tl-co-seg", role: "group", "aria-label": t("origin") }, radio("built-in", own, t("built_in"), () => make({ origin: "built_in" })),
    now.has_file ? radio("the-file", !own, now.file || t("file"), () => make({ origin: "file" })) : "");
  const direction = el("span", { class: "tl-co-seg", role: "group", "aria-label": t("direction") },
    radio("forward", !turned, t("to", { from: names[0], to: names[1] }), () => make({ direction: "forward" })),
    radio("backward", turned, t("to", { from: names[1], to: names[0] }), () => make({ direction: "backward" })));
  const simplified = el("label", { class: "tl-co-check", title: now.can_simplify ? null : t("no_opencc") }, el("input", { type: "checkbox", checked: options.simplified, disabled: !now.can_simplify, data: { key: "simplified" }, onchange: (event) => make({ simplified: event.target.checked }) }), t("simplified"));
  parts.choices.replaceChildren(origin, direction, ...(own ? [] : [...Object.keys(now.numbers).map(number), now.languages.includes("zh") ? simplified : ""]));
  parts.choices.setAttribute("aria-label", t("title"));
}

// -------------------------------------------------------------------------------------------------------------- drawing

const chosenTask = () => document.querySelector("#tl-f-task input:checked")?.value;

function draw() {
  drawn = 0;
  const now = news();
  if (!element.isConnected || !now) return;
  element.querySelector(".tl-corpus").hidden = chosenTask() !== "translation";
  const held = element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  parts.file.setAttribute("aria-label", t("put_in"));
  parts.head.replaceChildren(el("h2", {}, t("title"), el("small", {}, t("sub"))),
    el("button", { type: "button", class: "tl-button", data: { key: "put-in" }, onclick: () => parts.file.click() }, t("put_in")), parts.file);
  drawChoices(now);
  parts.state.textContent = busy === "sending" ? t("sending", { done: count(Math.round(come / 1024)), size: count(Math.round((file?.blob.size ?? 0) / 1024)) }) : busy ? t("making")
    : now.origin === "built_in" ? t("hint_built_in", { size: count(now.most.bytes / 1024), lines: count(now.most.lines) }) : t("hint_file");
  parts.refusal.textContent = refusal && now.numbers[refusal.field] ? t("at", { setting: t(refusal.field), text: both(refusal) }) : both(refusal);
  parts.report.replaceChildren(...drawReport(now));
  parts.pairs.replaceChildren(...drawPairs(now));
  if (held) element.querySelector(`[data-key="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
}
function refresh() { if (!drawn) drawn = requestAnimationFrame(draw); }

watch("value", take);
const ears = [window.TL.on("language", refresh), window.TL.on("tab", refresh), window.TL.on("query", refresh), window.TL.on("run", refresh)];
const heard = (event) => { if (!element.isConnected) { document.removeEventListener("change", heard); ears.forEach((off) => off()); } else if (event.target.closest?.("#tl-f-task")) refresh(); };
document.addEventListener("change", heard);
take();
refresh();

// Break it: one fault in full. The code right and wrong, what each check says, the tensors it changes, two curves.

const faultParts = {
  head: el("div", { class: "tl-b-fault-head" }), story: el("p", { class: "tl-b-story" }), codes: el("div", { class: "tl-b-codes" }),
  verdicts: el("section", { class: "tl-b-verdicts" }), tensors: el("section", { class: "tl-b-tensors" }), duel: el("section", { class: "tl-b-duel" }),
};
const faultBox = el("section", { class: "tl-b-fault", tabindex: -1 }, Object.values(faultParts));
const detail = () => (data.detail?.name === view.picked ? data.detail : null);
const race = () => part("duel");

function drawFault() {
  const fault = faultOf.get(view.picked), full = detail();
  faultBox.hidden = !fault;
  if (!fault) return;
  faultBox.setAttribute("aria-label", say(fault.title));
  faultBox.dataset.shown = full ? fault.name : "";
  const on = view.on === fault.name;
  keep(faultParts.head, [
    button("back", () => { view.page = "list"; refresh(); boardParts.table.querySelector(`th[data-row="${view.picked}"]`)?.focus(); }, { kind: "tl-b-back" }),
    el("h2", {}, say(fault.title), el("small", {}, t("about", { number: fault.number, all: faults.length, group: t(`group_${fault.group}`), section: fault.section }))),
    button(on ? "turn_off" : "turn_on", () => turn(on ? "none" : fault.name), { pressed: on, kind: on ? "tl-b-on" : "", title: t("turn_says") }),
  ]);
  faultParts.story.textContent = say(full?.story);
  drawCodes(faultParts.codes, full?.code);
  drawVerdicts(full);
  drawTensors(full);
  drawDuel();
}

function turn(name, more = {}) {
  view.on = name;
  trigger("apply", { changes: { fault: name, ...more } });
  refresh();
}

// ---------------------------------------------------------------------------------------------------------------- code

function drawCodes(box, code) {
  const key = code ? JSON.stringify(code) + window.TL.lang() : "";
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  if (!code) { box.replaceChildren(); return; }
  const pane = (side) => {
    const sign = side === "right" ? "+" : "−", word = t(side === "right" ? "line_right" : "line_wrong");
    const lines = code[side].map(([number, pieces, changed]) => el("div", { class: "tl-b-line", data: { changed } },
      el("span", { class: "tl-b-no" }, String(number)), el("span", { class: "tl-b-sign" }, changed ? [el("span", { "aria-hidden": "true" }, sign), el("span", { class: "tl-b-vh" }, word)] : ""),
      el("code", {}, pieces.map(([part, kind, marked]) => el(marked ? "u" : "span", { class: kind ? `tl-b-${kind}` : null }, part)))));
    return el("figure", { class: `tl-b-code tl-b-code-${side}` }, el("figcaption", {}, el("b", {}, side === "right" ? "✓" : "✗", " ", t(`code_${side}`)), el("span", { title: code.file }, code.file.split("/").slice(1).join("/"))), el("div", { class: "tl-b-lines" }, lines));
  };
  box.replaceChildren(pane("right"), pane("wrong"));
}

// ------------------------------------------------------------------------------------------------------------ verdicts

function drawVerdicts(full) {
  const all = full?.verdicts || [], loud = all.filter((each) => each.mark === "c" || each.mark === "w");
  const rest = all.filter((each) => each.mark === "n" || each.mark === "s");
  const opened = all.find((each) => each.check === view.opened);
  const chip = (each) => el("button", { type: "button", class: "tl-b-chip", data: { v: each.mark, keep: each.check }, "aria-expanded": String(each === opened), onclick: () => { view.opened = view.opened === each.check ? "" : each.check; refresh(); } },
    el("i", { class: "tl-b-mark", data: { v: each.mark }, "aria-hidden": "true" }), el("span", { class: "tl-b-vh" }, `${t(STATES[each.mark])}: `), shortOf(each.check));
  const quiet = el("details", { class: "tl-b-rest", open: Boolean(view.restOpen) || rest.includes(opened), ontoggle: (event) => { view.restOpen = event.currentTarget.open; } },
    el("summary", { data: { keep: "rest" } }, t("rest", { n: rest.filter((each) => each.mark === "n").length, silent: rest.filter((each) => each.mark === "s").length })), el("div", { class: "tl-b-chips" }, rest.map(chip)));
  keep(faultParts.verdicts, [
    el("h3", {}, t("verdicts"), el("small", {}, all.length ? t("verdicts_sub", { caught: loud.filter((each) => each.mark === "c").length, wrongly: loud.filter((each) => each.mark === "w").length, of: all.length }) : "")),
    full?.idle ? el("p", { class: "tl-b-hint" }, t("idle_says")) : all.length ? el("div", { class: "tl-b-chips" }, loud.map(chip)) : el("p", { class: "tl-b-hint" }, t("verdicts_empty"), " ", button("run_this", () => command("run_row", { fault: view.picked, levels: chosenLevels() }), { off: running() || !view.levels.size })),
    opened ? verdictText(opened) : null, rest.length ? quiet : null,
  ]);
}

function verdictText(each) {
  const row = (word, text) => (text ? [el("dt", {}, t(word)), el("dd", {}, text)] : []);
  return el("dl", { class: "tl-b-said", data: { v: each.mark } }, row("check", titleOf(each.check)), row("claim", say(each.claim)), row("found", each.say ? say(each.say) : t("said_nothing")),
    row("verdict", [el("b", {}, t(STATES[each.mark])), " · ", t(`because_${STATES[each.mark]}`)]), row("blind", each.blind ? say(each.blind) : ""));
}

// ------------------------------------------------------------------------------------------------------------- tensors

const shape = (sizes) => (sizes.length ? sizes.join("×") : t("missing"));
const broken = (path) => path.split(/(?<=[/.])/).flatMap((part) => [part, el("wbr")]); // where a line may end
const size = (number) => (number === null ? "–" : number !== 0 && (Math.abs(number) < 0.001 || Math.abs(number) >= 10000) ? number.toExponential(1) : String(Number(number.toPrecision(3))));

function drawTensors(full) {
  const key = full ? `${full.name} ${window.TL.lang()} ${full.tensors?.rows.length}` : "";
  if (faultParts.tensors.dataset.key === key) return;
  faultParts.tensors.dataset.key = key;
  if (!full) { faultParts.tensors.replaceChildren(); return; }
  if (!full.tensors) { faultParts.tensors.replaceChildren(el("p", { class: "tl-b-hint" }, t("tensors_too_large"))); return; }
  const { rows, reshaped } = full.tensors;
  const logs = rows.map((row) => row[3]).filter((n) => n > 0).map(Math.log10), low = Math.min(...logs, -3), high = Math.max(...logs, low + 1);
  const body = rows.map(([key, right, wrong, off], i) => {
    const same = String(right) === String(wrong), slash = key.lastIndexOf("/");
    return el("tr", { data: { first: i === 0 } },
      el("th", { scope: "row" }, el("button", { type: "button", class: "tl-b-open", data: { keep: key }, title: t("open_row"), onclick: () => openRow(key) }, el("span", {}, broken(key.slice(0, slash + 1))), key.slice(slash + 1))),
      el("td", {}, same ? shape(right) : [el("s", {}, shape(right)), " ", el("b", { class: "tl-b-bad" }, shape(wrong))]),
      el("td", { class: "tl-b-n" }, same ? size(off) : "–"),
      el("td", { class: "tl-b-size" }, same && off > 0 ? el("i", { style: { "--n": ((Math.log10(off) - low) / (high - low) || 0).toFixed(3) } }) : "", i === 0 ? el("b", { class: "tl-b-firstmark" }, t("first")) : ""));
  });
  faultParts.tensors.replaceChildren(
    el("h3", {}, t(rows.length ? "tensors" : "tensors_none", { n: rows.length }), el("small", {}, rows.length ? t(reshaped ? "tensors_reshaped" : "tensors_same_shape", { n: reshaped }) : t("tensors_none_says"))),
    rows.length ? el("div", { class: "tl-b-tensor-scroll", tabindex: 0, role: "group", "aria-label": t("tensors", { n: rows.length }) }, el("table", {},
      el("thead", {}, el("tr", {}, ["tensor", "shape", "off"].map((word) => el("th", { scope: "col" }, t(word))), el("td", {}))), el("tbody", {}, body))) : "");
}

// Explore on this tensor, with the fault on: the rows differ only there.
function openRow(key) {
  if (view.on === view.picked) window.TL.emit("look", { key });
  else turn(view.picked, { selected: key, sample: 0, head: 0 });
  document.querySelector("#tl-tabs > .tab-wrapper [role=tab]")?.click();
}

// ---------------------------------------------------------------------------------------------------------- two curves

const percent = (v) => (v === null || v === undefined ? "–" : `${(100 * v).toFixed(v >= 0.9995 || v < 0.0005 ? 0 : 1)}${gap()}%`);
const final = (list) => list[list.length - 1];

function drawDuel() {
  const duel = race()?.fault === view.picked ? race() : null, going = duel?.state === "running";
  const told = duel && (duel.right.loss.length || duel.wrong.loss.length || duel.right.failed || duel.wrong.failed);
  const act = going ? button("stop_race", () => command("stop_race")) : button(duel ? "race_again" : "race", () => command("race", { fault: view.picked }), { off: race()?.state === "running" });
  const steps = duel?.steps || 300;
  keep(faultParts.duel, [
    el("h3", {}, t("duel"), el("small", {}, duel ? t("duel_of", { done: Math.max(duel.right.loss.length, duel.wrong.loss.length), steps }) : ""), act),
    told ? [el("p", { class: "tl-b-key" }, lineOf("right"), t("code_right"), lineOf("wrong"), t("code_wrong"), el("span", {}, t("duel_how", { batch: duel.batch, seed: duel.seed }))), el("div", { class: "tl-b-charts" }, chart(duel, "loss"), chart(duel, "own")), el("p", { class: "tl-b-duel-says" }, duelText(duel))] : el("p", { class: "tl-b-hint" }, t(race()?.state === "running" && !duel ? "duel_other" : "duel_empty", { steps })),
  ]);
}

function duelText(duel) {
  const said = ["right", "wrong"].map((side) => {
    const each = duel[side], look = final(each.looks);
    if (each.failed) return t(`duel_failed_${side}`, { step: each.loss.length, why: each.failed });
    if (!each.loss.length || !look) return "";
    return t(`duel_${side}`, { loss: final(each.loss) === null ? "∞" : final(each.loss).toFixed(3), own: percent(look[2]), token: percent(look[1]), step: look[0] });
  });
  return joined(said);
}

function chart(duel, what) {
  const W = 216, H = 112, left = 34, right = 6, top = 20, bottom = 16, steps = duel.steps;
  const points = (side) => (what === "loss" ? duel[side].loss.map((y, i) => [i + 1, y]) : duel[side].looks.map(([step, , own]) => [step, own])).filter(([, y]) => y !== null);
  const high = what === "own" ? 1 : Math.max(1, ...points("right").map(([, y]) => y), ...points("wrong").slice(0, 20).map(([, y]) => y));
  const x = (step) => left + ((W - left - right) * step) / steps, y = (value) => top + (H - top - bottom) * (1 - Math.min(value, high) / high);
  const path = (list) => list.map(([step, value], i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const write = (kind, px, py, text, anchor = "start") => svg("text", { class: kind, x: px, y: py, "text-anchor": anchor }, text);
  const marks = what === "own" ? [[0, percent(0)], [0.5, percent(0.5).replace(".0", "")], [1, percent(1)]] : [[0, "0"], [high / 2, (high / 2).toFixed(1)], [high, high.toFixed(1)]];
  const dots = (side, list) => list.map(([step, value]) => svg("circle", { class: `tl-b-dot-${side}`, cx: x(step).toFixed(1), cy: y(value).toFixed(1), r: 2.2 }));
  const curve = (side) => [svg("path", { class: `tl-b-curve tl-b-curve-${side}`, d: path(points(side)) }), what === "own" ? dots(side, points(side)) : []];
  return svg("svg", { class: "tl-b-chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${t(`chart_${what}`)}: ${duelText(duel)}` },
    write("tl-b-chart-title", 2, 11, t(`chart_${what}`)),
    marks.map(([value, text]) => [svg("line", { class: "tl-b-grid", x1: left, x2: W - right, y1: y(value), y2: y(value) }), write("tl-b-tick", left - 4, y(value) + 3.5, text, "end")]),
    write("tl-b-tick", left, H - 3, "0"), write("tl-b-tick", W - right, H - 3, t("steps", { steps }), "end"), curve("right"), curve("wrong"));
}

const lineOf = (side) => svg("svg", { class: "tl-b-sample", viewBox: "0 0 26 8", "aria-hidden": "true" }, svg("path", { class: `tl-b-curve tl-b-curve-${side}`, d: "M0 4L26 4" }));

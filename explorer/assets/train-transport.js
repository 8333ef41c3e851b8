// The Train view, part 2: the parts of the page, the buttons, and one sentence on where the run stands.

const button = (what, kind) => el("button", { type: "button", class: `tl-tr-button ${kind || ""}`, data: { do: what }, onclick: () => press(what) });
const parts = {
  rewind: button("rewind"), play: button("play", "tl-tr-primary"), step: button("step"), more: button("more"), stop: button("stop"),
  bar: el("div", { class: "tl-tr-progress", role: "progressbar", "aria-valuemin": 0 }, el("i"), el("u")),
  figures: el("p", { class: "tl-tr-figures" }), hints: el("p", { class: "tl-tr-hints" }),
  half: el("button", { type: "button", class: "tl-tr-button", onclick: () => changeRate(rateNow() / 2) }, "÷2"),
  twice: el("button", { type: "button", class: "tl-tr-button", onclick: () => changeRate(rateNow() * 2) }, "×2"),
  lr: el("input", { type: "number", step: "any", min: 0, id: "tl-tr-lr", onchange: (event) => changeRate(event.target.value === "" ? null : Number(event.target.value)) }),
  state: el("p", { class: "tl-tr-state" }), spoken: el("p", { class: "tl-tr-vh", role: "status" }), refusal: el("p", { class: "tl-tr-refusal", role: "alert" }),
  doctor: el("section", { class: "tl-tr-doctor" }),
  chart: svg("svg", { class: "tl-tr-chart", role: "img" }), film: el("div", { class: "tl-tr-film" }),
  look: el("section", { class: "tl-tr-look" }), samples: el("section", { class: "tl-tr-samples" }), sets: el("section", { class: "tl-tr-sets" }),
  verdict: el("section", { class: "tl-tr-verdict" }), lesson: el("section", { class: "tl-tr-lesson" }), mode: el("p", { class: "tl-tr-mode" }),
  table: el("details", { class: "tl-tr-table", ontoggle: () => refresh() }),
};
parts.rateLabel = el("label", { for: "tl-tr-lr" });
parts.rate = el("div", { class: "tl-tr-rate", role: "group" }, parts.rateLabel, parts.half, parts.lr, parts.twice);
const canvas = el("div", { class: "tl-tr-canvas" }, parts.chart, parts.film);
const toolbar = el("div", { class: "tl-tr-transport", role: "toolbar" },
  parts.rewind, parts.play, parts.step, parts.more, parts.stop, parts.bar, parts.figures, parts.rate, parts.hints);
element.querySelector(".tl-train").replaceChildren(toolbar, el("div", { class: "tl-tr-say" }, parts.refusal, parts.state, parts.spoken), parts.doctor,
  el("div", { class: "tl-tr-columns" }, canvas, el("div", { class: "tl-tr-right" }, parts.look, parts.samples, parts.sets)),
  el("div", { class: "tl-tr-foot" }, el("div", { class: "tl-tr-shown" }, parts.verdict, parts.lesson), parts.mode, parts.table));

function available(what) {
  if (what === "stop") return held.state === "running" || held.state === "paused";
  if (what === "rewind") return Boolean(held.run) && (held.state !== "ready" || changed());
  if (what === "step" || what === "more") return !ended();
  return true;
}

function press(what) {
  if (!available(what)) return;
  command(what === "play" && held.state === "running" && !gone ? "pause" : what);
}

function changed() {
  if (!held.plan || !preview.facts) return false;
  return JSON.stringify(held.plan) !== JSON.stringify(preview.facts);
}

// The rate while a run is on: another one holds from the next step, and stands on the axis where it was changed.
const rateNow = () => held.lr ?? facts()?.lr ?? 0;
const changeRate = (lr) => command("rate", { lr: lr === null ? null : Number(lr.toPrecision(6)) });

const ICONS = { rewind: "M2 2h2v10H2zM12 2v10L5 7z", play: "M3 1.5v11L12.5 7z", pause: "M3 2h3v10H3zM8.5 2h3v10h-3z", stop: "M2.5 2.5h9v9h-9z" };
const icon = (name) => svg("svg", { class: "tl-tr-icon", viewBox: "0 0 14 14", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));

function drawTransport() {
  const running = held.state === "running" && !gone, steps = facts()?.steps || 0;
  toolbar.setAttribute("aria-label", t("transport"));
  label(parts.rewind, icon("rewind"), t("rewind"));
  label(parts.play, icon(running ? "pause" : "play"), t(running ? "pause" : "play"));
  label(parts.step, t("step"), el("kbd", { "aria-hidden": "true" }, "→"));
  label(parts.more, t("more"));
  label(parts.stop, icon("stop"), t("stop"));
  parts.more.setAttribute("aria-label", t("more_label"));
  for (const name of ["rewind", "play", "step", "more", "stop"]) parts[name].setAttribute("aria-disabled", String(!available(name)));
  const done = steps ? held.step / steps : 0;
  parts.bar.style.setProperty("--done", `${(100 * done).toFixed(2)}%`);
  for (const [name, value] of [["aria-valuenow", held.step], ["aria-valuemax", steps], ["aria-label", t("progress")], ["aria-valuetext", t("step_of", { step: held.step, steps })]]) parts.bar.setAttribute(name, value);
  const figures = [el("b", {}, t("step_of", { step: count(held.step), steps: count(steps) }))];
  if (running && held.speed) {
    figures.push(t("speed", { speed: held.speed >= 10 ? Math.round(held.speed) : held.speed.toFixed(1) }));
    figures.push(held.left < 90 ? t("left_seconds", { left: Math.ceil(held.left) }) : t("left_minutes", { left: Math.ceil(held.left / 60) }));
  }
  parts.figures.replaceChildren(...figures.flatMap((figure, i) => (i ? [el("i", { class: "tl-tr-dot" }, "·"), figure] : [figure])));
  drawRateBox();
  parts.hints.replaceChildren(el("kbd", {}, "Space"), ` ${t("keys_hint")} `, el("kbd", {}, "R"), ` ${t("rewind").toLowerCase()}`);
  if (ended() && held.step && held.state !== "closed") {
    parts.hints.replaceChildren(el("button", { type: "button", class: "tl-tr-link", onclick: () => document.querySelector("#tl-tabs > .tab-wrapper [role=tab]")?.click() }, t("open_explore")));
  }
}

function drawRateBox() {
  parts.rate.hidden = !held.run || ended() || gone;
  parts.rate.setAttribute("aria-label", t("rate_now"));
  parts.rateLabel.textContent = t({ constant: "rate_now", warmup: "rate_now_factor" }[facts()?.schedule] || "rate_now_peak");
  parts.half.setAttribute("aria-label", t("rate_half"));
  parts.twice.setAttribute("aria-label", t("rate_twice"));
  if (document.activeElement !== parts.lr) parts.lr.value = String(rateNow());
}

function label(node, ...children) {
  const name = node.textContent;
  const next = el("span", {}, ...children);
  if (name !== next.textContent || node.dataset.icon !== next.innerHTML) {
    node.dataset.icon = next.innerHTML;
    node.replaceChildren(...next.childNodes);
  }
}

function stateSentence() {
  const values = { step: count(held.step), steps: count(facts()?.steps || 0), seed: facts()?.seed ?? "" };
  if (gone) return t("state_gone");
  if (!held.run && lost) return t("state_lost", { step: count(lost) });
  if (held.state === "failed") {
    const fault = held.fault || {};
    return t(fault.why === "not_finite" ? "state_not_finite" : "state_broken", { step: count(fault.step || 0), tensor: fault.tensor || "–", text: fault.text || "", last: values.step });
  }
  if (held.state === "running" && performance.now() - held.heard > 1500) return t("state_waiting");
  if (held.state === "stopped" && !held.step) return t("state_stopped_early");
  if (held.state === "finished" && held.step === 1) return t("state_finished_one");
  if (held.state === "empty" && facts()?.floor) return `${t("state_empty")} ${t("state_floor")}`;
  return t(`state_${held.state}`, values);
}

// On the way to where an earlier run was left; how the losses compare is told in the panel Runs.
const againSentence = () => (held.again && held.step < held.again.steps ? t("again", { steps: count(held.again.steps) }) : "");

function drawState() {
  if (held.run) kept.set(ended() ? 0 : held.step);
  const sentence = stateSentence(), stale = changed() && held.state !== "running";
  const bad = held.state === "failed" || Boolean(held.again?.differs);
  parts.state.dataset.kind = bad ? "bad" : gone || held.state === "closed" || stale || (!held.run && lost) ? "warn" : "plain";
  const scoring = held.scored === false && ended() && t("scoring");
  parts.state.replaceChildren(el("b", { "aria-hidden": "true" }, { bad: "✗", warn: "!", plain: "" }[parts.state.dataset.kind]),
    [sentence, againSentence(), scoring, held.skipped && t("skipped"), stale && t("changed")].filter(Boolean).join(" "));
  drawRefusal(refusal || preview.refusal || null);
}

// At the control it is about, with the choices that would do; where the sidebar is closed, above the chart.
let refused = "";
function drawRefusal(why) {
  const rate = why?.at === "rate"; // of the run that is on, not of the next
  const lang = window.TL.lang(), place = why && !rate && document.getElementById(`tl-f-${why.field}`);
  const key = why ? `${lang} ${why.text[lang]} ${Boolean(place?.offsetParent)} ${Boolean(held.run)}` : "";
  parts.lr.toggleAttribute("aria-invalid", rate);
  if (key === refused) return;
  refused = key;
  document.getElementById("tl-tr-refused")?.remove();
  document.querySelector(".tl-tr-invalid")?.classList.remove("tl-tr-invalid");
  const what = rate ? "refused_rate" : held.run ? "refused_next" : "refused";
  parts.refusal.textContent = why ? `${t(what)} ${why.text[lang]}` : "";
  if (!place?.offsetParent) return;
  place.classList.add("tl-tr-invalid");
  const box = place.closest(".tl-two .form") ? place.parentElement.lastElementChild : place;
  box.after(el("div", { id: "tl-tr-refused", class: "tl-tr-refused" }, el("p", {}, el("b", { "aria-hidden": "true" }, "✗ "), why.text[lang]),
    why.choices.map((choice) => el("button", { type: "button", class: "tl-tr-button", onclick: () => trigger("apply", { changes: choice.changes }) }, choice.label[lang]))));
}

// Spoken at a change of state and at each look at held-out sentences, never at each of the many steps.
function speak() {
  const look = last(held.looks);
  const news = `${held.run} ${held.state} ${gone} ${look?.step} ${held.doctor?.kind} ${window.TL.lang()}`;
  if (news === spoken) return;
  spoken = news;
  window.TL.emit("run", { run: held.run, state: held.state, look: look?.step }); // the panel Runs follows
  parts.spoken.textContent = [stateSentence(), look ? heldSentence(look) : "", held.doctor ? both(held.doctor.cause) : ""].join(" ");
}
const heldSentence = (look) => t("spoken_held", { step: count(look.step), exact: percent(look.exact), loss: number(look.loss) });

// What the divergence doctor found on this run's own numbers, and the one change to try.
function drawDoctor() {
  const found = held.doctor, lang = window.TL.lang();
  const key = found ? JSON.stringify([found, lang]) : "";
  parts.doctor.hidden = !found;
  if (parts.doctor.dataset.key === key) return;
  parts.doctor.dataset.key = key;
  if (!found) { parts.doctor.replaceChildren(); return; }
  parts.doctor.replaceChildren(el("h2", {}, t("doctor"), el("small", {}, t("doctor_sub"))),
    found.tensor ? el("p", {}, t("doctor_tensor"), " ", el("code", {}, found.tensor)) : "",
    el("p", {}, el("b", {}, `${t("doctor_cause")} `), both(found.cause)),
    el("p", {}, el("b", {}, `${t("doctor_remedy")} `), both(found.remedy)),
    found.change ? el("p", { class: "tl-tr-try" }, el("button", { type: "button", class: "tl-tr-button tl-tr-primary", onclick: () => trigger(found.of_explore ? "mend" : "apply", { changes: found.change }) }, t("doctor_try", { change: found.label[lang] })),
      el("small", {}, t("doctor_then"))) : "");
}

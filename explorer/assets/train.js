// The Train view: transport, curves, attention film, samples. The server sends deltas; this keeps the curve.
//
// props.value  news of the run: {run, state, step, from, loss: [...], looks_from, looks: [...], ...}, or a refusal
// props.plan   what the settings would start now: {facts} or {refusal}
// Three events go back: "command" with {do: play | pause | step | more | rewind | stop | resync | wake | preview},
// "halt" for the model of a run that was stopped, and "apply" with the changes of a choice that a refusal offers.
const { el, svg, count } = window.TL;
const CURVES = ["loss", "accuracy", "rate", "grad_norm"];
const ENDED = ["finished", "stopped", "failed", "closed"];
const MEAN = 20;

const held = fresh();
let preview = props.plan || {}, refusal = null, gone = false, asked = 0, drawn = 0, spoken = "";

function fresh() {
  return { run: null, plan: null, state: "empty", step: 0, steps: 0, looked: 0, speed: null, left: null, fault: null, heard: 0,
    loss: [], accuracy: [], rate: [], grad_norm: [], looks: [], scene: null, samples: null, skipped: false };
}
const t = (key, values) => window.TL.w(`train.${key}`, values);
// "every 10 steps", but "every step"
const some = (key, n) => t(Number(n) === 1 ? `${key}_one` : key, { [key]: n });
const facts = () => held.plan || preview.facts || null;
// A page that loses its connection is loaded anew by gradio, and its run is gone. This remembers that there was one.
const kept = {
  get: () => { try { return Number(sessionStorage.getItem("tl-run-step")) || 0; } catch { return 0; } },
  set: (step) => { try { sessionStorage.setItem("tl-run-step", String(step)); } catch { /* then it is not remembered */ } },
};
const lost = kept.get();
const ended = () => ENDED.includes(held.state);
const last = (list) => list[list.length - 1];

// ---------------------------------------------------------------------------------------------------------- the wire

function take() {
  const news = props.value;
  if (!news || typeof news !== "object") return;
  if (news.reply === "stop" && news.step) trigger("halt", {});
  if (news.refusal) refusal = news.refusal;
  else if (news.reply && news.reply !== "resync" && news.reply !== "wake") refusal = null;
  if (news.gone) gone = held.state === "running" || held.state === "paused" || held.state === "ready";
  if (news.run && (news.reply || !held.run || news.run === held.run)) merge(news);
  refresh();
}

function merge(news) {
  if (news.run !== held.run) Object.assign(held, fresh(), { run: news.run });
  gone = false;
  held.heard = performance.now();
  if (news.plan) held.plan = news.plan;
  if (news.from <= held.loss.length) for (const name of CURVES) news[name].forEach((v, i) => { held[name][news.from + i] = v; });
  if (news.looks_from <= held.looks.length) news.looks.forEach((look, i) => { held.looks[news.looks_from + i] = look; });
  held.skipped ||= Boolean(news.skipped);
  if (news.samples && news.samples.step >= (held.samples?.step ?? 0)) Object.assign(held, { samples: news.samples, scene: news.scene });
  held.looked = Math.max(held.looked, news.looked || 0);
  if (news.step >= held.step) { // an answer may be overtaken by the last words of the slice it has ended
    for (const name of ["state", "step", "steps", "speed", "left", "fault"]) held[name] = news[name];
  }
}

// A reconnected or re-mounted page lacks what was sent before, and a message may have been lost on the way.
function watchdog() {
  if (!element.isConnected) { clearInterval(beat); ears.forEach((off) => off()); theme.disconnect(); return; }
  const now = performance.now(), silent = now - held.heard;
  const lacking = held.run && (held.loss.length < held.step || held.looks.length < held.looked || !held.plan);
  if (lacking && silent > 600 && now - asked > 2000) { asked = now; command("resync"); }
  if (held.state === "running" && !gone) {
    if (silent > 4000 && now - asked > 4000) { asked = now; command("wake"); }
    if (silent > 1500) refresh();
  }
}
const command = (what) => trigger("command", { do: what });

// --------------------------------------------------------------------------------------------------------- transport

const button = (what, kind) => el("button", { type: "button", class: `tl-tr-button ${kind || ""}`, data: { do: what }, onclick: () => press(what) });
const parts = {
  rewind: button("rewind"), play: button("play", "tl-tr-primary"), step: button("step"), more: button("more"), stop: button("stop"),
  bar: el("div", { class: "tl-tr-progress", role: "progressbar", "aria-valuemin": 0 }, el("i"), el("u")),
  figures: el("p", { class: "tl-tr-figures" }), hints: el("p", { class: "tl-tr-hints" }),
  state: el("p", { class: "tl-tr-state" }), spoken: el("p", { class: "tl-tr-vh", role: "status" }), refusal: el("p", { class: "tl-tr-refusal", role: "alert" }),
  chart: svg("svg", { class: "tl-tr-chart", role: "img" }), look: el("section", { class: "tl-tr-look" }), samples: el("section", { class: "tl-tr-samples" }),
  verdict: el("section", { class: "tl-tr-verdict" }), lesson: el("section", { class: "tl-tr-lesson" }), mode: el("p", { class: "tl-tr-mode" }),
  table: el("details", { class: "tl-tr-table", ontoggle: refresh }),
};
const canvas = el("div", { class: "tl-tr-canvas" }, parts.chart);
const toolbar = el("div", { class: "tl-tr-transport", role: "toolbar" },
  parts.rewind, parts.play, parts.step, parts.more, parts.stop, parts.bar, parts.figures, parts.hints);
element.querySelector(".tl-train").replaceChildren(toolbar, el("div", { class: "tl-tr-say" }, parts.refusal, parts.state, parts.spoken),
  el("div", { class: "tl-tr-columns" }, canvas, el("div", { class: "tl-tr-right" }, parts.look, parts.samples)),
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
  parts.hints.replaceChildren(el("kbd", {}, "Space"), ` ${t("keys_hint")} `, el("kbd", {}, "R"), ` ${t("rewind").toLowerCase()}`);
  if (ended() && held.step && held.state !== "closed") {
    parts.hints.replaceChildren(el("button", { type: "button", class: "tl-tr-link", onclick: () => document.querySelector("#tl-tabs > .tab-wrapper [role=tab]")?.click() }, t("open_explore")));
  }
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

function drawState() {
  if (held.run) kept.set(ended() ? 0 : held.step);
  const sentence = stateSentence(), stale = changed() && held.state !== "running";
  parts.state.dataset.kind = held.state === "failed" ? "bad" : gone || held.state === "closed" || stale || (!held.run && lost) ? "warn" : "plain";
  parts.state.replaceChildren(el("b", { "aria-hidden": "true" }, { bad: "✗", warn: "!", plain: "" }[parts.state.dataset.kind]), [sentence, held.skipped && t("skipped"), stale && t("changed")].filter(Boolean).join(" "));
  drawRefusal(refusal || preview.refusal || null);
}

// At the control it is about, with the choices that would do; where the sidebar is closed, above the chart.
let refused = "";
function drawRefusal(why) {
  const lang = window.TL.lang(), place = why && document.getElementById(`tl-f-${why.field}`);
  const key = why ? `${lang} ${why.text[lang]} ${Boolean(place?.offsetParent)} ${Boolean(held.run)}` : "";
  if (key === refused) return;
  refused = key;
  document.getElementById("tl-tr-refused")?.remove();
  document.querySelector(".tl-tr-invalid")?.classList.remove("tl-tr-invalid");
  parts.refusal.textContent = why ? `${t(held.run ? "refused_next" : "refused")} ${why.text[lang]}` : "";
  if (!place?.offsetParent) return;
  place.classList.add("tl-tr-invalid");
  const box = place.closest(".tl-two .form") ? place.parentElement.lastElementChild : place;
  box.after(el("div", { id: "tl-tr-refused", class: "tl-tr-refused" }, el("p", {}, el("b", { "aria-hidden": "true" }, "✗ "), why.text[lang]),
    why.choices.map((choice) => el("button", { type: "button", class: "tl-tr-button", onclick: () => trigger("apply", { changes: choice.changes }) }, choice.label[lang]))));
}

// Spoken at a change of state and at each look at held-out sentences, never at each of the many steps.
function speak() {
  const look = last(held.looks);
  const news = `${held.run} ${held.state} ${gone} ${look?.step} ${window.TL.lang()}`;
  if (news === spoken) return;
  spoken = news;
  parts.spoken.textContent = [stateSentence(), look ? heldSentence(look) : ""].join(" ");
}
const heldSentence = (look) => t("spoken_held", { step: count(look.step), exact: percent(look.exact), loss: number(look.loss) });

// ------------------------------------------------------------------------------------------------------------- chart

const percent = (v) => (v === null || v === undefined ? "–" : v >= 0.9995 ? "100" : (100 * v).toFixed(1));
const rounded = (v) => String(Number(v.toPrecision(2)));
const number = (v) => (v === null || v === undefined ? "∞" : v !== 0 && Math.abs(v) < 0.001 ? v.toExponential(1) : Math.abs(v) >= 100 ? v.toPrecision(4) : v.toFixed(3));
const short = (v) => (v === null || v === undefined ? "∞" : v !== 0 && Math.abs(v) < 0.0001 ? v.toExponential(1) : String(Number(v.toPrecision(3))));

function ticks(top, wanted) {
  const rough = top / wanted, magnitude = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 2.5, 5, 10].map((f) => f * magnitude).find((f) => f >= rough * 0.999);
  const all = [];
  for (let i = 0; i * size <= top * 1.0001; i += 1) all.push(Number((i * size).toPrecision(6)));
  return all;
}

// The mean of the steps around each: a trailing mean would run behind the curve it smooths.
function average(values) {
  const sums = [0], counts = [0], half = MEAN / 2;
  values.forEach((value, i) => { sums.push(sums[i] + (value ?? 0)); counts.push(counts[i] + (value === null ? 0 : 1)); });
  return values.map((_, i) => {
    const from = Math.max(0, i - half), to = Math.min(values.length, i + half), n = counts[to] - counts[from];
    return n ? (sums[to] - sums[from]) / n : null;
  });
}

// More steps than pixels are drawn as the lowest and highest of each pixel, so no spike is lost.
function path(values, x, y, width) {
  const bin = Math.max(1, Math.ceil(values.length / (2 * width)));
  let d = "", pen = false;
  for (let i = 0; i < values.length; i += bin) {
    const part = values.slice(i, i + bin).filter((v) => v !== null);
    if (!part.length) { pen = false; continue; }
    for (const v of bin === 1 ? part : [Math.min(...part), Math.max(...part)]) {
      d += `${pen ? "L" : "M"}${x(i + 1).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = true;
    }
  }
  return d;
}

function drawChart() {
  const width = Math.floor(canvas.clientWidth);
  if (width < 200) return; // the tab is hidden: drawn when it is shown
  const plan = facts(), steps = plan?.steps || 100, small = width < 560;
  const left = small ? 40 : 46, right = width - 12, now = held.step;
  const x = (step) => left + ((right - left) * step) / steps;
  const lossHeight = small ? 180 : Math.min(340, Math.max(190, window.innerHeight - 690));
  const heights = { loss: lossHeight, accuracy: small ? 84 : 90, rate: 36, grad_norm: 42 };
  const out = [], over = [], taken = [];
  const put = (tag, attributes, ...children) => { out.push(svg(tag, attributes, ...children)); };
  const write = (cls, px, py, content, anchor) => svg("text", { class: cls, x: px.toFixed(1), y: py.toFixed(1), "text-anchor": anchor || "start" }, content);
  const wide = (content) => [...content].reduce((sum, sign) => sum + (sign > "\u2e80" ? 11 : 5.6), 0);
  // A label goes to the first of its places that is free, and never out of its panel: the next title begins below it.
  function place(cls, px, wanted, content, anchor, area) {
    px = anchor === "end" ? Math.max(px, left + 4 + wide(content)) : Math.max(left + 4, Math.min(px, width - wide(content)));
    const from = anchor === "end" ? px - wide(content) : px, to = from + wide(content);
    const inside = (py) => py - 9 >= area.top - 2 && py + 2 <= area.bottom + 1;
    const free = (py) => !taken.some((one) => one.from < to + 4 && one.to > from - 4 && Math.abs(one.y - py) < 11.5);
    const places = [...wanted, ...[12, 24, 36, 48, 60, 72].flatMap((by) => wanted.flatMap((one) => [one - by, one + by]))].filter(inside);
    const py = places.find(free) ?? places[0] ?? area.bottom - 3;
    taken.push({ from, to, y: py });
    over.push(write(`${cls} ${(from + to) / 2 < x(now) ? "tl-tr-over-past" : ""}`, px, py, content, anchor));
  }
  // To the right of the present, or to its left where that has more room for what does not fit.
  const flips = (content) => x(now) + 7 + wide(content) > width && x(now) - left > width - x(now);
  const beside = (area, py, content, cls) => place(`tl-tr-now ${cls || ""}`, x(now) + (flips(content) ? -7 : 7), [py], content, flips(content) ? "end" : "start", area);
  let top = 0;

  function panel(name, sub, extra) {
    const title = svg("text", { class: "tl-tr-title", x: left, y: top + 13 }, svg("tspan", { class: "tl-tr-name" }, t(name === "grad_norm" ? "norm" : name)), small ? "" : svg("tspan", { class: "tl-tr-sub", dx: 8 }, sub));
    out.push(title);
    if (extra) out.push(extra(top + 13));
    const area = { top: top + 19, bottom: top + 19 + heights[name] };
    top = area.bottom + 8;
    put("rect", { class: "tl-tr-past", x: left, y: area.top, width: Math.max(0, x(now) - left), height: heights[name] });
    for (const step of ticks(steps, small ? 4 : 10)) put("line", { class: "tl-tr-grid", x1: x(step), x2: x(step), y1: area.top, y2: area.bottom });
    if (now) over.push(svg("line", { class: "tl-tr-nowline", x1: x(now), x2: x(now), y1: area.top, y2: area.bottom }));
    return area;
  }
  function scale(area, high, marks) {
    const y = (v) => area.bottom - ((area.bottom - area.top) * Math.min(Math.max(v, 0), high)) / high;
    for (const mark of marks) {
      put("line", { class: mark ? "tl-tr-grid" : "tl-tr-axis", x1: left, x2: right, y1: y(mark).toFixed(1), y2: y(mark).toFixed(1) });
      out.push(write("tl-tr-tick", left - 6, y(mark) + 4, short(mark), "end"));
    }
    return y;
  }
  const line = (cls, values, y) => put("path", { class: cls, d: path(values, x, y, right - left) });
  const finite = (values) => values.filter((v) => v !== null);
  const highest = (values) => finite(values).reduce((a, b) => Math.max(a, b), 0);

  // loss, with what guessing costs
  const chance = plan?.chance_loss ?? null;
  const legend = (keys) => (y) => svg("text", { class: "tl-tr-legend", x: right, y, "text-anchor": "end" },
    keys.map(([cls, sign, name], i) => [svg("tspan", { class: cls, dx: i ? 10 : 0 }, sign), t(name, { n: MEAN })]));
  const only = plan?.kind === "class";
  let area = panel("loss", t(only ? "loss_sub_class" : "loss_sub"), held.loss.length ? legend([["tl-tr-key-raw", "━ ", "legend_run"],
    ["tl-tr-key-mean", "━ ", "legend_mean"], ["tl-tr-key-held", "○ ", small ? "legend_held_short" : plan?.smoothing ? "legend_held" : "legend_held_plain"]]) : null);
  // One spike must not flatten the rest of the curve: the axis ends at three times chance, or at the loss of the start.
  const measured = [...held.loss.map((loss, i) => [loss, i + 1]), ...held.looks.map((look) => [look.loss, look.step])].filter(([loss]) => loss !== null);
  const most = Math.max(3 * (chance || 0), held.loss[0] ?? 0, held.looks[0]?.loss ?? 0, 0.1);
  const high = 1.06 * Math.min(most, Math.max(chance || 0, highest(measured.map(([loss]) => loss)), 0.1));
  const above = measured.filter(([loss]) => loss > high);
  let y = scale(area, high, ticks(high, 5));
  const mark = (value, sentence, cls) => {
    put("line", { class: cls || "tl-tr-chance", x1: left, x2: right, y1: y(value), y2: y(value) });
    place("tl-tr-chance-label", right, [y(value) - 4, y(value) + 12], sentence, "end", area);
  };
  if (plan) {
    mark(chance, t("chance_ln", { n: plan.answers, value: chance.toFixed(2) }));
    if (chance - plan.blind_loss > 0.02) mark(plan.blind_loss, t("blind_loss", { value: plan.blind_loss.toFixed(2) }));
    if (plan.floor) mark(plan.floor, t("floor", { smoothing: plan.smoothing, value: plan.floor.toFixed(2) }), "tl-tr-floor");
  }
  line("tl-tr-raw", held.loss, y);
  line("tl-tr-line", average(held.loss), y);
  if (above.length) {
    const [value, step] = above.reduce((a, b) => (b[0] > a[0] ? b : a));
    for (const px of new Set(above.map((one) => Math.round(x(one[1]))))) put("path", { class: "tl-tr-above", d: `M${px} ${area.top}l4 7h-8z` });
    place("tl-tr-now", left + 6, [area.top + 19], t("above", { value: number(value), step: count(step) }), "start", area);
  }
  for (const look of held.looks) if (look.loss !== null && look.loss <= high) put("circle", { class: "tl-tr-held", cx: x(look.step), cy: y(look.loss), r: 3 });
  if (now && held.loss.length) {
    const mean = last(average(held.loss));
    put("circle", { class: "tl-tr-dot-now", cx: x(now), cy: y(mean ?? 0), r: 4 });
    beside(area, y(mean ?? 0) - 8, number(mean), "tl-tr-strong");
  }
  if (held.state === "failed" && held.fault) {
    const px = x(Math.min(held.fault.step, steps));
    put("line", { class: "tl-tr-fault", x1: px, x2: px, y1: area.top, y2: area.bottom });
    over.push(svg("path", { class: "tl-tr-fault-mark", d: `M${px - 5} ${area.top + 3}l10 10m0-10l-10 10` }));
    over.push(write("tl-tr-fault-label", px + (px > width / 2 ? -10 : 10), area.top + 28, t("bad_step", { step: count(held.fault.step) }), px > width / 2 ? "end" : "start"));
  }

  // accuracy: each batch as a line, held-out sentences as squares
  area = panel("accuracy", plan ? t("accuracy_sub", { n: plan.held_out, every: some("every", plan.every) }) : "",
    legend([["tl-tr-key-mean", "━ ", only ? "legend_batch" : "legend_tokens"], ["tl-tr-key-held", "□ ", only ? "legend_held_short" : "legend_sentences"]]));
  y = scale(area, 1, [0, 0.5, 1]);
  if (plan) {
    mark(plan.chance_accuracy, t(only ? "chance_percent_class" : "chance_percent", { value: rounded(100 * plan.chance_accuracy) }));
    if (plan.blind_accuracy - plan.chance_accuracy > 0.02) mark(plan.blind_accuracy, t(only ? "blind_percent_class" : "blind_percent", { value: rounded(100 * plan.blind_accuracy) }));
  }
  line("tl-tr-raw", held.accuracy, y);
  line("tl-tr-line", average(held.accuracy), y);
  if (held.looks.length) {
    put("path", { class: "tl-tr-dashed", d: held.looks.map((look, i) => `${i ? "L" : "M"}${x(look.step).toFixed(1)} ${y(look.exact).toFixed(1)}`).join("") });
    for (const look of held.looks) put("rect", { class: "tl-tr-held", x: x(look.step) - 2.75, y: y(look.exact) - 2.75, width: 5.5, height: 5.5 });
  }
  if (now && held.accuracy.length) {
    const mean = last(average(held.accuracy)) ?? 0, look = last(held.looks);
    beside(area, y(mean) - 5, t(only ? "now_batch_class" : "now_batch", { value: percent(mean) }), "tl-tr-strong");
    const name = look?.step < now ? (only ? "now_exact_class_then" : "now_exact_then") : only ? "now_exact_class" : "now_exact";
    if (look) beside(area, y(look.exact) + (look.exact > mean ? -5 : 13), t(name, { value: percent(look.exact), step: count(look.step) }));
  }

  // learning rate and gradient norm
  for (const [name, sub] of [["rate", plan?.schedule === "warmup" ? t("rate_warmup", { lr: short(plan.lr), warmup: plan.warmup }) : t("rate_constant")],
    ["grad_norm", plan?.clip ? t("norm_clipped", { clip: short(plan.clip) }) : t("norm_free")]]) {
    area = panel(name, plan ? sub : "");
    const peak = 1.1 * (highest(held[name]) || (name === "rate" ? plan?.lr || 1 : 1));
    const known = held[name].length || (name === "rate" && plan?.schedule !== "warmup");
    y = scale(area, peak, known ? [0, Number((peak / 1.1).toPrecision(2))] : [0]);
    line("tl-tr-thin", held[name], y);
    if (now && held[name].length) beside(area, y(last(held[name]) ?? peak) + (flips(short(last(held[name]))) ? -4 : 4), short(last(held[name])));
  }

  // the film: one small map at each look, empty frames for those to come
  const every = plan?.every || 10, frame = Math.max(6, Math.min(46, (x(every) - x(0)) * 0.62));
  const scene = held.scene;
  out.push(svg("text", { class: "tl-tr-title", x: left, y: top + 13 }, svg("tspan", { class: "tl-tr-name" }, t(only ? "film_self" : "film_cross")),
    small ? "" : svg("tspan", { class: "tl-tr-sub", dx: 8 }, scene ? t("film_sub", { every: some("every", every), layer: scene.layer, heads: some("heads", scene.heads) }) : "")));
  top += 19;
  const rows = scene?.rows.length || 3, columns = scene?.columns.length || 3, tall = Math.min(46, Math.max(14, (frame * rows) / columns));
  const at = (step) => Math.min(Math.max(x(step) - frame / 2, left), right - frame);
  for (let step = 0; step <= steps; step += every) {
    const px = at(step), look = held.looks.find((one) => one.step === step);
    if (look) out.push(film(look, px, top, frame, tall));
    else put("rect", { class: "tl-tr-unseen", x: px, y: top, width: frame, height: tall });
  }
  if (held.looks.length) {
    const look = last(held.looks), px = at(look.step);
    if (look.step % every) out.push(film(look, px, top, frame, tall)); // where the run was halted
    put("rect", { class: "tl-tr-current", x: px - 2, y: top - 2, width: frame + 4, height: tall + 4, rx: 2 });
  }
  top += tall + 16;

  // one step axis under everything
  for (const step of ticks(steps, small ? 4 : 10)) {
    if (Math.abs(x(step) - x(now)) > 24) out.push(write("tl-tr-tick", x(step), top, count(step), "middle"));
  }
  out.push(write("tl-tr-tick", left - 6, top, t("axis_step"), "end"));
  if (now) over.push(write("tl-tr-tick tl-tr-strong", x(now), top, count(now), "middle"));
  parts.chart.setAttribute("viewBox", `0 0 ${width} ${top + 6}`);
  parts.chart.setAttribute("width", width);
  parts.chart.setAttribute("height", top + 6);
  parts.chart.setAttribute("aria-label", chartSentence());
  parts.chart.replaceChildren(...out, ...over);
  // What is said beside a title gives way to the legend where there is no room for both.
  for (const key of parts.chart.querySelectorAll(".tl-tr-legend")) {
    const title = key.previousElementSibling;
    if (left + title.getComputedTextLength() + 16 > right - key.getComputedTextLength()) title.querySelector(".tl-tr-sub")?.remove();
  }
}

function chartSentence() {
  if (!held.loss.length) return t("spoken_empty");
  const plan = facts(), look = last(held.looks);
  const values = { step: count(held.step), steps: count(plan?.steps || 0), loss: number(last(held.loss)), first: number(held.loss[0]), chance: number(plan?.chance_loss),
    accuracy: percent(last(held.accuracy)), rate: short(last(held.rate)), norm: short(last(held.grad_norm)) };
  return [t("spoken", values), look ? heldSentence(look) : ""].join(" ");
}

// Each frame is drawn once: a run of 15 looks holds some thousand cells.
const frames = new WeakMap();
function film(look, px, py, width, height) {
  const key = `${px.toFixed(1)} ${py} ${width} ${height}`, old = frames.get(look);
  if (old && old.key === key) return old.node;
  const rows = look.cells.length, columns = look.cells[0]?.length || 1, node = svg("g", { transform: `translate(${px.toFixed(1)} ${py})` });
  look.cells.forEach((row, i) => row.forEach((value, j) => node.append(svg("rect", { class: "tl-tr-p", style: `--p:${value / 100}`,
    x: ((width * j) / columns).toFixed(2), y: ((height * i) / rows).toFixed(2), width: (width / columns + 0.2).toFixed(2), height: (height / rows + 0.2).toFixed(2) }))));
  frames.set(look, { key, node });
  return node;
}

// -------------------------------------------------------------------------------------------------- look and samples

const heading = (title, sub) => el("h2", {}, title, sub ? el("small", {}, sub) : "");

function drawLook() {
  const look = last(held.looks), scene = held.scene;
  if (!look || !scene) { parts.look.replaceChildren(heading(t("look")), el("p", { class: "tl-tr-empty" }, t("look_empty"))); return; }
  const dark = document.body.classList.contains("dark"), cross = scene.kind === "cross";
  const cell = (value) => {
    const flip = dark ? value > 51.6 : value > 59.2;
    const shown = value < 0 ? "NaN" : value === 0 ? "·" : value >= 100 ? "1.0" : `.${String(value).padStart(2, "0")}`;
    return el("td", { class: `tl-tr-p ${flip ? "tl-tr-flip" : ""} ${value < 0 ? "tl-tr-nan" : ""}`, style: `--p:${Math.max(value, 0) / 100}` }, shown);
  };
  const head = el("tr", {}, el("td", { class: "tl-tr-corner" }, t(cross ? "look_rows_cross" : "look_rows_self")), scene.columns.map((token) => el("th", { scope: "col" }, token)));
  const body = look.cells.map((row, i) => el("tr", {}, el("th", { scope: "row" }, scene.rows[i]), row.map(cell)));
  parts.look.replaceChildren(heading(t(look.step < held.step ? "look_then" : "look"), t("look_sub", { step: count(look.step) })),
    el("div", { class: "tl-tr-scroll", tabindex: 0, role: "group", "aria-label": t("look") }, el("table", { class: "tl-tr-map" }, el("thead", {}, head), el("tbody", {}, body))),
    el("p", { class: "tl-tr-caption" }, t("look_caption", { heads: some("heads", scene.heads), layer: scene.layer }), cross ? "" : ` ${t("look_reads")}`));
}

// Longest common subsequence, so that one missing token does not mark all that follow it.
function differences(got, want) {
  const table = Array.from({ length: got.length + 1 }, () => new Array(want.length + 1).fill(0));
  for (let i = got.length - 1; i >= 0; i -= 1) for (let j = want.length - 1; j >= 0; j -= 1) table[i][j] = got[i] === want[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const out = [];
  for (let i = 0, j = 0; i < got.length || j < want.length;) {
    if (i < got.length && j < want.length && got[i] === want[j]) { out.push(["same", got[i]]); i += 1; j += 1; }
    else if (i < got.length && (j >= want.length || table[i + 1][j] >= table[i][j + 1])) { out.push(["gone", got[i]]); i += 1; }
    else { out.push(["new", want[j]]); j += 1; }
  }
  return out;
}

function prediction(row, only) {
  if (only) {
    const name = (ids) => ids.map((id) => t(`class_${facts().task}_${id}`)).join(" ");
    return row.ok ? [name(row.got)] : [el("del", {}, name(row.got)), " ", el("ins", {}, name(row.want))];
  }
  if (!row.got.length && !row.want.length) return [t("nothing")];
  return differences(row.got, row.want).flatMap(([kind, token]) => [
    kind === "same" ? token : kind === "gone" ? el("del", { title: t("surplus") }, token) : el("ins", { title: t("missing") }, token), " "]);
}

function drawSamples() {
  const samples = held.samples, only = facts()?.kind === "class";
  if (!samples) { parts.samples.replaceChildren(heading(t("samples")), el("p", { class: "tl-tr-empty" }, t("look_empty"))); return; }
  const rows = samples.rows.map((row) => el("tr", {},
    el("td", { class: row.ok ? "tl-tr-ok" : "tl-tr-bad" }, el("span", { "aria-hidden": "true" }, row.ok ? "✓" : "✗"), el("span", { class: "tl-tr-vh" }, t(row.ok ? "right" : "wrong"))),
    el("td", { class: "tl-tr-tokens" }, row.src.join(" ")), el("td", { class: "tl-tr-tokens" }, prediction(row, only))));
  parts.samples.replaceChildren(heading(t("samples"), t("samples_sub", { right: samples.right, of: samples.of, step: count(samples.step) })),
    el("table", {}, el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col" }, t("source")), el("th", { scope: "col" }, t(only ? "prediction_class" : "prediction")))), el("tbody", {}, rows)),
    el("p", { class: "tl-tr-caption" }, t(only ? "samples_how_class" : "samples_how")));
}

// -------------------------------------------------------------------------------------------------------------- foot

function drawFoot() {
  const plan = facts(), look = last(held.looks), only = plan?.kind === "class";
  let verdict = t(held.state === "failed" ? "verdict_failed" : "verdict_empty");
  if (held.state !== "failed" && look && plan && held.step) {
    const values = { step: count(look.step), exact: percent(look.exact), token: percent(look.token), loss: number(look.loss), n: plan.held_out, learns_in: count(plan.learns_in),
      chance: rounded(100 * plan.chance_accuracy), chance_loss: number(plan.chance_loss) };
    const lift = (look.token - plan.chance_accuracy) / (1 - plan.chance_accuracy);
    if (look.exact >= 0.99) verdict = t("verdict_learned", values);
    else if (held.state === "running") verdict = t(only ? "verdict_going_class" : "verdict_going", values);
    else if (lift < 0.15) verdict = t(only ? "verdict_not_yet_class" : "verdict_not_yet", values);
    else verdict = t(only ? "verdict_partly_class" : "verdict_partly", values);
  }
  const lesson = held.step ? plan?.lesson?.[window.TL.lang()] : plan?.needs?.[window.TL.lang()];
  parts.verdict.replaceChildren(el("h2", {}, t("verdict")), el("p", {}, verdict));
  // What other runs have shown stands under a heading of its own: every other number here is of this run.
  parts.lesson.hidden = !lesson;
  parts.lesson.replaceChildren(el("h2", {}, t("lesson")), el("p", {}, lesson || ""));
  parts.mode.replaceChildren(...(plan ? [
    t("mode", { dropout: short(plan.dropout), dtype: plan.dtype, device: plan.device, seed: plan.seed, optimizer: { adam: "Adam", adamw: "AdamW" }[plan.optimizer] || plan.optimizer, batch: plan.batch, torch: plan.torch }), el("br"),
    t("mode_model", { norm: t(`norm_${plan.norm}`), d_model: plan.d_model, n_heads: plan.n_heads, layers: some("layers", plan.layers), d_ff: plan.d_ff, positions: t(`positions_${plan.positions}`), parameters: count(plan.parameters) }),
    ...(plan.instead_of ? [el("br"), el("b", {}, t("mode_fitted", { model: t(`architecture_${plan.architecture}`), chosen: t(`architecture_${plan.instead_of}`) }))] : [])] : []));
  drawTable(plan);
}

function drawTable(plan) {
  const box = parts.table;
  box.hidden = !held.loss.length;
  if (!box.firstChild) box.append(el("summary"));
  box.firstChild.textContent = t("table");
  while (box.children.length > 1) box.lastChild.remove();
  if (!box.open || box.hidden) return;
  const steps = [...new Set([1, ...held.looks.map((look) => look.step).filter(Boolean), held.step])].sort((a, b) => a - b).filter((step) => step <= held.loss.length);
  const heads = ["table_step", "loss", plan?.kind === "class" ? "table_batch_class" : "table_batch", "rate", "norm", "table_held", ...(plan?.kind === "class" ? [] : ["table_token"]), "table_exact"];
  const rows = steps.map((step) => {
    const look = held.looks.find((one) => one.step === step), i = step - 1;
    const cells = [number(held.loss[i]), percent(held.accuracy[i]), short(held.rate[i]), short(held.grad_norm[i]), look ? number(look.loss) : "", ...(plan?.kind === "class" ? [] : [look ? percent(look.token) : ""]), look ? percent(look.exact) : ""];
    return el("tr", {}, el("th", { scope: "row" }, count(step)), cells.map((cell) => el("td", {}, cell)));
  });
  box.append(el("div", { class: "tl-tr-scroll", tabindex: 0, role: "group", "aria-label": t("table") },
    el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, t(head))))), el("tbody", {}, rows))));
}

// ----------------------------------------------------------------------------------------------------------- drawing

function draw() {
  drawn = 0;
  if (!element.isConnected) return;
  drawTransport();
  drawState();
  speak();
  drawChart();
  drawLook();
  drawSamples();
  drawFoot();
}
function refresh() { if (!drawn) drawn = requestAnimationFrame(draw); }

watch("value", take);
watch("plan", () => { preview = props.plan || {}; if (preview.facts) refusal = null; refresh(); });
const ears = [window.TL.on("language", refresh), window.TL.on("tab", (tab) => { if (tab === "train") { command("preview"); refresh(); } })];
new ResizeObserver(refresh).observe(canvas);
const theme = new MutationObserver(refresh);
theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
const beat = setInterval(watchdog, 700);

// A focused button or switch keeps its own Space; everything else on this tab plays and pauses.
const own = (event) => event.target?.closest?.("button, summary, [role=tab], [role=radio], [role=slider], input");
window.TL.keys("train", [
  { keys: [" "], show: ["Space"], say: () => t("key_play"), run: (key, event) => !own(event) && (press("play"), true) },
  { keys: ["ArrowRight"], show: ["→"], say: () => t("key_step"), run: (key, event) => !event.target?.closest?.("[role=tab], [role=slider], input") && (press("step"), true) },
  { keys: ["r", "R"], show: ["R"], say: () => t("key_rewind"), run: () => (press("rewind"), true) },
]);

take();
refresh();
// A mount that begins in the middle of a run asks for what it missed.
command("resync");
if (!props.plan) command("preview");

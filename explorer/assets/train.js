// The Train view, part 1: what the page holds of a run, and the wire to the server. The server sends deltas; the curve is
// kept here. The files train*.js are one function body, in the order of SCRIPTS in views/train.py.
//
// sent.value   news of the run: {run, state, step, from, loss: [...], looks_from, looks: [...], ...}, or a refusal
// sent.plan    what the settings would start now: {facts} or {refusal}
// Four events go back: "command" with {do: play | pause | step | more | rewind | stop | rate | resync | wake | preview},
// "halt" for the model of a run that was stopped, and "apply" or "mend" with changes that are offered, of the controls of
// Train or of those of Explore.
const { el, svg, count } = window.TL;
const sent = window.TL.unpacked(props);
const CURVES = ["loss", "accuracy", "rate", "grad_norm", "layers"];
const ENDED = ["finished", "stopped", "failed", "closed"];

const held = fresh();
let preview = sent.plan || {}, refusal = null, gone = false, asked = 0, drawn = 0, spoken = "";

function fresh() {
  return { run: null, plan: null, state: "empty", step: 0, steps: 0, looked: 0, speed: null, left: null, fault: null, heard: 0,
    lr: null, rate_changes: [], doctor: null, score: null, scored: true, again: null,
    loss: [], accuracy: [], rate: [], grad_norm: [], layers: [], parts: [], looks: [], scene: null, skipped: false };
}
const t = (key, values) => window.TL.w(`train.${key}`, values);
// "every 10 steps", but "every step"
const some = (key, n) => t(Number(n) === 1 ? `${key}_one` : key, { [key]: n });
const both = (text) => text?.[window.TL.lang()] || "";
const facts = () => held.plan || preview.facts || null;
const classes = () => facts()?.kind === "class";
const ended = () => ENDED.includes(held.state);
const last = (list) => list[list.length - 1];

// A page that loses its connection is loaded anew by gradio, and its run is gone. This remembers that there was one, and
// at each look its record without the curve, from which the panel Runs takes it up.
const kept = {
  get: () => { try { return Number(sessionStorage.getItem("tl-run-step")) || 0; } catch { return 0; } },
  set: (step) => { try { sessionStorage.setItem("tl-run-step", String(step)); } catch { /* then it is not remembered */ } },
  record: (what) => {
    try { if (what) localStorage.setItem("tl-run-record", JSON.stringify(what)); else localStorage.removeItem("tl-run-record"); } catch { /* as above */ }
  },
};
const lost = kept.get();

function take() {
  const news = sent.value;
  if (!news || typeof news !== "object") return;
  if (news.reply === "stop" && news.step) trigger("halt", {});
  if (news.refusal) refusal = news.refusal;
  else if (news.reply && news.reply !== "resync" && news.reply !== "wake") refusal = null;
  if (news.gone) gone = held.state === "running" || held.state === "paused" || held.state === "ready";
  if (news.run && (news.reply || !held.run || news.run === held.run)) merge(news);
  refresh();
}

function merge(news) {
  const before = `${held.run} ${held.state}`;
  if (news.run !== held.run) { Object.assign(held, fresh(), { run: news.run }); chosen.leave(); }
  gone = false;
  held.heard = performance.now();
  if (news.plan) held.plan = news.plan;
  if (news.parts?.length) held.parts = news.parts;
  if (news.from <= held.loss.length) for (const name of CURVES) news[name].forEach((v, i) => { held[name][news.from + i] = v; });
  if (news.looks_from <= held.looks.length) news.looks.forEach((look, i) => { held.looks[news.looks_from + i] = look; });
  held.skipped ||= Boolean(news.skipped);
  held.scene = news.scene || held.scene;
  held.looked = Math.max(held.looked, news.looked || 0);
  if (news.step < held.step) return; // an answer may be overtaken by the last words of the slice it has ended
  for (const name of ["state", "step", "steps", "speed", "left", "fault", "lr", "rate_changes", "doctor", "score", "scored", "again"]) held[name] = news[name];
  if (news.kept) kept.record(news.kept); // of an ended run, too: its steps can be repeated after the tab was closed
  if (before !== `${held.run} ${held.state}`) window.TL.emit("run", { run: held.run, state: held.state });
}

// A reconnected or re-mounted page lacks what was sent before, and a message may have been lost on the way.
function watchdog() {
  if (!element.isConnected) { clearInterval(beat); chosen.leave(); ears.forEach((off) => off()); theme.disconnect(); return; }
  const now = performance.now(), silent = now - held.heard;
  const lacking = held.run && (held.loss.length < held.step || held.looks.length < held.looked || !held.plan);
  if (lacking && silent > 600 && now - asked > 2000) { asked = now; command("resync"); }
  if (held.state === "running" && !gone) {
    if (silent > 4000 && now - asked > 4000) { asked = now; command("wake"); }
    if (silent > 1500) refresh();
  }
}
const command = (what, more) => trigger("command", { do: what, ...more });

// ---------------------------------------------------------------------------------------------------------- numbers

const percent = (v) => (v === null || v === undefined ? "–" : v >= 1 ? "100" : Math.min(100 * v, 99.9).toFixed(1));
const rounded = (v) => String(Number(v.toPrecision(2)));
const number = (v) => (v === null || v === undefined ? "∞" : v !== 0 && Math.abs(v) < 0.001 ? v.toExponential(1) : Math.abs(v) >= 1000 && Math.abs(v) < 1e9 ? count(Math.round(v)) : Math.abs(v) >= 100 ? v.toPrecision(4) : v.toFixed(3));
const short = (v) => (v === null || v === undefined ? "∞" : v !== 0 && Math.abs(v) < 0.0001 ? v.toExponential(1) : String(Number(v.toPrecision(3))));

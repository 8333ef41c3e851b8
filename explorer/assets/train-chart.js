// The Train view, part 4: loss and accuracy, with what guessing costs, what is expected, and the held-out sets.

// One spike must not flatten the rest of the curve: the axis ends at three times chance, or at the loss of the start.
function drawLoss(f) {
  const plan = facts(), chance = plan?.chance_loss ?? null;
  const area = f.panel(t("loss"), lossHeight(f), t(classes() ? "loss_sub_class" : "loss_sub"), held.loss.length ? f.legend([
    ["tl-tr-key-raw", "━ ", t("legend_run")], ["tl-tr-key-mean", "━ ", t("legend_mean", { n: MEAN })],
    ["tl-tr-key-held", "○ ", t(f.small ? "legend_held_short" : plan?.smoothing ? "legend_held" : "legend_held_plain")]]) : null);
  const measured = [...held.loss.map((loss, i) => [loss, i + 1]), ...held.looks.map((look) => [look.loss, look.step])].filter(([loss]) => loss !== null);
  const most = Math.max(3 * (chance || 0), held.loss[0] ?? 0, held.looks[0]?.loss ?? 0, 0.1);
  const high = 1.06 * Math.min(most, Math.max(chance || 0, highest(measured.map(([loss]) => loss)), 0.1));
  const above = measured.filter(([loss]) => loss > high);
  const y = f.scale(area, high, ticks(high, 5)), band = plan?.band;
  if (band) {
    f.band(band.loss, y, band.steps);
    const from = Math.max(held.step, f.steps * 0.45), i = band.steps.findIndex((step) => step >= from);
    if (i >= 0 && held.step < 0.8 * f.steps) f.place("tl-tr-expected-label", f.x(band.steps[i]), [y(band.loss[2][i] ?? 0) - 8], t("expected", { n: band.seeds.length }), "start", area);
  }
  if (plan) {
    f.mark(area, y, chance, t("chance_ln", { n: plan.answers, value: chance.toFixed(2) }));
    if (chance - plan.blind_loss > 0.02) f.mark(area, y, plan.blind_loss, t("blind_loss", { value: plan.blind_loss.toFixed(2) }));
    if (plan.floor) f.mark(area, y, plan.floor, t("floor", { smoothing: plan.smoothing, value: plan.floor.toFixed(2) }), "tl-tr-floor");
  }
  f.line("tl-tr-raw", held.loss, y);
  f.line("tl-tr-line", average(held.loss), y);
  if (above.length) {
    const [value, step] = above.reduce((a, b) => (b[0] > a[0] ? b : a));
    for (const px of new Set(above.map((one) => Math.round(f.x(one[1]))))) f.put("path", { class: "tl-tr-above", d: `M${px} ${area.top}l4 7h-8z` });
    f.place("tl-tr-now", f.left + 6, [area.top + 19], t("above", { value: number(value), step: count(step) }), "start", area);
  }
  for (const look of held.looks) if (look.loss !== null && look.loss <= high) f.put("circle", { class: "tl-tr-held", cx: f.x(look.step), cy: y(look.loss), r: 3 });
  if (f.now && held.loss.length) {
    const mean = last(average(held.loss));
    f.put("circle", { class: "tl-tr-dot-now", cx: f.x(f.now), cy: y(mean ?? 0), r: 4 });
    f.beside(area, y(mean ?? 0) - 8, number(mean), "tl-tr-strong");
  }
  if (held.state === "failed" && held.fault) drawBadStep(f, area);
}

const lossHeight = (f) => (f.small ? 180 : Math.min(340, Math.max(170, window.innerHeight - 745)));

function drawBadStep(f, area) {
  const px = f.x(Math.min(held.fault.step, f.steps)), back = px > f.width / 2;
  f.put("line", { class: "tl-tr-fault", x1: px, x2: px, y1: area.top, y2: area.bottom });
  f.over.push(svg("path", { class: "tl-tr-fault-mark", d: `M${px - 5} ${area.top + 3}l10 10m0-10l-10 10` }));
  f.over.push(f.write("tl-tr-fault-label", px + (back ? -10 : 10), area.top + 28, t("bad_step", { step: count(held.fault.step) }), back ? "end" : "start"));
}

// How a held-out set is drawn: a square for new questions; a triangle and a diamond for the longer and the fresh ones.
const SIGNS = { new: "□", longer: "△", fresh: "◇" };
const setSign = (name) => SIGNS[name] || "▽";
function setMark(name, px, py) {
  const d = { longer: `M${px} ${py - 3.5}l3.6 6h-7.2z`, fresh: `M${px} ${py - 3.8}l3.8 3.8l-3.8 3.8l-3.8-3.8z` }[name] || `M${px} ${py + 3.5}l3.6-6h-7.2z`;
  return svg("path", { class: "tl-tr-held", d });
}
const otherSets = () => (facts()?.sets || []).filter((one) => one.name !== "new");
const setName = (name) => t(`set_${name}`);

// Each batch as a line; of held-out questions, the share of whole answers that are right, one sign for each set.
function drawAccuracy(f) {
  const plan = facts(), only = classes(), sets = otherSets().map((one) => one.name);
  const area = f.panel(t("accuracy"), f.small ? 84 : 90, plan ? t("accuracy_sub", { n: plan.held_out, every: some("every", plan.every) }) : "", f.legend([
    ["tl-tr-key-mean", "━ ", t(only ? "legend_batch" : "legend_tokens")],
    ["tl-tr-key-held", "□ ", t(only || f.small ? "legend_held_short" : "legend_sentences")],
    ...(f.small && sets.length > 1 ? [] : sets.map((name) => ["tl-tr-key-held", `${setSign(name)} `, setName(name)]))]));
  const y = f.scale(area, 1, [0, 0.5, 1]);
  if (plan?.band) f.band(plan.band.exact, y, plan.band.steps);
  if (plan) {
    f.mark(area, y, plan.chance_accuracy, t(only ? "chance_percent_class" : "chance_percent", { value: rounded(100 * plan.chance_accuracy) }));
    if (plan.blind_accuracy - plan.chance_accuracy > 0.02) f.mark(area, y, plan.blind_accuracy, t(only ? "blind_percent_class" : "blind_percent", { value: rounded(100 * plan.blind_accuracy) }));
  }
  f.line("tl-tr-raw", held.accuracy, y);
  f.line("tl-tr-line", average(held.accuracy), y);
  if (held.looks.length) {
    for (const name of sets) {
      const there = held.looks.filter((look) => look.sets?.[name]).map((look) => [look.step, look.sets[name].exact]);
      f.put("path", { class: "tl-tr-dotted", d: points(there, f.x, y) });
      for (const [step, exact] of there) f.out.push(setMark(name, Number(f.x(step).toFixed(1)), Number(y(exact).toFixed(1))));
    }
    f.put("path", { class: "tl-tr-dashed", d: points(held.looks.map((look) => [look.step, look.exact]), f.x, y) });
    for (const look of held.looks) f.put("rect", { class: "tl-tr-held", x: f.x(look.step) - 2.75, y: y(look.exact) - 2.75, width: 5.5, height: 5.5 });
  }
  if (!f.now || !held.accuracy.length) return;
  const mean = last(average(held.accuracy)) ?? 0, look = last(held.looks);
  f.beside(area, y(mean) - 5, t(only ? "now_batch_class" : "now_batch", { value: percent(mean) }), "tl-tr-strong");
  const name = look?.step < f.now ? (only ? "now_exact_class_then" : "now_exact_then") : only ? "now_exact_class" : "now_exact";
  if (look) f.beside(area, y(look.exact) + (look.exact > mean ? -5 : 13), t(name, { value: percent(look.exact), step: count(look.step) }));
}

function drawChart() {
  const width = Math.floor(canvas.clientWidth);
  if (width < 200) return; // the tab is hidden: drawn when it is shown
  const f = frameOf(width);
  drawLoss(f);
  drawAccuracy(f);
  drawRate(f);
  drawNorm(f);
  parts.chart.setAttribute("viewBox", `0 0 ${width} ${f.top}`);
  parts.chart.setAttribute("width", width);
  parts.chart.setAttribute("height", f.top);
  parts.chart.setAttribute("aria-label", chartSentence());
  parts.chart.replaceChildren(...f.out, ...f.over);
  // What is said beside a title gives way to the legend where there is no room for both.
  for (const key of parts.chart.querySelectorAll(".tl-tr-legend")) {
    const title = key.previousElementSibling;
    if (f.left + title.getComputedTextLength() + 16 > f.right - key.getComputedTextLength()) title.querySelector(".tl-tr-sub")?.remove();
  }
  drawFilm(f);
}

function chartSentence() {
  if (!held.loss.length) return t("spoken_empty");
  const plan = facts(), look = last(held.looks);
  const values = { step: count(held.step), steps: count(plan?.steps || 0), loss: number(last(held.loss)), first: number(held.loss[0]), chance: number(plan?.chance_loss),
    accuracy: percent(last(held.accuracy)), rate: short(last(held.rate)), norm: short(last(held.grad_norm)) };
  return [t("spoken", values), look ? heldSentence(look) : ""].join(" ");
}

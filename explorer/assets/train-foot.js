// The Train view, part 8: what the run shows and what it does not, how it was run, and its values as a table.

// Chosen as the table of runs does (shows in explorer/run_table.py), so that the two never contradict each other.
const GOAL = 0.95, LIFT = 0.15, NEAR = 0.03;
function verdictSentence(plan, look) {
  if (held.state === "failed") return t("verdict_failed");
  if (!look || !plan || !held.step) return t("verdict_empty");
  const only = classes(), values = { step: count(look.step), exact: percent(look.exact), token: percent(look.token), loss: number(look.loss), n: plan.held_out, learns_in: count(plan.learns_in),
    chance: rounded(100 * plan.chance_accuracy), chance_loss: number(plan.chance_loss),
    blind: rounded(100 * plan.blind_accuracy), blind_loss: number(plan.blind_loss) };
  const guess = plan.chance_accuracy, blind = plan.blind_accuracy > guess && look.token > guess + NEAR;
  if (look.exact >= GOAL) return t("verdict_learned", values);
  if (held.state === "running") return t(only ? "verdict_going_class" : "verdict_going", values);
  const early = look.step < plan.learns_in && !held.doctor && look.loss <= 1.1 * plan.chance_loss, patience = early ? [t("verdict_flat", values)] : [];
  if (blind && look.token <= plan.blind_accuracy + NEAR) return [t("verdict_blind", values), ...patience].join(" ");
  if (!blind && look.token < guess + LIFT * (1 - guess)) return [t(only ? "verdict_not_yet_class" : "verdict_not_yet", values), ...patience].join(" ");
  return t(only ? "verdict_partly_class" : "verdict_partly", values);
}

// Beside the five seeds that were measured beforehand, at the same step.
function bandSentence(plan, look) {
  const i = look && plan?.band ? plan.band.steps.indexOf(look.step) : -1;
  if (i < 0 || !look.step) return "";
  const [low, , high] = plan.band.held_out_loss.map((each) => each[i]);
  if (low === null || look.loss === null) return "";
  const where = look.loss < low ? "band_below" : look.loss > high ? "band_above" : "band_inside";
  return t(where, { loss: number(look.loss), low: number(low), high: number(high), n: plan.band.seeds.length, step: count(look.step) });
}

// A gap between the held-out sets is what memorising looks like.
function setsSentence(look) {
  const failing = look && look.exact >= 0.9 ? Object.entries(look.sets || {}).filter(([, one]) => one.exact < 0.5).map(([name, one]) => t("sets_gap_one", { name: t(`set_words_${name}`), exact: percent(one.exact) })) : [];
  return failing.length ? t("sets_gap", { exact: percent(look.exact), sets: failing.join(t("sets_and")) }) : "";
}

function drawFoot() {
  const plan = facts(), look = last(held.looks), lang = window.TL.lang();
  const score = held.score && t("score", { bleu: held.score.bleu.toFixed(1), chrf: held.score.chrf.toFixed(1), n: held.score.n, signature: held.score.signature });
  const said = [verdictSentence(plan, look), held.state === "failed" ? "" : bandSentence(plan, look), held.state === "failed" ? "" : setsSentence(look)].filter(Boolean).join(" ");
  const limits = held.step && look?.exact >= 0.9 ? both(plan?.not_proved) : "";
  parts.verdict.replaceChildren(el("h2", {}, t("verdict")), score ? el("p", {}, el("b", {}, score)) : "", el("p", {}, said), limits ? el("p", {}, el("b", {}, `${t("not_proved")} `), limits, ` ${t("not_proved_parts")}`) : "");
  // What other runs have shown stands under a heading of its own: every other number here is of this run.
  const lesson = held.step ? plan?.lesson?.[lang] : plan?.needs?.[lang];
  parts.lesson.hidden = !lesson;
  parts.lesson.replaceChildren(el("h2", {}, t("lesson")), el("p", {}, lesson || ""));
  parts.mode.replaceChildren(...(plan ? modeSentences(plan) : []));
  drawTable(plan);
}

function modeSentences(plan) {
  const optimizer = t(`optimizer_${plan.optimizer}`) + (plan.optimizer === "adam" ? " (0.9, 0.98, 1e-9)" : "") + (plan.weight_decay ? ` (${t("decay", { decay: short(plan.weight_decay) })})` : "");
  return [
    t("mode", { dropout: short(plan.dropout), dtype: plan.dtype, device: plan.device, seed: plan.seed, optimizer, batch: plan.batch, torch: plan.torch }), el("br"),
    t("mode_model", { norm: t(`norm_${plan.norm}`), d_model: plan.d_model, n_heads: plan.n_heads, layers: some("n_layers", plan.layers), d_ff: plan.d_ff, positions: t(`positions_${plan.positions}`), parameters: count(plan.parameters) }),
    ...(plan.instead_of ? [el("br"), el("b", {}, t("mode_fitted", { model: t(`architecture_${plan.architecture}`), chosen: t(`architecture_${plan.instead_of}`) }))] : []),
    ...(plan.fault !== "none" ? [el("br"), el("b", {}, t("mode_fault", { fault: plan.fault }))] : []),
  ];
}

function drawTable(plan) {
  const box = parts.table;
  box.hidden = !held.loss.length;
  if (!box.firstChild) box.append(el("summary"));
  box.firstChild.textContent = t("table");
  while (box.children.length > 1) box.lastChild.remove();
  if (!box.open || box.hidden) return;
  const steps = [...new Set([1, ...held.looks.map((look) => look.step).filter(Boolean), held.step])].sort((a, b) => a - b).filter((step) => step <= held.loss.length);
  const sets = otherSets().map((one) => one.name);
  const heads = [...["table_step", "loss", classes() ? "table_batch_class" : "table_batch", "rate", "norm", "table_held", ...(classes() ? [] : ["table_token"]), "table_exact"].map((head) => t(head)),
    ...sets.map((name) => t("table_set", { name: setName(name) })), ...held.parts.map((part) => t("table_part", { part }))];
  const rows = steps.map((step) => {
    const look = held.looks.find((one) => one.step === step), i = step - 1;
    const cells = [number(held.loss[i]), percent(held.accuracy[i]), short(held.rate[i]), short(held.grad_norm[i]), look ? number(look.loss) : "", ...(classes() ? [] : [look ? percent(look.token) : ""]), look ? percent(look.exact) : "",
      ...sets.map((name) => (look?.sets?.[name] ? percent(look.sets[name].exact) : "")), ...held.parts.map((_, k) => short(held.layers[i]?.[k]))];
    return el("tr", {}, el("th", { scope: "row" }, count(step)), cells.map((cell) => el("td", {}, cell)));
  });
  box.append(el("div", { class: "tl-tr-scroll", tabindex: 0, role: "group", "aria-label": t("table") },
    el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows))));
}

// The Train view, part 7: a few held-out answers with their mistakes corrected in place, and the held-out sets in numbers.

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

// Struck through what is too much, a caret before what is missing: neither needs its colour.
const surplus = (...content) => el("del", { title: t("surplus") }, ...content);
const missing = (...content) => el("ins", { title: t("missing") }, el("span", { class: "tl-tr-caret", "aria-hidden": "true" }, "‸"), ...content);

function prediction(row) {
  if (classes()) {
    const name = (ids) => ids.map((id) => t(`class_${facts().task}_${id}`)).join(" ");
    return row.ok ? [name(row.got)] : [surplus(name(row.got)), " ", missing(name(row.want))];
  }
  if (!row.got.length && !row.want.length) return [t("nothing")];
  return differences(row.got, row.want).flatMap(([kind, token]) => [kind === "same" ? token : kind === "gone" ? surplus(token) : missing(token), " "]);
}

function drawSamples() {
  const look = chosen.look(), samples = look?.samples, only = classes();
  if (!samples) { parts.samples.replaceChildren(heading(t("samples")), el("p", { class: "tl-tr-empty" }, t("look_empty"))); return; }
  const rows = samples.rows.map((row) => el("tr", {},
    el("td", { class: row.ok ? "tl-tr-ok" : "tl-tr-bad" }, el("span", { "aria-hidden": "true" }, row.ok ? "✓" : "✗"), el("span", { class: "tl-tr-vh" }, t(row.ok ? "right" : "wrong"))),
    el("td", { class: "tl-tr-tokens" }, row.src.join(" ")), el("td", { class: "tl-tr-tokens" }, prediction(row))));
  parts.samples.replaceChildren(heading(t("samples"), t("samples_sub", { right: samples.right, of: samples.of, step: count(look.step) })),
    el("table", {}, el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col" }, t("source")), el("th", { scope: "col" }, t(only ? "prediction_class" : "prediction")))), el("tbody", {}, rows)),
    el("p", { class: "tl-tr-caption" }, t(only ? "samples_how_class" : "samples_how")));
}

// A model that has learned the task answers the longer questions and the fresh symbols, too; one that knows only what
// training looked like does not.
function drawSets() {
  const look = chosen.look(), plan = facts(), only = classes();
  parts.sets.hidden = !look || otherSets().length === 0;
  if (parts.sets.hidden) return;
  const line = (name, measured) => el("tr", {},
    el("th", { scope: "row" }, el("span", { class: "tl-tr-sign", "aria-hidden": "true" }, setSign(name)), setName(name), el("small", {}, both(plan.sets.find((one) => one.name === name)?.title))),
    (only ? ["exact"] : ["token", "exact"]).map((key) => el("td", {}, percent(measured[key]))), el("td", {}, number(measured.loss)));
  const head = ["sets_set", ...(only ? ["sets_exact"] : ["sets_token", "sets_exact"]), "sets_loss"].map((key) => el("th", { scope: "col" }, t(key)));
  parts.sets.replaceChildren(heading(t("sets"), t("sets_sub", { step: count(look.step), n: plan.held_out, others: plan.others })),
    el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, line("new", look), Object.entries(look.sets).map(([name, measured]) => line(name, measured)))),
    el("p", { class: "tl-tr-caption" }, t("sets_says")));
}

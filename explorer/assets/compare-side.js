// Compare, right: the first divergence with its reason and its evidence, and the reading table with a live answer a row.
const MARKS = { agrees: "✓", differs: "✗", wrong_reason: "!", adapted: "!", equal: "✓" };
const markOf = (verdict) => el("b", { class: `tl-c-v-${verdict}`, "aria-hidden": "true" }, MARKS[verdict] || "·");
const titled = (title, sub, ...more) => el("h2", {}, el("span", {}, title), sub ? el("small", {}, sub) : null, more);

// A forward that stopped is a divergence too, and the last word.
function verdictOf(state) {
  const { value, way } = state, rows = value.ways[way], held = rows.filter((row) => row.passed).length, first = value.first[way];
  const kind = value.failure ? "differs" : first !== null ? "differs" : value.cause[way] === "hidden_norm" ? "wrong_reason" : "agrees";
  const said = t(`agree_${way}`, { held, total: rows.length });
  const more = value.failure ? t("stops") : first !== null ? t("first_at", { tensor: rows[first].key }) : kind === "wrong_reason" ? t("wrong_reason") : "";
  return { kind, text: more ? t("verdict_more", { said, more }) : said };
}

function drawVerdict(state, parts) {
  const { kind, text } = verdictOf(state), { facts } = state.value;
  const known = `${kind} ${text}`;
  if (parts.verdict.dataset.said !== known) { // a live region speaks whenever it is touched
    parts.verdict.dataset.said = known;
    parts.verdict.dataset.verdict = kind;
    parts.verdict.replaceChildren(markOf(kind), el("span", {}, text));
  }
  const about = [t("copied", { count: count(facts.numbers) }), facts.counterpart, facts.dtype, t(facts.training ? "in_train" : "in_eval"), facts.device, `torch ${facts.torch.split("+")[0]}`,
    facts.step === null ? t("fresh_seed", { seed: facts.seed }) : t("trained_step", { step: count(facts.step) })];
  parts.facts.replaceChildren(...about.map((fact) => el("span", {}, fact)));
}

function drawCard(state, parts) {
  const { value, way } = state, rows = value.ways[way], first = value.first[way], why = value.failure ? "failure" : value.cause[way], norms = why === "final_norm" || why === "hidden_norm", broken = why === "fault" || why === "failure";
  const title = first === null ? t(value.failure ? "card_stops" : "card_none") : t("card_first", { tensor: shortName(rows[first].key) });
  const sub = first === null ? t("card_none_sub", { error: amount(worst(rows)), limit: amount(value.limit) }) : t("card_first_sub", { number: first + 1, total: rows.length, key: rows[first].key });
  const look = (changes, key, kind) => el("button", { type: "button", class: `tl-c-button ${kind || ""}`, onclick: () => trigger("look", changes) }, t(key));
  const acts = [];
  if (norms) acts.push(look({ cmp_norm: "same" }, "act_same", "tl-c-primary"));
  else if (!broken && value.facts.final_norm === "same" && value.evidence.length) acts.push(look({ cmp_norm: "torch" }, "act_torch"));
  if (why === "rounding") acts.push(look({ cmp_limit: "usual" }, "act_limit", "tl-c-primary"));
  if (value.facts.dtype === "float32" && (why === "rounding" || why === "unknown")) acts.push(look({ cmp_dtype: "float64" }, "act_float64"));
  if (first !== null && rows[first].index !== null) acts.push(el("button", { type: "button", class: "tl-c-link", onclick: () => openInExplore(rows[first].key) }, t("open_explore")));
  put(parts.card, titled(title, sub),
    norms ? el("p", { class: "tl-c-formulas" }, el("span", {}, el("small", {}, t("formula_torch")), TL.markup(value.formulas.torch)), el("span", {}, el("small", {}, t("formula_ours")), TL.markup(value.formulas.ours))) : null,
    el("p", { class: "tl-c-reason" }, value.failure ? t("cause_failure", { reason: value.failure }) : t(`cause_${why}`, { limit: amount(value.limit) })),
    broken ? null : evidence(value), acts.length ? el("div", { class: "tl-c-acts" }, acts) : null,
    el("ul", { class: "tl-c-notes" }, value.notes.map((note) => el("li", {}, t(`note_${note}`, { rows: value.blind.length })))));
}

const worst = (rows) => rows.reduce((most, row) => (!finite(row.error) ? row.error : !finite(most) || most > row.error ? most : row.error), 0);

// What torch's own final norms do to the numbers, with each set of weights there is.
function evidence(value) {
  if (!value.evidence.length) return null;
  return el("table", { class: "tl-c-evidence" }, el("caption", {}, t("evidence")), el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("evidence_weights")), el("th", { scope: "col" }, t("evidence_same")), el("th", { scope: "col" }, t("evidence_torch")), el("th", { scope: "col" }, t("evidence_says")))),
    el("tbody", {}, value.evidence.map((each) => el("tr", {}, el("th", { scope: "row" }, each.weights === "fresh" ? t("cmp_weights_fresh") : t("trained_step", { step: count(each.step) })),
      el("td", {}, amount(each.matched)), el("td", {}, amount(each.error)), el("td", { class: `tl-c-v-${each.verdict}` }, markOf(each.verdict), ` ${t(`says_${each.verdict}`)}`)))));
}

// Ours, torch's, and the number that tells whether it matters here: overlooked, and then heeded. A row opens to its whole text.
const READS = { same: "agrees", adapted: "adapted", differs: "differs" };

function drawReading(state, parts) {
  const rows = state.value.reading;
  parts.reading.hidden = !rows.length;
  const scrolled = parts.reading.querySelector(".tl-c-scroll")?.scrollTop || 0;
  const scroll = el("div", { class: "tl-c-scroll", tabindex: 0, role: "group", "aria-label": t("reading_title") }, el("table", {},
    el("colgroup", {}, ["mark", "what", "ours", "theirs", "measured"].map((name) => el("col", { class: `tl-c-w-${name}` }))),
    el("thead", {}, el("tr", {}, el("td"), ["reading_what", "reading_ours", "reading_theirs", "reading_measured"].map((key) => el("th", { scope: "col" }, t(key))))),
    el("tbody", {}, rows.map((row) => reading(row, state)))));
  parts.reading.replaceChildren(titled(t("reading_title"), t("reading_sub", readCounts(rows))), scroll);
  scroll.scrollTop = scrolled;
}

const readCounts = (rows) => Object.fromEntries(Object.keys(READS).map((verdict) => [verdict, rows.filter((row) => row.verdict === verdict).length]));

function reading(row, state) {
  const said = row[TL.lang()], open = state.open.has(row.name), verdict = READS[row.verdict];
  const button = el("button", { type: "button", "aria-expanded": String(open) }, said.title);
  const line = el("tr", { class: open ? "tl-c-open" : "", onclick: toggle }, el("td", { class: `tl-c-v-${verdict}` }, markOf(verdict)), el("th", { scope: "row" }, button),
    el("td", {}, said.ours), el("td", {}, said.theirs),
    el("td", {}, row.verdict === "adapted" ? t("reading_from_to", { from: amount(row.measured), to: amount(row.heeded) }) : amount(row.measured), el("small", { class: `tl-c-v-${verdict}` }, ` ${t(`reads_${row.verdict}`)}`)));
  const more = el("tr", { class: "tl-c-more", hidden: !open }, el("td"), el("td", { colspan: 4 }, said.look_at));
  function toggle() {
    const now = !state.open.delete(row.name);
    if (now) state.open.add(row.name);
    line.classList.toggle("tl-c-open", now);
    more.hidden = !now;
    button.setAttribute("aria-expanded", String(now));
  }
  return [line, more];
}

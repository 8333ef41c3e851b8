// The panel Sentences, part 1: what it shows. The files corpus*.js are one function body, in the order of SCRIPTS in
// views/corpus.py. Sentences of a user's file go through text nodes only.
const { el, count } = window.TL;
const told = window.TL.unpacked(props);
const t = (key, values) => window.TL.w(`corpus.${key}`, values);
const both = (text) => text?.[window.TL.lang()] ?? "";
const percent = (share) => `${(100 * share).toFixed(1)} %`;

// "Chinese" or "English": the languages of a file are known only as Chinese and another, or as its two columns.
function languageOf(news, side) {
  const [one, other] = news.languages;
  if (one === other) return t(`column_${side === 0 ? 1 : 2}`);
  return news.languages[side] === "zh" ? t("chinese") : news.origin === "built_in" ? t("english") : t("other");
}

function drawReport(news) {
  const report = news.report, lost = report.dropped;
  const facts = el("p", {}, t("counts", { read: count(report.read), train: count(report.train), held_out: count(report.held_out) }));
  const sides = ["src", "tgt"].map((side, i) => el("tr", {}, el("th", { scope: "row" }, languageOf(news, i)),
    el("td", { data: { label: t("words") } }, t("kept", { kept: count(report.kept_words[side]), words: count(report.words[side]) })),
    el("td", { data: { label: t("unknown") } }, percent(report.unknown[`${side}_train`])), el("td", { data: { label: t("unknown_held_out") } }, percent(report.unknown[`${side}_held_out`]))));
  const words = el("table", {}, el("caption", { class: "tl-vh" }, t("words")), el("thead", {}, el("tr", {}, ["side", "words", "unknown", "unknown_held_out"].map((key) => el("th", { scope: "col" }, t(key))))), el("tbody", {}, sides));
  const why = lost.length ? el("ul", { class: "tl-co-lost" }, lost.map((one) => el("li", {}, el("b", {}, count(one.count)), ` ${t(`why_${one.reason}`)}`,
    one.lines.length ? el("small", {}, ` ${t("lines", { lines: one.lines.slice(0, 6).map(count).join(", ") + (one.count > 6 ? ", …" : "") })}`) : ""))) : el("p", { class: "tl-co-hint" }, t("nothing_lost"));
  return [el("h3", {}, t("became")), facts, words, el("h4", {}, t("left_out")), why];
}

function drawPairs(news) {
  const rows = news.pairs.map((pair) => el("li", {}, el("span", { class: "tl-co-src" }, pair.src.map(([word, unknown]) => el(unknown ? "em" : "span", unknown ? { title: t("unknown_word") } : {}, word))),
    el("span", { class: "tl-co-tgt" }, pair.tgt, pair.unknown ? el("small", {}, ` ${t("of_them_unknown", { n: pair.unknown })}`) : "")));
  return [el("h3", {}, t("some")), el("ul", { class: "tl-co-pairs" }, rows)];
}

// Decode: what stands beside and below the tree. The next-token distribution and the cross-attention of the chosen node, all
// hypotheses, the best of all sequences, training and decoding on one sentence, and the cache.

const lookBox = el("section", { class: "tl-d-look" }), mapBox = el("section", { class: "tl-d-map" }), hypBox = el("section", { class: "tl-d-hyps" });
const truthBox = el("section", { class: "tl-d-truth" }), waysBox = el("section", { class: "tl-d-ways" }), cacheBox = el("section", { class: "tl-d-cache" });

// Above this probability a white number reads better in the light theme, a black one in the dark theme.
const WHITE_ABOVE = 0.592, BLACK_ABOVE = 0.516;
const titled = (title, more) => el("h2", {}, el("span", {}, title), more ? el("small", {}, more) : null);
const scrolling = (label, keep, ...children) => el("div", { class: "tl-d-wide", tabindex: 0, role: "region", "aria-label": label, data: { keep } }, children);
const shaded = (p) => ({ class: `tl-x-p tl-d-cell${p > WHITE_ABOVE ? " tl-d-lw" : ""}${p > BLACK_ABOVE ? " tl-d-db" : ""}`, style: `--at:${p.toFixed(3)}` });
const cellText = (p) => (p < 0.005 ? "·" : p >= 0.995 ? "1.0" : p.toFixed(2).slice(1));
const power = (value) => {
  if (value === null || value === undefined) return "NaN";
  if (value === 0) return "0";
  const [factor, exponent] = value.toExponential(1).split("e");
  return `${minus(factor)}·10${[...String(Number(exponent))].map((sign) => ({ "-": "⁻" })[sign] || "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign]).join("")}`;
};
const small = (p) => (p >= 0.99995 ? "1.000" : p.toFixed(4).slice(1));
const millis = (value) => (value < 10 ? value.toFixed(1) : String(Math.round(value)));

function drawLook() {
  drawDistribution();
  drawMap();
}

// ------------------------------------------------------------------------------------------------------- distribution

// A node that the search did not go on from has no distribution of its own: that of its parent is shown, with it marked.
function drawDistribution() {
  const node = nodeOf(view.node) || nodeOf("s"), own = stateOf(node.id), from = own ? node : nodeOf(node.parent), state = stateOf(from?.id);
  if (!state) { put(lookBox, titled(t("next")), el("p", { class: "tl-d-quiet" }, t("next_none"))); return; }
  const written = wordsTo(from), sampled = view.shown.method === "sample", taken = new Map(childrenOf(from.id).map((child) => [child.token, child]));
  const rows = state.top.map(([token, p, q]) => {
    const child = taken.get(token), mark = child ? GLYPH[child.fate] : "";
    return el("tr", { class: [child && child.id === node.id && !own ? "tl-d-marked" : "", sampled && q === 0 ? "tl-d-out" : ""].join(" ").trim() || null },
      el("td", { class: `tl-d-mark tl-d-mark-${child?.fate || "none"}` }, mark, child ? el("span", { class: "tl-vh" }, t(fateWord(child))) : null), el("th", { scope: "row" }, tokenOf(token)),
      el("td", { class: "tl-d-bar" }, el("i", { style: { width: `${(100 * p).toFixed(1)}%` } })), el("td", {}, p.toFixed(4)), sampled ? el("td", {}, q === 0 ? t("left_out") : q.toFixed(4)) : null, el("td", {}, p > 0 ? nats(Math.log(p)) : "−∞"));
  });
  const [count, mass, kept] = state.others;
  if (count > 0) rows.push(el("tr", { class: "tl-d-others" }, el("td"), el("th", { scope: "row" }, t("others", { n: window.TL.count(count) })), el("td", { class: "tl-d-bar" }, el("i", { style: { width: `${(100 * mass).toFixed(1)}%` } })), el("td", {}, mass.toFixed(4)), sampled ? el("td", {}, kept.toFixed(4)) : null, el("td", {}, "")));
  put(lookBox, titled(t("next"), written.length ? t("next_after", { words: written.join(" ") }) : t("next_first")),
    el("table", { class: "tl-d-dist" }, el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col" }, t("token")), el("td"), el("th", { scope: "col" }, "p"), sampled ? el("th", { scope: "col" }, t("drawn_from")) : null, el("th", { scope: "col" }, "log p"))), el("tbody", {}, rows)),
    el("p", { class: "tl-d-note" }, t(own ? "entropy" : "next_parent", { entropy: state.entropy.toFixed(2), even: state.even })));
}

const wordsTo = (node) => pathTo(node).filter((each) => each.id !== "s").map((each) => tokenOf(each.token));
function pathTo(node) {
  const path = [];
  for (let at = node; at; at = at.parent === null ? null : nodeOf(at.parent)) path.unshift(at);
  return path;
}

// ---------------------------------------------------------------------------------------------------- cross-attention

function drawMap() {
  const { shown } = view;
  mapBox.hidden = !shown.source;
  if (!shown.source) return;
  const path = pathThrough(nodeOf(view.node) ? view.node : "s").filter((node) => node.step <= stepNow()), rows = path.filter((node) => stateOf(node.id)?.attention), keys = shown.source.tokens;
  const heads = shown.subject.heads, head = Math.min(view.head, heads);
  const rowOf = (node) => { const bytes = stateOf(node.id).bytes ??= window.TL.b64u8(stateOf(node.id).attention); return keys.map((_, j) => { if (head > 0) return bytes[(head - 1) * keys.length + j] / 255; let sum = 0; for (let h = 0; h < heads; h += 1) sum += bytes[h * keys.length + j]; return sum / heads / 255; }); };
  const now = stateOf(view.node) ? view.node : nodeOf(view.node)?.parent ?? "s";
  const table = el("table", { class: "tl-d-att" }, el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "tl-d-corner" }, t("predicts")), keys.map((key) => el("th", { scope: "col", title: key }, key)))),
    el("tbody", {}, rows.map((node, n) => {
      const next = path[path.indexOf(node) + 1];
      return el("tr", { class: node.id === now ? "tl-d-marked" : null }, el("th", { scope: "row" }, el("span", {}, next ? tokenOf(next.token) : "…"), el("small", {}, ` ← ${node.id === "s" ? tokenOf(shown.begin) : tokenOf(node.token)}`)),
        rowOf(node).map((p) => el("td", shaded(p), cellText(p))));
    })));
  const pick = el("div", { class: "tl-d-pick" },
    choiceOf(t("layer"), "layer", Array.from({ length: shown.subject.layers }, (_, n) => [n + 1 === shown.subject.layers ? 0 : n + 1, String(n + 1)]), shown.chosen.dec_layer >= shown.subject.layers ? 0 : shown.chosen.dec_layer, (layer) => ask({ dec_layer: layer })),
    choiceOf(t("head"), "head", [[0, t("mean")], ...Array.from({ length: heads }, (_, n) => [n + 1, String(n + 1)])], head, (h) => { view.head = h; remember(); drawMap(); }));
  put(mapBox, titled(t("cross"), t("cross_says")), pick, scrolling(t("cross"), "cross", table), el("p", { class: "tl-d-note" }, t("scale"), " ", el("i", { class: "tl-d-ramp" }), " ", t("scale_end")));
}

// Few to choose from are buttons side by side, many a list.
function choiceOf(label, keep, options, value, pick) {
  if (options.length > 9) return el("label", { class: "tl-d-field" }, el("span", {}, label), el("select", { data: { keep }, onchange: (event) => pick(options[event.currentTarget.selectedIndex][0]) }, options.map(([key, text]) => el("option", { selected: key === value }, text))));
  const group = el("div", { class: "tl-d-seg", role: "radiogroup", "aria-label": label }, options.map(([key, text]) => el("button", { type: "button", role: "radio", "aria-checked": String(key === value), tabindex: key === value ? 0 : -1, data: { keep: `${keep}-${key}` }, onclick: () => pick(key) }, text)));
  if (!options.some(([key]) => key === value)) group.firstChild.tabIndex = 0;
  window.TL.roving(group, () => [...group.children], { vertical: false });
  return el("div", { class: "tl-d-field" }, el("span", { "aria-hidden": "true" }, label), group);
}

// --------------------------------------------------------------------------------------------------------- hypotheses

function drawHyps() {
  const { shown } = view, normed = shown.norm === "on", held = document.activeElement?.closest?.(".tl-d-hyps") ? document.activeElement.dataset.node : null;
  const judged = shown.hyps.some((hyp) => hyp.right !== null);
  const rows = shown.hyps.map((hyp, n) => el("tr", { class: along(hyp.node, view.node) && view.node !== "s" ? "tl-d-marked" : null },
    el("td", {}, String(n + 1)), el("td", { class: `tl-d-mark tl-d-mark-${hyp.finished ? "finished" : "open"}` }, GLYPH[hyp.finished ? "finished" : "open"], " ", t(hyp.finished ? "finished" : "unfinished")),
    el("th", { scope: "row" }, el("button", { type: "button", class: "tl-d-link", title: t("show_end"), data: { node: hyp.node }, onclick: () => { toEnd(hyp.node); } }, hyp.text || "–"), hyp.seed === undefined ? null : el("small", {}, ` ${t("seed_n", { seed: hyp.seed })}`)),
    judged ? el("td", { class: hyp.right ? "tl-d-ok" : "tl-d-bad" }, hyp.right === null ? "" : `${hyp.right ? "✓" : "✗"} ${t(hyp.right ? "right" : "wrong")}`) : null,
    el("td", { class: "tl-d-spare" }, nats(hyp.log_prob, 6)), el("td", { class: "tl-d-spare" }, String(hyp.length)), el("td", { class: "tl-d-score" }, normed ? el("span", { class: "tl-d-quiet" }, `${nats(hyp.log_prob, 6)} / ${hyp.length} = `) : null, el("b", {}, nats(hyp.score, 6)))));
  const formula = el("p", { class: "tl-d-formula" });
  formula.append(el("span", { class: "tl-d-score-is" }, window.TL.markup(shown.formula)), el("span", {}, t(normed ? "formula_norm" : "formula_sum")));
  put(hypBox, titled(t("hyps"), t("hyps_says", { n: shown.hyps.length, looked: window.TL.count(shown.looked) })), formula,
    scrolling(t("hyps"), "hyps", el("table", { class: "tl-d-list" }, el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col" }, t("ended")), el("th", { scope: "col" }, t("hypothesis")), judged ? el("th", { scope: "col" }, t("expected")) : null, el("th", { scope: "col", class: "tl-d-spare" }, "Σ log p"), el("th", { scope: "col", class: "tl-d-spare" }, t("length")), el("th", { scope: "col" }, t("score")))), el("tbody", {}, rows))),
    shown.source?.reference ? el("p", { class: "tl-d-note" }, t("reference", { text: shown.source.reference })) : null);
  if (held) [...hypBox.querySelectorAll("[data-node]")].find((each) => each.dataset.node === held)?.focus();
}

function toEnd(id) {
  if (view.step !== 0) { view.step = 0; drawTransport(); }
  choose(id, false);
}

// ---------------------------------------------------------------------------------------------- the best of all, widths

function drawTruth() {
  const found = view.truth, busy = view.measuring === "truth", fails = view.error.truth;
  if (fails) { put(truthBox, titled(t("truth"), t("truth_says")), el("p", { class: "tl-d-warn" }, "! ", fails[window.TL.lang()])); if (!found) return; }
  if (!found) { put(truthBox, titled(t("truth"), t("truth_says")), el("p", { class: "tl-d-quiet" }, t(busy ? "measuring" : "waiting"))); return; }
  const best = found.best;
  const verdict = !best ? el("p", { class: "tl-d-warn" }, "! ", t("truth_none", { count: found.count, limit: window.TL.count(found.limit), fits: found.fits }))
    : found.first ? el("p", {}, el("b", { class: "tl-d-ok" }, "✓ "), t(found.first === 1 ? "truth_greedy" : "truth_width", { width: found.first, count: found.count })) : el("p", { class: "tl-d-warn" }, "! ", t("truth_missed", { widest: found.widths[found.widths.length - 1].width, count: found.count }));
  const line = (name, hyp, mark, css) => el("tr", { class: css || null }, el("th", { scope: "row" }, name), el("td", { class: "tl-d-words" }, hyp.text || "–", hyp.finished ? null : el("small", {}, ` ${t("unfinished")}`)), el("td", {}, nats(hyp.score, 6)), el("td", {}, mark));
  // Neighbouring widths that find the same are one line.
  const groups = [];
  for (const each of found.widths) {
    const before = groups[groups.length - 1];
    if (before && before[0].text === each.text && before[0].score === each.score && before[0].found === each.found) before.push(each);
    else groups.push([each]);
  }
  const rows = groups.map((group) => {
    const each = group[0], last = group[group.length - 1];
    const verdict = each.found ? el("span", { class: "tl-d-ok" }, "✓ ", t("found")) : el("span", { class: "tl-d-bad" }, "✗ ", t("not_found"));
    const looked = each.looked === last.looked ? window.TL.count(each.looked) : `${window.TL.count(each.looked)}–${window.TL.count(last.looked)}`;
    const here = view.shown.method === "beam" && group.some(({ width }) => width === view.shown.width);
    return line(t("width_n", { width: each === last ? each.width : `${each.width}–${last.width}` }), each, best ? verdict : looked, here ? "tl-d-marked" : null);
  });
  if (best) rows.push(line(t("exhaustive"), best, t("truth_mark"), "tl-d-last"));
  put(truthBox, titled(t("truth"), t("truth_says")), verdict, !best && found.fits > 1 ? el("button", { type: "button", class: "tl-d-button", data: { keep: "fits" }, onclick: () => ask({ dec_length: found.fits }) }, t("truth_fit", { length: found.fits })) : null,
    scrolling(t("truth"), "truth", el("table", { class: "tl-d-list" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("search")), el("th", { scope: "col" }, t("first_choice")), el("th", { scope: "col" }, t("score")), el("th", { scope: "col" }, best ? t("is_best") : t("looked_at")))), el("tbody", {}, rows))));
}

// ---------------------------------------------------------------------------------------- training and decoding, cache

function drawWays() {
  const found = view.ways, fails = view.error.ways;
  waysBox.hidden = cacheBox.hidden = !view.shown.source;
  if (waysBox.hidden) return;
  if (!found) put(waysBox, titled(t("ways"), t("ways_says")), el("p", { class: fails ? "tl-d-warn" : "tl-d-quiet" }, fails ? `! ${fails[window.TL.lang()]}` : t(view.measuring === "ways" ? "measuring" : "waiting")));
  else put(waysBox, titled(t("ways"), t("ways_says")), el("p", { class: "tl-d-note" }, t("ways_why")), found.parts.some((part) => part.name === "teacher") ? null : el("p", { class: "tl-d-note" }, t("ways_no_answer")), el("div", { class: "tl-d-both" }, found.parts.map(wayPart)));
  drawCache();
}

function wayPart(part) {
  const verdict = el("p", {}, el("b", { class: part.equal ? "tl-d-ok" : "tl-d-bad" }, part.equal ? "✓ " : "✗ "), t(part.equal ? "ways_equal" : "ways_differ", { largest: power(part.largest), limit: power(part.limit) }), " ", el("span", { class: "tl-d-quiet" }, t("ways_passes", { passes: part.passes, parallel: millis(part.ms[0]), single: millis(part.ms[1]) })));
  const row = (each) => {
    const [token, p] = each.parallel, [other, q] = each.single, right = each.wanted === token;
    return el("tr", {}, el("th", { scope: "row" }, each.read), el("td", { class: "tl-d-word" }, token, other === token ? null : [" / ", other]), el("td", {}, small(p)), el("td", {}, small(q)), el("td", { class: right ? "tl-d-ok" : "tl-d-bad" }, `${right ? "✓" : "✗"} ${each.wanted}`), el("td", {}, power(each.largest)));
  };
  const heads = [t("reads"), t("likeliest"), t("at_once"), t("one_by_one"), part.name === "teacher" ? t("wanted") : t("writes"), t("largest")];
  return el("div", {}, el("h3", {}, t(`ways_${part.name}`)), verdict,
    scrolling(t(`ways_${part.name}`), `ways-${part.name}`, el("table", { class: "tl-d-list" }, el("thead", {}, el("tr", {}, heads.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, part.rows.map(row)))));
}

function drawCache() {
  const found = view.cache, fails = view.error.cache;
  if (!found) { put(cacheBox, titled(t("cache"), t("cache_says")), el("p", { class: fails ? "tl-d-warn" : "tl-d-quiet" }, fails ? `! ${fails[window.TL.lang()]}` : t(view.measuring === "cache" ? "measuring" : "waiting"))); return; }
  const row = (each) => el("tr", {}, el("th", { scope: "row" }, each.width > 1 ? t("beam_n", { width: each.width }) : t(each.name === "long" ? "greedy_long" : "greedy")), el("td", {}, String(each.tokens)), el("td", { class: each.same ? "tl-d-ok" : "tl-d-bad" }, each.same ? `✓ ${t("the_same")}` : `✗ ${t("not_the_same")}`), el("td", {}, power(each.largest)), el("td", {}, millis(each.without)), el("td", {}, millis(each.cached)), el("td", {}, el("b", {}, (each.cached / each.without).toFixed(2))));
  put(cacheBox, titled(t("cache"), t("cache_says")), scrolling(t("cache"), "cache", el("table", { class: "tl-d-list" }, el("thead", {}, el("tr", {}, [t("search"), t("tokens"), t("tokens_same"), t("scores_differ"), t("without_cache"), t("with_cache"), t("ratio")].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, found.rows.map(row)))),
    el("p", { class: "tl-d-note" }, t("cache_note", { runs: found.runs })));
}

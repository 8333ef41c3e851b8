// Break it: the mystery game. The server knows the fault; what is here is what was found out about it.

const gameBox = el("section", { class: "tl-b-game", tabindex: -1 });
const gameParts = {
  head: el("header", { class: "tl-b-game-head" }), rules: el("p", { class: "tl-b-rules" }), said: el("p", { class: "tl-b-game-said", role: "status" }),
  bench: el("section", { class: "tl-b-bench" }), findings: el("section", { class: "tl-b-findings" }), ledger: el("section", { class: "tl-b-mledger" }),
  answer: el("section", { class: "tl-b-answer" }), end: el("section", { class: "tl-b-end" }),
};
gameBox.append(gameParts.head, gameParts.said, gameParts.rules, el("div", { class: "tl-b-game-columns" },
  el("div", {}, gameParts.bench, gameParts.findings), el("div", {}, gameParts.answer, gameParts.end, gameParts.ledger)));
const game = () => part("game");
const FOUND_GLYPHS = { ok: "✓", warn: "!", bad: "✗", silent: "–", "": "…" };

function play(seed) {
  view.playing = true;
  view.played = 0;
  view.page = "list";
  view.guess = "";
  command("play", { seed });
  trigger("pick", { game: seed });
  refresh();
}
function leave() {
  view.playing = false;
  command("leave");
  trigger("pick", { game: 0 });
  refresh();
}

function drawGame() {
  const now = game();
  gameBox.hidden = !view.playing;
  if (!view.playing) return;
  if (!now) { gameParts.said.textContent = say(view.refusal) || t("game_starts"); return; }
  const over = Boolean(now.end);
  view.played = now.seed;
  gameBox.dataset.round = `${now.round}-${now.end || "open"}`;
  keep(gameParts.head, [
    el("h2", {}, t("mystery"), el("small", {}, t("game_where", { round: now.round, rounds: now.rounds, seed: now.seed }))),
    el("p", { class: "tl-b-score" }, t("score", { total: now.total, best: now.best })),
    button("class_link", copyClassLink, { title: t("class_link_says") }), button("leave", leave),
  ]);
  gameParts.rules.textContent = t("rules", rules);
  const heard = over ? t(now.end === "named" ? "right_name" : "gave_up", { fault: titleOf(now.answer), points: now.points }) : now.wrong.length ? t("wrong_name", { fault: titleOf(final(now.wrong)) }) : t("points_now", { points: now.points, left: now.left });
  if (gameParts.said.textContent !== heard) gameParts.said.textContent = heard;
  gameParts.said.dataset.end = now.end;
  drawBench(now, over);
  drawFindings(now);
  drawAnswer(now, over);
  drawEnd(now, over);
  drawMysteryLedger(now);
}

const free = (now) => Math.max(0, rules.free - now.checks.length);

function drawBench(now, over) {
  const found = new Map(now.findings.map((each) => [each.check, each]));
  keep(gameParts.bench, [
    el("h3", {}, t("bench"), el("small", {}, t("bench_sub", { left: now.left, most: rules.most, free: free(now) }))),
    levelsOf.map((level) => el("div", { class: "tl-b-shelf", role: "group", "aria-label": t(`level_${level}`) }, el("span", { class: "tl-b-shelf-name" }, t(`level_${level}`)),
      el("div", { class: "tl-b-chips" }, checks.filter((check) => check.level === level).map((check) => {
        const each = found.get(check.name), state = each?.state;
        return el("button", { type: "button", class: "tl-b-chip tl-b-try", data: { keep: check.name, state: each ? state || "waiting" : "" }, "aria-disabled": each || over || !now.left ? "true" : null,
          onclick: (event) => { if (event.currentTarget.getAttribute("aria-disabled") !== "true") command("check", { check: check.name }); } },
        each ? [el("b", { "aria-hidden": "true" }, FOUND_GLYPHS[state]), el("span", { class: "tl-b-vh" }, `${t(`found_${state || "waiting"}`)}: `)] : "", say(check.title));
      })))),
  ]);
}

function drawFindings(now) {
  const rows = now.findings.map((each) => el("li", { data: { state: each.state || "waiting" } }, el("b", { class: "tl-b-glyph", "aria-hidden": "true" }, FOUND_GLYPHS[each.state]),
    el("div", {}, el("b", {}, titleOf(each.check)), el("span", { class: "tl-b-vh" }, ` ${t(`found_${each.state || "waiting"}`)}`), el("p", {}, each.say ? say(each.say) : t(each.state === "silent" ? "said_nothing" : "found_waiting")))));
  keep(gameParts.findings, [el("h3", {}, t("findings")), rows.length ? el("ol", {}, rows) : el("p", { class: "tl-b-hint" }, t("findings_empty"))]);
}

function drawAnswer(now, over) {
  const hints = now.hinted.map((each) => el("li", {}, el("b", {}, t(`hint_${each.hint}`)), " ", each.group ? t(`group_${each.group}`) : each.aspects ? each.aspects.map((aspect) => t(`aspect_${aspect}`)).join(t("comma")) : el("code", {}, each.method)));
  const options = groups.map((group) => el("optgroup", { label: t(`group_${group}`) }, faults.filter((fault) => fault.group === group).map((fault) =>
    el("option", { value: fault.name, selected: view.guess === fault.name, disabled: now.wrong.includes(fault.name) }, `${now.wrong.includes(fault.name) ? "✗ " : ""}${say(fault.title)}`))));
  const choice = el("select", { id: "tl-b-guess", data: { keep: "guess" }, disabled: over, onchange: (event) => { view.guess = event.currentTarget.value; refresh(); } }, el("option", { value: "" }, t("choose")), options);
  choice.value = over ? now.answer : view.guess;
  gameParts.answer.hidden = over;
  // A list that is open would close if it were drawn anew.
  const key = JSON.stringify([window.TL.lang(), now.round, now.end, now.hints, now.wrong, view.guess]);
  if (gameParts.answer.dataset.key === key) return;
  gameParts.answer.dataset.key = key;
  keep(gameParts.answer, [
    el("h3", {}, el("label", { for: "tl-b-guess" }, t("answer"))),
    el("div", { class: "tl-b-naming" }, choice, button("that_is_it", () => { if (view.guess) { command("guess", { fault: view.guess }); } }, { kind: "tl-b-primary", off: !view.guess || over || now.wrong.includes(view.guess) })),
    el("div", { class: "tl-b-tools" }, button("hint", () => command("hint"), { off: over || now.hints >= 3, values: { n: Math.min(3, now.hints + 1), cost: rules.hint } }), button("give_up", () => command("give_up"), { off: over })),
    hints.length ? el("ol", { class: "tl-b-hints" }, hints) : null,
    now.wrong.length ? el("p", { class: "tl-b-wrongs" }, t("named_wrongly", { names: now.wrong.map(titleOf).join(t("comma")) })) : null,
  ]);
}

function drawEnd(now, over) {
  gameParts.end.hidden = !over;
  const key = JSON.stringify([window.TL.lang(), now.round, now.end]);
  if (gameParts.end.dataset.key === key) return;
  gameParts.end.dataset.key = key;
  if (!over) { gameParts.end.replaceChildren(); return; }
  const codes = el("div", { class: "tl-b-codes" });
  drawCodes(codes, now.explained?.code);
  const table = now.over ? el("table", { class: "tl-b-rounds" }, el("thead", {}, el("tr", {}, ["round", "fault", "points"].map((word) => el("th", { scope: "col" }, t(word))))),
    el("tbody", {}, now.ended.map((each, i) => el("tr", {}, el("th", { scope: "row" }, String(i + 1)), el("td", {}, titleOf(each.fault)), el("td", {}, String(each.points)))))) : "";
  keep(gameParts.end, [
    el("h3", {}, titleOf(now.answer), el("small", {}, t("about_short", { group: t(`group_${now.explained?.group}`), section: now.explained?.section }))),
    el("p", {}, say(now.explained?.story)), codes,
    el("div", { class: "tl-b-tools" }, now.over ? button("another_game", () => play(newSeed()), { kind: "tl-b-primary" }) : button("next", () => { view.guess = ""; command("next"); gameBox.focus(); }, { kind: "tl-b-primary" }),
      button("see_row", () => { const name = now.answer; leave(); pick(name); })),
    now.over ? [el("h3", {}, t("game_over", { total: now.total, best: now.best })), table] : "",
  ]);
}

function drawMysteryLedger(now) {
  const key = JSON.stringify([window.TL.lang(), now.round, now.ledger.length]);
  if (gameParts.ledger.dataset.key === key) return;
  gameParts.ledger.dataset.key = key;
  const rows = now.ledger.map(([name, sizes, ...numbers], i) => el("tr", {}, el("td", { class: "tl-b-n" }, String(i + 1)), el("th", { scope: "row" }, broken(name)), el("td", {}, sizes.join("×")), numbers.map((number) => el("td", { class: "tl-b-n" }, size(number)))));
  gameParts.ledger.replaceChildren(el("h3", {}, t("mledger"), el("small", {}, t("mledger_sub", { n: rows.length }))), el("div", { class: "tl-b-mscroll", tabindex: 0, role: "group", "aria-label": t("mledger") },
    el("table", {}, el("thead", {}, el("tr", {}, ["index", "tensor", "shape", "mean", "least", "most"].map((word) => el("th", { scope: "col" }, t(word))))), el("tbody", {}, rows))));
}

const newSeed = () => 1 + Math.floor(Math.random() * 9999);

async function copyClassLink() {
  const link = new URL(location.href);
  link.search = new URLSearchParams({ tab: "break", game: String(game().seed), lang: window.TL.lang() }).toString();
  const done = await window.TL.copy(link.href);
  gameParts.said.textContent = done ? t("link_copied", { seed: game().seed }) : link.href;
}

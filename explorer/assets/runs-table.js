// The panel Runs, part 1: the table, and what can be done with the chosen run. The files runs*.js are one function body,
// in the order of SCRIPTS in views/runs.py. Only what differs from the chosen run is written out.
const { el, svg, count } = window.TL;
const told = window.TL.unpacked(props);
const t = (key, values) => window.TL.w(`runs.${key}`, values);
const both = (text) => text?.[window.TL.lang()] ?? "";
const known = (key) => Object.hasOwn(window.TL.words.en, `runs.${key}`);
const percent = (v) => (v === null || v === undefined ? "–" : v >= 1 ? "100" : Math.min(100 * v, 99.9).toFixed(1));
const number = (v) => (v === null || v === undefined ? "–" : Math.abs(v) >= 1000 && Math.abs(v) < 1e9 ? count(Math.round(v)) : Math.abs(v) >= 100 ? v.toPrecision(4) : Math.abs(v) < 0.001 && v ? v.toExponential(1) : v.toFixed(3));
const nameOf = (row) => row.name || both(row.label);

// "h 4 → 1": a setting by the paper's sign or its name, and its values in words where there are some.
function difference(one) {
  const value = (text) => (known(`v_${text}`) ? t(`v_${text}`) : known(`v_${one.name}_${text}`) ? t(`v_${one.name}_${text}`) : text);
  return [el("b", {}, known(`f_${one.name}`) ? t(`f_${one.name}`) : one.name), ` ${value(one.from)} → ${value(one.to)}`];
}

function differs(row) {
  if (row.id === held.chosen) return ["–"];
  if (!row.differs.length) return [t("no_difference")];
  return row.differs.flatMap((one, i) => [i ? el("span", { "aria-hidden": "true" }, " · ") : "", i ? el("span", { class: "tl-ru-vh" }, "; ") : "", difference(one)]);
}

// What a run shows: one measured sentence, and where it lies beside the published band, if it has one.
function shown(row) {
  const said = t(`shows_${row.shows.key}`, { ...row.shows, step: count(row.shows.step ?? 0), goal: count(row.shows.goal ?? 0) });
  return [said, row.band ? t(`band_${row.band}`) : "", row.origin === "again" ? t("is_again") : ""].filter(Boolean).join(" · ");
}

// A loss curve the size of a word; its ends are in the columns beside it.
function spark(row, high, longest) {
  const width = 116, height = 18, x = (i) => (width * Math.min((i + 0.5) * held.width, longest)) / longest, y = (v) => height - 1 - ((height - 2) * Math.min(v, high)) / high;
  const points = row.curve.map((v, i) => (v === null ? null : `${x(i).toFixed(1)},${y(v).toFixed(1)}`)).filter(Boolean);
  return svg("svg", { class: "tl-ru-spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    svg("line", { class: "tl-ru-zero", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
    points.length > 1 ? svg("polyline", { class: row.id === held.chosen ? "tl-ru-now" : "", points: points.join(" ") }) : points.length ? svg("circle", { cx: points[0].split(",")[0], cy: points[0].split(",")[1], r: 1.5 }) : "");
}

// One spike must not flatten every other curve: the axis ends where the runs begin, which is near guessing.
function highest(rows) {
  const starts = rows.map((row) => row.curve[0]).filter((v) => v !== null && v !== undefined);
  return starts.length ? Math.max(0.1, Math.min(1.15 * Math.max(...starts), 3 * Math.min(...starts))) : 1;
}

const COLUMNS = ["mark", "run", "name", "differs", "loss_curve", "loss", "token", "exact", "to_goal", "steps", "shows"];
const NUMERIC = ["loss", "token", "exact", "to_goal", "steps"];

function drawTable() {
  const rows = held.rows, box = parts.table;
  if (!rows.length) { box.replaceChildren(el("p", { class: "tl-ru-empty" }, t("empty"))); return; }
  const high = highest(rows), longest = Math.max(1, ...rows.map((row) => row.of));
  const cell = (column, ...children) => el("td", { class: `tl-ru-c-${column} ${NUMERIC.includes(column) ? "tl-ru-n" : ""}`, data: { label: t(`c_${column}`) } }, ...children);
  const lines = rows.map((row) => {
    const chosen = row.id === held.chosen, id = row.live ? `${row.seed}·` : row.id;
    const mark = el("input", { type: "checkbox", checked: marked(row), "aria-label": t("mark", { run: `${id} ${nameOf(row)}` }), data: { key: `mark-${row.id}` }, onchange: (event) => { marks.set(row.id, event.target.checked); drawOverlay(); } });
    const pick = el("button", { type: "button", class: "tl-ru-id", "aria-pressed": String(chosen), title: t("choose"), data: { key: `pick-${row.id}` }, onclick: () => command("choose", { id: row.id }) }, id);
    const line = el("tr", { class: chosen ? "tl-ru-chosen" : "", data: { run: row.id } },
      cell("mark", mark), el("th", { scope: "row", class: "tl-ru-c-run" }, pick),
      cell("name", nameOf(row), row.live ? el("small", {}, ` ${t("live")}`) : ""), cell("differs", differs(row)), cell("loss_curve", spark(row, high, longest)),
      cell("loss", number(row.loss)), cell("token", percent(row.token)), cell("exact", percent(row.exact)), cell("to_goal", row.to_goal === null ? "–" : count(row.to_goal)),
      cell("steps", row.steps === row.of ? count(row.steps) : `${count(row.steps)} / ${count(row.of)}`), cell("shows", shown(row)));
    line.addEventListener("click", (event) => { if (!event.target.closest("input, button") && !chosen) command("choose", { id: row.id }); });
    return line;
  });
  const head = el("tr", {}, COLUMNS.map((column) => el("th", { scope: "col", class: `tl-ru-c-${column} ${NUMERIC.includes(column) ? "tl-ru-n" : ""}` },
    column === "mark" ? el("span", { class: "tl-ru-vh" }, t("c_mark")) : t(`c_${column}`, { last: 20 }))));
  box.replaceChildren(el("table", {}, el("caption", { class: "tl-ru-vh" }, t("title")), el("thead", {}, head), el("tbody", {}, lines)));
}

const chosenRow = () => held.rows.find((row) => row.id === held.chosen) || null;
const KINDS = ["record", "curve", "weights", "script", "notebook"];

// What can be done with the chosen run. A button that has no answer here says why in its title.
function drawActions() {
  const row = chosenRow(), box = parts.actions;
  box.hidden = !row;
  if (!row) { box.replaceChildren(); return; }
  const id = row.live ? `${row.seed}·` : row.id, busy = Boolean(held.series?.running);
  const act = (key, how, off, why) => el("button", { type: "button", class: "tl-button", "aria-disabled": off ? "true" : null, title: off ? why : null, data: { key: `do-${key}` }, onclick: () => { if (!off) how(); } }, t(key));
  const load = (kind) => {
    const off = kind === "weights" && !row.model;
    return el("button", { type: "button", class: "tl-button", "aria-disabled": off ? "true" : null, title: off ? t(row.live ? "weights_live" : "weights_gone") : t(`file_${kind}_says`), data: { key: `file-${kind}` }, onclick: () => { if (!off) command("file", { id: row.id, kind }); } }, t(`file_${kind}`));
  };
  const name = el("input", { type: "text", id: "tl-ru-name", maxlength: 40, value: nameOf(row), disabled: row.live, data: { key: "name" } });
  name.addEventListener("change", () => command("rename", { id: row.id, name: name.value }));
  box.replaceChildren(
    el("p", { class: "tl-ru-which" }, el("b", {}, id), " ", row.live ? nameOf(row) : [el("label", { for: "tl-ru-name" }, t("name")), name],
      act("seeds", () => command("seeds", { id: row.id }), busy, t("series_busy")),
      act("restore", () => bring("restore", { id: row.id }), row.live, t("restore_live")),
      row.live ? "" : act("remove", () => command("remove", { id: row.id }))),
    el("p", { class: "tl-ru-files", role: "group", "aria-label": t("files") }, el("span", {}, t("files")), KINDS.map(load)));
}

function drawSpread() {
  const spread = held.spread, box = parts.spread;
  box.hidden = !spread;
  if (!spread) { box.replaceChildren(); return; }
  const range = (what, show) => (what ? t("range", { mean: show(what.mean), low: show(what.low), high: show(what.high) }) : "–");
  const whole = (v) => (v === null ? "–" : count(Math.round(v)));
  const got = spread.to_goal;
  box.replaceChildren(el("b", {}, t("spread", { n: spread.seeds.length, seeds: spread.seeds.join(t("and")) })), " ",
    t("spread_says", { loss: range(spread.loss, number), token: range(spread.token, percent), exact: range(spread.exact, percent) }), " ",
    !got ? t("spread_none") : got.n < spread.seeds.length ? t("spread_some", { n: got.n, of: spread.seeds.length, low: whole(got.low), high: whole(got.high) })
      : t("spread_goal", { mean: whole(got.mean), low: whole(got.low), high: whole(got.high) }));
}

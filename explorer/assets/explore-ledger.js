// The ledger: every tensor accounted for at all times, folded by module; a group opens with the block it belongs to.
// A tree grid: one Tab stop, up and down through the lines, right and left open and fold, Enter selects.
const COLUMNS = ["index", "path", "tensor", "symbolic", "shape", "formula", "section", "dtype", "contiguous", "bytes", "checks"];
const DTYPES = { float32: "f32", float64: "f64", bfloat16: "bf16", float16: "f16", int64: "i64", int32: "i32", bool: "bool" };

function buildLedger(state) {
  const { t } = state;
  const field = el("input", { type: "search", class: "tl-x-field", "aria-label": t("find"), placeholder: t("find_hint"), spellcheck: "false", autocomplete: "off", hidden: true });
  field.addEventListener("input", () => { state.find = field.value.trim().toLowerCase(); drawRows(state); });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.stopPropagation(); event.preventDefault(); closeFind(state); }
    if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); state.host.querySelector(".tl-x-rows tr[data-key]")?.focus(); }
  });
  const act = (name, run, key) => el("button", { type: "button", class: `tl-x-act tl-x-act-${name}`, onclick: run, "aria-keyshortcuts": key || null }, el("span", {}, t(name)), key ? el("kbd", { "aria-hidden": "true" }, key) : null);
  const table = el("table", { class: "tl-x-ledger", role: "treegrid", "aria-labelledby": "tl-x-ledger-title" },
    el("colgroup", {}, COLUMNS.map((name) => el("col", { class: `tl-x-w-${name}` }))),
    el("thead", {}, el("tr", {}, COLUMNS.map((name) => el("th", { scope: "col", class: `tl-x-c-${name}` }, t(`column_${name}`))))),
    el("tbody", { class: "tl-x-rows" }));
  table.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-group], tr[data-key]");
    if (row) { focusRow(state, row, false); pickRow(state, row); }
  });
  table.addEventListener("keydown", (event) => ledgerKey(event, state));
  return el("section", { class: "tl-x-ledger-box", "aria-labelledby": "tl-x-ledger-title" },
    el("div", { class: "tl-x-bar" }, el("h2", { id: "tl-x-ledger-title" }, t("ledger")), el("span", { class: "tl-x-tag", hidden: true }), el("span", { class: "tl-x-count" }),
      el("span", { class: "tl-x-acts" }, field, act("open_all", () => openAll(state), "A"), act("find", () => openFind(state), "/"),
        act("csv", () => TL.download(`${fileName(state)}.csv`, csv(state), "text/csv;charset=utf-8")), act("json", () => TL.download(`${fileName(state)}.json`, json(state), "application/json")))),
    el("p", { class: "tl-x-fault", hidden: true }), el("div", { class: "tl-x-scroll" }, table));
}

function drawLedger(state) {
  const { payload, host, t } = state, fault = host.querySelector(".tl-x-fault");
  fault.hidden = !payload.error && !payload.shapes_only;
  fault.classList.toggle("tl-x-fault-bad", Boolean(payload.error));
  fault.replaceChildren(el("b", { "aria-hidden": "true" }, payload.error ? "✗ " : "! "), payload.error || t("shapes_only", costWords(payload)));
  drawRows(state);
}

function costWords({ cost }) {
  return { parameters: TL.count(cost.parameters), bytes: byteWords(cost.bytes), maps: byteWords(cost.maps), flops: asPower(cost.flops) };
}

function byteWords(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"], step = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), 4);
  const amount = bytes / 1024 ** step;
  return `${amount < 10 && step ? amount.toFixed(1) : Math.round(amount)} ${units[step]}`;
}

function drawRows(state) {
  const { payload, host, find } = state, body = host.querySelector(".tl-x-rows"), lines = [];
  const largest = Math.max(...payload.groups.map((group) => group.bytes), 1);
  for (const group of payload.groups) {
    const rows = find ? group.rows.filter((n) => payload.rows[n].key.toLowerCase().includes(find)) : group.rows;
    if (find && !rows.length) continue;
    const open = find ? true : state.open.has(group.path);
    lines.push(groupLine(group, open, state, largest));
    if (!open) continue;
    let above = null;
    for (const n of rows) { lines.push(rowLine(payload.rows[n], above, state)); above = payload.rows[n].path; }
  }
  if (payload.error) lines.push(el("tr", { class: "tl-x-broken" }, el("td", { colspan: COLUMNS.length }, `✗ ${state.t("no_row_after")}`)));
  if (find && !lines.length) lines.push(el("tr", { class: "tl-x-none" }, el("td", { colspan: COLUMNS.length }, state.t("found_none", { text: find }))));
  body.replaceChildren(...lines);
  state.later(() => fitFormulas(state));
  drawBar(state);
  markRows(state);
}

function drawBar(state) {
  const { payload, host, t, find } = state, shown = host.querySelectorAll(".tl-x-rows tr[data-key]").length, count = host.querySelector(".tl-x-count"), tag = host.querySelector(".tl-x-tag");
  count.textContent = find ? t("found", { found: shown, all: payload.rows.length })
    : shown === payload.rows.length ? t("open_every", { all: shown }) : t("open_some", { open: shown, all: payload.rows.length });
  const group = state.groupOf(state.key);
  tag.hidden = !group;
  if (group) tag.replaceChildren(el("span", {}, groupWords(group.path, t)), el("button", { type: "button", "aria-label": t("clear"), onclick: () => state.clear() }, "✕"));
  const all = host.querySelector(".tl-x-act-open_all > span");
  all.textContent = t(payload.groups.every((each) => state.open.has(each.path)) ? "fold_all" : "open_all");
}

// decoder layer 2 · cross-attention
function groupWords(path, t) {
  const layer = /^(encoder|decoder)\.layers\.(\d+)\.(\w+)$/.exec(path);
  if (!layer) return t(`group_${path.replaceAll(".", "_")}`) || path;
  return `${t(`${layer[1]}_layer_n`, { layer: Number(layer[2]) + 1 })} · ${t(`block_${layer[3]}`).toLowerCase()}`;
}

function groupLine(group, open, state, largest) {
  const { payload, t } = state, rows = group.rows.map((n) => payload.rows[n]), verdict = state.verdictOf(group.rows);
  const bar = el("i", { style: { width: `${Math.max(1, Math.round((50 * group.bytes) / largest))}px` }, "aria-hidden": "true" });
  return el("tr", { class: `tl-x-fold${open ? " tl-x-unfolded" : ""}`, role: "row", tabindex: "-1", "aria-level": "1", "aria-expanded": String(open), data: { group: group.path } },
    el("td", { class: "tl-x-c-index" }, rows[0].index),
    el("td", { class: "tl-x-c-path", colspan: 4 }, el("span", { class: "tl-x-turn", "aria-hidden": "true" }, open ? "▾" : "▸"), el("span", { class: "tl-x-module" }, group.path), open ? null : el("span", { class: "tl-x-names" }, rows.map((row) => row.name).join(" "))),
    el("td", { class: "tl-x-c-formula" }, t(rows.length === 1 ? "tensors_one" : "tensors", { count: rows.length })),
    el("td", { class: "tl-x-c-spread", colspan: 3 }, spread(group, t)),
    el("td", { class: "tl-x-c-bytes" }, TL.count(group.bytes), bar),
    el("td", { class: "tl-x-c-checks" }, verdictMarks(verdict, t, false)));
}

// A histogram the size of a word, with its ends.
function spread(group, t) {
  const found = group.histogram;
  if (!found?.bins.length) return null;
  const bars = found.bins.map((value, n) => (value ? `M${short(n * 2.3)} 14v-${short(0.13 * value)}h1.8V14z` : "")).join("");
  return el("span", { class: "tl-x-spread", role: "img", "aria-label": t("spread_of", { name: found.of, low: asNumber(found.low), high: asNumber(found.high) }) },
    el("span", {}, asCell(found.low)), svg("svg", { width: 55, height: 15 }, svg("path", { d: bars, class: "tl-x-bin" })), el("span", {}, asCell(found.high)));
}

function verdictMarks(verdict, t, each) {
  if (!verdict.total) return null;
  const wrong = verdict.total - verdict.held, count = wrong && verdict.state === "bad" ? wrong : verdict.total;
  const glyph = el("span", { class: `tl-x-${verdict.state} tl-x-mark`, "aria-hidden": "true" }, each && verdict.total <= 3 && verdict.state === "ok" ? "✓".repeat(verdict.total) : MARK[verdict.state]);
  const number = each && verdict.total <= 3 && verdict.state === "ok" ? null : el("span", { class: "tl-x-many", "aria-hidden": "true" }, ` ${count}`);
  return [glyph, number, el("span", { class: "tl-vh" }, t("checks_of", { held: verdict.held, total: verdict.total }))];
}

function rowLine(row, above, state) {
  const { t } = state, formula = state.payload.formulas[row.formula];
  const cell = (name, ...children) => el("td", { class: `tl-x-c-${name}` }, children);
  return el("tr", { class: "tl-x-line", role: "row", tabindex: "-1", "aria-level": "2", "aria-selected": "false", data: { key: row.key } },
    cell("index", row.index),
    cell("path", row.path === above ? [el("span", { "aria-hidden": "true" }, "〃"), el("span", { class: "tl-vh" }, row.path)] : el("span", { title: row.path }, shortPath(row.path))),
    el("td", { class: `tl-x-c-tensor${row.name.length > 16 ? " tl-x-long" : ""}` }, row.name),
    cell("symbolic", row.axes), cell("shape", row.shape.join("×")), cell("formula", formula ? el("span", { class: "tl-x-clip" }, TL.markup(formula.inline)) : null), cell("section", formula?.section || ""),
    cell("dtype", DTYPES[row.dtype] || row.dtype), cell("contiguous", t(row.contiguous ? "yes" : "view")), cell("bytes", TL.count(row.bytes)), cell("checks", verdictMarks(state.verdictOf([state.number.get(row.key)]), t, true)));
}

// A formula wider than its column is set a little smaller; if that is not enough, it ends after a whole symbol with "…".
function fitFormulas(state) {
  const cells = [...state.host.querySelectorAll(".tl-x-line .tl-x-clip")], parts = (cell) => [...(cell.querySelector("math > mrow")?.children || [])];
  for (const cell of cells) {
    cell.style.removeProperty("--shrink");
    cell.querySelector(".tl-x-more")?.remove();
    for (const part of parts(cell)) part.style.removeProperty("display");
  }
  const wide = cells.map((cell) => ({ cell, room: cell.clientWidth, need: cell.scrollWidth })).filter(({ room, need }) => room && need > room);
  for (const each of wide) each.cell.style.setProperty("--shrink", Math.max(each.room / each.need - 0.005, SMALLEST_FORMULA).toFixed(3));
  const cut = wide.filter(({ room, need }) => room / need < SMALLEST_FORMULA);
  const ends = cut.map(({ cell }) => parts(cell).map((part) => part.getBoundingClientRect().right));
  cut.forEach(({ cell, room }, n) => {
    const box = cell.getBoundingClientRect(), edge = box.left + (box.width * (room - 11)) / room;
    parts(cell).forEach((part, i) => { if (ends[n][i] > edge) part.style.display = "none"; });
    cell.append(el("span", { class: "tl-x-more", "aria-hidden": "true" }, "…"));
  });
}

const SMALLEST_FORMULA = 0.9;

// …1.cross_attention of decoder.layers.1.cross_attention
function shortPath(path) {
  const parts = path.split(".");
  return parts.length > 2 ? `…${parts.slice(-2).join(".")}` : path;
}

// ------------------------------------------------------------------------------------------------- selection and keys

function markRows(state) {
  const rows = [...state.host.querySelectorAll(".tl-x-rows tr[tabindex]")];
  for (const row of rows) if (row.dataset.key) row.setAttribute("aria-selected", String(row.dataset.key === state.key));
  const stop = rows.find((row) => row.dataset.key === state.key) || rows.find((row) => row.dataset.group === state.groupOf(state.key)?.path) || rows[0];
  for (const row of rows) row.tabIndex = row === stop ? 0 : -1;
}

function focusRow(state, row, focus = true) {
  for (const each of state.host.querySelectorAll('.tl-x-rows tr[tabindex="0"]')) each.tabIndex = -1;
  row.tabIndex = 0;
  if (focus) row.focus();
}

function pickRow(state, row) {
  if (row.dataset.key) state.select({ key: row.dataset.key });
  else toggle(state, row.dataset.group);
}

function toggle(state, path, open = !state.open.has(path)) {
  if (state.find || state.open.has(path) === open) return;
  if (open) state.open.add(path); else state.open.delete(path);
  drawRows(state);
  const row = [...state.host.querySelectorAll(".tl-x-rows tr[data-group]")].find((each) => each.dataset.group === path);
  if (row) focusRow(state, row);
}

function ledgerKey(event, state) {
  const row = event.target.closest("tr[data-group], tr[data-key]");
  if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = [...state.host.querySelectorAll(".tl-x-rows tr[tabindex]")], here = rows.indexOf(row);
  const group = row.dataset.group, go = (n) => rows[n] && focusRow(state, rows[n]);
  const does = {
    ArrowDown: () => go(here + 1), ArrowUp: () => go(here - 1), Home: () => go(0), End: () => go(rows.length - 1),
    ArrowRight: () => (group ? (state.open.has(group) ? go(here + 1) : toggle(state, group, true)) : null),
    ArrowLeft: () => (group ? toggle(state, group, false) : go(rows.slice(0, here).findLastIndex((each) => each.dataset.group))),
    Enter: () => pickRow(state, row), " ": () => pickRow(state, row),
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
}

function openAll(state) {
  const { groups } = state.payload, all = groups.every((each) => state.open.has(each.path));
  state.open = new Set(all ? [state.groupOf(state.key)?.path].filter(Boolean) : groups.map((each) => each.path));
  drawRows(state);
}

function openFind(state) {
  const field = state.host.querySelector(".tl-x-field");
  field.hidden = false;
  field.focus();
  field.select();
}

function closeFind(state) {
  const field = state.host.querySelector(".tl-x-field");
  field.hidden = true;
  field.value = "";
  state.find = "";
  drawRows(state);
  state.host.querySelector('.tl-x-rows tr[tabindex="0"]')?.focus();
}

// ---------------------------------------------------------------------------------------------------------- downloads

const fileName = (state) => `ledger-seed-${state.payload.facts.seed}`;

// RFC 4180 with a byte-order mark, so that every spreadsheet reads it as UTF-8; numbers stay numbers.
function csv(state) {
  const { rows, formulas, checks } = state.payload;
  const quoted = (value) => (/[",\r\n]|^\s|\s$/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const head = ["index", "path", "tensor", "axes", "shape", "dtype", "contiguous", "bytes", "formula", "paper", "source", "min", "max", "mean", "std", "nan", "inf", "checks held", "checks"];
  const body = rows.map((row) => [row.index, row.path, row.name, row.axes, row.shape.join("×"), row.dtype, row.contiguous, row.bytes, formulas[row.formula]?.latex ?? "", formulas[row.formula]?.paper ?? "",
    row.source, ...row.statistics.map((number) => number ?? ""), row.checks.filter((n) => checks[n].state !== "bad").length, row.checks.length]);
  return `\uFEFF${[head, ...body].map((line) => line.map(quoted).join(",")).join("\r\n")}\r\n`;
}

function json(state) {
  const { rows, formulas, checks, facts } = state.payload, statistics = ["min", "max", "mean", "std", "nan", "inf"];
  const plain = rows.map(({ statistics: numbers, formula, checks: about, sample, head, attends, kind, ...row }) => ({
    ...row, formula: formulas[formula]?.latex ?? "", paper: formulas[formula]?.paper ?? "",
    ...Object.fromEntries(statistics.map((name, n) => [name, numbers[n]])), checks: about.map((n) => checks[n].name),
  }));
  return JSON.stringify({ run: facts, rows: plain, checks }, null, 1);
}

// Compare, right below: the sweep as small multiples that fill in while it runs, and the speed of attention alone.
const LIVE = { sweep: { rows: [] }, speed: { rows: [] } };
const READ = {}; // the point of each panel that was read last
const APART = 14; // px between two lengths that are written out

const [AT_DTYPE, AT_FAST, AT_NORM, AT_MODE, AT_PADDING, AT_LENGTH, AT_ERROR, AT_PADDED, AT_VERDICT, AT_WHAT, AT_LIMIT] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
const DTYPES = ["float32", "float64"];

// News of a job: the rows from one number on. A job that was begun anew replaces the one before it.
function takeNews(news, reply) {
  const held = LIVE[news.kind];
  if (!held || (held.id && held.id !== news.id && !reply)) return false;
  if (held.id !== news.id) LIVE[news.kind] = { ...news, rows: [] };
  const now = LIVE[news.kind];
  if (news.from > now.rows.length) return true; // a message was lost: asked for again
  now.rows.splice(news.from, news.rows.length, ...news.rows);
  const later = news.done >= (now.done || 0); // an answer may be overtaken by the last words of the slice it has ended
  if (later || news.state !== "running") for (const name of ["state", "total", "seconds", "fault", "plan"]) now[name] = news[name];
  now.done = Math.max(news.done, now.done || 0);
  return now.rows.length < now.done;
}

const lengthsOf = (job, chosen) => job.plan?.lengths || (chosen.cmp_lengths === "all" ? Array.from({ length: 32 }, (_, n) => n + 1) : [1, 2, 3, 5, 8, 13, 21, 32]);
const PADDING_NAMES = ["none", "right", "left", "holes"], MODE_NAMES = ["train", "eval", "no_grad"], NORM_NAMES = ["post", "pre"];

function drawSweep(state, parts) {
  const job = LIVE.sweep, { chosen } = state, lengths = lengthsOf(job, chosen);
  const dtype = DTYPES.indexOf(chosen.cmp_numbers), fast = chosen.cmp_fast === "on" ? 1 : 0;
  const shown = job.rows.filter((row) => row[AT_DTYPE] === dtype && row[AT_FAST] === fast);
  const running = job.state === "running";
  parts.sweepHead.replaceChildren(titled(t("sweep_title"), t("sweep_sub", { numbers: chosen.cmp_numbers, fast: t(`cmp_fast_${chosen.cmp_fast}`) })),
    el("span", { class: "tl-c-acts" }, jobButton("sweep", running), jobStop(running)));
  parts.sweepBar.style.setProperty("--done", `${job.total ? (100 * job.done) / job.total : 0}%`);
  for (const [name, v] of [["aria-valuenow", job.done || 0], ["aria-valuemax", job.total || 0], ["aria-label", t("progress")]]) parts.sweepBar.setAttribute(name, v);
  parts.sweepBar.hidden = job.state !== "running";
  const width = Math.max(parts.panels.clientWidth, 280), label = 46, gap = 10, each = Math.floor((width - label - 3 * gap) / 3);
  const cells = new Map(shown.map((row) => [`${row[AT_NORM]} ${row[AT_MODE]} ${row[AT_PADDING]} ${row[AT_LENGTH]}`, row]));
  const panels = [el("span"), ...MODE_NAMES.map((name) => el("span", { class: "tl-c-mode" }, t(`mode_${name}`)))];
  NORM_NAMES.forEach((norm, n) => {
    panels.push(el("span", { class: "tl-c-norm" }, t(`norm_${norm}`), el("small", { "aria-hidden": "true" }, PADDING_NAMES.map((name) => el("span", {}, t(`padding_${name}_short`))))));
    MODE_NAMES.forEach((mode, m) => panels.push(panel(n, m, lengths, cells, each, parts)));
  });
  const held = parts.panels.contains(document.activeElement) ? document.activeElement.dataset.panel : null;
  parts.panels.style.setProperty("--label", `${label}px`);
  parts.panels.replaceChildren(...panels);
  if (held) parts.panels.querySelector(`[data-panel="${held}"]`).focus({ preventScroll: true }); // a reader stays where they read
  parts.sweepCell.textContent ||= t("cell_hint");
  parts.sweepSay.replaceChildren(...sweepSentence(job, shown));
  parts.sweepLegend.replaceChildren(el("span", {}, mark("equal"), t("sweep_equal")), el("span", {}, mark("other"), t("sweep_other")), el("span", {}, mark("wrong"), t("sweep_wrong")), el("span", {}, t("sweep_axes")));
}

const jobButton = (kind, running) => el("button", { type: "button", class: "tl-c-button tl-c-primary", "aria-disabled": String(running), data: { job: kind }, onclick: () => command(kind) }, t(running ? "running" : LIVE[kind].id ? "again" : kind === "sweep" ? "run" : "run_speed"));
const jobStop = (running) => el("button", { type: "button", class: "tl-c-button", "aria-disabled": String(!running), data: { job: "stop" }, onclick: () => command("stop") }, t("stop"));
const mark = (kind) => TL.svg("svg", { width: 13, height: 13, class: "tl-c-cell", "aria-hidden": "true" }, shapesOf(kind, 0.5, 0.5, 12, 12));

// A dot is equal, a triangle is torch's own way, a cross is wrong: told apart without their colours.
function shapesOf(kind, x, y, width, height) {
  const cx = x + width / 2, cy = y + height / 2, r = Math.min(width, height) * 0.3;
  const ground = TL.svg("rect", { x, y, width: Math.max(width - 0.6, 1), height: height - 0.6, class: `tl-c-g-${kind}` });
  if (kind === "equal") return [ground, TL.svg("circle", { cx, cy, r: Math.min(r, 2.6), class: "tl-c-s-equal" })];
  if (kind === "other") return [ground, TL.svg("path", { d: `M${cx} ${cy - r}L${cx + r * 1.1} ${cy + r}L${cx - r * 1.1} ${cy + r}Z`, class: "tl-c-s-other" })];
  if (kind === "wrong") return [ground, TL.svg("path", { d: `M${cx - r} ${cy - r}L${cx + r} ${cy + r}M${cx + r} ${cy - r}L${cx - r} ${cy + r}`, class: "tl-c-s-wrong" })];
  return [TL.svg("rect", { x: cx - 0.6, y: cy - 0.6, width: 1.2, height: 1.2, class: "tl-c-s-empty" })];
}

function panel(norm, mode, lengths, cells, width, parts) {
  const top = 12, tall = 13, step = width / lengths.length, out = [];
  const found = (padding, length) => cells.get(`${norm} ${mode} ${padding} ${length}`);
  const last = lengths.length - 1;
  let written = -APART;
  lengths.forEach((length, n) => {
    if (n === last || (step * n - written >= APART && (step * (last - n) >= APART))) {
      out.push(TL.svg("text", { x: n === last && step < APART ? width : step * (n + 0.5), y: 9, "text-anchor": n === last && step < APART ? "end" : "middle" }, length));
      written = step * n;
    }
    PADDING_NAMES.forEach((_, p) => out.push(...shapesOf(found(p, length)?.[AT_VERDICT] || "none", step * n, top + tall * p, step, tall)));
  });
  const all = [...cells.values()].filter((row) => row[AT_NORM] === norm && row[AT_MODE] === mode), equal = all.filter((row) => row[AT_VERDICT] === "equal").length;
  const picture = TL.svg("svg", { class: "tl-c-panel", width, height: top + tall * 4 + 1, role: "img", tabindex: 0, "data-panel": `${norm} ${mode}`,
    "aria-label": t("panel", { norm: t(`norm_${NORM_NAMES[norm]}`), mode: t(`mode_${MODE_NAMES[mode]}`), equal, total: all.length }) }, out,
    TL.svg("rect", { class: "tl-c-cursor", width: Math.max(step, 4), height: tall, visibility: "hidden" }));
  const at = (READ[`${norm} ${mode}`] ||= { n: 0, p: 0, seen: false });
  at.n = Math.min(at.n, lengths.length - 1);
  const tell = () => {
    at.seen = true;
    const cursor = picture.querySelector(".tl-c-cursor"), row = found(at.p, lengths[at.n]);
    for (const [name, v] of [["x", step * at.n], ["y", top + tall * at.p], ["visibility", "visible"]]) cursor.setAttribute(name, v);
    const where = { norm: t(`norm_${NORM_NAMES[norm]}`), mode: t(`mode_${MODE_NAMES[mode]}`), length: lengths[at.n], padding: t(`padding_${PADDING_NAMES[at.p]}`) };
    parts.sweepCell.textContent = row ? [t("cell", where), t("cell_error", { error: amount(row[AT_ERROR]) }), row[AT_PADDED] === null ? "" : t("cell_padded", { error: amount(row[AT_PADDED]) }), t(`what_${row[AT_WHAT]}`)].filter(Boolean).join(" · ") : t("cell_none", where);
  };
  picture.addEventListener("keydown", (event) => {
    const [dn, dp] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key] || [0, 0];
    if (!dn && !dp) return;
    event.preventDefault();
    at.n = Math.min(Math.max(at.n + dn, 0), lengths.length - 1);
    at.p = Math.min(Math.max(at.p + dp, 0), 3);
    tell();
  });
  const point = (event) => {
    const box = picture.getBoundingClientRect(), zoom = box.width / width || 1;
    at.n = Math.min(Math.max(Math.floor((event.clientX - box.left) / zoom / step), 0), lengths.length - 1);
    at.p = Math.min(Math.max(Math.floor(((event.clientY - box.top) / zoom - top) / tall), 0), 3);
    tell();
  };
  picture.addEventListener("pointermove", point);
  picture.addEventListener("pointerdown", point);
  picture.addEventListener("focus", () => { if (at.seen) tell(); });
  picture.addEventListener("blur", () => picture.querySelector(".tl-c-cursor").setAttribute("visibility", "hidden"));
  return picture;
}

// How many points, how many differ, and for each way in which torch differs where that is and why.
function sweepSentence(job, shown) {
  if (!job.id) return [t("sweep_empty")];
  const state = t(`sweep_${job.state}`, { done: count(job.done), total: count(job.total), seconds: job.seconds, fault: job.fault });
  const odd = new Map();
  for (const row of shown) if (row[AT_VERDICT] !== "equal") odd.set(row[AT_WHAT], [...(odd.get(row[AT_WHAT]) || []), row]);
  const equal = shown.filter((row) => row[AT_VERDICT] === "equal"), most = worst(equal.map((row) => ({ error: row[AT_ERROR] })));
  const lines = [el("b", {}, t("sweep_held", { equal: count(equal.length), shown: count(shown.length), error: amount(most) })), " "];
  for (const [what, rows] of odd) {
    const names = (at, list, kind) => { const seen = [...new Set(rows.map((row) => row[at]))].sort(); return seen.length === list.length ? "" : seen.map((n) => t(`${kind}_${list[n]}`)).join(t("and")); };
    const where = [names(AT_NORM, NORM_NAMES, "norm"), names(AT_MODE, MODE_NAMES, "mode"), names(AT_PADDING, PADDING_NAMES, "padding")].filter(Boolean).join(" · ") || t("everywhere");
    lines.push(el("span", { class: "tl-c-why" }, mark(rows[0][AT_VERDICT]), el("b", {}, t("sweep_differ", { count: count(rows.length), where })), " ", t(`what_${what}`)));
  }
  return [el("span", { class: "tl-c-state" }, state), ...(shown.length ? lines : [])];
}

function sweepCsv() {
  const head = ["dtype", "fast_path", "norm_order", "mode", "padding", "length", "error", "padded_error", "verdict", "what", "limit"];
  const lines = LIVE.sweep.rows.map((row) => [DTYPES[row[AT_DTYPE]], row[AT_FAST], NORM_NAMES[row[AT_NORM]], MODE_NAMES[row[AT_MODE]], PADDING_NAMES[row[AT_PADDING]], ...row.slice(5).map((v) => v ?? "")]);
  return `\ufeff${[head, ...lines].map((line) => line.join(",")).join("\r\n")}\r\n`;
}

// ----------------------------------------------------------------------------------------------------------- the speed

function drawSpeed(state, parts) {
  const job = LIVE.speed, running = job.state === "running", rows = job.rows, most = Math.max(1, ...rows.map((row) => row.ratio || 0));
  const head = el("summary", {}, t("speed_title"), el("small", {}, t("speed_sub"))), acts = el("div", { class: "tl-c-acts" }, jobButton("speed", running), jobStop(running));
  const say = job.id ? (job.state === "finished" ? null : el("p", { class: "tl-c-say" }, t(`sweep_${job.state}`, { done: job.done, total: job.total, seconds: job.seconds, fault: job.fault }))) : el("p", { class: "tl-c-quiet" }, t("speed_empty"));
  const heads = ["speed_device", "cmp_dtype", "speed_length", "speed_error", "speed_ours", "speed_torch", "speed_ratio"];
  put(parts.speed, head, acts, say, rows.length ? el("div", { class: "tl-c-scroll", tabindex: 0, role: "group", "aria-label": t("speed_title") }, el("table", {}, el("thead", {}, el("tr", {}, heads.map((key) => el("th", { scope: "col" }, t(key))))),
    el("tbody", {}, rows.map((row) => el("tr", {}, el("th", { scope: "row" }, row.device), el("td", {}, row.dtype), el("td", { class: "tl-c-n" }, row.length), el("td", { class: "tl-c-n" }, amount(row.error)), el("td", { class: "tl-c-n" }, milliseconds(row.ours_ms)), el("td", { class: "tl-c-n" }, milliseconds(row.theirs_ms)),
      el("td", {}, el("span", { class: "tl-c-ratio", "aria-hidden": "true" }, el("i", { style: { width: `${(100 * Math.min(row.ratio || 0, most)) / most}%` } })), ` ${finite(row.ratio) ? row.ratio.toFixed(1) : "–"}×`)))))) : null);
}
const milliseconds = (ms) => (finite(ms) ? `${ms < 1 ? ms.toFixed(3) : ms.toPrecision(3)} ms` : "–");

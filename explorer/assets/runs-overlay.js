// The panel Runs, part 2: the curves of the marked runs over each other, and the band of the seeds. Runs are told apart by
// their dashes and by the name at the end of each line; colour says only which one is chosen.
const DASHES = ["", "6 3", "2 3", "9 3 2 3", "4 2 1 2 1 2", "12 4", "1 3", "7 2 2 2"];

// Marked by hand; else the chosen run, and what was made beside the chart, unless the band of the seeds shows it.
const marks = new Map();
const marked = (row) => marks.get(row.id) ?? (row.id === held.chosen || (fresh.has(row.id) && !held.spread?.ids.includes(row.id)));
const fresh = new Set();

function overlayTicks(top, wanted) {
  const rough = top / wanted, magnitude = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 2.5, 5, 10].map((f) => f * magnitude).find((f) => f >= rough * 0.999);
  const all = [];
  for (let i = 0; i * size <= top * 1.0001; i += 1) all.push(Number((i * size).toPrecision(6)));
  return all;
}

function drawOverlay() {
  const rows = held.rows.filter(marked), spread = held.spread, box = parts.overlay;
  const several = rows.length > 1 || Boolean(spread);
  parts.hint.textContent = held.rows.length > 1 && !several ? t("overlay_hint") : "";
  box.hidden = !several;
  if (!several) { parts.chart.replaceChildren(); return; }
  const width = Math.floor(box.clientWidth);
  if (width < 200) return; // the tab is hidden: drawn when it is shown
  const small = width < 620, left = 40, right = width - (small ? 66 : 150), longest = Math.max(1, ...rows.map((row) => row.of), spread?.steps || 0);
  const x = (step) => left + ((right - left) * step) / longest, middle = (i) => Math.min((i + 0.5) * held.width, longest);
  const out = [], ends = [];
  let top = 0;
  const put = (tag, attributes, ...children) => { out.push(svg(tag, attributes, ...children)); };
  const write = (cls, px, py, text, anchor) => put("text", { class: cls, x: px.toFixed(1), y: py.toFixed(1), "text-anchor": anchor || "start" }, text);

  function panel(title, height, high, wanted) {
    put("text", { class: "tl-ru-title", x: left, y: top + 13 }, title);
    const area = { top: top + 20, bottom: top + 20 + height };
    const y = (v) => area.bottom - (height * Math.min(Math.max(v, 0), high)) / high;
    for (const v of overlayTicks(high, wanted)) {
      put("line", { class: "tl-ru-grid", x1: left, x2: right, y1: y(v), y2: y(v) });
      write("tl-ru-tick", left - 6, y(v) + 4, String(v), "end");
    }
    for (const step of overlayTicks(longest, small ? 4 : 8)) put("line", { class: "tl-ru-grid", x1: x(step), x2: x(step), y1: area.top, y2: area.bottom });
    top = area.bottom + 10;
    return { ...area, y };
  }
  const line = (points, cls, dash) => { if (points.length) put("path", { class: cls, "stroke-dasharray": dash || null, d: points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("") }); };
  const points = (values, at, y) => values.map((v, i) => (v === null ? null : [x(at(i)), y(v)])).filter(Boolean);

  const high = highest(held.rows.filter((row) => marked(row) || spread?.ids.includes(row.id)));
  const most = Math.max(0, ...rows.flatMap((row) => row.curve).filter((v) => v !== null));
  let area = panel(held.width === 1 ? t("overlay_loss_one") : t("overlay_loss", { width: held.width }), small ? 150 : 210, high, 5);
  if (most > high) write("tl-ru-tick", right, area.top - 7, t("overlay_above", { value: number(most) }), "end");
  if (spread) {
    const low = points(spread.curve.low, middle, area.y), up = points(spread.curve.high, middle, area.y);
    if (low.length) put("path", { class: "tl-ru-band", d: `M${[...up, ...low.reverse()].map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L")}Z` });
  }
  const order = [...rows].sort((a, b) => Number(a.id === held.chosen) - Number(b.id === held.chosen));
  const dash = (row) => (row.id === held.chosen ? "" : DASHES[1 + (rows.indexOf(row) % (DASHES.length - 1))]);
  for (const row of order) {
    const all = points(row.curve, middle, area.y);
    line(all, row.id === held.chosen ? "tl-ru-line tl-ru-now" : "tl-ru-line", dash(row));
    if (all.length) ends.push({ y: all[all.length - 1][1], from: all[all.length - 1], row });
  }
  if (spread) {
    const all = points(spread.curve.mean, middle, area.y);
    line(all, "tl-ru-line tl-ru-mean", "");
    if (all.length) ends.push({ y: all[all.length - 1][1], from: all[all.length - 1], row: null });
  }
  // The names stand at the ends of their lines, as near as the others let them.
  ends.sort((a, b) => a.y - b.y);
  const low = area.bottom + 12;
  ends.forEach((end, i) => { end.at = Math.max(end.y + 4, i ? ends[i - 1].at + 12.5 : area.top + 4); });
  for (let i = ends.length - 1; i >= 0; i -= 1) ends[i].at = Math.min(ends[i].at, i === ends.length - 1 ? low : ends[i + 1].at - 12.5);
  for (const end of ends) {
    put("line", { class: "tl-ru-leader", x1: end.from[0] + 3, y1: end.from[1], x2: right + 4, y2: end.at - 4 });
    const text = end.row ? `${end.row.live ? `${end.row.seed}·` : end.row.id}${small ? "" : ` ${nameOf(end.row)}`}` : small ? t("mean_short") : t("mean_of", { n: spread.seeds.length });
    write(`tl-ru-end ${end.row?.id === held.chosen ? "tl-ru-strong" : ""}`, right + 7, end.at, small || text.length < 24 ? text : `${text.slice(0, 23)}…`);
  }

  area = panel(t("overlay_exact"), small ? 70 : 90, 1, 2);
  for (const row of order) {
    const all = row.looks.map(([step, exact]) => [x(step), area.y(exact ?? 0)]);
    line(all, row.id === held.chosen ? "tl-ru-line tl-ru-now" : "tl-ru-line", dash(row));
  }
  for (const step of overlayTicks(longest, small ? 4 : 8)) write("tl-ru-tick", x(step), top + 6, count(step), "middle");
  write("tl-ru-tick", left - 6, top + 6, t("axis_step"), "end");
  top += 12;
  for (const [name, value] of [["viewBox", `0 0 ${width} ${top}`], ["width", width], ["height", top], ["aria-label", t("overlay_spoken", { runs: rows.map((row) => `${row.live ? `${row.seed}·` : row.id} ${nameOf(row)}: ${number(row.loss)}`).join("; ") })]]) parts.chart.setAttribute(name, value);
  parts.chart.replaceChildren(...out);
}

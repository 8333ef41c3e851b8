// The Train view, part 3: one drawing of panels over one step axis. A frame knows where a step and a value are, and
// finds room for labels; what the panels show is in train-chart.js and train-rates.js.
const MEAN = 20;

function ticks(top, wanted) {
  const rough = top / wanted, magnitude = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 2.5, 5, 10].map((f) => f * magnitude).find((f) => f >= rough * 0.999);
  const all = [];
  for (let i = 0; i * size <= top * 1.0001; i += 1) all.push(Number((i * size).toPrecision(6)));
  return all;
}

// The mean of the steps around each: a trailing mean would run behind the curve it smooths. Where no more steps are to
// the right, the last ones: the number beside the curve's end is then the one that the table of runs has.
function average(values) {
  const sums = [0], counts = [0], half = MEAN / 2;
  values.forEach((value, i) => { sums.push(sums[i] + (value ?? 0)); counts.push(counts[i] + (value === null ? 0 : 1)); });
  return values.map((_, i) => {
    const from = Math.max(0, Math.min(i - half, values.length - MEAN)), to = Math.min(values.length, i + half), n = counts[to] - counts[from];
    return n ? (sums[to] - sums[from]) / n : null;
  });
}

// More steps than pixels are drawn as the lowest and highest of each pixel, so no spike is lost.
function path(values, x, y, width) {
  const bin = Math.max(1, Math.ceil(values.length / (2 * width)));
  let d = "", pen = false;
  for (let i = 0; i < values.length; i += bin) {
    const part = values.slice(i, i + bin).filter((v) => v !== null);
    if (!part.length) { pen = false; continue; }
    for (const v of bin === 1 ? part : [Math.min(...part), Math.max(...part)]) {
      d += `${pen ? "L" : "M"}${x(i + 1).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = true;
    }
  }
  return d;
}
const points = (pairs, x, y) => pairs.map(([step, v], i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(v).toFixed(1)}`).join("");
const finite = (values) => values.filter((v) => v !== null && v !== undefined);
const highest = (values) => finite(values).reduce((a, b) => Math.max(a, b), 0);

function frameOf(width) {
  const steps = facts()?.steps || 100, small = width < 560, left = small ? 44 : 46, right = width - 12, now = held.step;
  const x = (step) => left + ((right - left) * step) / steps;
  const out = [], over = [], taken = [];
  const put = (tag, attributes, ...children) => { out.push(svg(tag, attributes, ...children)); };
  const write = (cls, px, py, content, anchor) => svg("text", { class: cls, x: px.toFixed(1), y: py.toFixed(1), "text-anchor": anchor || "start" }, content);
  const wide = (content) => [...content].reduce((sum, sign) => sum + (sign > "\u2e80" ? 11 : 6), 0);
  const frame = { width, steps, small, left, right, now, x, out, over, put, write, top: 0 };

  // A label goes to the first of its places that is free, and never out of its panel: the next title begins below it.
  // One that only repeats what the table says is left out where every place is taken.
  frame.place = (cls, px, wanted, content, anchor, area, spare) => {
    px = anchor === "end" ? Math.max(px, left + 4 + wide(content)) : Math.max(left + 4, Math.min(px, width - wide(content)));
    const from = anchor === "end" ? px - wide(content) : px, to = from + wide(content);
    const inside = (py) => py - 9 >= area.top - 2 && py + 2 <= area.bottom + 1;
    const free = (py) => !taken.some((one) => one.from < to + 4 && one.to > from - 4 && Math.abs(one.y - py) < 11.5);
    const places = [...wanted, ...[12, 24, 36, 48, 60, 72].flatMap((by) => wanted.flatMap((one) => [one - by, one + by]))].filter(inside);
    const py = places.find(free) ?? (spare ? null : places[0] ?? area.bottom - 3);
    if (py === null) return;
    taken.push({ from, to, y: py });
    over.push(write(`${cls} ${(from + to) / 2 < x(now) ? "tl-tr-over-past" : ""}`, px, py, content, anchor));
  };
  // To the right of the present, or to its left where that has more room for what does not fit.
  frame.flips = (content) => x(now) + 7 + wide(content) > width && x(now) - left > width - x(now);
  frame.beside = (area, py, content, cls) => frame.place(`tl-tr-now ${cls || ""}`, x(now) + (frame.flips(content) ? -7 : 7), [py], content, frame.flips(content) ? "end" : "start", area);

  frame.panel = (name, height, sub, extra) => {
    out.push(svg("text", { class: "tl-tr-title", x: left, y: frame.top + 13 }, svg("tspan", { class: "tl-tr-name" }, name), small ? "" : svg("tspan", { class: "tl-tr-sub", dx: 8 }, sub)));
    if (extra) out.push(extra(frame.top + 13));
    return frame.bare(height, 19);
  };
  // A panel below the one before, with no title between them.
  frame.bare = (height, gap) => {
    const area = { top: frame.top + gap, bottom: frame.top + gap + height };
    frame.top = area.bottom + 8;
    put("rect", { class: "tl-tr-past", x: left, y: area.top, width: Math.max(0, x(now) - left), height });
    for (const step of ticks(steps, small ? 4 : 10)) put("line", { class: "tl-tr-grid", x1: x(step), x2: x(step), y1: area.top, y2: area.bottom });
    if (now) over.push(svg("line", { class: "tl-tr-nowline", x1: x(now), x2: x(now), y1: area.top, y2: area.bottom }));
    const look = chosen.look();
    if (chosen.any() && look) over.push(svg("line", { class: "tl-tr-chosenline", x1: x(look.step), x2: x(look.step), y1: area.top, y2: area.bottom }));
    return area;
  };
  frame.scale = (area, high, marks) => {
    const y = (v) => area.bottom - ((area.bottom - area.top) * Math.min(Math.max(v, 0), high)) / high;
    for (const mark of marks) {
      put("line", { class: mark ? "tl-tr-grid" : "tl-tr-axis", x1: left, x2: right, y1: y(mark).toFixed(1), y2: y(mark).toFixed(1) });
      out.push(write("tl-tr-tick", left - 6, y(mark) + 4, short(mark), "end"));
    }
    return y;
  };
  frame.line = (cls, values, y) => put("path", { class: cls, d: path(values, x, y, right - left) });
  frame.legend = (keys) => (y) => svg("text", { class: "tl-tr-legend", x: right, y, "text-anchor": "end" },
    keys.map(([cls, sign, name], i) => [svg("tspan", { class: cls, dx: i ? 10 : 0 }, sign), name]));
  frame.mark = (area, y, value, sentence, cls) => {
    put("line", { class: cls || "tl-tr-chance", x1: left, x2: right, y1: y(value), y2: y(value) });
    frame.place("tl-tr-chance-label", right, [y(value) - 4, y(value) + 12], sentence, "end", area);
  };
  // What five other seeds did: from the lowest to the highest, and their mean where this run has not been yet.
  frame.band = (series, y, steps_) => {
    const there = steps_.map((step, i) => [step, ...series.map((each) => each[i])]).filter((row) => row[0] <= steps && row.every((v) => v !== null));
    if (there.length < 2) return;
    const up = points(there.map(([step, low]) => [step, low]), x, y), down = points([...there].reverse().map(([step, , , high]) => [step, high]), x, y);
    put("path", { class: "tl-tr-band", d: `${up}${down.replace("M", "L")}Z` });
    const ahead = there.filter(([step]) => step >= now);
    if (ahead.length > 1) put("path", { class: "tl-tr-expected", d: points(ahead.map(([step, , mean]) => [step, mean]), x, y) });
  };
  return frame;
}

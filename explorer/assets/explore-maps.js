const { el, svg } = window.TL;

// Heat maps. Small ones are SVG with one path for each of 33 levels, so that a thousand cells are a few elements and a
// change of theme is pure CSS; large ones are a real table while numbers fit into the cells, else the same SVG with a cursor.
const HIDDEN = 255, NOT_A_NUMBER = 254, INFINITE = 253, STEPS = 250, MIDDLE = 125, LEVELS = 32, MASKED = 128;
const REASONS = ["padding", "causal", "window", "prefix", "block", "strided", "custom"];
const LETTERS = "pcwfbsx";

// Above these values a white number reads better in the light theme, a black one in the dark theme (tests/explorer/test_explore.py).
const WHITE_FROM = { probability: 0.592, positive: 0.8, negative: 0.932 };
const BLACK_FROM = { probability: 0.516, positive: 0.636, negative: 0.64 };

const minus = (text) => text.replace("-", "−");
const short = (number) => String(Math.round(number * 100) / 100);

function asProbability(value) {
  if (value < 0.005) return "·";
  return value >= 0.995 ? "1.0" : value.toFixed(2).slice(1);
}

function asNumber(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e5)) return asPower(value);
  if (size === 0) return "0";
  return minus(size < 1 ? value.toFixed(3) : size < 10 ? value.toFixed(2) : size < 100 ? value.toFixed(1) : value.toFixed(0));
}

function asCell(value) {
  const size = Math.abs(value);
  if (size < 0.005) return "0";
  return minus(size < 10 ? value.toFixed(2) : size < 100 ? value.toFixed(1) : size < 1e4 ? value.toFixed(0) : value.toExponential(0));
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

// 1.2·10⁻⁷; a power alone where the factor is 1.
function asPower(value) {
  const [factor, exponent] = value.toExponential(1).split("e");
  const raised = [...String(Number(exponent))].map((sign) => RAISED[sign]).join("");
  return Number(factor) === 1 ? `10${raised}` : `${minus(factor.replace(".0", ""))}·10${raised}`;
}

// The level of one coded cell: 0 is the background, a sign keeps its code.
function level(code, kind) {
  if (code >= INFINITE) return code;
  if (kind === "probability") return Math.round((code * LEVELS) / STEPS);
  return kind === "signed" ? Math.round(((code - MIDDLE) * LEVELS) / (2 * MIDDLE)) : 0;
}

function paint(step, kind) {
  if (step === HIDDEN) return { class: "tl-x-hidden" };
  if (step >= INFINITE) return { class: "tl-x-odd" };
  if (kind === "probability") return { class: "tl-x-p", style: `--at:${step / LEVELS}` };
  return { class: step > 0 ? "tl-x-dp" : "tl-x-dn", style: `--at:${Math.abs(step) / (LEVELS / 2)}` };
}

// A map of coded cells as SVG nodes in a box {x, y, w, h}. Neighbours of one level in a row are one rectangle.
function heat(codes, at, rows, columns, kind, box) {
  const wide = box.w / columns, high = box.h / rows, paths = new Map();
  for (let i = 0; i < rows; i += 1) {
    for (let j = 0; j < columns;) {
      const step = level(codes[at + i * columns + j], kind);
      let end = j + 1;
      while (end < columns && level(codes[at + i * columns + end], kind) === step) end += 1;
      if (step !== 0) {
        const width = short((end - j) * wide);
        const rect = `M${short(box.x + j * wide)} ${short(box.y + i * high)}h${width}v${short(high)}h-${width}z`;
        paths.set(step, (paths.get(step) || "") + rect);
      }
      j = end;
    }
  }
  const ground = svg("rect", { ...frame(box), class: `tl-x-ground tl-x-${kind}` });
  const cells = [...paths].map(([step, d]) => svg("path", { d, ...paint(step, kind) }));
  return [ground, svg("g", { "shape-rendering": "crispEdges" }, cells), svg("rect", { ...frame(box), class: "tl-x-rim" })];
}

const frame = (box) => ({ x: short(box.x), y: short(box.y), width: short(box.w), height: short(box.h) });

// Coded bytes of {shape: [sentences, heads, rows, columns], data}, decoded once.
function decoded(maps) {
  maps.codes ??= TL.b64u8(maps.data);
  return maps.codes;
}

function mapOffset(maps, sample, head) {
  const [samples, heads, rows, columns] = maps.shape;
  return (Math.min(sample, samples - 1) * heads + Math.min(head, heads - 1)) * rows * columns;
}

// One sentence and head of a tensor as it came from the server: numbers, reasons, labels, row by row.
function slice(tensor, sample, head) {
  const { look, shape } = tensor;
  tensor.numbers ??= TL.b64f32(tensor.values);
  tensor.reasons ??= tensor.why ? TL.b64u8(tensor.why) : null;
  const [rows, columns] = tensor.shown || [shape.length > 1 ? shape.at(-2) : 1, shape.at(-1)];
  let at = 0;
  if (tensor.whole) {
    const heads = look.head ? shape[look.sample ? 1 : 0] : 1;
    at = ((look.sample ? sample : 0) * heads + (look.head ? head : 0)) * rows * columns;
  }
  const perHead = tensor.reasons && tensor.whole && tensor.reasons.length === tensor.numbers.length;
  const whyAt = perHead ? at : tensor.reasons && tensor.reasons.length > rows * columns ? sample * rows * columns : 0;
  return {
    rows, columns, kind: look.kind, limit: tensor.limit || 1, block: tensor.block || [1, 1], attends: tensor.look.attends,
    value: (i, j) => tensor.numbers[at + i * columns + j],
    why: (i, j) => (tensor.reasons ? tensor.reasons[whyAt + i * columns + j] : 0),
    rowNames: names(tensor.rows, sample, rows, tensor.block?.[0], look.rows), columnNames: names(tensor.columns, sample, columns, tensor.block?.[1], look.columns),
    sides: tensor.sides,
  };
}

// Tokens, or numbers where an axis only counts; of merged places the first one.
function names(printed, sample, size, block, axis) {
  const line = printed ? printed[Math.min(sample, printed.length - 1)] : null;
  return Array.from({ length: size }, (_, i) => (line ? line[i * (block || 1)] : axis === "" ? "" : String(i * (block || 1))));
}

const isHidden = (map, i, j) => (map.why(i, j) & MASKED) !== 0;

function reasonWords(bits, t) {
  const said = REASONS.filter((_, n) => bits & (1 << n)).map((name) => t(`reason_${name}`));
  return said.length ? `${t("masked")}: ${said.join(", ")}` : t("masked");
}

const reasonLetters = (bits) => [...LETTERS].filter((_, n) => bits & (1 << n)).join("");

function rowSum(map, i) {
  let sum = 0;
  for (let j = 0; j < map.columns; j += 1) sum += map.value(i, j);
  return sum;
}

const blindRow = (map, i) => map.attends && Array.from({ length: map.columns }, (_, j) => j).every((j) => isHidden(map, i, j));

// How far a cell is along its ramp, and which of the two ramps of a signed scale.
function along(map, value) {
  if (map.kind === "probability") return { part: Math.min(Math.max(value, 0), 1), ramp: "probability", css: "tl-x-p" };
  const part = Math.min(Math.abs(value) / map.limit, 1);
  return value < 0 ? { part, ramp: "negative", css: "tl-x-dn" } : { part, ramp: "positive", css: "tl-x-dp" };
}

function cell(map, i, j, t) {
  const value = map.value(i, j), hidden = isHidden(map, i, j), bits = map.why(i, j);
  if (map.kind === "mask") {
    return hidden || !value
      ? el("td", { class: "tl-x-hatch", title: reasonWords(bits, t) }, el("span", { "aria-hidden": "true" }, reasonLetters(bits)), el("span", { class: "tl-vh" }, reasonWords(bits, t)))
      : el("td", { class: "tl-x-open" }, el("span", { class: "tl-vh" }, t("open")));
  }
  if (!Number.isFinite(value)) return el("td", { class: Number.isNaN(value) ? "tl-x-nan" : "tl-x-inf" }, asNumber(value));
  if (hidden && map.kind === "probability" && value === 0) {
    return el("td", { class: "tl-x-hatch", title: reasonWords(bits, t) }, el("span", { class: "tl-vh" }, reasonWords(bits, t)));
  }
  if (hidden && map.kind !== "probability") {
    return el("td", { class: "tl-x-hatch tl-x-dim", title: reasonWords(bits, t) }, asCell(value), el("span", { class: "tl-vh" }, reasonWords(bits, t)));
  }
  const { part, ramp, css } = along(map, value);
  const contrast = `${part > WHITE_FROM[ramp] ? " tl-x-lw" : ""}${part > BLACK_FROM[ramp] ? " tl-x-db" : ""}`;
  const leak = hidden ? { class: `${css} tl-x-cell tl-x-leak${contrast}`, title: `${reasonWords(bits, t)}, ${asNumber(value)}` } : { class: `${css} tl-x-cell${contrast}` };
  return el("td", { ...leak, style: `--at:${part.toFixed(3)}` }, map.kind === "probability" ? asProbability(value) : asCell(value));
}

// The width a column may have so that all fit; 11 px digits need 22 px for .97 and 36 px for −0.41.
const columnRoom = (map, width) => Math.floor((width - 62 - (map.attends && map.kind === "probability" ? 66 : 0)) / map.columns) - 1;
const columnNeed = (map) => ({ signed: 36, mask: 17 })[map.kind] || 21;

function fits(map, width) {
  return map.rows <= 24 && columnRoom(map, width) >= columnNeed(map) && map.block[0] * map.block[1] === 1;
}

function mapTable(map, t, label, width) {
  const room = columnRoom(map, width), cellWidth = Math.min(room, { signed: 40, mask: 26 }[map.kind] || 31);
  const sums = map.attends && map.kind === "probability";
  const padded = (side, name) => (side && name === "∅" ? " tl-x-pad" : "");
  const head = el("tr", {}, el("th", { class: "tl-x-corner" }, corner(map, t)),
    map.columnNames.map((name) => el("th", { scope: "col", class: `tl-x-col${room < 26 ? " tl-x-tight" : ""}${padded(map.sides[1], name)}` }, name)),
    sums ? el("th", { scope: "col", class: "tl-x-sum" }, t("row_sum")) : null);
  const body = Array.from({ length: map.rows }, (_, i) => {
    const blind = blindRow(map, i);
    return el("tr", { class: blind ? "tl-x-blind" : null },
      el("th", { scope: "row", class: `tl-x-q${padded(map.sides[0], map.rowNames[i])}` }, map.rowNames[i]),
      Array.from({ length: map.columns }, (_, j) => cell(map, i, j, t)),
      sums ? sumCell(map, i, blind) : null);
  });
  return el("table", { class: `tl-x-map tl-x-map-${map.kind}`, "aria-label": label, style: { "--cell": `${cellWidth}px`, "--room": `${room}px` } }, el("thead", {}, head), el("tbody", {}, body));
}

function sumCell(map, i, blind) {
  const sum = rowSum(map, i), off = blind ? sum !== 0 : !(Math.abs(sum - 1) <= 5e-3);
  const text = Number.isFinite(sum) ? sum.toFixed(6) : asNumber(sum);
  return el("td", { class: `tl-x-s${off ? " tl-x-bad" : blind ? " tl-x-warn" : ""}` }, `${off ? "✗ " : blind ? "! " : ""}${text}`);
}

function corner(map, t) {
  if (map.attends) return t("query_key");
  return map.sides[0] ? t("token_feature") : "";
}

// The same map without numbers in it: a cursor reads one cell at a time, by pointer or by arrow keys.
function mapPicture(map, t, width, label, read) {
  const sums = map.attends && map.kind === "probability" && map.rows <= 24;
  const left = map.sides[0] ? 58 : 30, right = sums ? 62 : 2, top = 15;
  const w = width - left - right, wide = w / map.columns;
  const high = map.attends ? Math.max(Math.min(wide, 18), 256 / Math.max(map.rows, 16) > wide ? Math.min(wide, 18) : 3.6) : Math.min(16, Math.max(180 / map.rows, 4));
  const box = { x: left, y: top, w, h: high * map.rows };
  const codes = new Uint8Array(map.rows * map.columns);
  for (let i = 0; i < map.rows; i += 1) for (let j = 0; j < map.columns; j += 1) codes[i * map.columns + j] = code(map, i, j);
  const picture = svg("svg", { class: "tl-x-picture", viewBox: `0 0 ${width} ${box.h + top + 3}`, width, height: box.h + top + 3, role: "img", tabindex: "0", "aria-label": label },
    heat(codes, 0, map.rows, map.columns, map.kind, box), axisNames(map, box, high, wide, sums));
  const cursor = svg("rect", { class: "tl-x-cursor", width: short(Math.max(wide, 3)), height: short(high), visibility: "hidden" });
  picture.append(cursor);
  let at = null;
  const go = (i, j) => {
    at = [Math.min(Math.max(i, 0), map.rows - 1), Math.min(Math.max(j, 0), map.columns - 1)];
    cursor.setAttribute("x", short(box.x + at[1] * wide));
    cursor.setAttribute("y", short(box.y + at[0] * high));
    cursor.setAttribute("visibility", "visible");
    read(cellWords(map, ...at, t));
  };
  picture.addEventListener("pointermove", (event) => {
    const seen = picture.getBoundingClientRect(), scale = width / seen.width;
    const i = Math.floor(((event.clientY - seen.top) * scale - box.y) / high), j = Math.floor(((event.clientX - seen.left) * scale - box.x) / wide);
    if (i >= 0 && j >= 0 && i < map.rows && j < map.columns) go(i, j);
  });
  picture.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    go(...(at ? [at[0] + move[0], at[1] + move[1]] : [0, 0]));
  });
  return picture;
}

function code(map, i, j) {
  const value = map.value(i, j), hidden = isHidden(map, i, j);
  if (map.kind === "mask") return hidden || value < 0.5 ? HIDDEN : 0;
  if (hidden && (map.kind !== "probability" || value === 0)) return HIDDEN;
  if (!Number.isFinite(value)) return Number.isNaN(value) ? NOT_A_NUMBER : INFINITE;
  const coded = map.kind === "probability" ? value * STEPS : MIDDLE + (value / map.limit) * MIDDLE;
  return Math.min(Math.max(Math.round(coded), 0), STEPS);
}

// Labels every so many cells, as many as fit in 11 px.
function axisNames(map, box, high, wide, sums) {
  const marks = [], every = (size, room) => Math.max(1, Math.ceil(room / size));
  const down = every(high, 12), across = map.sides[1] ? every(wide, 18) : every(wide, 30);
  for (let i = 0; i < map.rows; i += down) {
    const y = short(box.y + i * high + Math.min(high, 12) / 2 + 4);
    marks.push(svg("text", { x: box.x - 5, y, "text-anchor": "end", class: "tl-x-axis" }, clipped(map.rowNames[i], box.x - 8)));
    if (sums && high >= 11) marks.push(svg("text", { x: short(box.x + box.w + 5), y, class: "tl-x-axis" }, Number.isFinite(rowSum(map, i)) ? rowSum(map, i).toFixed(6) : asNumber(rowSum(map, i))));
  }
  for (let j = 0; j < map.columns; j += across) {
    const x = map.sides[1] ? box.x + (j + 0.5) * wide : box.x + j * wide;
    if (!map.sides[1] && x + 7 * map.columnNames[j].length > box.x + box.w + 2) continue;
    marks.push(svg("text", { x: short(x), y: box.y - 4, "text-anchor": map.sides[1] ? "middle" : "start", class: "tl-x-axis" }, clipped(map.columnNames[j], wide * across)));
  }
  return marks;
}

// The fonts of the tokens as a canvas wants them.
const fonts = new Map();
function fontOf(name, size) {
  if (!fonts.has(name)) fonts.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || name);
  return `${size}px ${fonts.get(name)}`;
}
const AXIS_FONT = () => fontOf("sans", 11), TOKEN_FONT = () => fontOf("serif", 12);

let measure = null;

// A text cut to so many pixels of the axis type.
function clipped(text, room, font = AXIS_FONT()) {
  measure ??= document.createElement("canvas").getContext("2d");
  measure.font = font;
  let shown = String(text);
  if (measure.measureText(shown).width <= room) return shown;
  while (shown.length > 1 && measure.measureText(`${shown}…`).width > room) shown = shown.slice(0, -1);
  return `${shown}…`;
}

function textWidth(text, font) {
  measure ??= document.createElement("canvas").getContext("2d");
  measure.font = font;
  return measure.measureText(text).width;
}

// "query drinks · key 茶 · 0.8812"
function cellWords(map, i, j, t) {
  const hidden = isHidden(map, i, j) || (map.kind === "mask" && !map.value(i, j));
  const place = map.attends ? [t("at_query", { name: map.rowNames[i] }), t("at_key", { name: map.columnNames[j] })]
    : [map.sides[0] ? map.rowNames[i] : t("at_row", { name: map.rowNames[i] }), t("at_column", { name: map.columnNames[j] })];
  const value = map.kind === "mask" ? t(hidden ? "masked" : "open") : asPrecise(map.value(i, j));
  return [...place, value, hidden && map.kind !== "mask" ? reasonWords(map.why(i, j), t) : null].filter(Boolean).join(" · ");
}

function asPrecise(value) {
  if (!Number.isFinite(value)) return asNumber(value);
  return value !== 0 && Math.abs(value) < 1e-4 ? asPower(value) : minus(value.toFixed(6));
}

// The Train view, part 5: the learning rate with its schedule ahead, and the gradient norm, whole and part by part.

const SCHEDULES = { constant: "rate_constant", warmup: "rate_warmup", cosine: "rate_cosine", one_cycle: "rate_one_cycle" };
function rateSentence(plan) {
  return t(SCHEDULES[plan.schedule], { lr: short(plan.lr), warmup: plan.warmup }) + (plan.schedule === "cosine" && plan.warmup ? `, ${t("rate_rise", { warmup: plan.warmup })}` : "");
}

// The schedule is dashed where the run has not been yet; a rate that was changed moves the rest of it up or down.
function drawRate(f) {
  const plan = facts(), factor = plan?.lr ? rateNow() / plan.lr : 1;
  const ahead = (plan?.curve || []).filter(([step]) => step >= held.step).map(([step, rate]) => [step, rate * factor]);
  const area = f.panel(t("rate"), 36, plan ? rateSentence(plan) : "");
  const peak = 1.1 * (Math.max(highest(held.rate), highest(ahead.map(([, rate]) => rate))) || plan?.lr || 1);
  const y = f.scale(area, peak, [0, Number((peak / 1.1).toPrecision(2))]);
  if (ahead.length > 1 && !ended()) f.put("path", { class: "tl-tr-expected", d: points(ahead, f.x, y) });
  f.line("tl-tr-thin", held.rate, y);
  for (const [step, lr] of held.rate_changes) {
    const px = f.x(step);
    f.over.push(svg("path", { class: "tl-tr-change", d: `M${px.toFixed(1)} ${area.top}V${area.bottom}` }));
    f.place("tl-tr-change-label", px + 3, [area.top + 9], t("rate_set", { lr: short(lr), step: count(step) }), "start", area, true);
  }
  if (f.now && held.rate.length) f.beside(area, y(last(held.rate) ?? peak) + (f.flips(short(last(held.rate))) ? -4 : 4), short(last(held.rate)));
}

function drawNorm(f) {
  const plan = facts(), name = "grad_norm";
  const area = f.panel(t("norm"), 42, plan ? (plan.clip ? t("norm_clipped", { clip: short(plan.clip) }) : t("norm_free")) : "");
  const peak = 1.1 * (highest(held[name]) || 1), y = f.scale(area, peak, held[name].length ? [0, Number((peak / 1.1).toPrecision(2))] : [0]);
  if (plan?.clip && plan.clip < peak) f.put("line", { class: "tl-tr-clip", x1: f.left, x2: f.right, y1: y(plan.clip), y2: y(plan.clip) });
  f.line("tl-tr-thin", held[name], y);
  if (f.now && held[name].length) f.beside(area, y(last(held[name]) ?? peak) + (f.flips(short(last(held[name]))) ? -4 : 4), short(last(held[name])));
  drawParts(f);
}

// A strip a part of the model, from the embeddings above to the output below: the stronger the shade, the larger its
// gradient at that step, on a logarithmic scale whose ends are printed.
const rowHeight = (rows) => (rows <= 5 ? 12 : rows <= 12 ? 8 : 5);
const PLACES = [["embedding", "part_in"], ["position", "part_in"], ["encoder", "part_encoder"], ["decoder", "part_decoder"], ["", "part_out"]];
const placeOf = (part) => PLACES.find(([sign]) => part.includes(sign))[1];

function drawParts(f) {
  const rows = held.parts.length || 7, cells = held.layers.flatMap((row) => finite(row)).filter((v) => v > 0);
  const low = cells.reduce((a, b) => Math.min(a, b), Infinity), high = cells.reduce((a, b) => Math.max(a, b), 0);
  const sub = held.layers.length ? t("layers_sub", { low: short(low), high: short(high) }) : "";
  const row = rowHeight(rows), area = f.panel(t("layers"), rows * row, sub);
  if (!held.layers.length) return;
  const href = shades(f, low, high);
  if (href) f.put("image", { href, x: f.x(0), y: area.top, width: Math.max(1, f.x(held.layers.length) - f.x(0)), height: rows * row, preserveAspectRatio: "none", class: "tl-tr-parts" });
  let first = 0, above = -Infinity;
  for (let i = 1; i <= rows; i += 1) {
    if (i < rows && placeOf(held.parts[i]) === placeOf(held.parts[first])) continue;
    const middle = area.top + ((first + i) / 2) * row;
    if (middle - above >= 11.5) { f.out.push(f.write("tl-tr-tick", f.left - 6, middle + 4, t(placeOf(held.parts[first])), "end")); above = middle; }
    if (i < rows) f.put("line", { class: "tl-tr-split", x1: f.left, x2: f.right, y1: area.top + i * row, y2: area.top + i * row });
    first = i;
  }
}

// Painted once for each length of the run and theme. Of several steps in one column the largest shows.
let painted = { key: "", href: "" };
function shades(f, low, high) {
  const dark = document.body.classList.contains("dark"), n = held.layers.length, key = `${held.run} ${n} ${dark} ${low} ${high} ${f.width}`;
  if (painted.key === key) return painted.href;
  const columns = Math.min(n, Math.max(1, Math.round(f.x(n) - f.x(0)))), rows = held.parts.length;
  const sheet = document.createElement("canvas"), brush = sheet.getContext("2d");
  if (!brush || !rows) return "";
  sheet.width = columns;
  sheet.height = rows;
  const ends = ["--dmid", "--dpos"].map((name) => rgb(getComputedStyle(document.body).getPropertyValue(name)));
  const picture = brush.createImageData(columns, rows), span = Math.log(high / low) || 1;
  for (let c = 0; c < columns; c += 1) {
    const from = Math.floor((c * n) / columns), to = Math.max(from + 1, Math.floor(((c + 1) * n) / columns));
    for (let r = 0; r < rows; r += 1) {
      let most = 0;
      for (let i = from; i < to; i += 1) most = Math.max(most, held.layers[i][r] ?? 0);
      const share = most > 0 ? Math.log(most / low) / span : 0, at = 4 * (r * columns + c);
      for (let k = 0; k < 3; k += 1) picture.data[at + k] = ends[0][k] + (ends[1][k] - ends[0][k]) * share;
      picture.data[at + 3] = 255;
    }
  }
  brush.putImageData(picture, 0, 0);
  painted = { key, href: sheet.toDataURL() };
  return painted.href;
}
const rgb = (colour) => [1, 3, 5].map((i) => parseInt(colour.trim().slice(i, i + 2), 16) || 0);

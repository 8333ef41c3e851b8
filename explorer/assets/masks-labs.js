// Masks: the leak probe, broadcasting step by step, and why scores are divided by √d. Measured on demand, drawn here.

const probeBox = el("section", { class: "tl-m-probe-box" }), viewsBox = el("section", { class: "tl-m-views" }), scaleBox = el("section", { class: "tl-m-scale" });

// --------------------------------------------------------------------------------------------------------- leak probe

const sidesOf = () => ["tgt", "src"].filter((side) => grids().some((grid) => grid.name === (side === "src" ? "encoder_self" : "decoder_self")));

function drawProbe() {
  const way = view.shown.probe;
  const sides = sidesOf().map((side) => {
    const found = view.probe[side]?.run === view.shown.run && view.probe[side].sample === view.chosen.sample ? view.probe[side] : null, busy = view.measuring.has(side);
    const press = el("button", { type: "button", class: "tl-m-button", data: { keep: `nudge-${side}`, side }, disabled: way === "no" || busy, onclick: () => measured(side) }, busy ? t("nudging") : t(`nudge_${side}`));
    return el("div", { class: "tl-m-side-probe", data: { side, state: found ? "shown" : busy ? "busy" : "empty" } }, el("h3", {}, t(`nudged_${side}`), " →"), found ? probeTable(found) : el("p", { class: "tl-m-quiet" }, way === "no" ? t("no_numbers") : press), view.probeError?.[side] ? el("p", { class: "tl-m-bad", role: "alert" }, view.probeError[side][window.TL.lang()]) : null);
  });
  const known = sidesOf().map((side) => view.probe[side]).filter((found) => found && found.run === view.shown.run && found.sample === view.chosen.sample);
  const leaks = known.reduce((sum, found) => sum + found.leaks, 0), hidden = known.reduce((sum, found) => sum + found.hidden, 0), still = known.reduce((sum, found) => sum + found.still, 0);
  const verdict = !known.length ? null : leaks ? el("b", { class: "tl-m-bad" }, `✗ ${t("leaks", { count: leaks })} `) : hidden ? el("span", { class: "tl-m-ok" }, `✓ ${t("no_leaks", { count: hidden })} `) : el("span", { class: "tl-m-quiet" }, `${t("nothing_hidden")} `);
  write(probeBox, titled(t("probe"), t(`probe_${known[0]?.output || (sidesOf().length === 1 && sidesOf()[0] === "src" ? "memory" : "logits")}`)), el("div", { class: "tl-m-probes" }, sides),
    el("p", { class: "tl-m-note", role: "status" }, verdict, still ? el("span", { class: "tl-m-warn" }, `! ${t("still", { count: still })} `) : null, known.length ? t("probe_says") : t("probe_ask")));
}

// Rows are outputs, columns are tokens that were nudged.
function probeTable(found) {
  const outputs = found.output === "logits" ? (gridOf("decoder_self") || here()).queries : gridOf("encoder_self").queries, tokens = gridOf(found.side === "src" ? "encoder_self" : "decoder_self").keys;
  const most = Math.max(...found.moves.flat().filter(Number.isFinite), 1e-9);
  if (outputs.length > 16 || found.places.length > 16) return probePicture(found, most);
  return el("div", { class: "tl-m-scroll", tabindex: 0, role: "region", "aria-label": t(`nudged_${found.side}`), data: { keep: `probe-${found.side}` } }, el("table", { class: "tl-m-moves" }, el("thead", {}, el("tr", {}, el("th", {}, el("span", { class: "tl-vh" }, t("output_token"))), found.places.map((place) => el("th", { scope: "col", class: `tl-m-key${padded(tokens[place])}` }, tokens[place])))),
    el("tbody", {}, found.moves.map((row, i) => el("tr", {}, el("th", { scope: "row", class: `tl-m-query${padded(outputs[i])}` }, outputs[i]), row.map((value, j) => moveCell(value, found.may[i][j], most)))))));
}

function moveCell(value, may, most) {
  if (value === null) return el("td", { class: "tl-m-nan" }, "NaN");
  if (!may && value === 0) return el("td", { class: "tl-m-shut", title: t("still_hidden") }, "0");
  const part = Math.min(value / most, 1);
  return el("td", { class: `tl-x-dp tl-m-number${part > WHITE_FROM.positive ? " tl-m-lw" : ""}${part > BLACK_FROM.positive ? " tl-m-db" : ""}${may ? (value === 0 ? " tl-m-blocked" : "") : " tl-m-odd"}`, style: `--at:${part.toFixed(3)}`, title: t(may ? (value === 0 ? "still_open" : "moved_may") : "moved_hidden") }, value === 0 ? "0" : value < 0.005 ? asPower(value) : value.toFixed(2).replace(/^0/, ""));
}

function probePicture(found, most) {
  const rows = found.moves.length, columns = found.places.length, size = Math.max(2, Math.min(8, 200 / rows, 220 / columns)), at = { x: 1, y: 1, w: columns * size, h: rows * size };
  const codes = new Uint8Array(rows * columns);
  const wrong = [];
  found.moves.forEach((row, i) => row.forEach((value, j) => {
    codes[i * columns + j] = value === null ? NOT_A_NUMBER : !found.may[i][j] && value === 0 ? HIDDEN : MIDDLE + Math.round((MIDDLE * Math.min(value / most, 1)));
    if (!found.may[i][j] && value) wrong.push(svg("rect", { x: short(1 + j * size), y: short(1 + i * size), width: short(size), height: short(size), class: "tl-m-wrong" }));
  }));
  return svg("svg", { width: short(at.w + 2), height: short(at.h + 2), viewBox: `0 0 ${short(at.w + 2)} ${short(at.h + 2)}`, role: "img", "aria-label": t("probe_picture", { rows, columns, leaks: found.leaks }) }, heat(codes, 0, rows, columns, "signed", at), wrong);
}

// Small models are probed by themselves, once the hand rests; the others when it is asked for.
function probeLater() {
  clearTimeout(view.probing);
  if (!view.shown || view.shown.probe !== "auto" || window.TL.tab() !== "masks" || document.hidden) return;
  view.probing = setTimeout(() => {
    if (unsettled()) return;
    for (const side of sidesOf()) { const found = view.probe[side]; if (found?.run !== view.shown.run || found.sample !== view.chosen.sample) { measured(side); return; } }
  }, 500);
}

// ------------------------------------------------------------------------------------------------------- broadcasting

function drawViews() {
  const grid = here(), views = view.shown.views, steps = views.filter((each) => each.right), wrong = views.filter((each) => !each.right);
  const shape = (sizes) => (sizes ? sizes.join(" × ") : "–");
  const lines = [...steps, ...wrong].map((each) => el("tr", { class: each.right ? null : "tl-m-tempting" }, el("th", { scope: "row" }, el("code", {}, each.expression)), el("td", {}, `[${each.axes.replaceAll(" ", ", ")}]`), el("td", { class: "tl-m-nowrap" }, shape(each.shape)),
    el("td", {}, each.grid && each.name !== "tokens" ? viewPicture(each.grid) : null), el("td", { class: "tl-m-what" }, viewWords(each))));
  write(viewsBox, titled(t("broadcast"), t("broadcast_of", { attention: attentionName(grid.name), shape: `[${view.shown.samples}, ${view.shown.heads}, ${grid.rows}, ${grid.columns}]` })), el("div", { class: "tl-m-scroll", tabindex: 0, role: "region", "aria-label": t("broadcast"), data: { keep: "views" } }, el("table", {}, el("thead", {}, el("tr", {}, ["view_expression", "view_axes", "view_shape", "view_laid", "what_follows"].map((name) => el("th", { scope: "col" }, t(name))))), el("tbody", {}, lines))), el("p", { class: "tl-m-note" }, t("broadcast_says")));
}

function viewWords(each) {
  if (each.right) return el("span", { class: "tl-m-ok" }, `✓ ${t(`view_${each.name}`)}`);
  if (each.error) return el("span", {}, el("b", { class: "tl-m-ok" }, `${t("view_refused")} `), el("code", { lang: "en" }, each.error));
  if (each.cells === 0) return el("span", { class: "tl-m-bad" }, `✗ ${t("view_grows", { shape: each.laid.join(" × ") })}`);
  if (each.wrong_cells === 0) return el("span", { class: "tl-m-warn" }, `! ${t("view_lucky")}`);
  return el("span", { class: "tl-m-bad" }, `✗ ${t("view_wrong", { wrong: each.wrong_cells, cells: each.cells, leaks: each.leaks, lost: each.lost })}`);
}

function viewPicture(rows) {
  const scale = Math.min(22 / rows.length, 34 / rows[0].length), d = rows.map((row, i) => [...row].map((cell, j) => (cell === "0" ? `M${short(j * scale)} ${short(i * scale)}h${short(scale)}v${short(scale)}h-${short(scale)}z` : "")).join("")).join("");
  return svg("svg", { width: short(rows[0].length * scale + 2), height: short(rows.length * scale + 2), viewBox: `-1 -1 ${short(rows[0].length * scale + 2)} ${short(rows.length * scale + 2)}`, "aria-hidden": "true" }, svg("rect", { x: -0.5, y: -0.5, width: short(rows[0].length * scale + 1), height: short(rows.length * scale + 1), class: "tl-m-frame" }), svg("path", { d, class: "tl-m-shade" }));
}

// ------------------------------------------------------------------------------------------------------------- scales

function drawScale() {
  const rows = view.scale, busy = view.measuring.has("scale");
  const run = el("button", { type: "button", class: "tl-m-button", data: { keep: "scale" }, disabled: busy, onclick: () => measured("scale") }, t(busy ? "measuring" : rows ? "measure_again" : "measure"));
  const title = titled(t("scale"), t("scale_sub"));
  scaleBox.dataset.state = rows ? "shown" : busy ? "busy" : "empty";
  if (!rows) { write(scaleBox, title, el("p", { class: "tl-m-note" }, t("scale_ask"), " ", run)); return; }
  const plain = rows.filter((row) => !row.scaled), scaled = rows.filter((row) => row.scaled), keys = rows[0].n_keys;
  const charts = [["std", t("scale_std"), Math.max(...plain.map((row) => row.std)), 1, (v) => v.toFixed(0)], ["largest", t("scale_largest"), 1, 1 / keys, (v) => v.toFixed(0)], ["entropy", t("scale_entropy"), Math.log(keys), null, (v) => v.toFixed(1)], ["gradient", t("scale_gradient"), Math.max(...rows.map((row) => row.gradient)), null, (v) => v.toFixed(2)]];
  const table = el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "d_head"), plain.map((row) => el("th", { scope: "col" }, String(row.d_head))))),
    el("tbody", {}, ["std", "largest", "entropy", "gradient"].flatMap((name) => [[plain, "without"], [scaled, "with"]].map(([list, word]) => el("tr", { class: `tl-m-${word}` }, el("th", { scope: "row" }, `${t(`scale_${name}`)}, ${t(`scale_${word}`)}`), list.map((row) => el("td", {}, row[name] < 10 ? row[name].toFixed(2) : row[name].toFixed(1))))))));
  write(scaleBox, title, el("div", { class: "tl-m-charts" }, charts.map((chart) => scaleChart(plain, scaled, ...chart))), el("p", { class: "tl-m-note" }, el("span", { class: "tl-m-key-plain" }, "┅┅ ", t("scale_without")), " · ", el("span", { class: "tl-m-key-scaled" }, "━ ", t("scale_with")), ". ", t("scale_says"), " ", run),
    el("details", {}, el("summary", {}, t("scale_table")), el("div", { class: "tl-m-scroll", tabindex: 0, role: "region", "aria-label": t("scale_table") }, table)));
}

function scaleChart(plain, scaled, name, title, most, mark, print) {
  const width = 126, height = 84, left = 30, below = 16, top = 18, x = (n) => left + (n * (width - left - 6)) / (plain.length - 1), y = (value) => height - below - ((height - below - top) * value) / (most || 1);
  const line = (rows) => rows.map((row, n) => `${n ? "L" : "M"}${short(x(n))} ${short(y(row[name]))}`).join("");
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: d_head ${plain[0].d_head} → ${plain.at(-1).d_head}, ${t("scale_without")} ${plain[0][name].toFixed(2)} → ${plain.at(-1)[name].toFixed(2)}, ${t("scale_with")} ${scaled[0][name].toFixed(2)} → ${scaled.at(-1)[name].toFixed(2)}` },
    svg("text", { x: 2, y: 10, class: "tl-m-chart-title" }, title), svg("line", { x1: left, x2: width - 6, y1: y(0), y2: y(0), class: "tl-m-axis" }), svg("text", { x: left - 4, y: y(0) + 3, "text-anchor": "end" }, "0"), svg("text", { x: left - 4, y: y(most) + 6, "text-anchor": "end" }, print(most)),
    mark === null ? null : svg("line", { x1: left, x2: width - 6, y1: y(mark), y2: y(mark), class: "tl-m-guide" }), svg("path", { d: line(plain), class: "tl-m-plain" }), svg("path", { d: line(scaled), class: "tl-m-scaled" }),
    svg("text", { x: left, y: height - 3 }, String(plain[0].d_head)), svg("text", { x: width - 6, y: height - 3, "text-anchor": "end" }, String(plain.at(-1).d_head)));
}

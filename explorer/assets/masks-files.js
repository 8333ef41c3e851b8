// Masks: the chosen grid as a file, and a mask from one. Numbers are written as they are, colours as they are on screen.

const SAFE = (name) => `${name}-${view.chosen.sample + 1}-${view.chosen.mask_heads === "mean" ? "mean" : `h${view.chosen.head + 1}`}`;
const quoted = (text) => (/[",\n;]/.test(text) ? `"${String(text).replaceAll('"', '""')}"` : text);
const rowsOf = (grid, what) => Array.from({ length: grid.rows }, (_, i) => Array.from({ length: grid.columns }, (_, j) => what(i, j)));

// 1 = may attend, tokens around: what the upload reads. The first sign tells a spreadsheet how words are written.
function maskCsv(grid) {
  const lines = rowsOf(grid, (i, j) => (shutAt(grid, i, j) ? 0 : 1)).map((row, i) => [quoted(grid.queries[i]), ...row].join(","));
  return "\ufeff" + [["", ...grid.keys.map(quoted)].join(","), ...lines].join("\n") + "\n";
}

function maskJson(grid) {
  const { mask_show: shown, sample, head, mask_heads: heads } = view.chosen;
  return JSON.stringify({
    attention: grid.name, layer: grid.layer, sample, head: heads === "mean" ? "mean" : head, heads_averaged: grid.averaged ?? 1, rules: grid.all_rules, painted: grid.custom,
    meaning: "allowed: true = may attend; rows are queries, columns are keys", queries: grid.queries, keys: grid.keys,
    allowed: rowsOf(grid, (i, j) => !shutAt(grid, i, j)), hidden_by: rowsOf(grid, (i, j) => rulesOf(grid, bitsAt(grid, i, j))),
    [shown === "mask" ? "numbers" : shown]: shown === "mask" || !grid.numbers ? null : rowsOf(grid, (i, j) => { const number = numberAt(grid, i, j); return Number.isFinite(number) ? number : String(number); }),
    row_sums: grid.sums, column_sums: grid.column_sums ?? null, entropy: grid.entropy ?? null, visible: grid.queries.map((_, i) => visibleIn(grid, i)),
  }, null, 1);
}

// The grid as a drawing of its own: every colour is written out, so that it needs no style sheet.
function maskSvg(grid) {
  const size = grid.columns > 40 ? 12 : 26, left = 90, top = 76, width = left + grid.columns * size + 90, height = top + grid.rows * size + 34;
  const probe = box.appendChild(el("i", { class: "tl-m-probe" })), tokens = getComputedStyle(box), paper = tokens.getPropertyValue("--paper").trim(), ink = tokens.getPropertyValue("--ink").trim();
  const hatch = tokens.getPropertyValue("--hatch").trim(), ground = tokens.getPropertyValue("--hatchbg").trim(), line = tokens.getPropertyValue("--rule").trim();
  const known = new Map();
  const colour = (css, part) => {
    const name = `${css} ${part.toFixed(2)}`;
    if (!known.has(name)) { probe.className = `tl-m-probe ${css}`; probe.style.setProperty("--at", part); known.set(name, rgb(getComputedStyle(probe).backgroundColor)); }
    return known.get(name);
  };
  const marks = [`<rect width="${width}" height="${height}" fill="${paper}"/>`, `<text x="8" y="18" font-size="13" font-weight="600" fill="${ink}">${escaped(`${attentionName(grid.name)} · ${t(`show_${view.chosen.mask_show}`)}`)}</text>`];
  grid.keys.forEach((name, j) => marks.push(`<text transform="translate(${left + j * size + size / 2 + 4} ${top - 6}) rotate(-55)" font-size="11" fill="${ink}">${escaped(name)}</text>`));
  for (let i = 0; i < grid.rows; i += 1) {
    marks.push(`<text x="${left - 6}" y="${top + i * size + size / 2 + 4}" text-anchor="end" font-size="11" fill="${ink}">${escaped(grid.queries[i])}</text>`);
    for (let j = 0; j < grid.columns; j += 1) {
      const bits = bitsAt(grid, i, j), number = numberAt(grid, i, j), shut = bits & SHUT, valued = view.chosen.mask_show !== "mask" && Number.isFinite(number) && number !== null && !shut;
      let fill = shut ? "url(#h)" : paper;
      if (valued) { const { part, css } = along({ kind: view.chosen.mask_show === "weights" ? "probability" : "signed", limit: grid.limit || 1 }, number); fill = colour(css, part); }
      marks.push(`<rect x="${left + j * size}" y="${top + i * size}" width="${size}" height="${size}" fill="${fill}" stroke="${line}" stroke-width=".5"/>`);
      if (shut && size > 20) marks.push(`<text x="${left + (j + 0.5) * size}" y="${top + i * size + size / 2 + 4}" text-anchor="middle" font-size="10" font-weight="600" fill="${ink}">${lettersOf(grid, bits)}</text>`);
    }
    const sum = grid.sums ? numeral(grid.sums[i]) : null;
    if (sum !== null && size > 20) marks.push(`<text x="${left + grid.columns * size + 6}" y="${top + i * size + size / 2 + 4}" font-size="11" fill="${ink}">${Number.isFinite(sum) ? sum.toFixed(6) : "NaN"}</text>`);
  }
  probe.remove();
  const rules = grid.all_rules.map(ruleText).concat(grid.custom ? [t("rule_custom")] : []).join(" ∧ ");
  marks.push(`<text x="8" y="${height - 12}" font-size="11" fill="${ink}">${escaped(`allowed = ${rules || t("everything")}`)}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif"><defs><pattern id="h" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="4" height="4" fill="${ground}"/><line y2="4" stroke="${hatch}" stroke-width="1.2"/></pattern></defs>${marks.join("")}</svg>`;
}

const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

// A colour of any colour space as rgb(), which every program that reads SVG knows.
function rgb(colour) {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  canvas.canvas.width = canvas.canvas.height = 1;
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
  return `rgb(${r},${g},${b})`;
}

function maskPng(grid, done) {
  const source = maskSvg(grid), picture = new Image(), from = URL.createObjectURL(new Blob([source], { type: "image/svg+xml" }));
  picture.onload = () => {
    const canvas = el("canvas", { width: picture.naturalWidth * 2, height: picture.naturalHeight * 2 });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(from);
    canvas.toBlob((blob) => done(blob), "image/png");
  };
  picture.onerror = () => { URL.revokeObjectURL(from); done(null); };
  picture.src = from;
}

function save(what) {
  const grid = here(), name = SAFE(grid.name), { download } = window.TL;
  if (what === "csv") download(`${name}.csv`, maskCsv(grid), "text/csv;charset=utf-8");
  if (what === "json") download(`${name}.json`, maskJson(grid), "application/json");
  if (what === "svg") download(`${name}.svg`, maskSvg(grid), "image/svg+xml");
  if (what === "png") maskPng(grid, (blob) => { if (blob) download(`${name}.png`, blob, "image/png"); });
  if (what === "torch") download(`${name}.py`, snippetNow()?.code || "", "text/x-python");
}

// Read here, judged on the server; a file that is far too long is not even read.
function upload(file) {
  if (!file) return;
  if (file.size > 131072) { view.error = { where: "file", text: { en: window.TL.say(window.TL.words.en["masks.file_large"], { size: Math.ceil(file.size / 1024) }), zh: window.TL.say(window.TL.words.zh["masks.file_large"], { size: Math.ceil(file.size / 1024) }) }, choices: [] }; refresh(); return; }
  const reader = new FileReader();
  reader.onload = () => { view.error = null; view.draft = {}; view.file = { attention: here().name, text: String(reader.result) }; view.asked = "file"; send(); };
  reader.readAsText(file);
}

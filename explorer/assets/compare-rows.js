// Compare, left: every tensor on one line, its largest difference as a mark on a logarithmic scale.
// A grid: one Tab stop, up and down through the rows, Enter opens the tensor in Explore.
const { el, count } = TL;
const t = (key, values) => TL.w(`compare.${key}`, values);
const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const tenTo = (n) => `10${[...String(n)].map((sign) => RAISED[sign]).join("")}`;
// replaceChildren would write "null" for what is not there.
const put = (node, ...children) => node.replaceChildren(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== ""));
const finite = (v) => typeof v === "number" && Number.isFinite(v);

// 0.16, 1.2·10⁻⁷, exactly 0 as 0, NaN and ∞ as words
function amount(v) {
  if (v === null || v === undefined) return "–";
  if (!finite(v)) return v === "inf" ? "∞" : "NaN";
  if (v === 0) return "0";
  const power = Math.floor(Math.log10(Math.abs(v)));
  if (power >= -2 && power < 4) return String(Number(v.toPrecision(2)));
  const [head, tail] = v.toExponential(1).split("e");
  return head === "1.0" ? tenTo(Number(tail)) : `${head.replace(/\.0$/, "")}·${tenTo(Number(tail))}`;
}

// The scale is the same for every run of one dtype, and grows only where a number lies outside.
function scaleOf(value, rows) {
  const logs = rows.flatMap((row) => [row.error, row.matched]).filter((v) => finite(v) && v > 0).map(Math.log10);
  const low = Math.floor(Math.min(value.facts.dtype === "float64" ? -18 : -9, Math.log10(value.limit) - 1, ...logs));
  const high = Math.ceil(Math.max(1, ...logs));
  return { low, high, at: (v) => (!finite(v) ? 1 : v <= 0 ? 0 : Math.min(1, Math.max(0, (Math.log10(v) - low + 0.5) / (high - low + 0.5)))) };
}

// "encoder.layers.0.self_attention/q" is tensor q of a module; "….self_attention.w_q.weight" parameter w_q.weight of one.
function parted(key) {
  const [, module, name] = /^(?:(.*)\/)?([^/]*)$/.exec(key);
  if (module !== undefined || !name.includes(".")) return [module || "", name];
  const [, path, parameter] = /^(.*?)\.((?:w_\w+\.)?\w+)$/.exec(name);
  return [path, parameter];
}
const shortName = (key) => (key.includes("/") ? key.split("/").pop() : key.split(".").slice(-2).join("."));
const stateOf = (row) => (!row.passed ? "differs" : row.error === 0 ? "exact" : "agrees");

function rowSentence(row) {
  const facts = [row.key, t(`row_${stateOf(row)}`), t("row_error", { error: amount(row.error) })];
  if (row.matched !== null && row.matched !== row.error) facts.push(t("row_matched", { error: amount(row.matched) }));
  return facts.join(", ");
}

function drawRows(state, parts) {
  const { value } = state, rows = value.ways[state.way], first = value.first[state.way], scale = scaleOf(value, rows);
  const percent = (v) => `${(100 * scale.at(v)).toFixed(2)}%`;
  const phone = matchMedia("(max-width: 768px)").matches, room = Math.max(parts.list.clientWidth - (phone ? 190 : 470), 60), marks = [];
  const every = Math.max(2, Math.ceil(((scale.high - scale.low) * 34) / room)); // powers of ten from one label to the next
  for (let n = scale.low; n <= scale.high; n += 1) if ((scale.high - n) % every === 0) marks.push(n);
  const ground = el("div", { class: "tl-c-ground", "aria-hidden": "true" }, el("div", { class: "tl-c-plot", style: { "--limit": percent(value.limit) } },
    marks.map((n) => el("i", { style: { left: percent(10 ** n) } })), el("u"), el("b")));
  let above = null;
  const lines = rows.map((row, n) => {
    const [module, name] = parted(row.key), look = stateOf(row), again = module === above;
    above = module;
    const moved = row.matched !== null && row.matched !== row.error;
    return el("div", {
      class: `tl-c-row${again ? "" : " tl-c-begins"}`, role: "row", id: `tl-c-row-${n}`, tabindex: "-1", "aria-selected": "false", "aria-label": rowSentence(row),
      data: { key: row.key, state: look, first: n === first ? "yes" : "no" },
    }, el("span", { class: "tl-c-index", role: "gridcell" }, row.index ?? (state.way === "forward" ? "" : n + 1)), el("span", { class: "tl-c-module", role: "gridcell", title: row.key }, again ? "" : module), el("span", { class: "tl-c-name", role: "gridcell" }, name),
      el("span", { class: "tl-c-plot", role: "gridcell" }, el("span", { class: "tl-vh" }, t(`row_${look}`)),
        moved ? el("i", { class: "tl-c-span", style: { left: percent(Math.min(row.matched, finite(row.error) ? row.error : Infinity)), right: `calc(100% - ${percent(row.error)})` } }) : null,
        moved ? el("i", { class: "tl-c-mark tl-c-hollow", style: { left: percent(row.matched) } }) : null,
        el("i", { class: `tl-c-mark tl-c-${look}`, "aria-hidden": "true", style: { left: percent(row.error) } }, look === "exact" ? "◂" : look === "differs" ? "✗" : "")),
      el("span", { class: "tl-c-value", role: "gridcell" }, amount(row.error)), el("span", { class: "tl-c-first", role: "gridcell" }, n === first ? t("first_mark") : ""));
  });
  parts.axis.replaceChildren(el("span", { class: "tl-c-index" }, "#"), el("span", { class: "tl-c-module" }, t(state.way === "forward" ? "module" : "layer")), el("span", { class: "tl-c-name" }, t(state.way === "forward" ? "tensor" : "parameter")),
    el("span", { class: "tl-c-plot" }, marks.map((n) => el("i", { style: { left: percent(10 ** n) } }, tenTo(n)))), el("span", { class: "tl-c-value" }, "max |Δ|"), el("span", { class: "tl-c-first" }));
  parts.list.parentElement.dataset.way = state.way;
  parts.list.setAttribute("aria-label", t(`list_${state.way}`));
  parts.list.replaceChildren(el("div", { class: "tl-c-inner", role: "rowgroup" }, ground, lines));
  put(parts.legend,
    el("span", {}, el("i", { class: "tl-c-agrees", "aria-hidden": "true" }), t("legend_agrees")), el("span", {}, el("i", { class: "tl-c-exact", "aria-hidden": "true" }, "◂"), t("legend_exact")),
    el("span", {}, el("i", { class: "tl-c-differs", "aria-hidden": "true" }, "✗"), t("legend_differs")),
    value.facts.final_norm === "torch" ? el("span", {}, el("i", { class: "tl-c-hollow", "aria-hidden": "true" }), t("legend_matched")) : null,
    el("span", { class: "tl-c-limit" }, t("legend_limit", { limit: amount(value.limit) })));
  fitRows(state, parts);
  markRow(state, parts);
}

// As many rows as there are share the height there is, and none is lower than its letters.
function fitRows(state, parts) {
  const rows = state.value?.ways?.[state.way]?.length || 1, phone = matchMedia("(max-width: 768px)").matches;
  const each = phone ? 26 : Math.max(14, Math.min(20, Math.floor((parts.list.clientHeight - 2) / rows)));
  parts.list.style.setProperty("--row", `${each}px`);
}

const rowsOf = (parts) => [...parts.list.querySelectorAll("[role=row]")];

function markRow(state, parts) {
  const all = rowsOf(parts), at = all.findIndex((row) => row.dataset.key === state.key);
  all.forEach((row, n) => {
    row.setAttribute("aria-selected", String(n === at));
    row.tabIndex = n === Math.max(at, 0) ? 0 : -1;
  });
  drawPicked(state, parts);
}

function pickRow(state, parts, key, focus = false) {
  state.key = key;
  markRow(state, parts);
  const row = parts.list.querySelector('[aria-selected="true"]');
  if (!row) return;
  if (focus) row.focus({ preventScroll: true });
  const top = row.offsetTop, bottom = top + row.offsetHeight; // inside the list and nowhere else: the page does not jump
  if (top < parts.list.scrollTop) parts.list.scrollTop = top;
  else if (bottom > parts.list.scrollTop + parts.list.clientHeight) parts.list.scrollTop = bottom - parts.list.clientHeight;
}

// The row that is looked at, in words, and the way to its numbers.
function drawPicked(state, parts) {
  const row = state.value?.ways?.[state.way]?.find((each) => each.key === state.key);
  if (!row) { parts.picked.replaceChildren(el("span", { class: "tl-c-quiet" }, t("pick_hint"))); return; }
  const facts = [row.shape.join("×"), t("picked_error", { error: amount(row.error) }), t("picked_rel", { error: amount(row.rel) })];
  if (row.matched !== null && row.matched !== row.error) facts.push(t("row_matched", { error: amount(row.matched) }));
  if (row.padded !== null) facts.push(t("cell_padded", { error: amount(row.padded) }));
  put(parts.picked, el("code", {}, row.key), el("span", {}, facts.join(" · ")),
    row.index !== null ? el("button", { type: "button", class: "tl-c-link", onclick: () => openInExplore(row.key) }, t("open_explore")) : null);
}

function openInExplore(key) {
  TL.emit("look", { key });
  document.querySelector("#tl-tabs > .tab-wrapper [role=tab]")?.click();
}

function listKey(event, state, parts) {
  const all = rowsOf(parts), here = Math.max(all.findIndex((row) => row.dataset.key === state.key), 0);
  const page = Math.max(1, Math.floor(parts.list.clientHeight / (all[0]?.offsetHeight || 20)) - 1);
  const to = { ArrowDown: here + 1, ArrowUp: here - 1, PageDown: here + page, PageUp: here - page, Home: 0, End: all.length - 1 }[event.key];
  if (to !== undefined && all.length) {
    event.preventDefault();
    const next = all[Math.min(Math.max(state.key ? to : here, 0), all.length - 1)];
    pickRow(state, parts, next.dataset.key, true);
  }
  if (event.key === "Enter" && state.key && state.way === "forward") { event.preventDefault(); openInExplore(state.key); }
}

function rowsCsv(state) {
  const cell = (v) => { const text = v === null || v === undefined ? "" : String(v); return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  const lines = [["way", "#", "key", "shape", "max_abs", "max_rel", "final_norms_matched", "padded", "limit", "passed"]];
  for (const way of ["forward", "backward"]) for (const row of state.value.ways[way]) lines.push([way, row.index, row.key, row.shape.join("x"), row.error, row.rel, row.matched, row.padded, state.value.limit, row.passed]);
  return `\ufeff${lines.map((line) => line.map(cell).join(",")).join("\r\n")}\r\n`;
}

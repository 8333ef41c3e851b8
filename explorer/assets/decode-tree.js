// Decode, left: the search as a tree. A column is a step, a box is a candidate; above the dashed line stands what the
// search kept, below it what was cut. One Tab stop: left and right along a branch, up and down within a step.
const { el, svg, w } = window.TL;
const sent = window.TL.unpacked(props);
const box = element.querySelector(".tl-decode");
const t = (key, values) => w(`decode.${key}`, values);
const put = (node, ...children) => node.replaceChildren(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false && each !== ""));
const phone = () => matchMedia("(max-width: 768px)").matches;

// gradio may mount a view more than once: each counts from elsewhere.
const view = {
  shown: null, refused: null, number: Math.floor(Math.random() * 1e6) * 1000, waiting: 0, pending: {}, step: 0, node: "", head: 0,
  truth: null, ways: null, cache: null, measuring: "", error: {}, editing: "", drawn: "", anew: true, playing: 0,
};

const minus = (text) => text.replace("-", "−");
const chance = (p) => (p >= 0.995 && p < 1 ? ">.99" : p >= 1 ? "1" : p < 0.005 ? (p === 0 ? "0" : "<.01") : p.toFixed(2).slice(1));
const nats = (value, digits = 3) => (value === null || value === undefined ? "−∞" : minus(value.toFixed(digits)));
const tokenOf = (id) => view.shown.tokens[id] ?? String(id);
const GLYPH = { kept: "●", cut: "✕", finished: "■", open: "○" };

// --------------------------------------------------------------------------------------------------------- the nodes

const nodes = () => view.shown?.nodes || [];
const nodeOf = (id) => nodes().find((node) => node.id === id);
const lastStep = () => view.shown?.steps.length || 0;
const stepNow = () => (view.step === 0 ? lastStep() : Math.min(view.step, lastStep()));
const stateOf = (id) => view.shown?.states[id];
const inColumn = (step) => nodes().filter((node) => node.step === step && node.step <= stepNow());
const childrenOf = (id) => nodes().filter((node) => node.parent === id && node.step <= stepNow());

// From the start to a node, and from there on along its best descendants.
function pathThrough(id) {
  const path = [];
  for (let node = nodeOf(id); node; node = node.parent === null ? null : nodeOf(node.parent)) path.unshift(node);
  for (let at = path[path.length - 1]; at;) {
    const best = view.shown.hyps.find((hyp) => along(hyp.node, at.id));
    const next = best ? nodes().find((node) => node.parent === at.id && along(best.node, node.id)) : null;
    if (!next) break;
    path.push(next);
    at = next;
  }
  return path;
}
const along = (leaf, id) => id === "s" || leaf === id || leaf.startsWith(`${id}.`);

// ------------------------------------------------------------------------------------------------------------ drawing

const treeBox = el("div", { class: "tl-d-tree" });

function drawTree() {
  const shown = view.shown, focused = treeBox.contains(document.activeElement), scrolled = treeBox.firstChild?.scrollLeft || 0;
  const count = Math.max(shown.steps.length, 1), roomy = (treeBox.clientWidth || 700) - 66;
  const letters = Math.max(...nodes().map((node) => (node.step ? [...tokenOf(node.token)].reduce((sum, sign) => sum + (sign > "\u2e7f" ? 13 : 7.5), 0) : 0)));
  const gap = roomy / count < 100 ? 18 : 26, wide = Math.max(78, Math.min(118, letters + 32), Math.min(108, Math.floor(roomy / count) - gap)), high = 37, space = 4, root = 58, top = 20;
  view.column = wide + gap;
  const upTo = stepNow(), at = new Map(), columns = [], best = shown.hyps[0]?.node;
  const lines = shown.steps.map((_, n) => inColumn(n + 1).filter((node) => node.fate !== "cut").length);
  const most = Math.max(1, ...shown.steps.map((_, n) => nodes().filter((node) => node.step === n + 1).length));
  const tallest = top + most * (high + space) + 14;
  at.set("s", { x: 2, y: top, w: root });
  const groups = [el("div", { role: "none", class: "tl-d-column" }, boxOf(nodeOf("s"), at.get("s"), high, 1, 1, best))];
  shown.steps.forEach((step, n) => {
    const list = inColumn(n + 1), x = root + gap + n * (wide + gap);
    list.forEach((node, place) => {
      const below = node.fate === "cut" && lines[n] > 0 ? 12 : 0;
      at.set(node.id, { x, y: top + place * (high + space) + below, w: wide });
    });
    columns.push(el("span", { class: `tl-d-step${n + 1 === upTo ? " tl-d-now" : ""}${n + 1 > upTo ? " tl-d-later" : ""}`, style: { left: `${x}px`, width: `${wide}px` } }, t("step_n", { n: n + 1 })));
    if (n < upTo && lines[n] > 0 && list.length > lines[n]) columns.push(el("span", { class: "tl-d-line", style: { left: `${x - 4}px`, width: `${wide + 8}px`, top: `${top + lines[n] * (high + space) + 3}px` } }));
    if (list.length) groups.push(el("div", { role: "group", class: "tl-d-column", "aria-label": t("step_n", { n: n + 1 }) }, list.map((node, place) => boxOf(node, at.get(node.id), high, place + 1, list.length, best))));
    if (n < upTo && step.more > 0) columns.push(el("span", { class: "tl-d-more", style: { left: `${x}px`, width: `${wide}px`, top: `${top + list.length * (high + space) + 12}px` } }, t(shown.method === "exhaustive" ? "more_others" : "more_cut", { n: window.TL.count(step.more) })));
  });
  const width = root + gap + shown.steps.length * (wide + gap) - gap + 6, height = tallest + 10;
  const edges = nodes().filter((node) => node.parent !== null && node.step <= upTo && at.has(node.parent)).map((node) => edgeOf(at.get(node.parent), at.get(node.id), high, node, best));
  const scroll = el("div", { class: "tl-d-scroll", role: "tree", "aria-label": t("tree"), "aria-describedby": "tl-d-legend" },
    el("div", { class: "tl-d-canvas", role: "none", style: { width: `${width}px`, height: `${height}px` } },
      svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, edges), el("div", { "aria-hidden": "true" }, columns), groups));
  treeBox.replaceChildren(scroll);
  scroll.scrollLeft = scrolled;
  scroll.addEventListener("keydown", treeKey);
  if (focused) focusNode(false); else reveal(scroll, at.get(view.node) || at.get("s"));
}

// The chosen box stays in sight; the newest step too, while one walks through the steps.
function reveal(scroll, place) {
  if (view.walking) {
    view.walking = false;
    scroll.scrollLeft = Math.max(0, 68 + stepNow() * view.column - scroll.clientWidth);
  } else if (place && (place.x < scroll.scrollLeft || place.x + place.w > scroll.scrollLeft + scroll.clientWidth)) scroll.scrollLeft = Math.max(0, place.x - 140);
}

function boxOf(node, place, high, position, size, best) {
  const chosen = node.id === view.node, start = node.id === "s";
  const sure = best !== undefined && along(best, node.id);
  return el("button", {
    type: "button", role: "treeitem", tabindex: chosen ? 0 : -1, "aria-level": node.step + 1, "aria-posinset": position, "aria-setsize": size, "aria-selected": String(chosen), "aria-label": boxWords(node),
    class: `tl-d-node tl-d-${start ? "start" : node.fate}${sure ? " tl-d-best" : ""}`, data: { id: node.id }, style: { left: `${place.x}px`, top: `${place.y}px`, width: `${place.w}px`, height: `${high}px` },
    onclick: () => choose(node.id),
  }, el("b", { lang: start ? null : view.shown.lang || null }, start ? tokenOf(view.shown.begin) : tokenOf(node.token)), start ? el("small", {}, "Σ 0") : [el("i", { "aria-hidden": "true" }, GLYPH[node.fate]), el("small", {}, chance(node.p)), el("small", { class: "tl-d-total" }, nats(node.total, 2))]);
}

// "ball, kept: probability .38, running log-probability −1.98"
function boxWords(node) {
  if (node.id === "s") return t("node_start");
  return t("node", { token: tokenOf(node.token), fate: t(fateWord(node)), p: chance(node.p), total: nats(node.total) });
}
const fateWord = (node) => (view.shown.method === "sample" ? { kept: "fate_drawn", cut: "fate_not_drawn", finished: "fate_finished", open: "fate_open" } : { kept: "fate_kept", cut: "fate_cut", finished: "fate_finished", open: view.shown.stopped === "won" ? "fate_beaten" : "fate_open" })[node.fate];

function edgeOf(from, to, high, node, best) {
  const x = from.x + from.w, y = from.y + high / 2, end = to.y + high / 2, middle = (x + to.x) / 2;
  return svg("path", { d: `M${x} ${y}C${middle} ${y} ${middle} ${end} ${to.x} ${end}`, class: `tl-d-edge tl-d-edge-${node.fate}${best !== undefined && along(best, node.id) ? " tl-d-edge-best" : ""}` });
}

// ------------------------------------------------------------------------------------------------------------- moving

function choose(id, focus = true) {
  if (!nodeOf(id)) return;
  view.node = id;
  remember();
  drawTree();
  drawLook();
  drawHyps();
  if (focus) focusNode(true);
}

function focusNode(move) {
  const target = treeBox.querySelector('[aria-selected="true"]') || treeBox.querySelector("[role=treeitem]");
  if (!target) return;
  target.tabIndex = 0;
  target.focus({ preventScroll: !move });
}

function treeKey(event) {
  const node = nodeOf(view.node) || nodeOf("s"), column = node.step ? inColumn(node.step) : [node], place = column.findIndex((each) => each.id === node.id);
  const next = { ArrowLeft: () => nodeOf(node.parent), ArrowRight: () => childrenOf(node.id)[0], ArrowUp: () => column[place - 1], ArrowDown: () => column[place + 1], Home: () => nodeOf("s"), End: () => nodeOf(view.shown.hyps[0]?.node) }[event.key];
  if (!next) return;
  event.preventDefault();
  const goal = next();
  if (goal && goal.step <= stepNow()) choose(goal.id);
}

// Steps: 0 stands for all of them, so that a link to a whole search says nothing of its length.
function toStep(step) {
  const bound = Math.max(1, Math.min(step, lastStep()));
  view.step = bound === lastStep() ? 0 : bound;
  const here = nodeOf(view.node);
  if (here && here.step > bound) view.node = pathThrough(here.id).filter((node) => node.step <= bound).pop()?.id || "s";
  view.walking = true;
  remember();
  drawTransport();
  drawTree();
  drawLook();
  drawHyps();
}

function play() {
  if (view.playing) { clearInterval(view.playing); view.playing = 0; drawTransport(); return; }
  if (stepNow() >= lastStep()) toStep(1);
  view.playing = setInterval(() => {
    if (!element.isConnected || window.TL.tab() !== "decode" || stepNow() >= lastStep()) { clearInterval(view.playing); view.playing = 0; drawTransport(); return; }
    toStep(stepNow() + 1);
  }, 900);
  drawTransport();
}

const ICONS = { start: "M2 1v10M10.5 1.5 4.5 6l6 4.5z", back: "M8.5 1.5 3 6l5.5 4.5z", play: "M3 1.2v9.6L11 6z", pause: "M3 1.5h2v9H3zM7.5 1.5h2v9h-2z", next: "M3.5 1.5 9 6l-5.5 4.5z", end: "M10 1v10M1.5 1.5 7.5 6l-6 4.5z" };
const transportBox = el("div", { class: "tl-d-transport", role: "toolbar" });

function drawTransport() {
  const now = stepNow(), last = lastStep(), held = document.activeElement?.closest?.(".tl-d-transport") ? document.activeElement.dataset.do : null;
  const icon = (d) => svg("svg", { viewBox: "0 0 12 12", width: 11, height: 11, "aria-hidden": "true" }, svg("path", { d, class: "tl-d-icon" }));
  const button = (what, d, off, go) => el("button", { type: "button", class: "tl-d-button", "aria-label": t(`step_${what}`), title: t(`step_${what}`), "aria-disabled": String(off), data: { do: what }, onclick: () => { if (!off) go(); } }, icon(d));
  const facts = view.shown.steps[now - 1], sampled = view.shown.method === "sample";
  transportBox.setAttribute("aria-label", t("transport"));
  put(transportBox,
    button("start", ICONS.start, now <= 1, () => toStep(1)), button("back", ICONS.back, now <= 1, () => toStep(now - 1)), button("play", view.playing ? ICONS.pause : ICONS.play, last < 2, play), button("next", ICONS.next, now >= last, () => toStep(now + 1)), button("end", ICONS.end, now >= last, () => toStep(last)),
    el("input", { type: "range", min: 1, max: Math.max(last, 1), value: now, disabled: last < 2, "aria-label": t("step_slider"), "aria-valuetext": t("step_of", { n: now, last }), data: { do: "slide" }, oninput: (event) => toStep(Number(event.currentTarget.value)) }),
    el("span", { class: "tl-d-where", role: "status" }, el("b", {}, t("step_of", { n: now, last })), facts ? [" · ", t(sampled ? "step_drawn" : "step_facts", { looked: window.TL.count(facts.looked), kept: facts.kept, finished: facts.finished, cut: window.TL.count(facts.cut) })] : null));
  if (held) [...transportBox.children].find((each) => each.dataset.do === held)?.focus();
}

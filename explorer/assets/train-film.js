// The Train view, part 6: the film of the attention, one frame a look, and the frame that is looked at, enlarged. A
// frame is chosen by a click or the arrow keys and stays; the film plays from its first frame; else the last one shows.

const FRAME_TIME = 450; // ms
const chosen = (() => {
  let index = null, timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; };
  const any = () => index !== null && index < held.looks.length;
  const choose = (i) => { stop(); index = i >= held.looks.length - 1 ? null : Math.max(0, i); refresh(); };
  const at = () => (any() ? index : held.looks.length - 1);
  function play() {
    if (timer) { stop(); refresh(); return; }
    index = 0;
    timer = setInterval(() => {
      if (index === null || index + 1 >= held.looks.length) { stop(); index = null; } else index += 1;
      refresh();
    }, FRAME_TIME);
    refresh();
  }
  return { any, at, choose, play, playing: () => timer !== 0, look: () => held.looks[at()], leave: () => { stop(); index = null; } };
})();

const reel = el("div", { class: "tl-tr-reel", role: "slider", tabindex: 0, "aria-valuemin": 0 });
const filmHead = el("p", { class: "tl-tr-filmhead" });
const filmPlay = el("button", { type: "button", class: "tl-tr-button", onclick: () => chosen.play() });
const filmNow = el("button", { type: "button", class: "tl-tr-button", onclick: () => chosen.choose(Infinity) });
parts.film.append(el("div", { class: "tl-tr-filmbar" }, filmHead, filmPlay, filmNow), reel);
reel.addEventListener("keydown", (event) => {
  const to = { ArrowLeft: chosen.at() - 1, ArrowRight: chosen.at() + 1, Home: 0, End: Infinity }[event.key];
  if (to === undefined || !held.looks.length) return;
  event.preventDefault();
  event.stopPropagation(); // an arrow is one training step everywhere else
  chosen.choose(to);
});
reel.addEventListener("click", (event) => {
  const step = event.target.closest?.("[data-look]")?.dataset.look;
  if (step !== undefined) chosen.choose(Number(step));
});

// Each frame is drawn once: a run of 15 looks holds some thousand cells.
const frames = new WeakMap();
function film(look, px, py, width, height) {
  const key = `${px.toFixed(1)} ${py} ${width} ${height}`, old = frames.get(look);
  if (old && old.key === key) return old.node;
  const rows = look.cells.length, columns = look.cells[0]?.length || 1, node = svg("g", { transform: `translate(${px.toFixed(1)} ${py})` });
  look.cells.forEach((row, i) => row.forEach((value, j) => node.append(svg("rect", { class: "tl-tr-p", style: `--p:${Math.max(0, value) / 100}`,
    x: ((width * j) / columns).toFixed(2), y: ((height * i) / rows).toFixed(2), width: (width / columns + 0.2).toFixed(2), height: (height / rows + 0.2).toFixed(2) }))));
  frames.set(look, { key, node });
  return node;
}

// One small map at each look, empty frames for those to come, and below them the one step axis of everything above.
function drawFilm(f) {
  const plan = facts(), every = plan?.every || 10, steps = f.steps, scene = held.scene;
  const frame = Math.max(6, Math.min(46, (f.x(every) - f.x(0)) * 0.62));
  const rows = scene?.rows.length || 3, columns = scene?.columns.length || 3, tall = Math.min(46, Math.max(14, (frame * rows) / columns));
  const at = (step) => Math.min(Math.max(f.x(step) - frame / 2, f.left), f.right - frame), out = [], top = 3;
  for (let step = 0; step <= steps; step += every) {
    if (!held.looks.some((one) => one.step === step)) out.push(svg("rect", { class: "tl-tr-unseen", x: at(step), y: top, width: frame, height: tall }));
  }
  held.looks.forEach((look, i) => {
    if (look.step % every && i < held.looks.length - 1 && i !== chosen.at()) return; // where the run was halted, as long as it is looked at
    const node = film(look, at(look.step), top, frame, tall);
    node.dataset.look = i;
    out.push(node);
  });
  const look = chosen.look();
  if (look) out.push(svg("rect", { class: "tl-tr-current", x: at(look.step) - 2, y: top - 2, width: frame + 4, height: tall + 4, rx: 2 }));
  const axis = top + tall + 16;
  const under = (step, css) => out.push(f.write(css, Math.min(f.x(step), f.width - 3.5 * count(step).length), axis, count(step), "middle"));
  for (const step of ticks(steps, f.small ? 4 : 10)) {
    if (Math.abs(f.x(step) - f.x(f.now)) > 24) under(step, "tl-tr-tick");
  }
  out.push(f.write("tl-tr-tick", f.left - 6, axis, t("axis_step"), "end"));
  if (f.now) under(f.now, "tl-tr-tick tl-tr-strong");
  reel.replaceChildren(svg("svg", { viewBox: `0 0 ${f.width} ${axis + 6}`, width: f.width, height: axis + 6, "aria-hidden": "true" }, out));
  drawFilmHead(f, plan, every, scene);
}

function drawFilmHead(f, plan, every, scene) {
  filmHead.style.setProperty("padding-left", `${f.left}px`);
  filmHead.replaceChildren(el("b", {}, t(classes() ? "film_self" : "film_cross")), f.small || !scene ? "" : el("small", {}, t("film_sub", { every: some("every", every), layer: scene.layer, heads: some("heads", scene.heads) })));
  filmPlay.hidden = held.looks.length < 2;
  label(filmPlay, icon(chosen.playing() ? "pause" : "play"), t(chosen.playing() ? "film_pause" : "film_play"));
  filmNow.hidden = !chosen.any();
  filmNow.textContent = t("film_now");
  reel.setAttribute("aria-label", t("film_label"));
  reel.setAttribute("aria-valuemax", Math.max(0, held.looks.length - 1));
  reel.setAttribute("aria-valuenow", Math.max(0, chosen.at()));
  reel.setAttribute("aria-valuetext", chosen.look() ? t("film_at", { step: count(chosen.look().step), n: held.looks.length }) : t("look_empty"));
}

const heading = (title, sub) => el("h2", {}, title, sub ? el("small", {}, sub) : "");

function drawLook() {
  const look = chosen.look(), scene = held.scene;
  if (!look || !scene) { parts.look.replaceChildren(heading(t("look")), el("p", { class: "tl-tr-empty" }, t("look_empty"))); return; }
  const dark = document.body.classList.contains("dark"), cross = scene.kind === "cross";
  const cell = (value) => {
    const flip = dark ? value > 51.6 : value > 59.2;
    const shown = value < 0 ? "NaN" : value === 0 ? "·" : value >= 100 ? "1.0" : `.${String(value).padStart(2, "0")}`;
    return el("td", { class: `tl-tr-p ${flip ? "tl-tr-flip" : ""} ${value < 0 ? "tl-tr-nan" : ""}`, style: `--p:${Math.max(value, 0) / 100}` }, shown);
  };
  const head = el("tr", {}, el("td", { class: "tl-tr-corner" }, t(cross ? "look_rows_cross" : "look_rows_self")), scene.columns.map((token) => el("th", { scope: "col" }, token)));
  const body = look.cells.map((row, i) => el("tr", {}, el("th", { scope: "row" }, scene.rows[i]), row.map(cell)));
  parts.look.replaceChildren(heading(t(look.step < held.step ? "look_then" : "look"), t("look_sub", { step: count(look.step) })),
    el("div", { class: "tl-tr-scroll", tabindex: 0, role: "group", "aria-label": t("look") }, el("table", { class: "tl-tr-map" }, el("thead", {}, head), el("tbody", {}, body))),
    el("p", { class: "tl-tr-caption" }, t("look_caption", { heads: some("heads", scene.heads), layer: scene.layer }), cross ? "" : ` ${t("look_reads")}`));
}

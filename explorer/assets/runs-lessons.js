// The panel Runs, part 3: the lessons. A question each; its variants are loaded into the page, or made and laid over each
// other; the answer was measured beforehand, and says on what.
const lessons = () => held.lessons;
// A lesson is on this page while its task is chosen and the model is not the one of Explore.
function loaded() {
  const { lesson, task, recipe } = window.TL.frame.query();
  const found = lessons().find((one) => one.variants.some((variant) => variant.name === lesson));
  return found && found.task === (task || "copy") && recipe !== "mine" ? lesson : "";
}
let opened = "";

function drawLessons() {
  const all = lessons(), now = loaded(), box = parts.lessons, busy = Boolean(held.series?.running);
  box.hidden = !all.length;
  if (!all.length) return;
  const items = all.map((lesson) => {
    const here = lesson.variants.some((variant) => variant.name === now), open = opened === lesson.name || (here && opened !== `-${lesson.name}`);
    const toggle = el("button", { type: "button", class: "tl-ru-question", "aria-expanded": String(open), data: { key: `lesson-${lesson.name}` }, onclick: () => { opened = open ? `-${lesson.name}` : lesson.name; refresh(); } },
      el("span", { class: "tl-ru-arrow", "aria-hidden": "true" }, open ? "▾" : "▸"), el("b", {}, both(lesson.title) || lesson.name), el("span", {}, both(lesson.question)), here ? el("em", {}, t("lesson_here")) : "");
    return el("li", { class: here ? "tl-ru-here" : "" }, toggle, open ? answer(lesson, now, busy) : "");
  });
  box.replaceChildren(el("h2", {}, t("lessons"), el("small", {}, t("lessons_sub"))), el("ul", {}, items));
}

function answer(lesson, now, busy) {
  const variants = lesson.variants.map((variant) => el("button", { type: "button", class: "tl-button", "aria-pressed": String(variant.name === now), data: { key: `variant-${variant.name}` },
    onclick: () => bring("lesson", { name: variant.name }) }, both(variant.title)));
  return el("div", { class: "tl-ru-answer" },
    el("p", { role: "group", "aria-label": t("lesson_load") }, el("span", {}, t("lesson_load")), variants,
      lesson.variants.some((variant) => variant.name === now) ? el("button", { type: "button", class: "tl-button", data: { key: "lesson-leave" }, onclick: () => bring("lesson_leave", {}) }, t("lesson_leave")) : ""),
    el("p", {}, el("button", { type: "button", class: "tl-button", "aria-disabled": busy ? "true" : null, title: busy ? t("series_busy") : null, data: { key: `both-${lesson.name}` }, onclick: () => { if (!busy) command("lesson_run", { name: lesson.name }); } }, t(lesson.variants.length === 2 ? "lesson_both" : "lesson_all")), el("small", {}, t("lesson_both_says"))),
    el("p", {}, el("b", {}, t("lesson_answer")), " ", both(lesson.answer)));
}

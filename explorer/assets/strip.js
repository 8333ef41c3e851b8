// The verdict strip: one sentence, a tick a check, and the facts of the run. It speaks only when the verdict changes.
TL.strip = (() => {
  const { el, w } = TL;
  const MARKS = { holds: "✓", warning: "!", fails: "✗", shapes: "–" };

  function skeleton(act) {
    const lang = (code, name) => el("button", {
      type: "button", lang: code === "zh" ? "zh-Hans" : "en", data: { lang: code },
      "aria-pressed": String(TL.lang() === code), onclick: () => act.lang(code),
    }, name);
    return [
      el("header", { class: "tl-strip" },
        el("div", { class: "tl-bar" },
          el("button", {
            type: "button", class: "tl-menu", "aria-controls": "tl-side", "aria-expanded": "false",
            data: { tlLabel: "frame.open_settings" }, onclick: act.menu,
          }, "☰"),
          el("span", { class: "tl-bar-title", data: { tlWord: "frame.title" } })),
        el("div", { class: "tl-verdict-line" },
          el("span", { class: "tl-verdict", role: "status" }),
          el("button", { type: "button", class: "tl-ticks", data: { tlLabel: "frame.all_checks" }, onclick: act.checks }),
          el("span", { class: "tl-stale", hidden: true }),
          el("span", { class: "tl-facts tl-explore-only" }) /* of the model in Explore, which is not the one in training */),
        el("div", { class: "tl-right" },
          el("div", { class: "tl-lang", role: "group", data: { tlLabel: "frame.language" } }, lang("en", "EN"), lang("zh", "中文")),
          el("button", { type: "button", class: "tl-theme", onclick: act.theme }, el("span", { "aria-hidden": "true" }, "◐")))),
      el("div", { class: "tl-hint" },
        el("button", { type: "button", onclick: act.keys }, el("kbd", {}, "?"), " ", el("span", { data: { tlWord: "frame.keys" } })),
        el("button", { type: "button", class: "tl-projector", "aria-pressed": "false", onclick: act.projector },
          el("kbd", {}, "P"), " ", el("span", { data: { tlWord: "frame.projector" } }))),
    ];
  }

  const dot = () => el("span", { class: "tl-dot", "aria-hidden": "true" }, "·");

  // strip: {verdict, sentence, ticks: [{state, text}], counts: [["87", "tensors"]], facts: ["cpu", "seed 7"]}
  function facts(strip) {
    const counts = (strip.counts || []).map(([number, unit]) => [el("b", {}, number), unit ? ` ${unit}` : ""]);
    return [...counts, ...(strip.facts || [])].map((part) => [dot(), el("span", { class: "tl-fact" }, part)]);
  }

  function draw(host, payload) {
    const strip = payload.strip, line = host.querySelector(".tl-verdict-line");
    const verdict = line.querySelector(".tl-verdict");
    const ticks = line.querySelector(".tl-ticks"), rest = line.querySelector(".tl-facts");
    line.hidden = !strip;
    if (!strip) return;
    const said = `${strip.verdict}|${strip.sentence}`;
    if (verdict.dataset.said !== said) { // a live region speaks whenever it is touched
      verdict.dataset.said = said;
      verdict.dataset.verdict = strip.verdict;
      TL.clear(verdict).append(el("span", { class: "tl-verdict-mark", "aria-hidden": "true" }, MARKS[strip.verdict] || ""), el("span", {}, strip.sentence));
    }
    TL.clear(ticks).append(...(strip.ticks || []).map((tick) => el("i", { data: { state: tick.state }, title: tick.text, "aria-hidden": "true" }, tick.state === "fails" ? "✗" : "")));
    TL.clear(rest).append(...facts(strip).flat());
  }

  // An invalid choice leaves the last valid run on screen; the strip says so as long as the refusal stands.
  function stale(host, on) {
    const line = host.querySelector(".tl-verdict-line"), note = line.querySelector(".tl-stale");
    note.hidden = !on || line.hidden;
    note.textContent = note.hidden ? "" : w("frame.stale");
    line.dataset.stale = note.hidden ? "no" : "yes";
  }

  return { skeleton, draw, stale };
})();

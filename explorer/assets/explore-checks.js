// All checks of the run by level, in a dialog: the first two are part of every run, the others are run when asked for.
const FURTHER = [3, 4, 5];

function openChecks(state) {
  if (!state.payload || document.querySelector("dialog[open]")) return;
  const dialog = el("dialog", { class: "tl-keys tl-x-levels", "aria-labelledby": "tl-x-levels-title" });
  dialog.addEventListener("close", () => { dialog.remove(); state.probing = 0; });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.querySelector("main.contain").append(dialog);
  fillChecks(state, dialog);
  dialog.showModal();
}

// A new payload while the dialog is open: the same place in the list, the same level in focus.
function refreshChecks(state, refused = null) {
  const dialog = document.querySelector("dialog.tl-x-levels");
  if (!dialog) return;
  const top = dialog.scrollTop, level = state.probing;
  state.probing = 0;
  fillChecks(state, dialog);
  if (refused) dialog.querySelector(`[data-level="${level}"]`)?.append(el("p", { class: "tl-x-bad", role: "alert" }, refused[TL.lang()]));
  dialog.scrollTop = top;
  if (level) dialog.querySelector(`[data-level="${level}"] h3`)?.focus();
}

function fillChecks(state, dialog) {
  const { t, payload } = state;
  dialog.replaceChildren(
    el("div", { class: "tl-dialog-head" }, el("h2", { id: "tl-x-levels-title" }, t("levels_title")),
      el("button", { type: "button", class: "tl-button", onclick: () => dialog.close() }, TL.w("frame.close"))),
    el("p", {}, t("levels_say")),
    ...Object.entries(payload.levels).map(([level, title]) => levelSection(state, Number(level), title)));
}

function levelSection(state, level, title) {
  const { t, payload } = state, checks = payload.checks.filter((check) => check.level === level);
  const held = checks.filter((check) => check.state !== "bad").length;
  const order = [...checks].sort((a, b) => "bad warn ok".indexOf(a.state) - "bad warn ok".indexOf(b.state));
  const count = checks.length ? t("checks_of", { held, total: checks.length }) : t("level_not_run");
  return el("section", { class: "tl-x-level", data: { level }, "aria-busy": state.probing === level ? "true" : null },
    el("h3", { tabindex: "-1" }, t("level_n", { level, title }), " ", el("span", { class: held < checks.length ? "tl-x-bad" : null }, count)),
    el("p", { class: "tl-x-hint" }, t(`level_${level}_says`)),
    checks.length ? el("ul", { class: "tl-x-checks" }, order.map((check) => checkLine(check, t))) : null,
    FURTHER.includes(level) ? runLevel(state, level, checks.length > 0) : null);
}

function runLevel(state, level, again) {
  const { t, payload } = state;
  if (payload.shapes_only || payload.error) return el("p", { class: "tl-x-hint" }, t("level_needs_numbers"));
  const busy = state.probing > 0;
  return el("button", {
    type: "button", class: "tl-button", disabled: busy, data: { probe: level },
    onclick: (event) => {
      state.probing = level;
      for (const each of event.currentTarget.closest("dialog").querySelectorAll("[data-probe]")) each.disabled = true;
      event.currentTarget.textContent = t("level_running");
      trigger("probe", { level });
    },
  }, t(state.probing === level ? "level_running" : again ? "level_again" : "level_run", { level }));
}

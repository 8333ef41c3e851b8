// The frame: language, theme, address, tabs, keys, notices, refusals, and the sidebar as an overlay on narrow screens.
// The server sends one payload per change (explorer/views/page.py: frame_payload); everything else happens here.
TL.frame = (() => {
  const { el, w, kept } = TL;
  const REFUSAL_AFTER = 300; // ms: a number half typed is not a mistake yet
  const root = document.documentElement;
  let trigger = () => {};
  let host = null; // the frame's own element
  let payload = null;
  let chosenLang = false; // by link or by hand: then the address says it
  let refusalTimer = 0;
  let linkNotices = []; // of the link: they stay until dismissed
  const dismissed = new Set();

  // ---------------------------------------------------------------------------------------------------------- theme

  let theme = null; // "light", "dark", or null: as the system

  function systemDark() { return window.matchMedia("(prefers-color-scheme: dark)").matches; }
  function isDark() { return theme ? theme === "dark" : systemDark(); }

  function paintTheme() {
    const dark = isDark();
    if (document.body.classList.contains("dark") !== dark) document.body.classList.toggle("dark", dark);
    root.classList.toggle("dark", dark);
    const button = host?.querySelector(".tl-theme");
    if (button) {
      button.setAttribute("aria-label", w(dark ? "frame.to_light" : "frame.to_dark"));
      button.title = button.getAttribute("aria-label");
    }
  }

  function startTheme() {
    const asked = new URL(location.href).searchParams.get("__theme");
    theme = [asked, kept.get("theme")].find((value) => value === "light" || value === "dark") || null;
    // gradio sets the class once more when it is ready; ours is the last word.
    new MutationObserver(paintTheme).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintTheme);
    paintTheme();
  }

  function switchTheme() {
    theme = isDark() ? "light" : "dark";
    kept.set("theme", theme);
    paintTheme();
    writeAddress(); // a ?__theme= in the address would overrule the choice at the next visit
    TL.emit("theme", theme);
  }

  // ------------------------------------------------------------------------------------------------------- language

  function setLang(lang) {
    root.lang = lang === "zh" ? "zh-Hans" : "en";
    TL.translate();
    for (const button of document.querySelectorAll(".tl-lang button")) button.setAttribute("aria-pressed", String(button.dataset.lang === lang));
    paintTheme();
    TL.emit("language", lang);
  }

  function chooseLang(lang) {
    if (lang === TL.lang()) return;
    chosenLang = true;
    kept.set("lang", lang);
    setLang(lang);
    if (payload) { payload.lang = lang; render(payload); }
    trigger("language", { lang });
    writeAddress();
  }

  // What the first request tells the server: the language this person chose before, and the one the browser prefers.
  function hint() {
    return JSON.stringify({ kept: kept.get("lang") || "", browser: navigator.language || "" });
  }

  // --------------------------------------------------------------------------------------------------------- address

  function address(withLang) {
    const url = new URL(location.href);
    const asked = url.searchParams.get("__theme");
    const query = new URLSearchParams(payload?.query || {});
    if (TL.tab() !== "explore") query.set("tab", TL.tab());
    if (withLang || chosenLang) query.set("lang", TL.lang());
    if (asked && asked === theme && !withLang) query.set("__theme", asked);
    // Commas, slashes and colons may stand in a query as they are, and read better.
    url.search = query.toString().replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%3A", ":");
    url.hash = "";
    return url.href;
  }

  // An event as a view fires it. Where the last of many is meant to arrive, gradio sends the data of the first once more:
  // it keeps the object, so one object is kept for each of these events, and holds what was said last. The address
  // follows a selection at once; the server's answer confirms it.
  function looking(fire) {
    const last = { select: {}, pick: {}, look: {}, apply: {}, language: {} };
    return (name, data) => {
      if (name === "select" && payload && data) {
        const { selected, sample, head, ...others } = payload.query;
        payload.query = { ...others, selected: data.key, ...(data.sample ? { sample: data.sample } : {}), ...(data.head ? { head: data.head } : {}) };
        writeAddress();
      }
      const held = last[name];
      if (!held || !data) return fire(name, data);
      for (const old of Object.keys(held)) delete held[old];
      fire(name, Object.assign(held, data));
    };
  }

  function writeAddress() {
    if (!payload) return;
    const next = address(false);
    if (next !== location.href) history.replaceState(history.state, "", next);
  }

  async function copyLink(button) {
    const link = address(true);
    const foot = button.closest(".tl-foot");
    foot.querySelector(".tl-copied")?.remove();
    const say = el("div", { class: "tl-copied", role: "status" });
    foot.append(say);
    if (await TL.copy(link)) {
      say.append(w("frame.copied"));
      setTimeout(() => say.remove(), 2500);
      return;
    }
    const field = el("input", { type: "text", readonly: true, value: link, "aria-label": w("frame.link_field") });
    say.append(el("p", {}, w("frame.copy_by_hand")), field);
    field.focus();
    field.select();
  }

  // ------------------------------------------------------------------------------------------------------------ tabs

  const tabButtons = () => [...document.querySelectorAll("#tl-tabs > .tab-wrapper [role=tab]")];

  function setTab(tab) {
    if (document.body.dataset.tab === tab) return;
    document.body.dataset.tab = tab;
    writeAddress();
    TL.emit("tab", tab);
  }

  // --------------------------------------------------------------------------------------------- sidebar as an overlay

  const side = () => document.getElementById("tl-side");

  function openSide(open) {
    document.body.dataset.side = open ? "open" : "closed";
    if (side()) side().dataset.side = document.body.dataset.side;
    const menu = host?.querySelector(".tl-menu");
    if (menu) menu.setAttribute("aria-expanded", String(open));
    if (open) side()?.querySelector(".tl-close-side")?.focus();
    else if (menu && menu.offsetParent) menu.focus();
  }

  // --------------------------------------------------------------------------------------------------------- skip link

  // The first Tab stop: past the sidebar to what the tab is about.
  function addSkip() {
    const word = (name, only) => el("span", { class: `tl-${only}-only`, data: { tlWord: name } });
    const link = el("a", { class: "tl-skip", href: "#tl-tabs" }, word("frame.skip", "explore"), word("frame.skip_masks", "masks"), word("frame.skip_train", "train"), word("frame.skip_decode", "decode"), word("frame.skip_break", "break"), word("frame.skip_compare", "compare"));
    link.addEventListener("click", (event) => {
      event.preventDefault(); // the address is ours
      const goals = { explore: '.tl-x-rows tr[tabindex="0"]', masks: '.tl-m-map [tabindex="0"]', train: ".tl-tr-transport button:not([disabled])", decode: '.tl-d-tree [tabindex="0"]', break: '.tl-break [tabindex="0"]', compare: '.tl-c-list [tabindex="0"]' };
      (document.querySelector(goals[TL.tab()]) || tabButtons()[0])?.focus();
    });
    document.querySelector(".gradio-container").prepend(link);
  }

  // ------------------------------------------------------------------------------------------------------------ keys

  const lettersOn = () => kept.get("letters") !== "off";

  function onKey(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return; // Escape is the dialog's own, and nothing else reaches the page
    if (event.key === "Escape") {
      if (event.target.closest?.("[role=combobox], [role=listbox], select")) return; // it closes the list
      if (document.body.dataset.side === "open") { openSide(false); event.preventDefault(); return; }
      if (TL.typing(event.target)) return;
    } else if (TL.typing(event.target) || !lettersOn()) return;
    if (/^[1-9]$/.test(event.key)) {
      const button = tabButtons()[Number(event.key) - 1];
      if (button) { button.click(); button.focus(); event.preventDefault(); }
      return;
    }
    if (event.key === "p" || event.key === "P") { projector(); event.preventDefault(); return; }
    if (event.key === "?") { showKeys(); event.preventDefault(); return; }
    for (const key of TL.allKeys().get(TL.tab()) || []) {
      if (key.keys.includes(event.key) && key.run && key.run(event.key, event) !== false) { event.preventDefault(); return; }
    }
  }

  // Escape shuts the list of a dropdown, which gradio leaves open; whatever is done with the dropdown next opens it again.
  function shutLists() {
    const box = (event) => event.target.closest?.("#tl-side .container:has([role=combobox])");
    document.addEventListener("keydown", (event) => {
      if (["Tab", "Shift"].includes(event.key)) return;
      if (event.key === "Escape") box(event)?.setAttribute("data-shut", "");
      else box(event)?.removeAttribute("data-shut");
    }, true);
    for (const name of ["focusin", "mousedown"]) document.addEventListener(name, (event) => box(event)?.removeAttribute("data-shut"), true);
  }

  function projector(on = document.body.dataset.projector !== "on") {
    document.body.dataset.projector = on ? "on" : "off";
    kept.set("projector", on ? "on" : "off");
    host?.querySelector(".tl-projector")?.setAttribute("aria-pressed", String(on));
    TL.emit("projector", on);
  }

  // The list of checks belongs to the run on Explore.
  function showChecks() {
    if (TL.tab() !== "explore") tabButtons()[0]?.click();
    TL.emit("checks");
  }

  function showKeys() {
    document.querySelector("dialog.tl-keys")?.remove();
    const rows = (list) => list.map(({ keys, show, say }) => el("tr", {},
      el("th", { scope: "row" }, (show || keys).map((key) => [el("kbd", {}, key === " " ? "Space" : key), " "])),
      el("td", {}, typeof say === "function" ? say(TL.lang()) : w(say))));
    const group = (title, list) => [el("h3", {}, title), el("table", {}, el("tbody", {}, rows(list)))];
    const everywhere = [
      { keys: tabButtons().map((_, i) => String(i + 1)), say: "frame.keys_tab" },
      { keys: ["P"], say: "frame.keys_projector" },
      { keys: ["?"], say: "frame.keys_list" },
      { keys: ["Esc"], say: "frame.keys_escape" },
    ];
    const letters = el("input", { type: "checkbox", id: "tl-letters", checked: lettersOn() });
    letters.addEventListener("change", () => kept.set("letters", letters.checked ? "on" : "off"));
    const dialog = el("dialog", { class: "tl-keys", "aria-labelledby": "tl-keys-title" },
      el("div", { class: "tl-dialog-head" }, el("h2", { id: "tl-keys-title" }, w("frame.keys_title")),
        el("button", { type: "button", class: "tl-button", onclick: () => dialog.close() }, w("frame.close"))),
      group(w("frame.keys_everywhere"), everywhere),
      [...TL.allKeys()].filter(([, list]) => list.length).map(([tab, list]) => group(w(`frame.tab_${tab}`), list)),
      el("p", {}, el("label", { for: "tl-letters" }, letters, " ", w("frame.keys_letters")), " ",
        el("span", { class: "tl-quiet" }, w("frame.keys_letters_says"))),
      el("p", {}, el("a", { href: "?view=api" }, w("frame.api"))));
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    document.querySelector("main.contain").append(dialog); // inside: gradio gives our style sheet its weight only there
    dialog.showModal();
  }

  // ------------------------------------------------------------------------------------------------ notices, refusals

  function actions(list) {
    return list.length === 0 ? null : el("div", { class: "tl-choices" }, list.map((action) => el("button", {
      type: "button", class: "tl-button", onclick: () => trigger("apply", { changes: action.changes }),
    }, action.label[TL.lang()])));
  }

  function renderNotices(box, list) {
    TL.clear(box);
    for (const one of list) {
      box.append(el("div", { class: "tl-notice" },
        el("span", { class: "tl-mark", "aria-hidden": "true" }, "!"),
        el("p", {}, one.text[TL.lang()]), actions(one.actions || []),
        el("button", {
          type: "button", class: "tl-dismiss", "aria-label": w("frame.dismiss"), title: w("frame.dismiss"),
          onclick: () => { dismissed.add(one.text.en); render(payload); },
        }, "✕")));
    }
  }

  function clearRefusal() {
    clearTimeout(refusalTimer);
    TL.strip.stale(host, false);
    document.querySelector(".tl-refusal")?.remove();
    for (const node of document.querySelectorAll(".tl-invalid")) {
      node.classList.remove("tl-invalid");
      for (const input of node.querySelectorAll("[aria-invalid]")) {
        input.removeAttribute("aria-invalid");
        input.removeAttribute("aria-describedby");
      }
    }
  }

  function showRefusal(refusal) {
    clearRefusal();
    TL.strip.stale(host, true);
    const place = document.getElementById(`tl-f-${refusal.field}`);
    const box = el("div", { class: "tl-refusal", role: "alert", id: "tl-refusal" },
      el("p", {}, el("span", { class: "tl-mark", "aria-hidden": "true" }, "✗"), " ", refusal.text[TL.lang()]),
      actions(refusal.choices || []));
    if (!place || !place.offsetParent) {
      host.querySelector(".tl-notices").prepend(box);
      return;
    }
    place.classList.add("tl-invalid");
    for (const input of place.querySelectorAll("input, textarea")) {
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", "tl-refusal");
    }
    place.after(box);
  }

  // ----------------------------------------------------------------------------------------------------------- render

  function render(next) {
    payload = next;
    TL.strip.draw(host, payload);
    const notices = [...linkNotices, ...(payload.notices || [])];
    for (const said of dismissed) if (!notices.some((one) => one.text.en === said)) dismissed.delete(said);
    renderNotices(host.querySelector(".tl-notices"), notices.filter((one) => !dismissed.has(one.text.en)));
    clearTimeout(refusalTimer);
    if (!payload.refusal) clearRefusal();
    else if (document.querySelector(".tl-refusal")) showRefusal(payload.refusal);
    else refusalTimer = setTimeout(() => showRefusal(payload.refusal), REFUSAL_AFTER);
    for (const [name, value] of Object.entries(payload.show || {})) if (side()) side().dataset[name] = value;
    renderAsides();
  }

  // Two things that gradio's controls have no place for: what to look at in this preset, and the width of one head.
  function renderAsides() {
    const preset = document.getElementById("tl-f-preset"), heads = document.getElementById("tl-f-n_heads");
    if (preset && payload.lesson) {
      let box = document.querySelector(".tl-lesson");
      if (!box) { box = el("details", { class: "tl-lesson" }, el("summary", {}), el("p", {})); preset.after(box); }
      box.querySelector("summary").textContent = w("sidebar.lesson");
      box.querySelector("p").textContent = payload.lesson[TL.lang()];
      box.hidden = !payload.lesson[TL.lang()];
    }
    if (heads && payload.show) {
      let aside = heads.querySelector(".tl-aside");
      if (!aside) { aside = el("span", { class: "tl-aside" }); heads.append(aside); }
      aside.hidden = Boolean(payload.refusal); // it would be the last valid run's, beside the number just typed
      TL.clear(aside).append("d_head ", el("b", {}, payload.show.d_head));
    }
  }

  // gradio's radio groups are fieldsets without a legend: tie each to the label it shows.
  function nameGroups() {
    for (const group of document.querySelectorAll("#tl-side fieldset:not([aria-labelledby])")) {
      const label = group.querySelector("[data-testid=block-info]");
      if (!label) continue;
      label.id = `${group.id}-label`;
      group.setAttribute("role", "radiogroup");
      group.setAttribute("aria-labelledby", label.id);
    }
  }

  function receive(next) {
    if (!next) return;
    const first = payload === null;
    if (next.anew) linkNotices = [];
    if (first || next.opened) {
      linkNotices = next.link_notices || [];
      chosenLang = chosenLang || Boolean(next.linked_lang);
      document.body.dataset.tab = next.tab || "explore";
      payload = next;
      setLang(next.lang);
    }
    nameGroups();
    render(next);
    writeAddress();
    document.body.dataset.ready = "yes";
    if (next.anew) TL.emit("anew", next);
    TL.emit("query", payload.query);
  }

  function mount(element, sent, watch, fire) {
    const props = TL.unpacked(sent);
    host = element.querySelector(".tl-frame");
    trigger = looking(fire);
    host.append(...TL.strip.skeleton({
      menu: () => openSide(document.body.dataset.side !== "open"),
      lang: chooseLang, theme: switchTheme, keys: showKeys, projector: () => projector(), checks: showChecks,
    }));
    host.append(el("div", { class: "tl-notices" }));
    addSkip();
    shutLists();
    startTheme();
    if (kept.get("projector") === "on") projector(true);
    document.addEventListener("keydown", onKey);
    TL.translate();
    watch("value", () => receive(props.value));
    watch("address", () => { if (payload && props.address) { payload.query = props.address; writeAddress(); TL.emit("query", payload.query); } });
    if (props.value) receive(props.value);
  }

  // The parts of the sidebar that are plain HTML: its head and its foot.
  function mountSide(element, fire) {
    element.querySelector(".tl-close-side")?.addEventListener("click", () => openSide(false));
    element.querySelector(".tl-copy")?.addEventListener("click", (event) => copyLink(event.currentTarget));
    element.querySelector(".tl-reset")?.addEventListener("click", () => fire("reset", {}));
    TL.translate(element);
  }

  const query = () => payload?.query || {}; // what differs from the defaults, as the address has it

  return { mount, mountSide, looking, hint, setTab, openSide, address, query };
})();

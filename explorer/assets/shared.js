// What every view's script uses. User text goes through textContent only; nothing here takes markup from a payload,
// except TL.markup, which is for the MathML the server makes of our own table of formulas.
window.TL ??= (() => {
  const SVG = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name.startsWith("on") && typeof value === "function") node.addEventListener(name.slice(2), value);
      else if (name === "class") node.setAttribute("class", value);
      else if (name === "data") Object.assign(node.dataset, value);
      else if (name === "style" && typeof value === "object") for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child === undefined || child === null || child === false) continue;
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return node;
  }

  // TL.el("button", {class: "tl-button", onclick: f, "aria-label": "…"}, "text", [more, nodes])
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const text = (value) => document.createTextNode(String(value));
  const clear = (node) => { node.replaceChildren(); return node; };
  const markup = (trusted) => { const box = document.createElement("template"); box.innerHTML = trusted; return box.content; };

  function bytes(base64) {
    const raw = atob(base64), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i += 1) out[i] = raw.charCodeAt(i);
    return out;
  }
  const b64f32 = (base64) => new Float32Array(bytes(base64).buffer);
  const b64u8 = bytes;

  // gradio keeps a component's value as a reactive tree and copies it whole at every event: 200 ms for one run. A text is
  // copied for nothing, so large payloads travel as JSON text; this reads them, each text once.
  function unpacked(props) {
    const read = new Map();
    return new Proxy(props, {
      get(target, name) {
        const value = target[name];
        if (typeof value !== "string" || !/^[[{]/.test(value)) return value;
        if (read.get(name)?.text !== value) read.set(name, { text: value, data: JSON.parse(value) });
        return read.get(name).data;
      },
    });
  }

  // "{held} of {total} checks hold" with {held: 14, total: 14}
  const say = (sentence, values) => String(sentence ?? "").replace(/\{(\w+)\}/g, (whole, name) => (name in (values || {}) ? values[name] : whole));
  const count = (number) => Number(number).toLocaleString("en-US");

  // One choice is one Tab stop; the arrows move inside it. `items` is called anew for each key.
  function roving(box, items, options = {}) {
    const back = options.vertical === false ? ["ArrowLeft"] : ["ArrowLeft", "ArrowUp"];
    const forth = options.vertical === false ? ["ArrowRight"] : ["ArrowRight", "ArrowDown"];
    box.addEventListener("keydown", (event) => {
      const all = items(), here = all.indexOf(document.activeElement);
      if (here < 0) return;
      let next = null;
      if (forth.includes(event.key)) next = all[(here + 1) % all.length];
      if (back.includes(event.key)) next = all[(here - 1 + all.length) % all.length];
      if (event.key === "Home") next = all[0];
      if (event.key === "End") next = all[all.length - 1];
      if (!next) return;
      event.preventDefault();
      for (const item of all) item.tabIndex = item === next ? 0 : -1;
      next.focus();
    });
  }

  // Copying works without navigator.clipboard (absent on plain http away from localhost); false when nothing helped.
  async function copy(value) {
    if (navigator.clipboard && window.isSecureContext) {
      try { await navigator.clipboard.writeText(value); return true; } catch { /* refused: try the old way */ }
    }
    const field = el("textarea", { class: "tl-vh", readonly: true, "aria-hidden": "true" });
    field.value = value;
    const before = document.activeElement;
    document.body.append(field);
    field.select();
    let done = false;
    try { done = document.execCommand("copy"); } catch { done = false; }
    field.remove();
    before?.focus?.();
    return done;
  }

  function download(name, content, type = "text/plain;charset=utf-8") {
    const link = el("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // Where keys are typed as text, single-letter keys stay text.
  function typing(target = document.activeElement) {
    if (!target || !target.closest) return false;
    if (target.isContentEditable || target.closest("textarea, select, [role=combobox], [role=listbox]")) return true;
    const input = target.closest("input");
    return Boolean(input && !["checkbox", "radio", "range", "button"].includes(input.type));
  }

  // Views register their keys; the frame lists them in its dialog and runs them when that tab is shown.
  // TL.keys("explore", [{keys: ["[", "]"], say: (lang) => "previous, next head", run: (key, event) => true}])
  const registered = new Map();
  function keys(tab, list) { registered.set(tab, list); }
  const allKeys = () => registered;

  // The sentences of the frame and the sidebar, both languages: theme.head() puts them here before this file's users run.
  const words = window.TL_WORDS || { en: {}, zh: {} };
  const w = (key, values) => say(words[lang()][key] ?? words.en[key] ?? key, values);

  // <span data-tl-word="sidebar.model">: the text; data-tl-title: the title; data-tl-label: the aria-label and the title.
  function translate(root = document) {
    for (const node of root.querySelectorAll("[data-tl-word]")) node.textContent = w(node.dataset.tlWord);
    for (const node of root.querySelectorAll("[data-tl-title]")) node.title = w(node.dataset.tlTitle);
    for (const node of root.querySelectorAll("[data-tl-label]")) {
      node.setAttribute("aria-label", w(node.dataset.tlLabel));
      node.title = w(node.dataset.tlLabel);
    }
  }

  // What a browser keeps for one person: language, theme, projector size, single-letter keys. Nothing breaks without it.
  const kept = {
    get(name) { try { return localStorage.getItem(`tl-${name}`); } catch { return null; } },
    set(name, value) { try { localStorage.setItem(`tl-${name}`, value); } catch { /* private window: forget */ } },
  };

  const lang = () => (document.documentElement.lang.startsWith("zh") ? "zh" : "en");
  const tab = () => document.body.dataset.tab || "explore";

  // A tiny bus between the parts of one page: TL.on("language", f), TL.emit("language", "zh").
  const bus = new EventTarget();
  const on = (name, f) => { const g = (event) => f(event.detail); bus.addEventListener(name, g); return () => bus.removeEventListener(name, g); };
  const emit = (name, detail) => bus.dispatchEvent(new CustomEvent(name, { detail }));

  const views = {}; // the script of each view, called when its component is mounted

  return { views, unpacked, el, svg, text, clear, markup, b64f32, b64u8, say, count, roving, copy, download, typing, keys, allKeys, words, w, translate, kept, lang, tab, on, emit };
})();

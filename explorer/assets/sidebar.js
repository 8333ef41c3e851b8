// The masks control: six rules by three attentions, a number beside the rules that have a width.
// value: {encoder_self: ["padding", "window:3"], decoder_self: [...], cross: [...]}
TL.masks = (() => {
  const { el, w } = TL;
  const ATTENTIONS = ["encoder_self", "decoder_self", "cross"];
  const RULES = [["padding", null], ["causal", null], ["window", 2], ["prefix", 2], ["block", 2], ["strided", 2]];

  const find = (rules, name) => (rules || []).find((rule) => rule === name || rule.startsWith(`${name}:`));

  function mount(element, props, watch, trigger) {
    const box = element.querySelector(".tl-masks");

    function put(attention, name, rule) {
      const kept = (props.value[attention] || []).filter((one) => one.split(":")[0] !== name);
      const order = RULES.map(([each]) => each);
      const rules = rule ? [...kept, rule] : kept;
      rules.sort((a, b) => order.indexOf(a.split(":")[0]) - order.indexOf(b.split(":")[0]));
      props.value = { ...props.value, [attention]: rules };
      trigger("edit", {});
    }

    function cell(attention, name, width) {
      if (name === "prefix" && attention === "cross") return el("td", { data: { attention } }); // self-attention only
      const rule = find(props.value[attention], name);
      const names = { rule: w(`sidebar.rule_${name}`), attention: w(`sidebar.${attention}`) };
      const tick = el("input", { type: "checkbox", checked: Boolean(rule), "aria-label": w("sidebar.rule_cell", names) });
      const size = width === null ? null : el("input", {
        type: "number", min: 1, step: 1, value: rule ? rule.split(":")[1] : width,
        hidden: !rule, "aria-label": w("sidebar.rule_width", names),
      });
      tick.addEventListener("change", () => {
        if (size) size.hidden = !tick.checked;
        put(attention, name, tick.checked ? (size ? `${name}:${size.value}` : name) : null);
      });
      size?.addEventListener("input", () => { if (size.value !== "") put(attention, name, `${name}:${size.value}`); });
      return el("td", { data: { attention } }, tick, size);
    }

    function draw() {
      const focused = document.activeElement?.closest?.(".tl-masks") ? document.activeElement.getAttribute("aria-label") : null;
      const head = el("tr", {}, el("td"), ATTENTIONS.map((attention) => el("th", {
        scope: "col", data: { attention }, title: w(`sidebar.${attention}`),
      }, w(`sidebar.${attention}_short`))));
      const rows = RULES.map(([name, width]) => el("tr", {},
        el("th", { scope: "row" }, w(`sidebar.rule_${name}`)), ATTENTIONS.map((attention) => cell(attention, name, width))));
      TL.clear(box).append(el("table", { "aria-label": w("sidebar.masks") }, el("thead", {}, head), el("tbody", {}, rows)));
      if (focused) [...box.querySelectorAll("input")].find((input) => input.getAttribute("aria-label") === focused)?.focus();
    }

    watch("value", draw);
    TL.on("language", draw);
    draw();
  }

  return { mount };
})();

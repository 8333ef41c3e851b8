// What gradio's own controls of the sidebar lack. They are mounted late and anew, so the sidebar is watched.
TL.controls = (() => {
  // Radios of one name are one Tab stop, and arrow keys move among them; gradio gives each a name of its own.
  function group() {
    for (const set of document.querySelectorAll("#tl-side fieldset[id]")) {
      for (const radio of set.querySelectorAll("input[type=radio]")) {
        if (radio.name !== set.id) radio.name = set.id;
      }
    }
  }

  // Leaving a box, gradio moves a number beyond the ends of its slider to the end and tells nobody: tell of it.
  function settle(event) {
    const box = event.target;
    if (!box.matches?.("#tl-side .tl-row input[type=number]")) return;
    const typed = box.value;
    setTimeout(() => { if (box.value !== typed) box.dispatchEvent(new Event("input", { bubbles: true })); }, 50);
  }

  function watch() {
    group();
    new MutationObserver(group).observe(document.body, {
      childList: true, subtree: true, attributes: true, attributeFilter: ["name"],
    });
    document.addEventListener("blur", settle, true);
  }

  if (document.body) watch();
  else document.addEventListener("DOMContentLoaded", watch);
  return {};
})();

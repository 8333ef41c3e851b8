// The Train view, the end: drawn at most once a frame of the screen, and the keys.

function draw() {
  drawn = 0;
  if (!element.isConnected) return;
  drawTransport();
  drawState();
  speak();
  drawDoctor();
  drawRecipes();
  drawChart();
  drawLook();
  drawSamples();
  drawSets();
  drawFoot();
}
function refresh() { if (!drawn) drawn = requestAnimationFrame(draw); }

watch("value", take);
watch("plan", () => { preview = sent.plan || {}; if (preview.facts) refusal = null; refresh(); });
const ears = [window.TL.on("language", refresh), window.TL.on("tab", (tab) => { if (tab === "train") { command("preview"); refresh(); } })];
new ResizeObserver(refresh).observe(canvas);
const theme = new MutationObserver(refresh);
theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
const beat = setInterval(watchdog, 700);

// A focused button or switch keeps its own Space; everything else on this tab plays and pauses.
const own = (event) => event.target?.closest?.("button, summary, [role=tab], [role=radio], [role=slider], input");
window.TL.keys("train", [
  { keys: [" "], show: ["Space"], say: () => t("key_play"), run: (key, event) => !own(event) && (press("play"), true) },
  { keys: ["ArrowRight"], show: ["→"], say: () => t("key_step"), run: (key, event) => !event.target?.closest?.("[role=tab], [role=slider], input") && (press("step"), true) },
  { keys: ["r", "R"], show: ["R"], say: () => t("key_rewind"), run: () => (press("rewind"), true) },
  { keys: ["f", "F"], show: ["F"], say: () => t("key_film"), run: () => (chosen.play(), true) },
]);

take();
refresh();
// A mount that begins in the middle of a run asks for what it missed.
command("resync");
if (!sent.plan) command("preview");

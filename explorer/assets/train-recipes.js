// The Train view, part 9: the recipes with a name, as buttons in the sidebar. One press sets all that such a recipe sets;
// the pressed one is the recipe that the controls make up now, if they make up any.

const RECIPES = { own: "named_own", paper: "named_paper", adamw_constant: "named_adamw_constant", cosine: "named_cosine", one_cycle: "named_one_cycle" };
let shownRecipes = "";
function drawRecipes() {
  const box = document.getElementById("tl-tr-recipes"), now = preview.facts;
  if (!box || !now?.recipes) return;
  const key = `${window.TL.lang()} ${now.task} ${now.named} ${box.childElementCount}`;
  if (key === shownRecipes) return;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", t("named"));
  box.replaceChildren(...Object.keys(now.recipes).map((name) => el("button", {
    type: "button", class: "tl-tr-recipe", "aria-pressed": String(name === now.named), title: recipeTitle(now.recipes[name]), onclick: () => useRecipe(name),
  }, t(RECIPES[name] || "named_own"))));
  shownRecipes = `${window.TL.lang()} ${now.task} ${now.named} ${box.childElementCount}`;
}

function useRecipe(name) {
  const { steps, train_batch: batch, ...changes } = preview.facts.recipes[name];
  trigger("apply", { changes });
}

const recipeTitle = (recipe) => [t(`optimizer_${recipe.optimizer}`), t(`schedule_${recipe.schedule}`), `${t("lr_short")} ${short(recipe.lr)}`].join(" · ");

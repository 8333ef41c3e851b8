"""What the doctor says: one sentence a cause and one a remedy, filled with what was measured."""

from collections.abc import Mapping

CAUSES: Mapping[str, str] = {
    "no_visible_key": "{rows} of {of} queries of {attention} may see no key. The fill \"-inf\" makes their weights "
    "0 / 0, and one NaN reaches every weight of the model.",
    "weights_grown": "The weights are {grown} times as large as at the start: the highest rate so far, {rate}, moves "
    "a weight in one step by up to {share} % of the usual {size}.",
    "weight_broken": "The weight {tensor} itself is not finite, while the others are {grown} times as large as at the "
    "start.",
    "overflow": "Everything before {tensor} is finite on other questions, with numbers up to {largest}; the weights "
    "are {grown} times as large as at the start. Nothing else that was measured stands out.",
    "thrown_back": "The loss had come down to {best} by step {best_step} and is back at {loss}. The highest rate so "
    "far is {rate}; a weight is usually of the size {size}.",
    "gradient_lost": "{part} gets a gradient {least} times that of the part with the largest; with the first weights "
    "it was {at_start}. What the first steps did to the weights, at rates up to {rate}, has cut it off.",
    "gradient_weak": "{part} gets a gradient {least} times that of the part with the largest, and with the first "
    "weights it was {at_start} already: it fades on its way through the layers.",
    "rate_low": "In {step} steps the weights have moved by {moved} % of their length. The highest rate so far is "
    "{rate}, and a weight is usually of the size {size}.",
    "warmup_long": "In {step} steps the weights have moved by {moved} % of their length. The rate is {rate} and still "
    "rising; the warm-up takes {warmup} steps.",
    "source_unread": "The answers stay the same, to {effect}, when the source is exchanged for another one, and did so "
    "with the first weights: no way leads from the source to the answer.",
    "order_unread": "The answers stay the same, to {effect}, when the source's tokens are put in another order, and "
    "did so with the first weights. The task needs that order.",
    "unscaled": "In {sharp} % of the rows of {tensor} one key has more than 99 % of the weight, and little gradient "
    "passes a softmax like that. With the first weights it was {at_start} % already, and the same scores divided by "
    "√d_head had {if_scaled} %.",
    "saturated": "In {sharp} % of the rows of {tensor} one key has more than 99 % of the weight, and little gradient "
    "passes a softmax like that.",
    "units_dead": "{dead} % of the hidden units of {tensor} are 0 for every token. A unit that is always 0 has no "
    "gradient and stays so.",
    "nothing_found": "The loss is {loss} at step {step}, where answering without the source gives {blind}, and it no "
    "longer falls. The weights have moved by {moved} %, the gradient reaches every part, no attention is saturated, "
    "and at most {dead} % of the hidden units of a layer are dead.",
}  # fmt: skip
"""cause -> English sentence."""

REMEDIES: Mapping[str, str] = {
    "fill_exclude": "Set fill to \"exclude\": such a query then gets weights of 0.",
    "lower_rate": "Set lr to {lr}: the highest rate is then {new_rate}, about {new_share} % of the size of a weight.",
    "higher_rate": "Set lr to {lr}: the highest rate is then {new_rate}, about {new_share} % of the size of a weight.",
    "shorter_warmup": "Set warmup to {new_warmup}.",
    "start_again": "Start again from the seed, or from a state that was kept before step {step}.",
    "norm_first": "Set norm_order to \"pre\": the sum of every layer then reaches the end without passing a norm.",
    "read_source": "Set the cross-attention's mask to \"padding\" alone, so that every real token can be seen.",
    "give_positions": "Set positions to \"sinusoidal\".",
    "scale_scores": "Set scale_scores to true.",
    "gelu": "Set activation to \"gelu\", which is 0 nowhere for good.",
    "recipe": "Set lr to {lr}, as the task's own recipe has it with schedule \"{schedule}\".",
    "recipe_model": "Train the task's own model with the task's own recipe, to see whether it is the model.",
}  # fmt: skip
"""remedy -> English sentence."""

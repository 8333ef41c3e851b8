"""Faults of training and decoding (section 5): the model is right, and what is done with it is not."""

from transformer_core.faults.table import Fault

FAULTS = (
    Fault(
        name="target_not_shifted",
        group="training",
        title="The target is not shifted",
        story="The decoder is given the very token that it is asked for. The model itself is right and passes every "
        "check of a forward. The loss falls faster than ever, and free writing fails: there is nothing to copy from "
        "then.",
        section="3.1",
        place="tasks.base.shift",
        right="return target[:, :-1], target[:, 1:]",
        wrong="return target[:, 1:], target[:, 1:]",
        breaks=frozenset(("training", "future")),
    ),
    Fault(
        name="loss_over_padding",
        group="training",
        title="Padding counts in the loss",
        story="The loss ignores the id -100, which other libraries use, and the padding is 0. Predicting padding "
        "behind the end is easy, so the mean looks better than the answers are. The same sentences with more padding "
        "have another loss.",
        section="5.1",
        place="training.smoothed_cross_entropy",
        right="real = targets != pad_id",
        wrong="real = targets != -100",
        breaks=frozenset(("loss", "padding")),
    ),
    Fault(
        name="gradients_not_cleared",
        group="training",
        title="The gradient of the last step is not cleared",
        story="zero_grad is forgotten, so each step adds its gradient to all before it. Nothing is raised and the "
        "first step is right. The norm of the gradient grows from step to step, even where the same batch "
        "is shown and nothing moves.",
        section="5.3",
        place="training.take_step",
        right="model.noise.reseed(noise)\n    optimizer.zero_grad()",
        wrong="model.noise.reseed(noise)\n",
        breaks=frozenset(("gradients", "training")),
    ),
    Fault(
        name="eval_forgotten",
        group="training",
        title="Decoding does not switch to evaluation mode",
        story="no_grad is taken for eval. It saves the gradient and leaves dropout on. A model without dropout shows "
        "nothing; with dropout, the same question gets a different answer each time.",
        section="5.4",
        place="decoding.greedy",
        right="with evaluating(model):",
        wrong="with torch.no_grad():",
        breaks=frozenset(("decoding",)),
    ),
)

"""Faults of training and decoding (section 5): the model is right, and what is done with it is not."""

from transformer_core.faults.table import Fault

FAULTS = (
    Fault(
        name="target_not_shifted",
        group="training",
        title="The target is not shifted",
        story="The decoder is given the very token that it is asked for. The model itself is right and passes every "
        "check of a forward. The loss falls sooner than it should, because there is only something to copy; what the "
        "model writes by itself is wrong.",
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
        story="The loss ignores the id -100, which other libraries use, and the padding is 0. Shapes are right and "
        "the model learns. Predicting padding behind the end is easy and takes part in the mean, so that the same "
        "sentences with more padding have another loss.",
        section="5.1",
        place="training.loss.smoothed_cross_entropy",
        right="real = targets != pad_id",
        wrong="real = targets != -100",
        breaks=frozenset(("loss",)),
    ),
    Fault(
        name="gradients_not_cleared",
        group="training",
        title="The gradient of the last step is not cleared",
        story="zero_grad is forgotten, so each step adds its gradient to all before it. Nothing is raised, the first "
        "step is right and the loss falls, only more slowly. Where the same batch is shown twice and nothing moves, "
        "the norm of the gradient is twice as large.",
        section="5.3",
        place="training.step.take_step",
        right="model.noise.reseed(noise)\n    optimizer.zero_grad()",
        wrong="model.noise.reseed(noise)\n",
        breaks=frozenset(("gradients", "training")),
    ),
    Fault(
        name="eval_forgotten",
        group="training",
        title="Decoding does not switch to evaluation mode",
        story="no_grad is taken for eval: it saves the gradient and leaves dropout on. A model without dropout shows "
        "nothing. With dropout, and straight after training, the same question gets different answers.",
        section="5.4",
        place="decoding.writing.greedy",
        right="with evaluating(model):",
        wrong="with torch.no_grad():",
        breaks=frozenset(("decoding",)),
    ),
)

"""Faults of attention (section 3.2): softmax, scale, and the cutting into heads."""

from transformer_core.faults.table import Fault

FAULTS = (
    Fault(
        name="softmax_over_queries",
        group="attention",
        title="Softmax over the queries instead of the keys",
        story="The axes of the scores are counted wrongly and the softmax runs down the columns. Every shape is right "
        "and every number lies between 0 and 1. The rows no longer sum to 1, and each query's share depends on all "
        "other queries, later ones included.",
        section="3.2.1",
        place="attention.attend",
        right="weights = masked_softmax(scores, allowed, fill)",
        wrong="weights = scores.masked_fill(~visible_pairs(allowed, scores), -1e9).softmax(dim=-2)",
        breaks=frozenset(("softmax", "future")),
    ),
    Fault(
        name="softmax_over_heads",
        group="attention",
        title="Softmax over the heads instead of the keys",
        story="With the axes B H q k, dim=1 is the heads. Every shape is right, and at each pair the heads share 1 "
        "among them. The sums over the keys are no longer 1, and a key that no head may see gets an equal share from "
        "each.",
        section="3.2.1",
        place="attention.attend",
        right="weights = masked_softmax(scores, allowed, fill)",
        wrong="weights = scores.masked_fill(~visible_pairs(allowed, scores), -1e9).softmax(dim=1)",
        breaks=frozenset(("softmax", "future", "padding")),
    ),
    Fault(
        name="no_scaling",
        group="attention",
        title="The scores are not divided by √d_head",
        story="The product of queries and keys goes into the softmax as it is. Sums, masks and shapes are right, and "
        "a small model learns in spite of it. The scores are √d_head times too large, so the weights are sharper than "
        "they should be.",
        section="3.2.1",
        place="attention.MultiHeadAttention.forward",
        right="scale=self.scale",
        wrong="scale=False",
        breaks=frozenset(("scale",)),
    ),
    Fault(
        name="scaled_by_d_model",
        group="attention",
        title="The scores are divided by √d_model",
        story="The formula says √d_k, and with several heads that is the width of one head, not of the model. "
        "Everything else is right and a small model learns. The scores are √H times too small, so the weights are "
        "flatter than they should be.",
        section="3.2.1",
        place="attention.attend",
        right="math.sqrt(q.shape[-1])",
        wrong="math.sqrt(q.shape[1] * q.shape[-1])",
        breaks=frozenset(("scale",)),
    ),
    Fault(
        name="split_without_transpose",
        group="attention",
        title="Heads cut by a reshape, without the transpose",
        story="A reshape straight to B H n Dh has the right shape and fills it in the wrong order. Sums and masks are "
        "right and the loss falls. A head does not hold its slice of every token but a run of neighbouring tokens, so "
        "that later positions get in past the mask.",
        section="3.2.2",
        place="attention.MultiHeadAttention.split",
        right="return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)",
        wrong="return x.reshape(x.shape[0], self.n_heads, x.shape[1], -1)",
        breaks=frozenset(("heads", "future", "padding")),
    ),
    Fault(
        name="merge_without_transpose",
        group="attention",
        title="Heads put together by a reshape, without the transpose",
        story="The heads are joined without being brought behind the positions first. The shape and the attention "
        "weights are right, and the loss falls. What stands at one position is made of the results of several, later "
        "ones among them: the model cannot write by itself.",
        section="3.2.2",
        place="attention.MultiHeadAttention.merge",
        right="return heads.transpose(1, 2).flatten(2)",
        wrong="return heads.reshape(heads.shape[0], heads.shape[2], -1)",
        breaks=frozenset(("heads", "future", "padding")),
    ),
    Fault(
        name="heads_and_width_swapped",
        group="attention",
        title="Number of heads and width of a head swapped",
        story="The two numbers change places in the view: 4 heads of 16 become 16 heads of 4. Their product is the "
        "same, so everything fits, runs and learns. The ledger shows the number of heads where the width should be; "
        "where both are equal, it is no mistake at all.",
        section="3.2.2",
        place="attention.MultiHeadAttention.split",
        right="(self.n_heads, -1)",
        wrong="(-1, self.n_heads)",
        breaks=frozenset(("heads", "scale")),
    ),
    Fault(
        name="keys_from_query_matrix",
        group="attention",
        title="Keys made with the matrix of the queries",
        story="A line is copied and one letter stays as it was, so W_q makes the keys too. Shapes, sums and masks are "
        "right, and the loss falls. W_k takes part in nothing: no gradient reaches it, and without a mask the scores "
        "of self-attention are symmetric.",
        section="3.2.2",
        place="attention.MultiHeadAttention.forward",
        right="k = self.split(self.w_k(memory))",
        wrong="k = self.split(self.w_q(memory))",
        breaks=frozenset(("gradients",)),
    ),
    Fault(
        name="weights_after_dropout",
        group="attention",
        title="The weights shown are those after dropout",
        story="The same name is used again behind the dropout, and what is plotted is taken from there. In evaluation "
        "nothing differs. In training with attention dropout the rows that are shown do not sum to 1, and weights "
        "that the softmax gave appear as 0, although the model computes rightly.",
        section="5.4",
        place="attention.attend",
        right='note("weights", weights, "B H q k")\n\n'
        "    context = (weights if dropout is None else dropout(weights)) @ v",
        wrong="weights = weights if dropout is None else dropout(weights)\n"
        '    note("weights", weights, "B H q k")\n'
        "    context = weights @ v",
        breaks=frozenset(("display",)),
    ),
)

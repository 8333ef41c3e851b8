"""Faults of the layers (sections 3.1 and 3.3): residual connections, norms, weights that are not their own."""

from transformer_core.faults.table import Fault

FAULTS = (
    Fault(
        name="shared_layer",
        group="layers",
        title="All layers of the encoder are one object",
        story="A list times n holds the same layer n times. Every tensor has its shape and the model learns. It has "
        "the parameters of a single layer, each change to one is a change to all, and the ledger has the rows of the "
        "first layer twice.",
        section="3.1",
        place="model.Encoder.__init__",
        right="nn.ModuleList(EncoderLayer(config, noise, fill) for _ in range(config.n_encoder_layers))",
        wrong="nn.ModuleList([EncoderLayer(config, noise, fill)] * config.n_encoder_layers)",
        breaks=frozenset(("layers",)),
    ),
    Fault(
        name="equal_start",
        group="layers",
        title="Every matrix starts with the same numbers",
        story="Layers are cloned from one, or the seed is set anew before each matrix. Storage, count and shapes are "
        "right, and the model learns. Matrices of one shape start equal: queries, keys and values are the same at "
        "first, and so are the layers.",
        section="3.1",
        place="model.initialise",
        right="nn.init.xavier_uniform_(module.weight, generator=generator)",
        wrong="nn.init.xavier_uniform_(module.weight, generator=generator.manual_seed(7))",
        breaks=frozenset(("layers",)),
    ),
    Fault(
        name="residual_missing",
        group="layers",
        title="No residual connections",
        story="The sub-layer's output replaces its input instead of being added to it. Shapes are right, and a model "
        "of one layer still learns, only more slowly; of two layers it hardly does. In the ledger each sum equals the "
        "output before it.",
        section="3.1",
        place="layers.Layer.residual",
        right="total = x + self.dropout(sublayer(x))",
        wrong="total = self.dropout(sublayer(x))",
        breaks=frozenset(("residuals",)),
    ),
    Fault(
        name="residual_from_normed",
        group="layers",
        title="The residual connection starts behind a norm",
        story="The stream is overwritten by its norm before the sub-layer's output is added. A second norm behind a "
        "first changes almost nothing, so only the first sub-layer shows it: there the embedding has not been "
        "normalised yet. The model learns as well as ever.",
        section="3.1",
        place="layers.Layer.residual",
        right="total = x + self.dropout(sublayer(x))",
        wrong="total = norm(x) + self.dropout(sublayer(x))",
        breaks=frozenset(("residuals", "norms")),
    ),
    Fault(
        name="norm_misplaced",
        group="layers",
        title="One sub-layer has its norm before instead of after",
        story="Post-norm and pre-norm are mixed: the feed-forward network of each layer is wrapped the other way. "
        "Each norm does its work, every residual is added, and the model learns. The output of a layer is a sum that "
        "no norm has seen.",
        section="3.1",
        place="layers.Layer.residual",
        right='if self.norm_order == "post":',
        wrong='if self.norm_order == "post" and name != "feed_forward":',
        breaks=frozenset(("norms", "residuals")),
    ),
    Fault(
        name="norm_over_sentence",
        group="layers",
        title="Mean and variance of a norm taken over the whole sentence",
        story="LayerNorm is told the last two axes instead of the last one. Shapes are right and the loss falls as "
        "always. Each token is measured against all others, padding and later positions included: they get in without "
        "passing any mask. Here gain and bias are left out too, since theirs is another shape.",
        section="3.1",
        place="layers.Layer.residual",
        right="normed = norm(total)",
        wrong="normed = torch.layer_norm(total, total.shape[1:])",
        breaks=frozenset(("norms", "future", "padding")),
    ),
    Fault(
        name="activation_missing",
        group="layers",
        title="No activation between the two layers of the feed-forward network",
        story="The ReLU is forgotten, and two linear layers in a row are one. Shapes, sums, masks and gradients are "
        "all right, and the loss falls. It takes equation 2 computed once more to see it; in the ledger, hidden holds "
        "negative numbers.",
        section="3.3",
        place="layers.FeedForward.forward",
        right="hidden = self.activation(self.w_1(x))",
        wrong="hidden = self.w_1(x)",
        breaks=frozenset(("feed_forward",)),
    ),
    Fault(
        name="cross_attention_to_itself",
        group="layers",
        title="Cross-attention is fed from the decoder",
        story="Keys and values of the second attention come from the decoder, as in the line above it. It runs, and "
        "whoever only looks for leaks finds none, since nothing of the source arrives at all. The loss stays where it "
        "is without reading the source, and changing the source does not move the output.",
        section="3.2.3",
        place="layers.DecoderLayer.forward",
        right="self.cross_attention(x, memory, memory_allowed)",
        wrong="self.cross_attention(x, x, allowed)",
        breaks=frozenset(("source",)),
    ),
    Fault(
        name="memory_detached",
        group="layers",
        title="The memory is cut off from the gradient",
        story="A detach, put in to save memory or to look at a value, stays in the forward. Every tensor of a forward "
        "is right to the last digit, and the decoder still learns something. No gradient reaches the encoder, which "
        "stays as it was drawn.",
        section="3.1",
        place="model.Transformer.forward",
        right="memory = self.encode(src) if self.config.has_encoder else None",
        wrong="memory = self.encode(src).detach() if self.config.has_encoder else None",
        breaks=frozenset(("gradients", "source")),
    ),
    Fault(
        name="output_softmax_over_positions",
        group="layers",
        title="The probabilities shown are shared out over the positions",
        story="The softmax for display takes the axis of the positions for that of the words. Logits, loss and "
        "training are right, because cross-entropy has a softmax of its own. The probabilities of one position do "
        "not sum to 1, and their columns do.",
        section="3.4",
        place="model.Transformer.forward",
        right="logits.softmax(dim=-1)",
        wrong="logits.softmax(dim=1)",
        breaks=frozenset(("display",)),
    ),
)

"""Faults of embeddings and positions (sections 3.4 and 3.5): what a token starts with."""

from transformer_core.faults.table import Fault

FAULTS = (
    Fault(
        name="embedding_not_scaled",
        group="positions",
        title="The embedding is not multiplied with √d_model",
        story="The switch for the factor is asked the wrong way round. Shapes are right, and a small model learns "
        "just as well. The embedding is √d_model times too small beside the positions, which are added as they are.",
        section="3.4",
        place="model.Transformer.embed",
        right="if self.config.scale_embedding:",
        wrong="if not self.config.scale_embedding:",
        breaks=frozenset(("embeddings",)),
    ),
    Fault(
        name="positions_missing_on_decoder",
        group="positions",
        title="No positions on the decoder's side",
        story="Positions are added where the source is embedded and forgotten for the target. The causal mask still "
        "tells how many tokens came before, so the model learns. A target of one word repeated gives the same vector "
        "at every place.",
        section="3.5",
        place="model.Transformer.embed",
        right="return self.dropout(positions(x))",
        wrong='return self.dropout(positions(x) if side == "src" else x)',
        breaks=frozenset(("positions",)),
    ),
    Fault(
        name="positions_on_batch_axis",
        group="positions",
        title="Positions are added along the batch",
        story="Code for tensors of n B D meets tensors of B n D, and a row is added for each sentence instead of each "
        "place. It broadcasts without an error, and the loss falls part of the way. Every token of a sentence gets "
        "the same vector, and a sentence means something else in the next row of the batch.",
        section="3.5",
        place="positions.Positions.forward",
        right="return x + positions",
        wrong="return x + sinusoidal(x.shape[0], x.shape[2]).to(x)[:, None]",
        breaks=frozenset(("positions",)),
    ),
    Fault(
        name="position_table_is_parameter",
        group="positions",
        title="The table of waves is a parameter",
        story="The table is wrapped as nn.Parameter instead of being registered as a buffer. Every number of a forward "
        "is right, and with requires_grad=False it is not trained either. It is counted, saved and handed to the "
        "optimizer as if it were a weight.",
        section="3.5",
        place="positions.SinusoidalPositions.__init__",
        right='self.register_buffer("weight", torch.empty(max_len, d_model), persistent=False)',
        wrong="self.weight = nn.Parameter(torch.empty(max_len, d_model), requires_grad=False)",
        breaks=frozenset(("training",)),
    ),
)

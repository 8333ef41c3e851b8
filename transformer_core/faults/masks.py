"""Faults of the masks (section 3.2.3): what a query may see, and what stands where it may not."""

from transformer_core.faults.table import Fault

FAULTS = (
    Fault(
        name="mask_inverted",
        group="masks",
        title="The mask is read the wrong way round",
        story="Some libraries write True for may attend, others for ignore, and one is taken for the other. The "
        "shapes fit, no error comes and the loss falls sooner than it should, since the future can be seen. Rows that "
        "hid nothing are left without any key.",
        section="3.2.3",
        place="attention.masked_softmax",
        right="visible = scores.masked_fill(~allowed, -math.inf)",
        wrong="visible = scores.masked_fill(allowed, -math.inf)",
        breaks=frozenset(("masks", "future", "padding")),
    ),
    Fault(
        name="mask_on_query_axis",
        group="masks",
        title="The padding mask lies on the queries instead of the keys",
        story="The padding mask is unsqueezed at the wrong end, so it hides rows instead of columns. In "
        "self-attention both have the same length, it fits, and the model learns. Real tokens attend to padding, and "
        "padded ones see nothing.",
        section="3.2.3",
        place="masks.compose",
        right="mask = padding(keys, pad_id)",
        wrong="mask = padding(keys, pad_id).mT if q_len == k_len else padding(keys, pad_id)",
        breaks=frozenset(("masks", "padding")),
    ),
    Fault(
        name="mask_after_softmax",
        group="masks",
        title="The mask is applied after the softmax",
        story="The weights are multiplied with the mask instead of the scores being filled. Masked weights are "
        "exactly 0, so whoever looks at those is satisfied. The rest of a row does not sum to 1, and hidden scores "
        "still act through the denominator: a later token changes an earlier result.",
        section="3.2.3",
        place="attention.attend",
        right="weights = masked_softmax(scores, allowed, fill)",
        wrong="weights = scores.softmax(dim=-1) * visible_pairs(allowed, scores)",
        breaks=frozenset(("softmax", "future", "padding")),
    ),
    Fault(
        name="mask_times_infinity",
        group="masks",
        title="The mask is multiplied with minus infinity",
        story="A mask of zeros and ones times -inf, added to the scores, looks like the formula. But 0 · ∞ is not 0, "
        "it is NaN, and it stands exactly where a query may look. The forward runs without an error, and the loss is "
        "NaN from the first step on.",
        section="3.2.3",
        place="attention.masked_softmax",
        right="visible = scores.masked_fill(~allowed, -math.inf)",
        wrong="visible = scores + (~allowed) * -math.inf",
        breaks=frozenset(("softmax", "loss", "gradients")),
    ),
    Fault(
        name="fill_too_small",
        group="masks",
        title="Masked scores are set to 1e-9 instead of -1e9",
        story="A minus sign at the wrong place, and hidden scores become 0 instead of very low. Rows sum to 1, the "
        "recorded mask is right and the loss falls. The probabilities on padding and on later positions are as large "
        "as those of any key with a score of 0.",
        section="3.2.3",
        place="attention.masked_softmax",
        right="visible = scores.masked_fill(~allowed, -math.inf)",
        wrong="visible = scores.masked_fill(~allowed, 1e-9)",
        breaks=frozenset(("future", "padding")),
    ),
    Fault(
        name="fill_overtaken",
        group="masks",
        title="10000 is subtracted from masked scores",
        story="A large number is taken off instead of the score being replaced. At ordinary scores the probability "
        "underflows to exactly 0, and no tensor differs. A hidden score that is larger still gets past it, and so "
        "does a row in which everything is hidden.",
        section="3.2.3",
        place="attention.masked_softmax",
        right="visible = scores.masked_fill(~allowed, -math.inf)",
        wrong="visible = torch.where(allowed, scores, scores - 1e4)",
        breaks=frozenset(("masks",)),
    ),
    Fault(
        name="mask_without_head_axis",
        group="masks",
        title="The padding mask has no axis for the heads",
        story="With one axis too few, B n stands where H n should, so sentences fall onto heads. Unless a batch holds "
        "as many sentences as there are heads the shapes disagree and the forward stops. With equal numbers it runs, "
        "and each head gets the padding of one sentence for all of them.",
        section="3.2.3",
        place="masks.padding",
        right="[:, None, None, :]",
        wrong="[:, None, :]",
        breaks=frozenset(("masks", "padding")),
    ),
    Fault(
        name="empty_row_nan",
        group="masks",
        title="A row without visible keys gives NaN",
        story="Hidden scores of -inf and a division by the sum is the formula of the paper, and right for every row "
        "that sees a key. A sentence of padding only, or left padding under a causal mask, has rows that see none: "
        "there 0 / 0 is NaN, and the gradient carries it into the weights.",
        section="3.2.3",
        place="attention.masked_softmax",
        right="exps.sum(dim=-1, keepdim=True).clamp(min=1.0)",
        wrong="exps.sum(dim=-1, keepdim=True)",
        breaks=frozenset(("masks", "gradients")),
    ),
    Fault(
        name="causal_missing",
        group="masks",
        title="No causal mask in the decoder",
        story="Encoder and decoder get the same mask, the one for padding. The loss falls sooner than it should, "
        "since the answer can be read off the input: the next token is given and found. What the model writes by "
        "itself is wrong.",
        section="3.2.3",
        place="model.Transformer.decode",
        right='self.allowed("decoder_self", tgt.shape[1], tgt)',
        wrong='self.allowed("encoder_self", tgt.shape[1], tgt)',
        breaks=frozenset(("future",)),
    ),
    Fault(
        name="causal_sees_next",
        group="masks",
        title="The causal mask lets each position see the next",
        story="The triangle starts one diagonal too high, and its picture looks right at a glance. The next token is "
        "the one that is asked for, so the loss falls as fast as without any mask, and what the model writes by "
        "itself is wrong.",
        section="3.2.3",
        place="masks.causal",
        right="return key <= query",
        wrong="return key <= query + 1",
        breaks=frozenset(("future",)),
    ),
    Fault(
        name="causal_hides_itself",
        group="masks",
        title="The causal mask hides each position from itself",
        story="The triangle starts one diagonal too low. No future is seen, so no test for leaks finds anything, and "
        "through the residual connections the model still learns. The first position sees no key at all.",
        section="3.2.3",
        place="masks.causal",
        right="return key <= query",
        wrong="return key < query",
        breaks=frozenset(("masks",)),
    ),
    Fault(
        name="causal_on_encoder",
        group="masks",
        title="The encoder has a causal mask",
        story="The mask of the decoder is handed to the encoder as well. Nothing forbidden is seen, so whoever only "
        "looks for leaks finds none. But a source token no longer knows what comes after it, which shows if one asks "
        "whether everything visible does arrive.",
        section="3.2.3",
        place="model.Transformer.encode",
        right='self.allowed("encoder_self", src.shape[1], src)',
        wrong='self.allowed("decoder_self", src.shape[1], src)',
        breaks=frozenset(("masks",)),
    ),
    Fault(
        name="causal_on_cross",
        group="masks",
        title="Cross-attention has a causal mask",
        story="One mask is used for both attentions of the decoder. Nothing forbidden is seen, so whoever only looks "
        "for leaks finds none. The first target positions cannot see the end of the source, which they may: reversing "
        "a word is learned slowly and in part.",
        section="3.2.3",
        place="model.Transformer.decode",
        right='self.allowed("cross", tgt.shape[1], src)',
        wrong='self.allowed("decoder_self", tgt.shape[1], src)',
        breaks=frozenset(("masks", "source")),
    ),
    Fault(
        name="padding_ignored",
        group="masks",
        title="The padding mask looks for another id",
        story="The mask hides the id -1, and the padding is 0. It has the right shape and hides nothing; the ledger "
        "shows a mask that is True everywhere. The model learns in spite of it, but a sentence means something else "
        "beside a longer one.",
        section="3.2.3",
        place="masks.padding",
        right="(tokens != pad_id)",
        wrong="(tokens != -1)",
        breaks=frozenset(("padding",)),
    ),
    Fault(
        name="cross_padding_ignored",
        group="masks",
        title="Cross-attention forgets the padding mask",
        story="The mask of the source is given to the encoder and not once more to the decoder. What stands at "
        "padding in the memory has no meaning, but it has numbers, and the target attends to them. In a batch of "
        "equally long sentences nothing can be seen.",
        section="3.2.3",
        place="layers.DecoderLayer.forward",
        right="self.cross_attention(x, memory, memory_allowed)",
        wrong="self.cross_attention(x, memory)",
        breaks=frozenset(("padding",)),
    ),
)

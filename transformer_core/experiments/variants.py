"""The trainings that the lessons compare: they differ in what their titles say, and in nothing else."""

import dataclasses
from typing import Any

from transformer_core import tasks
from transformer_core.config import TrainConfig
from transformer_core.experiments.lesson import Variant, copy_of

COPY, REVERSE = tasks.get("copy"), tasks.get("reverse")


def changed(first: Variant, name: str, title: str, title_zh: str, **changes: Any) -> Variant:
    """``first`` under another name, with settings of its model, masks or training changed, or how it decodes."""
    parts = {part: getattr(first, part) for part in ("model", "masks", "training")}
    for part, config in parts.items():
        parts[part] = config.replace(**{key: changes.pop(key) for key in list(changes) if hasattr(config, key)})
    return dataclasses.replace(first, name=name, title=title, title_zh=title_zh, **parts, **changes)


REVERSED = Variant("both", "positions on both sides", "两侧都有位置编码", REVERSE.model, REVERSE.masks,
                   REVERSE.training.replace(steps=300))  # fmt: skip
POSITIONS = (
    REVERSED,
    changed(REVERSED, "encoder_only", "none on the decoder", "解码器没有位置编码", positions_on_decoder=False),
    changed(REVERSED, "none", "none at all", "两侧都没有", positions="none"),
)

TEN = Variant("letters_10", "10 letters", "10 个字母", copy_of(10).model, COPY.masks, COPY.training.replace(steps=200),
              letters=10)  # fmt: skip
VOCABULARIES = tuple(
    dataclasses.replace(TEN, name=f"letters_{kinds}", title=f"{kinds} letters", title_zh=f"{kinds} 个字母",
                        model=copy_of(kinds).model, letters=kinds)
    for kinds in (10, 300, 3000)
)  # fmt: skip

SCALED = Variant("scaled_512", "d_k 512, scaled", "d_k 512，有缩放",
                 COPY.model.replace(d_model=512, n_heads=1, n_encoder_layers=1, n_decoder_layers=1), COPY.masks,
                 COPY.training.replace(steps=200, batch_size=32))  # fmt: skip
NARROW = changed(SCALED, "scaled_16", "d_k 16, scaled", "d_k 16，有缩放", d_model=64, n_heads=4)
SCALES = (
    SCALED,
    changed(SCALED, "unscaled_512", "d_k 512, not scaled", "d_k 512，无缩放", scale_scores=False),
    NARROW,
    changed(NARROW, "unscaled_16", "d_k 16, not scaled", "d_k 16，无缩放", scale_scores=False),
)

WARM, PEAK = 100, 1e-2
DEEP = Variant("post_low", "Post-LN, rate 0.002", "Post-LN，学习率 0.002",
               REVERSE.model.replace(d_model=32, d_ff=64, n_encoder_layers=6, n_decoder_layers=6), REVERSE.masks,
               TrainConfig(task="reverse", steps=300, batch_size=64, lr=2e-3))  # fmt: skip
DEPTHS = (
    DEEP,
    changed(DEEP, "post_high", "Post-LN, rate 0.01", "Post-LN，学习率 0.01", lr=PEAK),
    changed(DEEP, "pre_high", "Pre-LN, rate 0.01", "Pre-LN，学习率 0.01", lr=PEAK, norm_order="pre"),
    # Equation 3 reaches 0.01 at its peak: lr · (d_model · warmup)^-0.5.
    changed(DEEP, "post_high_warm", "Post-LN, warm-up to 0.01", "Post-LN，预热到 0.01", schedule="warmup", warmup=WARM,
            lr=PEAK * (DEEP.model.d_model * WARM) ** 0.5),
)  # fmt: skip

SMOOTHED = changed(REVERSED, "smoothed", "label smoothing 0.1", "标签平滑 0.1")
SMOOTHINGS = (
    SMOOTHED,
    changed(SMOOTHED, "plain", "no label smoothing", "无标签平滑", label_smoothing=0.0),
)

WRITTEN = changed(REVERSED, "greedy", "causal mask, written greedily", "有因果掩码，贪心解码", steps=150)
OPEN = changed(WRITTEN, "open_greedy", "no causal mask, written greedily", "无因果掩码，贪心解码",
               decoder_self=("padding",))  # fmt: skip
FORCINGS = (
    WRITTEN,
    changed(WRITTEN, "forced", "causal mask, right answer fed", "有因果掩码，喂入正确答案", decode="teacher_forcing"),
    OPEN,
    changed(OPEN, "open_forced", "no causal mask, right answer fed", "无因果掩码，喂入正确答案",
            decode="teacher_forcing"),
)  # fmt: skip

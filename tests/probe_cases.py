"""What the tests of the probes share: small models, right or with one changed line, and the verdict of one check."""

from typing import Any

import torch

from explorer import words
from transformer_core.batches import Batch
from transformer_core.checks import CHECKS, CheckResult
from transformer_core.checks.probes import Probe, probe_of
from transformer_core.checks.subject import Subject
from transformer_core.checks.table import BEHAVIOUR
from transformer_core.config import MaskConfig, ModelConfig
from transformer_core.workshop import OWN, Workshop

BY_NAME = {row.name: row for row in CHECKS if row.level == BEHAVIOUR}
SMALL = ModelConfig(d_model=12, n_heads=3, d_ff=17, src_vocab_size=29, tgt_vocab_size=31, max_seq_len=67)
ENCODER = SMALL.replace(architecture="encoder")
DECODER = SMALL.replace(architecture="decoder")


def subject(
    config: ModelConfig = SMALL, masks: MaskConfig | None = None, shop: Workshop = OWN, seed: int = 7, batch: Any = None
) -> Subject:
    """A model of this workshop, and two sentences that fit nearly every mask."""
    model = shop.model.build(config, masks, seed=seed).eval()
    other = 1 if config.pad_id != 1 else 0
    src = torch.full((2, 3), other) if config.has_encoder else None
    tgt = torch.full((2, 2), other) if config.has_decoder else None
    return Subject(model, batch or Batch(src, tgt), shop=shop, seed=seed)


def probe(*args: Any, **how: Any) -> Probe:
    found = probe_of(subject(*args, **how))
    assert found is not None
    return found


def verdict(name: str, *args: Any, **how: Any) -> CheckResult | None:
    """The result of one check, said in both languages, which needs every fact of its sentence."""
    return said(BY_NAME[name].run(subject(*args, **how)))


def said(result: CheckResult | None) -> CheckResult | None:
    if result is not None:
        for language in words.LANGUAGES:
            text = words.text(language, f"checks.{result.name}.{result.sentence}", **result.facts)
            assert text == result.finding or language == "zh"
    return result


def failing(*args: Any, **how: Any) -> set[str]:
    """The names of the checks of level 3 that fail."""
    about = subject(*args, **how)
    results = [said(row.run(about)) for row in BY_NAME.values()]
    return {result.name for result in results if result is not None and not result.passed}

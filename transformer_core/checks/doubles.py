"""The copy of a model that probes try things out on: exact enough to see a leak, and with weights of a fair size."""

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from transformer_core.config import ModelConfig

SCORE_SIZE = 1.2
"""The size of q and of k before they meet: their scores then spread by about 1.4, neither even nor one-hot."""


def double(model: nn.Module) -> Any:
    """A float64 copy on the CPU, in evaluation mode, without gradients and with a noise of its own."""
    memo: dict[int, Any] = {id(each): type(each)(each.detach().to("cpu", torch.float64, copy=True), False)
                            for each in model.parameters()}  # fmt: skip
    for each in model.buffers():
        memo[id(each)] = each.detach().to("cpu", torch.float64 if each.is_floating_point() else each.dtype, copy=True)
    noise: Any = model.noise
    memo[id(noise._generators)] = {}  # no generator yet: the copy begins with the seed
    return deepcopy(model, memo).eval()


def calibrate(model: nn.Module, config: ModelConfig, run: Callable[[], object]) -> None:
    """Scales the matrices of each sub-layer, in the order of the forward ``run``, until its outputs have a known size.

    Weights of any origin, small, trained or of an unscaled attention, then give scores of moderate spread, and what
    passes a sub-layer is not lost beside the stream that it is added to.
    """
    score = SCORE_SIZE if config.scale_scores else SCORE_SIZE * config.d_head**-0.25
    sizes = {"w_q": score, "w_k": score, "w_v": 1.0, "w_o": 1.0, "w_1": 1.0, "w_2": 1.0}

    def fit(size: float) -> Callable[..., Tensor]:
        def hook(module: Any, _: Any, output: Tensor) -> Tensor:
            now = float(output.square().mean().sqrt())
            factor = size / now if now else math.inf  # behind dead units or queries that see nothing all is 0
            if not 0 < factor < math.inf:
                return output
            for each in module.parameters():
                each.mul_(factor)
            return output * factor

        return hook

    if config.d_model <= 2:  # a norm over two features leaves hardly more than a sign; a larger eps lets sizes through
        norms: list[Any] = [module for module in model.modules() if hasattr(module, "eps")]
        for norm in norms:
            norm.eps = 1.0
    named = ((name.rpartition(".")[2], module) for name, module in model.named_modules())
    handles = [module.register_forward_hook(fit(sizes[name])) for name, module in named if name in sizes]
    try:
        with torch.no_grad():
            run()
    finally:
        for handle in handles:
            handle.remove()

"""What every test starts from: one seed, one thread, and a tiny model no two sizes of which are equal."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import jaxtyping
import pytest
import torch
from hypothesis import settings

if TYPE_CHECKING:
    from transformer_core.batches import Batch
    from transformer_core.config import ModelConfig
    from transformer_core.model import Transformer

# One seed for the global generators. What the core draws comes from generators of its own.
SEED = 20170612
TESTS = Path(__file__).parent
# Quick tests first, the browser last. The position in this list is the position in the run.
ROOMS = ("core", "explorer", "browser")
LONGEST = ("test_train.py", "test_runs.py")

# Several threads on small matrices cost more than they give, and the page's tests run beside a browser.
torch.set_num_threads(1)
# The same examples every time, and no limit of milliseconds on a shared machine.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")
# Before any gradio is imported: no test asks a host on the internet for anything.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_OFFLINE"] = "1"


def room(item: pytest.Item) -> str:
    """Which part of the house a test is about, by its folder."""
    folders = item.path.relative_to(TESTS).parts[:-1] if item.path.is_relative_to(TESTS) else ()
    return folders[0] if folders and folders[0] in ROOMS else "core"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks and order by folder.

    gradio raises warnings of its own at every event (pandas deprecations, unclosed sockets), so in the page's two
    folders a warning is shown and not an error. They come after the core's tests, so that what they leave to the
    garbage collector cannot warn in one of those. Of the browser's files the longest come first: at the end of a run
    in several processes none of them is left alone with it.
    """
    for item in items:
        if room(item) != "core":
            item.add_marker(pytest.mark.filterwarnings("default"))
        if room(item) == "browser":
            item.add_marker("browser")
    items.sort(key=lambda item: (ROOMS.index(room(item)), item.path.name not in LONGEST))


@pytest.fixture(autouse=True)
def seed() -> int:
    """The same random numbers in every test, whatever ran before it."""
    random.seed(SEED)
    torch.manual_seed(SEED)
    return SEED


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Calls as they are outside the tests, where nobody checks the shapes of a signature.

    For a test of a refusal: the function must refuse in its own words what jaxtyping would have stopped before it.
    """
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def tiny() -> "ModelConfig":
    """Sizes that cannot be mistaken for each other: with B 2, S 5 and T 11 a swapped axis has another length."""
    from transformer_core.config import ModelConfig

    return ModelConfig(
        d_model=21,
        n_heads=3,
        n_encoder_layers=1,
        n_decoder_layers=2,
        d_ff=23,
        src_vocab_size=29,
        tgt_vocab_size=31,
        max_seq_len=37,
    )


@pytest.fixture
def tiny_model(tiny: "ModelConfig") -> "Transformer":
    """The tiny model in evaluation mode, its weights drawn from seed 7."""
    from transformer_core.model import build

    return build(tiny, seed=7).eval()


@pytest.fixture
def tiny_batch(tiny: "ModelConfig") -> "Batch":
    """Two sentences a side, src (2, 5) and tgt (2, 11), the second of each padded at its end."""
    from transformer_core.batches import make_batch
    from transformer_core.config import DataConfig

    return make_batch(tiny, DataConfig(src_len=5, tgt_len=11, batch_size=2, padding="last"), seed=7)

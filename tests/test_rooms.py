"""The house plan, held by its imports: who may know whom, and that the core knows nothing of the screen."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import jaxtyping
import pytest
import torch

from transformer_core.attention import attend

ROOT = Path(__file__).parents[1]
PACKAGES = ("transformer_core", "explorer")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in [ROOT / "app.py", *(path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))]
    if path.exists()
}

# The rooms of the core, bottom to top: each may import from those before it. A new file takes its place here.
CORE = (
    "formulas",
    "errors",
    "ledger",
    "checked",
    "predicates",
    "rules",
    "config",
    "batches",
    "presets",
    "masks",
    "positions",
    "conventions",
    "broadcasting",
    "key_value_cache",
    "attention",
    "softmax_lab",
    "scale_lab",
    "layers",
    "model",
    "cost",
    "translation",
    "tasks",
    "decoding",
    "translating",
    "training",
    "doctor",
    "workshop",
    "parity",
    "checks",
    "faults",
    "experiments",
    "records",
    "__init__",
    "commands",
    "__main__",
)
# The floors above it, bottom to top.
FLOORS = ("transformer_core", "explorer", "explorer.views", "app")


def read_imports(name: str, source: str) -> Iterator[str]:
    """Every module that this source imports, anywhere in it; of our own, the module that a name comes from."""
    package = name if MODULES.get(name, Path()).name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                submodule = f"{origin}.{alias.name}"
                yield submodule if submodule in MODULES else origin


def imports(name: str) -> set[str]:
    return set(read_imports(name, MODULES[name].read_text(encoding="utf-8"))) - {name}


def floor(name: str) -> int:
    """transformer_core 0, explorer 1, explorer.views 2, app 3."""
    return max(i for i, prefix in enumerate(FLOORS) if name == prefix or name.startswith(prefix + "."))


def core_room(name: str) -> int:
    """The place of a core module in CORE; the files of tasks/ share one."""
    first = name.split(".")[1] if "." in name else "__init__"
    if first not in CORE:
        pytest.fail(f"{name} has no place in the house plan: give it one in CORE of tests/test_rooms.py")
    return CORE.index(first)


CORE_MODULES = [name for name in MODULES if floor(name) == 0]


def test_the_whole_house_is_read() -> None:
    assert {"transformer_core", "transformer_core.ledger", "explorer.session", "explorer.views"} <= MODULES.keys()


def test_the_reader_finds_every_form_of_import() -> None:
    source = """
import torch.nn as nn
from transformer_core import ledger, build
from .masks import causal
from . import config
def late():
    import pandas
"""
    assert set(read_imports("transformer_core.attention", source)) == {
        "torch.nn",
        "transformer_core",
        "transformer_core.ledger",
        "transformer_core.masks",
        "transformer_core.config",
        "pandas",
    }


def test_a_cold_start_of_the_core_loads_nothing_of_the_screen() -> None:
    """In a fresh interpreter, since here gradio may be loaded already."""
    program = f"""
import importlib, sys
for name in {CORE_MODULES!r}:
    importlib.import_module(name)
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(*sorted(loaded & {{"gradio", "plotly", "pandas", "explorer", "app", *{sorted(LATE)!r}}}), sep=", ")
"""
    answer = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == ""


LATE = {"rjieba", "sacrebleu", "opencc", "safetensors", "trackio"}
"""Libraries that one function of the core needs, imported inside it: whoever never calls it need not have them."""


def at_the_top(name: str) -> set[str]:
    """What the module imports as soon as it is imported itself."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    top = ast.Module([node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))], [])
    return set(read_imports(name, ast.unparse(top)))


@pytest.mark.parametrize("name", CORE_MODULES)
def test_the_core_needs_torch_jaxtyping_and_the_standard_library(name: str) -> None:
    own = {"torch", "jaxtyping", "transformer_core"} | sys.stdlib_module_names
    assert {module.partition(".")[0] for module in at_the_top(name)} <= own
    assert {module.partition(".")[0] for module in imports(name)} <= own | LATE


@pytest.mark.parametrize("name", CORE_MODULES)
def test_the_core_is_built_bottom_to_top(name: str) -> None:
    here = core_room(name)
    for other in imports(name) & MODULES.keys():
        there = core_room(other)
        assert there < here or (there == here and other != name), f"{name} imports {other}, which stands above it"


@pytest.mark.parametrize("name", CORE_MODULES)
def test_annotations_of_the_core_stay_real(name: str) -> None:
    """As mere strings they could not be checked at run time."""
    assert "__future__" not in imports(name)


@pytest.mark.parametrize("name", MODULES)
def test_no_floor_reaches_upwards(name: str) -> None:
    above = {other for other in imports(name) & MODULES.keys() if floor(other) > floor(name)}
    assert not above, f"{name} imports from above: {sorted(above)}"


def test_there_are_no_circles() -> None:
    graph = {name: imports(name) & MODULES.keys() for name in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("a circle of imports: " + " -> ".join(reversed(error.args[1])))


def test_every_module_with_shapes_in_its_signatures_is_checked(pytestconfig: pytest.Config) -> None:
    checked = pytestconfig.getoption("--jaxtyping-packages").split(",")
    for name in CORE_MODULES:
        if "jaxtyping" in imports(name):
            assert any(f"{name}.".startswith(f"{module}.") for module in checked), f"add {name} to pyproject.toml"


def test_a_wrong_shape_is_stopped_at_the_signature() -> None:
    q, k = torch.ones(2, 3, 5, 7), torch.ones(2, 3, 11, 13)
    with pytest.raises(jaxtyping.TypeCheckError):
        attend(q, k, k)


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_test_of_a_refusal_can_go_past_the_signature() -> None:
    q, k = torch.ones(2, 3, 5, 7), torch.ones(2, 3, 11, 13)
    with pytest.raises(Exception) as caught:
        attend(q, k, k)
    assert not isinstance(caught.value, jaxtyping.TypeCheckError)


def test_the_product_imports_nothing_of_its_workshop() -> None:
    for name in MODULES:
        packages = {module.partition(".")[0] for module in imports(name)}
        assert not packages & {"tests", "tools", "benchmarks", "pytest"}, name

"""A run as a notebook: the script of it in cells, each part under its heading."""

import json
from typing import Any

from transformer_core.records.record import RunRecord
from transformer_core.records.script import assemble


def notebook(record: RunRecord, corpus: Any = None) -> str:
    """The script of ``standalone`` as a Jupyter notebook (.ipynb, format 4.5); its last cell takes the steps.

    Raises:
        ConfigError: the corpus is not the run's, or is needed and missing.
    """
    made = assemble(record, corpus)
    cells = [
        _words(f"# {made.title}\n\n{made.head}"),
        _code("from __future__ import annotations\n\n" + "\n".join(made.imports)),
    ]
    for part in made.parts:
        cells += [_words(f"## {part.heading}"), _code(part.code)]
    cells += [_words("## Every step, and its loss beside the one recorded."), _code("main(STEPS)")]
    content = {
        "cells": [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _words(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(text)}


def _code(text: str) -> dict[str, Any]:
    source = _lines(text.strip())
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)

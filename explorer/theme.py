"""The look: gradio's own variables pointed at our tokens, and the files of assets/ put together."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import gradio as gr

ASSETS = Path(__file__).with_name("assets")
SANS = (
    "Source Sans 3",
    "-apple-system",
    "BlinkMacSystemFont",
    "Segoe UI",
    "Noto Sans CJK SC",
    "PingFang SC",
    "Microsoft YaHei",
    "sans-serif",
)
MONO = ("Source Code Pro", "ui-monospace", "Noto Sans Mono CJK SC", "Menlo", "Consolas", "monospace")

# gradio variable -> our token. Both themes read the same token, which changes by itself.
VARIABLES = {
    "body_background_fill": "var(--paper)",
    "body_text_color": "var(--ink)",
    "body_text_color_subdued": "var(--ink2)",
    "background_fill_primary": "var(--raised)",
    "background_fill_secondary": "var(--sunken)",
    "border_color_primary": "var(--rule)",
    "border_color_accent": "var(--accent)",
    "color_accent": "var(--accent)",
    "color_accent_soft": "var(--hl2)",
    "link_text_color": "var(--accent)",
    "link_text_color_hover": "var(--accent)",
    "link_text_color_active": "var(--accent)",
    "link_text_color_visited": "var(--accent)",
    "block_background_fill": "var(--paper)",
    "block_border_color": "var(--rule)",
    "block_border_width": "0px",
    "block_label_text_color": "var(--ink2)",
    "block_title_text_color": "var(--ink2)",
    "block_title_text_weight": "400",
    "block_info_text_color": "var(--ink3)",
    "block_shadow": "none",
    "block_radius": "4px",
    "container_radius": "4px",
    "panel_background_fill": "var(--paper)",
    "input_background_fill": "var(--raised)",
    "input_background_fill_focus": "var(--raised)",
    "input_border_color": "var(--edge)",
    "input_border_color_focus": "var(--accent)",
    "input_placeholder_color": "var(--ink3)",
    "input_shadow": "none",
    "input_shadow_focus": "none",
    "input_radius": "4px",
    "slider_color": "var(--accent)",
    "checkbox_background_color": "var(--raised)",
    "checkbox_background_color_selected": "var(--accent)",
    "checkbox_border_color": "var(--edge)",
    "checkbox_border_color_selected": "var(--accent)",
    "checkbox_label_background_fill": "var(--raised)",
    "checkbox_label_background_fill_hover": "var(--hl2)",
    "checkbox_label_background_fill_selected": "var(--ink)",
    "checkbox_label_text_color": "var(--ink2)",
    "checkbox_label_text_color_selected": "var(--paper)",
    "checkbox_label_border_color": "var(--rule2)",
    "checkbox_label_shadow": "none",
    "button_primary_background_fill": "var(--ink)",
    "button_primary_background_fill_hover": "var(--ink2)",
    "button_primary_text_color": "var(--paper)",
    "button_primary_text_color_hover": "var(--paper)",
    "button_primary_border_color": "var(--ink)",
    "button_primary_shadow": "none",
    "button_primary_shadow_hover": "none",
    "button_secondary_background_fill": "var(--raised)",
    "button_secondary_background_fill_hover": "var(--hl2)",
    "button_secondary_text_color": "var(--ink)",
    "button_secondary_text_color_hover": "var(--ink)",
    "button_secondary_border_color": "var(--edge)",
    "button_secondary_shadow": "none",
    "button_secondary_shadow_hover": "none",
    "table_even_background_fill": "var(--paper)",
    "table_odd_background_fill": "var(--paper)",
    "table_border_color": "var(--rule)",
    "table_text_color": "var(--ink)",
    "error_background_fill": "var(--badbg)",
    "error_border_color": "var(--bad)",
    "error_text_color": "var(--bad)",
    "error_icon_color": "var(--bad)",
    "code_background_fill": "var(--sunken)",
}


def build() -> gr.themes.Base:
    """The gradio theme: system fonts (nothing is fetched), and our tokens behind gradio's variables."""
    known = set(inspect.signature(gr.themes.Base.set).parameters)
    values = {}
    for name, token in VARIABLES.items():
        if name in known:
            values[name] = token
        if f"{name}_dark" in known:
            values[f"{name}_dark"] = token
    return gr.themes.Base(
        font=list(SANS), font_mono=list(MONO), radius_size="sm", spacing_size="sm", text_size="sm"
    ).set(**values)


@lru_cache(maxsize=1)
def css() -> str:
    """All style sheets: the tokens first, then the frame, then one a view."""
    first = ["tokens.css", "frame.css"]
    rest = sorted(path.name for path in ASSETS.glob("*.css") if path.name not in first)
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in (*first, *rest))


def head(words: Mapping[str, Mapping[str, str]], views: Mapping[str, Sequence[str]] | None = None) -> str:
    """The scripts of the page, after the words they say. They run before any component does.

    ``views`` names the files of each view; together they are the body of ``TL.views.NAME``, which its component calls.
    """
    said = json.dumps(words, ensure_ascii=False).replace("<", "\\u003c")
    scripts = [
        f"window.TL_WORDS = {said};",
        *(script(name) for name in ("shared.js", "strip.js", "frame.js", "sidebar.js", "controls.js")),
    ]
    for name, files in (views or {}).items():
        body = "\n".join(script(file) for file in files)
        scripts.append(f"TL.views.{name} = function (element, trigger, props, server, upload, watch) {{\n{body}\n}};")
    return '<meta name="color-scheme" content="light dark">\n' + "\n".join(
        f"<script>{each}</script>" for each in scripts
    )


def mount(view: str, *events: str) -> str:
    """The ``js_on_load`` of a view whose script stands in the head of the page.

    gradio searches the whole of ``js_on_load`` for the name of every attribute it does not find, which at each event
    costs more than the event itself. The names of the component's own events have to stay in it, in quotes.
    """
    call = f"TL.views.{view}(element, TL.frame.looking(trigger), props, server, upload, watch);"
    return f"{call} /* sends {', '.join(map(repr, events))} */"


def script(name: str) -> str:
    """The text of one file of assets/.

    Raises:
        ValueError: the script would end the element it stands in.
    """
    text = (ASSETS / name).read_text(encoding="utf-8")
    if "</script" in text:
        raise ValueError(f"{name} holds </script, which would end its element early")
    return text


def tokens(sheet: str | None = None) -> dict[str, dict[str, str]]:
    """The colour tokens of both themes: ``{"light": {"paper": "#FBFAF6", ...}, "dark": {...}}``."""
    sheet = (ASSETS / "tokens.css").read_text(encoding="utf-8") if sheet is None else sheet
    themes: dict[str, dict[str, str]] = {"light": {}, "dark": {}}
    for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", re.sub(r"/\*.*?\*/", "", sheet, flags=re.S)):
        theme = {":root": "light", ".dark": "dark"}.get(selector.strip())
        if theme:
            themes[theme] |= dict(re.findall(r"--([a-z0-9]+):\s*(#[0-9A-Fa-f]{6})\s*;", body))
    return themes


def contrast(one: str, other: str) -> float:
    """WCAG contrast of two colours: (lighter + 0.05) / (darker + 0.05) in relative luminance.

    >>> round(contrast("#000000", "#FFFFFF"), 1)
    21.0
    """
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

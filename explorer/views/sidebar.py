"""The sidebar of Explore: one native control for each choice, in four groups.

``CONTROLS`` is the order in which every handler of the page receives the values. ``updates`` is the way back: a session
to the values of all controls, so that a preset, a link or a remedy moves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gradio as gr
import torch

from explorer.changes import CONTROLS
from explorer.fields import ATTENTIONS, BY_NAME
from explorer.limits import Limits
from explorer.session import Session, preset_of
from explorer.words import text
from transformer_core.config import divisors
from transformer_core.presets import preset_names

SLIDERS = ("d_model", "d_ff", "n_encoder_layers", "n_decoder_layers", "src_len", "tgt_len", "batch_size", "dropout")
DEPENDENT = ("d_model", "n_heads", "weights", "device")  # what the change of another control can change
HEADS = (1, 2, 4, 8, 16)
MOST_HEADS = 8  # segments that fit side by side

LOGO = (
    '<svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true">'
    '<rect x="1.5" y="1.5" width="19" height="19" rx="2.5" fill="none" stroke="currentColor" stroke-width="1.6"/>'
    '<rect x="5" y="5" width="5.4" height="5.4" fill="var(--p1)"/>'
    '<rect x="11.6" y="5" width="5.4" height="5.4" fill="var(--hatch)" opacity=".45"/>'
    '<rect x="5" y="11.6" width="5.4" height="5.4" fill="var(--pm)"/>'
    '<rect x="11.6" y="11.6" width="5.4" height="5.4" fill="var(--p1)"/></svg>'
)


@dataclass
class Sidebar:
    """The components of the sidebar, and how they change with the session and the language."""

    controls: dict[str, Any]
    masks: gr.HTML
    devices: tuple[str, ...]
    limits: Limits
    relabel_targets: list[Any] = field(default_factory=list)

    @property
    def inputs(self) -> list[Any]:
        """The controls in the order of CONTROLS."""
        return [self.controls[name] for name in CONTROLS]

    def updates(self, session: Session, lang: str) -> list[Any]:
        """Every control with the value of this session, in this language, in the order of CONTROLS."""
        return [self._update(name, session, lang) for name in CONTROLS]

    def dependent(self, session: Session | None, touched: frozenset[str]) -> list[Any]:
        """Updates of DEPENDENT after these fields changed. The one that a person is moving right now is left alone."""
        updates = dict.fromkeys(DEPENDENT, gr.skip())
        if session is not None and "n_heads" in touched:
            low, step = _grid("d_model", session)
            updates["d_model"] = gr.update(minimum=low, step=step, maximum=_reach("d_model", session, self.limits))
        if session is not None and "d_model" in touched:
            updates["n_heads"] = gr.update(choices=_head_names(session))
        for name in ("weights", "device"):  # fresh where the trained ones do not fit, cpu where there is no other
            if session is not None and name in touched:
                updates[name] = gr.update(value=getattr(session, name))
        return list(updates.values())

    def relabel(self, lang: str) -> list[Any]:
        """Labels and the names of the choices; the values stay."""
        return [_relabel(name, lang, self.devices) for name in CONTROLS if name != "masks"]

    def _update(self, name: str, session: Session, lang: str) -> Any:
        if name == "masks":
            return gr.HTML(value=masks_value(session))
        changes = _relabel(name, lang, self.devices)
        value = getattr(session, name)
        if name in SLIDERS:
            low, step = _grid(name, session)
            changes |= {"minimum": low, "maximum": _reach(name, session, self.limits), "step": step}
        if name == "n_heads":
            changes["choices"] = _head_names(session)
        return gr.update(value=value, **changes)


def build(limits: Limits, session: Session, lang: str = "en") -> Sidebar:
    """The groups model, input, masks and run. Call it inside the page's gr.Sidebar."""
    devices = available_devices()
    controls: dict[str, Any] = {}

    def add(name: str, make: Callable[..., Any], *classes: str, **options: Any) -> None:
        labels = {key: value for key, value in _relabel(name, lang, devices).items() if key != "__type__"}
        options = (
            {"value": getattr(session, name), "min_width": 0, "elem_id": f"tl-f-{name}", "elem_classes": list(classes)}
            | labels
            | options
        )
        controls[name] = make(**options)

    def slider(name: str, *classes: str) -> None:
        low, step = _grid(name, session)
        high = _reach(name, session, limits)
        add(name, gr.Slider, "tl-row", *classes, buttons=[], minimum=low, maximum=high, step=step)

    def segments(name: str, *classes: str, **options: Any) -> None:
        add(name, gr.Radio, "tl-seg", *classes, **options)

    def dropdown(name: str, *classes: str) -> None:
        add(name, gr.Dropdown, *classes, filterable=False)

    gr.HTML(
        html_template=f'<div class="tl-brand">{LOGO}<h1 data-tl-word="frame.title"></h1>'
        '<button type="button" class="tl-close-side" data-tl-label="frame.close_settings">✕</button></div>',
        js_on_load="TL.frame.mountSide(element, trigger);", apply_default_css=False, elem_id="tl-side-head",
    )  # fmt: skip
    with gr.Column(elem_classes="tl-explore-only", min_width=0):
        _group("model")
        dropdown("preset")
        segments("architecture")
        slider("d_model")
        segments("n_heads", choices=_head_names(session))
        slider("d_ff")
        with gr.Row(elem_classes="tl-two"):
            slider("n_encoder_layers")
            slider("n_decoder_layers")
        with gr.Row(elem_classes="tl-two"):
            dropdown("norm_order")
            dropdown("activation")
        segments("positions")
        _group("input")
        segments("tokens")
        segments("split", "tl-typed")
        for name in ("src_text", "tgt_text"):
            add(name, gr.Textbox, "tl-typed", lines=2, max_lines=6, max_length=limits.max_text)
        with gr.Row(elem_classes=["tl-two", "tl-random"]):
            slider("src_len")
            slider("tgt_len")
        with gr.Row(elem_classes=["tl-two", "tl-random"]):
            slider("batch_size")
            dropdown("padding")
        segments("pad_side")
        _group("masks")
        masks = gr.HTML(
            value=masks_value(session), html_template='<div class="tl-masks"></div>', apply_default_css=False,
            elem_id="tl-f-masks", js_on_load="TL.masks.mount(element, props, watch, trigger); /* sends 'edit' */",
        )  # fmt: skip
        controls["masks"] = masks
        dropdown("fill")
        _group("run")
        segments("weights")
        with gr.Row(elem_classes="tl-two"):
            dropdown("mode")
            slider("dropout")
        with gr.Row(elem_classes="tl-two"):
            dropdown("dtype")
            dropdown("device")
        add("seed", gr.Number, "tl-number", precision=None, minimum=None, maximum=None)
    sidebar = Sidebar(controls, masks, devices, limits)
    sidebar.relabel_targets = [controls[name] for name in CONTROLS if name != "masks"]
    return sidebar


def build_foot() -> gr.HTML:
    """Copy link and Reset, below the groups of every tab. Its event is ``reset``."""
    return gr.HTML(
        html_template='<div class="tl-foot">'
        '<button type="button" class="tl-button tl-copy" data-tl-word="frame.copy_link"></button>'
        '<button type="button" class="tl-button tl-reset" data-tl-word="frame.reset" data-tl-title="frame.reset_says">'
        "</button></div>",
        js_on_load="TL.frame.mountSide(element, trigger); /* sends 'reset' */",
        apply_default_css=False,
        elem_id="tl-side-foot",
    )


def masks_value(session: Session) -> dict[str, list[str]]:
    """What the masks control shows."""
    return {name: list(getattr(session, name)) for name in ATTENTIONS}


def head_choices(d_model: int, n_heads: int) -> list[int]:
    """The head counts to offer: the paper's powers of two that divide, else the smallest divisors, and the present one.

    >>> head_choices(64, 4), head_choices(66, 4), head_choices(97, 1)
    ([1, 2, 4, 8, 16], [1, 2, 3, 4, 6, 11], [1, 97])
    """
    powers = [number for number in HEADS if d_model % number == 0]
    dividing = [number for number in divisors(d_model) if number <= 16] if len(powers) < 4 else []
    offered = [*powers, *dividing][:MOST_HEADS] if d_model > 1 and (powers + dividing) != [1, 1] else divisors(d_model)
    return sorted({*offered, n_heads})


def _head_names(session: Session) -> list[tuple[str, int]]:
    return [(str(number), number) for number in head_choices(session.d_model, session.n_heads)]


def available_devices() -> tuple[str, ...]:
    """The devices of this host: the CPU, and CUDA or Metal where present."""
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return tuple(name for name, here in present.items() if here)


def _group(name: str) -> None:
    gr.HTML(
        html_template=f'<div class="tl-group"><h2 data-tl-word="sidebar.{name}"></h2></div>',
        js_on_load="TL.translate(element);", apply_default_css=False,
    )  # fmt: skip


def _grid(name: str, session: Session) -> tuple[float, float]:
    """Lowest value and step of a slider: widths move in multiples of the heads, so that sliding stays valid."""
    if name == "dropout":
        return 0, 0.05
    return (session.n_heads, session.n_heads) if name == "d_model" else (1, 1)


def _reach(name: str, session: Session, limits: Limits) -> float:
    """The end of a slider: the limit of this host, on its grid. Beyond it gradio would move a typed number back."""
    low, step = _grid(name, session)
    top = BY_NAME[name].top(limits)
    return top if name == "dropout" else low + (top - low) // step * step


def _relabel(name: str, lang: str, devices: tuple[str, ...]) -> dict[str, Any]:
    changes = gr.update(label=text(lang, f"sidebar.{name}"))
    names = _choices(name, lang, devices)
    return changes | {"choices": names} if names else changes


def _choices(name: str, lang: str, devices: tuple[str, ...]) -> list[tuple[str, str]]:
    if name == "preset":
        presets = [preset_of(each) for each in preset_names()]
        return [(preset.title_zh if lang == "zh" else preset.title, preset.name) for preset in presets]
    if name == "device":
        return [(device, device) for device in devices]
    if name == "dtype":
        return [(dtype, dtype) for dtype in BY_NAME["dtype"].choices]
    if name == "fill":
        keys = {"exclude": "exclude", "-inf": "inf", "finfo_min": "finfo_min", "-1e9": "1e9"}
        return [(text(lang, f"sidebar.fill_{keys[value]}"), value) for value in BY_NAME["fill"].choices]
    if name == "masks":
        return []
    return [(text(lang, f"sidebar.{name}_{value}"), value) for value in BY_NAME[name].choices]

"""Transformer Ledger: builds the page and serves it. ``python app.py``, then open the address it prints."""

import logging
import os

# Before gradio is imported: no request to an outside host, and no growing table of past events.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "100000")
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "50")
os.environ.setdefault("GRADIO_RUN_HISTORY", "False")

import torch

from explorer.views import page

torch.set_num_threads(1)  # several people share the machine; more threads per model make everyone slower
demo = page.build()

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    demo.launch(**page.launch_options())

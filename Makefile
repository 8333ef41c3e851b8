# Two commands: `make app` opens the page, `make test` runs every check.
# Each sets up what it needs in .venv, once; a second run starts at once.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip install --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help app test check bench clean

help: ## what can be asked for
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile

app: $(VENV)/app.stamp ## set up, then serve the page on this machine
	$(PY) app.py $(ARGS)

test: check ## set up, a browser included, then ruff, mypy and all tests
	browser=$$($(PY) -m tools.browser) && CHROMIUM="$$browser" $(PY) -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(VENV)/dev.stamp ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m mypy

bench: $(VENV)/bench.stamp ## measure against torch.nn.Transformer and TorchLens
	$(PY) -m benchmarks $(ARGS)

clean: ## remove what the commands above made
	rm -rf $(VENV) build .hypothesis .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/venv.stamp:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed, and there is no '$(PYTHON)' here." \
		"Install it, or name yours: make app PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m tools.environment $(VENV)
	@touch $@

$(VENV)/app.stamp: requirements.txt $(VENV)/venv.stamp
	@echo "Installing the packages (torch is a large one) ..."
	$(PIP) -r requirements.txt
	@touch $@

$(VENV)/dev.stamp: requirements-dev.txt $(VENV)/app.stamp
	$(PIP) --quiet -r requirements-dev.txt
	@touch $@

$(VENV)/bench.stamp: requirements-bench.txt $(VENV)/dev.stamp
	$(PIP) --quiet -r requirements-bench.txt -c requirements.txt
	@touch $@

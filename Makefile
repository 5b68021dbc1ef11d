# Every target does its own set-up: Python >= 3.11 with pip is all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help test annotations demo lint bench truth clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: lint ## Lint, types and the whole test suite
	@$(BIN)/python -m pytest

annotations: $(INSTALLED) ## The suite once more, with every type and shape annotation executed
	@$(BIN)/python -m pytest -q -p tests.enforcing

demo: $(INSTALLED) ## Train on drawn birds, evaluate on unseen species, search (about four minutes)
	@$(BIN)/python -m pcme demo

lint: $(INSTALLED) ## Formatting, lint rules and types
	@$(BIN)/ruff format --check --quiet . || { echo "fix with: $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

bench: $(INSTALLED) ## Measure speed against the literal transcription of the paper
	@$(BIN)/python -m bench

truth: $(INSTALLED) ## Every method against the exact truth, three seeds (hours); writes docs/results/aviary.md
	@$(BIN)/python -m studies.truth

clean: ## Remove the environment and every cache
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Redone only when the dependencies may have changed; a working environment is brought up to date, a
# broken one replaced. The stamp comes last, so an install that was cut short is repeated.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python is %d.%d; constraints.txt needs 3.11 or newer. Try: make PYTHON=python3.11" % sys.version_info[:2])'
	@echo "Installing into $(VENV) (about a minute, once) ..." >&2
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# Everything a person or a machine does with this checkout. `make` alone tells what there is.
#
#   PYTHON=python3.12   the Python to start from            JOBS=2          test processes
#   TORCH=none          leave torch and the trainer out     TORCH_INDEX=URL take torch from that index
#   CLOZE_HOME=FOLDER   where caches go (default: .cloze)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
JOBS ?= 2
MINUTES ?= 10
BIN := .venv/bin
WITHOUT_TORCH := $(if $(filter none,$(TORCH)),--ignore=trainer)
PACKAGES := corpora tokenizers_train shards trainer flows

.DEFAULT_GOAL := help
.PHONY: help demo install develop test test-huge test-quick check format lint types contracts docs pins fuzz clean

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## /\1 /p' $(MAKEFILE_LIST) | while read -r name what; do \
	    printf '  make %-11s %s\n' "$$name" "$$what"; done

demo: install  ## set up, then run the demo recipe that comes with Cloze (no network after the set-up)
	$(BIN)/cloze demo

install:  ## make .venv and install what a run needs; at once done when nothing has changed
	@$(PYTHON) bootstrap.py --extra trainer

develop:  ## the same with what the tests need
	@$(PYTHON) bootstrap.py --extra trainer --extra reference --extra dev

test: develop  ## all tests but the huge ones (budget: 20 minutes on two cores)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not huge" $(WITHOUT_TORCH)

test-huge: develop  ## memory with gigabytes of input, quality and ids on all real text (budget: 25 minutes)
	$(BIN)/python -m pytest -m huge tests/corpora tests/tokenizers_train

test-quick: develop  ## the tests that are neither slow nor start a server (budget: 5 minutes on two cores)
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not server and not huge" $(WITHOUT_TORCH)

fuzz: develop  ## every parser against damaged inputs, MINUTES each (default: 10); what is found becomes a test
	PYTHONPATH=.:tests/corpora $(BIN)/python tests/corpora/fuzzing.py --minutes $(MINUTES)

check: format lint types contracts docs test  ## all that must hold: the five below (budget: 2 minutes), then all tests

format: develop  ## the code is laid out as ruff lays it out
	$(BIN)/ruff format --check .

lint: develop  ## ruff's rules
	$(BIN)/ruff check .

types: develop  ## mypy, strict
	$(BIN)/mypy $(PACKAGES:%=-p %)
	$(BIN)/mypy bootstrap.py

contracts: develop  ## who may import whom
	$(BIN)/lint-imports

docs: develop  ## the generated reference is in step with the code
	$(BIN)/python -m flows.reference --check

pins: develop  ## write constraints.txt anew from what is installed
	$(BIN)/python -m pip freeze --all --exclude pip --exclude-editable | sed -E 's/\+[a-z0-9.]+$$//' > constraints.new
	mv constraints.new constraints.txt

clean:  ## remove the environment, the caches and the history of runs; the store stays
	rm -rf .venv .cloze .pytest_cache .mypy_cache .ruff_cache .import_linter_cache *.egg-info

# Everything a person or a machine does with this checkout. `make` alone tells what there is.
#
#   PYTHON=python3.12   the Python to start from            JOBS=3          test processes (they wait for servers often)
#   TORCH=none          leave torch and the trainer out     TORCH_INDEX=URL take torch from that index
#   CLOZE_HOME=FOLDER   where caches go (default: .cloze)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
JOBS ?= 3
MINUTES ?= 10
BIN := .venv/bin
# Needed from Python 3.13 on, so not installed where the pins are written: their pins stay as they are.
LATER_PYTHONS := whenever
# The tests of a file share stores and servers, so one process has them all; tests/conftest.py puts long files first.
SIDE_BY_SIDE = -n $(JOBS) --dist loadfile --no-loadscope-reorder
PACKAGES := corpora tokenizers_train shards trainer flows

.DEFAULT_GOAL := help
.PHONY: help demo install develop test test-huge test-quick check format lint types contracts docs pins fuzz clean

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## /\1 /p' $(MAKEFILE_LIST) | while read -r name what; do \
	    printf '  make %-11s %s\n' "$$name" "$$what"; done

demo: install  ## set up, then run the demo recipe that comes with Cloze (no network after the set-up)
	$(BIN)/cloze demo

install:  ## make .venv, install what a run needs, compile the kernels; at once done when nothing has changed
	@$(PYTHON) bootstrap.py --extra trainer --extra documents
	@$(BIN)/cloze prepare

develop:  ## the same with what the tests need
	@$(PYTHON) bootstrap.py --extra trainer --extra tensorboard --extra documents --extra reference --extra accelerate --extra dask \
	    --extra grain --extra sentences --extra retrieval --extra onnx --extra dev
	@$(BIN)/cloze prepare

test: develop  ## all tests but the huge ones (budget: 15 minutes on two cores)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not huge"

test-huge: develop  ## memory with gigabytes of input, quality and ids on all real text, files of ONNX of all kinds (budget: 25 minutes)
	$(BIN)/python -m pytest -m huge tests/corpora tests/tokenizers_train tests/trainer

test-quick: develop  ## the tests that are neither slow nor start a server (budget: 5 minutes on two cores)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow and not server and not huge"

fuzz: develop  ## every parser against damaged inputs, every step against long ones, MINUTES each (default: 10)
	PYTHONPATH=.:tests/corpora $(BIN)/python tests/corpora/fuzzing.py --minutes $(MINUTES)
	PYTHONPATH=.:tests/corpora $(BIN)/python tests/corpora/growth.py --minutes $(MINUTES)

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

docs: develop  ## the generated reference and the list of licences are in step
	$(BIN)/python -m flows.command.reference --check
	$(BIN)/python docs/third_party_licences.py --check

pins: develop  ## write constraints.txt and the list of licences again, from what is installed on Python 3.11
	{ $(BIN)/python -m pip freeze --all --exclude pip --exclude-editable | sed -E 's/\+[a-z0-9.]+$$//'; \
	    grep -E '^($(LATER_PYTHONS))==' constraints.txt; } | LC_ALL=C sort -f -t= -k1,1 > constraints.new
	mv constraints.new constraints.txt
	$(BIN)/python docs/third_party_licences.py

clean:  ## remove the environment, the caches and the history of runs; the store stays
	rm -rf .venv .cloze .pytest_cache .mypy_cache .ruff_cache .import_linter_cache *.egg-info

# Everything a person or a machine does with this checkout. `make` alone tells what there is.
#
#   PYTHON=python3.12   the Python to start from            JOBS=3          test processes (they wait for servers often)
#   TORCH=none          leave torch and the trainer out     TORCH_INDEX=URL take torch from that index
#   CLOZE_HOME=FOLDER   where caches go (default: .cloze, and ~/.cache/cloze for kernels, which checkouts share)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
JOBS ?= 3
MINUTES ?= 10
BIN := .venv/bin
# Needed from Python 3.13 on, so not installed where the pins are written: their pins stay as they are.
LATER_PYTHONS := whenever
PACKAGES := corpora tokenizers_train shards trainer flows cloze

.DEFAULT_GOAL := help
.PHONY: help demo packages install develop test test-all test-quick check format lint types contracts docs site pins fuzz clean

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## /\1 /p' $(MAKEFILE_LIST) | while read -r name what; do \
	    printf '  make %-11s %s\n' "$$name" "$$what"; done

demo: packages  ## set up, then run the demo recipe that comes with Cloze (no network after the set-up)
	$(BIN)/cloze demo

# What a run needs. Kernels are compiled while pip works, and what is left by the first run while it works, so the demo
# does not wait for them.
packages:
	@$(PYTHON) bootstrap.py --extra trainer --extra documents

install: packages  ## make .venv, install what a run needs, compile the kernels; at once done when nothing has changed
	@$(BIN)/cloze prepare

develop:  ## the same with what the tests need
	@$(PYTHON) bootstrap.py --extra trainer --extra tensorboard --extra documents --extra reference --extra accelerate --extra dask \
	    --extra grain --extra sentences --extra retrieval --extra onnx --extra docs --extra dev
	@$(BIN)/cloze prepare

test: develop  ## the tests, with few random examples of each property (budget: 10 minutes on two cores)
	$(BIN)/python -m pytest --processes $(JOBS) --cpu-budgets -m "not long"

test-all: develop  ## the long tier: all examples, all kills, gigabytes of input, all real text (budget: 60 minutes)
	CLOZE_TESTS=long $(BIN)/python -m pytest --processes $(JOBS)

test-quick: develop  ## the tests that are neither slow nor start a server (budget: 5 minutes on two cores)
	$(BIN)/python -m pytest --processes $(JOBS) -m "not slow and not server and not long"

fuzz: develop  ## every parser against damaged inputs, every step against long ones, MINUTES each (default: 10)
	PYTHONPATH=.:tests/corpora $(BIN)/python tests/corpora/fuzzing.py --minutes $(MINUTES)
	PYTHONPATH=.:tests/corpora $(BIN)/python tests/corpora/growth.py --minutes $(MINUTES)

check: format lint types contracts docs site test  ## all that must hold: the six below (budget: 2 minutes), then all tests

format: develop  ## the code is laid out as ruff lays it out
	$(BIN)/ruff format --check .

lint: develop  ## ruff's rules
	$(BIN)/ruff check .

types: develop  ## mypy, strict
	$(BIN)/mypy $(PACKAGES:%=-p %)
	$(BIN)/mypy bootstrap.py

contracts: develop  ## who may import whom
	$(BIN)/lint-imports

docs: develop  ## the generated reference, the list of licences, of pages and the plots are in step
	$(BIN)/python -m flows.command.reference --check
	$(BIN)/python docs/third_party_licences.py --check
	$(BIN)/python docs/list_of_pages.py --check
	$(BIN)/python docs/plots.py --check

site: develop  ## the documentation as a site in build/site, with all links between pages checked
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html -d build/doctrees docs build/site

pins: develop  ## write constraints.txt and the list of licences again, from what is installed on Python 3.11
	{ $(BIN)/python -m pip freeze --all --exclude pip --exclude-editable | sed -E 's/\+[a-z0-9.]+$$//'; \
	    grep -E '^($(LATER_PYTHONS))==' constraints.txt; } | LC_ALL=C sort -f -t= -k1,1 > constraints.new
	mv constraints.new constraints.txt
	$(BIN)/python docs/third_party_licences.py

clean:  ## remove the environment, the caches and the history of runs; stores and ~/.cache/cloze stay
	rm -rf .venv .cloze .pytest_cache .mypy_cache .ruff_cache .import_linter_cache *.egg-info

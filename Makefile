# Everything a person or a machine does with this checkout. `make` alone tells what there is.
#
#   PYTHON=python3.12   the Python to start from            JOBS=3          test processes (they wait for servers often)
#   TORCH=none          leave torch and the trainer out     TORCH_INDEX=URL take torch from that index
#   CLOZE_HOME=FOLDER   where caches go (default: .cloze, and ~/.cache/cloze for kernels, which checkouts share)
#   BIN=FOLDER          use the tools of another environment, as they are: nothing is set up

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
JOBS ?= 3
MINUTES ?= 10
BIN := .venv/bin
DEVELOP := $(if $(filter command,$(origin BIN)),,develop)
PYTHON_HERE := PYTHONPATH=.:docs:tests $(BIN)/python
PACKAGES := corpora tokenizers_train shards trainer flows cloze

.DEFAULT_GOAL := help
.PHONY: help demo packages install develop test test-all test-quick check format lint types contracts docs site fix \
    fix-layout fix-pages fix-outputs figures pins fuzz clean

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
	    --extra grain --extra sentences --extra onnx --extra docs --extra dev
	@$(BIN)/cloze prepare

test: $(DEVELOP)  ## the tests, with few random examples of each property (ten minutes on two cores)
	$(BIN)/python -m pytest --processes $(JOBS) --cpu-seconds -m "not long"

test-all: $(DEVELOP)  ## the long tier: all examples, all kills, gigabytes of input, all real text (an hour)
	CLOZE_TESTS=long $(BIN)/python -m pytest --processes $(JOBS)

test-quick: $(DEVELOP)  ## the tests that are neither slow nor start a server (five minutes on two cores)
	$(BIN)/python -m pytest --processes $(JOBS) -m "not slow and not server and not long"

fuzz: $(DEVELOP)  ## every parser against damaged inputs, MINUTES each (default: 10)
	PYTHONPATH=.:tests/corpora $(BIN)/python tests/corpora/fuzzing.py --minutes $(MINUTES)

check: format lint types contracts docs site test  ## all that must hold: the six below (two minutes), then all tests

format: $(DEVELOP)  ## the code is laid out as ruff lays it out
	$(BIN)/ruff format --check .

lint: $(DEVELOP)  ## ruff's rules
	$(BIN)/ruff check .

types: $(DEVELOP)  ## mypy, strict
	$(BIN)/mypy $(PACKAGES:%=-p %)
	$(BIN)/mypy bootstrap.py

contracts: $(DEVELOP)  ## who may import whom
	$(BIN)/lint-imports

docs: $(DEVELOP)  ## the generated reference, commands of the README, lists of licences and pages, and plots are in step
	$(PYTHON_HERE) docs/program_pages.py --check
	$(BIN)/python docs/third_party_licences.py --check
	$(BIN)/python docs/list_of_pages.py --check
	$(BIN)/python docs/plots.py --check

site: $(DEVELOP)  ## the documentation as a site in build/site, with all links between pages checked
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html -d build/doctrees docs build/site

fix: fix-layout fix-pages fix-outputs  ## write what is generated: layout, pages and tables, outputs of executed pages, lists

fix-layout: $(DEVELOP)
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --quiet --fix --exit-zero .
	$(BIN)/ruff format --quiet .

# Of the Python API only additions are written.
fix-pages: $(DEVELOP)
	$(PYTHON_HERE) docs/program_pages.py
	$(BIN)/python -m benchmarks.figures
	$(BIN)/python docs/third_party_licences.py
	$(BIN)/python docs/list_of_pages.py
	$(BIN)/python docs/plots.py
	$(PYTHON_HERE) tests/cloze/test_stability.py --additions
	for samples in books cc_news openwebtext wikipedia; do $(PYTHON_HERE) tests/corpora/samples/pack_$$samples.py; done

fix-outputs: $(DEVELOP)
	$(BIN)/python -m flows.command.kernel_calls
	$(PYTHON_HERE) tests/test_docs.py

figures: $(DEVELOP)  ## lines by room, the dearest test files, how the code reads; nothing is judged
	$(BIN)/python docs/code_figures.py

pins: $(DEVELOP)  ## write constraints.txt and the list of licences again, from what is installed on Python 3.11
	$(BIN)/python -m pip freeze --all --exclude pip --exclude-editable | sed -E 's/\+[a-z0-9.]+$$//' \
	    | LC_ALL=C sort -f -t= -k1,1 > constraints.new
	mv constraints.new constraints.txt
	$(BIN)/python docs/third_party_licences.py

clean:  ## remove the environment, the caches and the history of runs; stores and ~/.cache/cloze stay
	rm -rf .venv .cloze .pytest_cache .mypy_cache .ruff_cache .import_linter_cache *.egg-info

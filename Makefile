# make setup   virtual environment with everything (quick when nothing changed)
# make demo    train the cart-pole to swing up, then evaluate it against doing nothing and acting at random
# make test    the one gate: lint, format, types, contracts, tests
#
# Switches, all optional:
#   VENV=path             another virtual environment; one that exists is kept and added to
#   PY=python3.12         another interpreter, 3.11 to 3.13
#   TORCH_VERSION=2.11.0  another Torch (2.11 to 2.13) beside the pinned rest
#   TORCH_BACKEND=cpu     the Torch build that uv should choose (cpu, cu126, auto, ...)
#   NOLOCK=1              no pinned versions at all: keeps a Torch that VENV already has
# Give TORCH_VERSION, TORCH_BACKEND and NOLOCK with every command, or export them.

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.unilab-setup

# The first interpreter that runs: a version manager's stand-in may exist without one behind it.
ifndef PY
PY := $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
endif

# A wheel of Torch may be hundreds of megabytes; the default of 30 s is short on a slow line.
export UV_HTTP_TIMEOUT ?= 180

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format clean

help:
	@awk '!/^#/ { exit } { sub(/^# ?/, ""); print }' Makefile

setup: $(STAMP)

# A switch changes what is wanted without changing a file, so it always asks uv again.
ifneq ($(TORCH_VERSION)$(TORCH_BACKEND)$(NOLOCK),)
.PHONY: $(STAMP)
endif

# uv does not read pip's configuration, so a folder of local wheels that pip knows is handed over. Each Torch release
# has its own upper bound on setuptools, so that pin goes with the pin of Torch.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || test -n "$(PY)" || { echo "no Python 3.11 to 3.13 found: install one, or give PY=path"; exit 1; }
	test -x $(BIN)/python || $(PY) -m venv $(VENV)
	test -x $(BIN)/uv || $(BIN)/python -m pip install -q -c constraints.txt uv
	@sed '$(if $(TORCH_VERSION),s/^torch==.*/torch==$(TORCH_VERSION)/; /^setuptools==/d)' constraints.txt > $(VENV)/constraints.txt
	links="$${PIP_FIND_LINKS:-$$($(BIN)/python -m pip config get global.find-links 2>/dev/null || true)}"; \
	VIRTUAL_ENV="$(abspath $(VENV))" $(BIN)/uv pip install -q $${links:+--find-links "$$links"} \
		$(if $(TORCH_BACKEND),--torch-backend=$(TORCH_BACKEND)) $(if $(NOLOCK),,-c $(VENV)/constraints.txt) -e '.[dev,mjwarp]'
	@touch $@

demo: setup
	$(BIN)/unilab train cartpole_swingup --algo ppo --num-envs 256 --iterations 150 --seed 7 --run-name demo
	run="$$($(BIN)/unilab runs --latest cartpole_swingup)" && \
		$(BIN)/unilab eval "$$run" --episodes 20 --baselines --video "$$run/videos/demo.mp4"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports --no-logo

test: lint
	$(BIN)/python -m pytest

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The virtual environment and the runs stay: both are expensive to make again.
clean:
	rm -rf build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

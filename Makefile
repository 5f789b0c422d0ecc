# `make help` lists the targets; docs/reference/make.md describes them.

PYTHON ?= python3
ROUNDS ?= 1000
PART ?= tests
SEED ?=
# Where chance starts in what must pass with every change; `make soak` looks further.
CHANCE = --seed $(or $(SEED),1) --hypothesis-seed $(or $(SEED),1)
KEEP ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# The tests start hundreds of Pythons: each would compile the package again for itself.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help test test-servers soak demo demo-broker lint types layers bench bench-check lock schemas clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: $(READY) ## run the fast tests on all cores; needs nothing but Python
	@$(BIN)/pytest -n auto --dist worksteal -m "not servers and not soak" $(CHANCE)

test-servers: $(READY) ## run the tests against real servers; needs Java 17, Maven, PostgreSQL, MariaDB, kcat, npm, Go and a C compiler
	@.ci/require-java
	@echo "Preparing Java's archives of classes (once; Spark and Apache Kafka start in half the time) ..."
	@$(BIN)/python -m tests.interop.kafka_archive & $(BIN)/python -m runnel.pipeline.archiving; wait
	@$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "servers and not soak" $(CHANCE) --durations 30 --durations-min 10

soak: $(READY) ## run the long tests, for days: PART=tests/crash names some, ROUNDS=20 is shorter, SEED=123 replays
	@$(BIN)/pytest $(PART) -m soak --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED) --hypothesis-seed $(SEED)) \
	    -v -o console_output_style=count -o tmp_path_retention_policy=failed --durations 30 --durations-min 60

demo: $(READY) ## a small shop on Spark is killed while it works, and its sums add up; needs Java 17; KEEP=1 leaves it running
	@$(BIN)/python examples/shop_demo.py $(if $(KEEP),--keep)

demo-broker: $(READY) ## two client libraries talk through a broker that is killed; count what was kept
	@$(BIN)/python examples/broker_demo.py

lint: $(READY) ## check the code's rules and its format
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: $(READY) ## check the types
	@$(BIN)/mypy

layers: $(READY) ## check that a layer imports only the layers below it
	@$(BIN)/lint-imports --no-logo

bench: $(READY) ## measure, print the tables and keep the numbers in benchmarks/results
	@$(BIN)/python -m benchmarks

bench-check: $(READY) ## measure, and fail when a target is missed
	@$(BIN)/python -m benchmarks --check

lock: $(READY) ## choose the versions of requirements.lock anew
	@$(PIP) install uv
	@echo "Choosing versions for requirements.lock ..."
	@$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 \
	    --extra dev --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --output-file requirements.lock pyproject.toml

schemas: $(READY) ## write the schemas of the protocol anew, from the package kio
	@$(BIN)/python -m tools.write_schemas

clean: ## remove the environment, the caches and what was built
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The environment holds exactly the versions of requirements.lock, and this package from src.
$(READY): pyproject.toml requirements.lock
	@command -v "$(PYTHON)" >/dev/null || { \
	    echo "No '$(PYTHON)' found. Install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "Runnel needs Python 3.11 or newer, and '$(PYTHON)' is $$("$(PYTHON)" --version)." \
	         "Name another: make PYTHON=python3.11"; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "'$(PYTHON)' cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Setting up $(VENV) from requirements.lock (once, about a minute) ..."
	@"$(PYTHON)" -m venv $(VENV)
	@$(PIP) install --require-hashes --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

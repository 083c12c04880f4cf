# Each target sets up what it needs in .venv and does nothing where nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench clean

help:
	@echo "make demo    grade and redistribute the example dump, offline"
	@echo "make test    run the tests"
	@echo "make lint    check style and types"
	@echo "make format  mend style"
	@echo "make bench   measure start-up and throughput against alternatives"
	@echo "make clean   remove .venv, caches and the demo's output"

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)
	@$(BIN)/gagar demo

# Compiled files are kept: else each worker, and each process that a test starts, compiles the same again.
test: export PYTHONDONTWRITEBYTECODE =
test: $(READY)
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal $(PYTEST_ARGS)

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(READY)
	@$(BIN)/python benchmarks/startup.py
	@$(BIN)/python benchmarks/sandbox.py
	@$(BIN)/python benchmarks/grade.py
	@$(BIN)/python benchmarks/owner_killed.py --backend bubblewrap
	@$(BIN)/python benchmarks/owner_killed.py --backend docker

clean:
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-output

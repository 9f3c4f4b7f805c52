PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
BROKERS := .venv/brokers/.installed
PIP_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Compiled modules are kept, whatever the caller's shell says: hundreds of tests start processes of their own.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test chaos check bench bench-peers docs clean

setup: $(STAMP) $(BROKERS)

$(BIN)/python:
	$(PYTHON) -m venv .venv

# The build tool is installed first and used in place, so that it is pinned like everything else.
$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) hatchling
	$(PIP_INSTALL) --no-build-isolation --editable '.[dev]'
	touch $@

# The servers that tests of sinks talk to.
$(BROKERS): tools/brokers.py | $(BIN)/python
	$(BIN)/python -m tools.brokers
	mkdir -p $(@D) && touch $@

demo: $(STAMP)
	$(BIN)/stepfast demo

# Four processes on two cores: many tests wait for processes of their own, and for the server.
test: setup
	$(BIN)/pytest -n 4 --dist worksteal

# The long form of the trials with kill -9 and of the crash points.
chaos: setup
	STEPFAST_LONG=1 $(BIN)/pytest -n 2 tests/faults/test_chaos.py tests/faults/test_crash_points.py \
		tests/faults/test_dead_letters.py tests/faults/test_review_crash_points.py tests/faults/test_review_kill.py \
		tests/faults/test_publishing_kill.py

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.house

bench: setup
	$(BIN)/python -m bench $(ARGS)

bench-peers: setup
	$(BIN)/python -m bench.peers $(ARGS)

docs: setup
	$(BIN)/python -m tools.generate_docs

# The environment stays; remove .venv by hand to build it anew.
clean:
	rm -rf build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

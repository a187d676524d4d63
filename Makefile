# Two commands on a fresh machine with python3.11, pip, make and git: `make demo` and `make test`.
# The first makes .venv from requirements/lock.txt; afterwards the stamp files say it is there.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

# Without byte code every process would compile torch anew.
unexport PYTHONDONTWRITEBYTECODE

# Two test workers on two cores: one thread each, or the OpenMP pools fight.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# Without a C++ compiler the kernels are compiled by the one that this package carries.
ZIG := ziglang==0.15.2

.PHONY: setup native demo test test-all lint format bench-smoke docs docs-check docs-serve wheel clean

setup: $(VENV)/.ready

# The C++ kernels, where their sources have changed.
native: $(VENV)/.ready
	@$(BIN)/python hatch_build.py

demo: native
	$(BIN)/durometer demo

test: native
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 $(ARGS)

# Also what needs Ray (a real cluster of two nodes) and a browser (Debian's chromium).
test-all: test $(VENV)/.heavy
	$(ONE_THREAD) $(BIN)/python -m pytest -m heavy $(ARGS)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Every benchmark takes --smoke: the same code on a toy size, to see that it still runs.
bench-smoke: native
	@set -e; for script in benchmarks/*.py; do \
		echo "== $$script --smoke"; $(ONE_THREAD) $(BIN)/python $$script --smoke; done

# The site in build/site: gallery (only what changed is played), reference, pages, links looked over.
docs: native $(VENV)/.docs
	$(ONE_THREAD) $(BIN)/python docs/site/build.py $(ARGS)

# The same, and every page in chromium: what it asks for, whether its text can be read.
docs-check: docs $(VENV)/.heavy
	$(BIN)/python docs/site/browse.py build/site

docs-serve: docs
	$(BIN)/python -m http.server --directory build/site --bind 127.0.0.1 8000

wheel: $(VENV)/.ready
	$(BIN)/hatchling build -t wheel

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian ships venv without ensurepip; the machine's own pip can fill a bare venv just as well.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV) 2>/dev/null || ( \
		$(PYTHON) -m venv --clear --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(BIN)/python install --quiet pip )

$(VENV)/.locked: requirements/lock.txt requirements/bare.txt | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r requirements/lock.txt
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps -r requirements/bare.txt
	@touch $@

$(VENV)/.ready: pyproject.toml hatch_build.py $(VENV)/.locked
	@$(BIN)/python hatch_build.py --compiler || \
		$(BIN)/python -m pip install --disable-pip-version-check --quiet $(ZIG)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -c "import torch, pandas, pyarrow.parquet, scipy.stats, sklearn.ensemble, typer, rich.progress"
	@touch $@

$(VENV)/.heavy: requirements/heavy.txt $(VENV)/.ready
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r requirements/heavy.txt
	@touch $@

$(VENV)/.docs: requirements/docs.txt $(VENV)/.ready
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r requirements/docs.txt
	@touch $@

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

.PHONY: setup native demo test test-all asan lint format mutants bench-smoke docs docs-check docs-serve wheel clean

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

# The kernels under AddressSanitizer and UBSan (g++): a report ends the test that caused it. The copy in
# build/sanitized is imported instead of src. ARGS: other tests; about 15 CPU-minutes as it is.
SANITIZED := build/sanitized
SANITIZED_TESTS := tests/kernels/test_native.py tests/kernels/test_trees.py tests/proofs tests/trees tests/noise \
	tests/attacks/test_graft.py tests/attacks/test_contract.py tests/attacks/test_population.py \
	tests/probability tests/spaces tests/games/test_nature.py

asan: $(VENV)/.ready
	rm -rf $(SANITIZED)/src && mkdir -p $(SANITIZED) && cp -r src hatch_build.py $(SANITIZED)
	rm -f $(SANITIZED)/src/durometer/kernels/_native.*
	CXX="g++ -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" \
		$(BIN)/python $(SANITIZED)/hatch_build.py
	PYTHONPATH=$(SANITIZED)/src $(ONE_THREAD) ASAN_OPTIONS=detect_leaks=0 \
		LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
		$(BIN)/python -m pytest -k "not read_only" $(if $(ARGS),$(ARGS),$(SANITIZED_TESTS))

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Does a test go red when a line that decides is wrong? All of them take hours: ARGS="--sample 60".
mutants: native
	$(ONE_THREAD) $(BIN)/python studies/mutants/mutate.py $(ARGS)

# Every benchmark takes --smoke: the same code on a toy size, to see that it still runs.
bench-smoke: native
	@printf '%s\n' benchmarks/*.py | xargs -P 2 -I SCRIPT env $(ONE_THREAD) sh -c \
		'out=$$($(BIN)/python SCRIPT --smoke 2>&1); code=$$?; echo "== SCRIPT --smoke"; echo "$$out"; exit $$code'

# The site in build/site: gallery (only what changed is played), reference, pages, links looked over.
docs: native $(VENV)/.docs
	$(ONE_THREAD) $(BIN)/python docs/site/build.py $(ARGS)

# The same, and every page in chromium: what it asks for, whether its text can be read.
docs-check: docs $(VENV)/.heavy
	$(BIN)/python docs/site/browse.py build/site

docs-serve: docs
	$(BIN)/python -m http.server --directory build/site --bind 127.0.0.1 8000

# A source distribution and a wheel for this platform, under the tag that an index takes.
wheel: $(VENV)/.release
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	@if [ "$$(uname)" = Linux ]; then PATH="$(CURDIR)/$(BIN):$$PATH" \
		$(BIN)/auditwheel repair --wheel-dir dist dist/*-linux_*.whl && rm dist/*-linux_*.whl; fi
	$(BIN)/twine check --strict dist/*

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

$(VENV)/.release: requirements/release.txt $(VENV)/.ready
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r requirements/release.txt
	@touch $@

$(VENV)/.docs: requirements/docs.txt $(VENV)/.ready
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -r requirements/docs.txt
	@touch $@

# Every target builds its own virtual environment first; only Python >= 3.11 is needed beforehand.
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin
SITE ?= emergence-out/docs
STAMP = $(VENV)/.stamp
# One BLAS thread: a second one fights XLA's own threads on a small machine.
export OPENBLAS_NUM_THREADS ?= 1
# Tests of one file share compiled code, so a file stays in one process.
SHARED ?= -n logical --maxprocesses=4 --dist loadfile

.PHONY: run test fuzz matrix mutants lint bench docs docs-tools notebooks figures reference lock clean

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "emergence needs Python >= 3.11; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e '.[test]' \
	  || $(BIN)/python -m pip install -q -c constraints.txt -e '.[test]'
	touch $@

run: $(STAMP)
	$(BIN)/emergence validate --preset quick $(ARGS)

test: $(STAMP)
	$(BIN)/python -m pytest -q $(SHARED) $(ARGS)

# The tests under every Python that is found; ARGS for a part of them.
matrix:
	@status=0; for version in 3.11 3.12 3.13 3.14; do \
	  if python$$version -c '' 2>/dev/null; then \
	    echo "Python $$version"; $(MAKE) test VENV=.venv-$$version PYTHON=python$$version || status=1; \
	  else echo "Python $$version was not found: not tested" >&2; fi; \
	done; exit $$status

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Hostile command lines without end; ARGS='--seed 3 --count 1000' for a part.
fuzz: $(STAMP)
	$(BIN)/python tests/support/fuzzing.py $(ARGS)

# Formulas broken one at a time; ARGS='--seed 1 --count 300 --workers 2'. What was found stays in docs/mutants.json.
mutants: $(STAMP)
	$(BIN)/python -m mutants --page docs/mutants.md --kept docs/mutants.json $(ARGS)

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

notebooks: $(STAMP)
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e '.[notebook]'
	$(BIN)/jupytext --sync notebooks/*.py
	$(BIN)/python -m pytest -q -p no:cacheprovider --nbmake --overwrite --nbmake-timeout=600 notebooks/*.ipynb

docs-tools: $(STAMP)
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e '.[docs]'

docs: docs-tools
	$(BIN)/python docs/site/build.py $(SITE)

figures: $(STAMP)
	$(BIN)/python docs/figures.py

reference: $(STAMP)
	$(BIN)/python -m emergence.reference > docs/models.md

lock: $(STAMP)
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --all-extras --no-annotate --no-header \
	  --no-emit-package emergence-sgd pyproject.toml -o constraints.txt

clean:
	rm -rf $(VENV) .venv-3.* emergence-out

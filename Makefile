# From nothing but Python 3.11 and make: `make demo` and `make test` set up what they need, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint types unit coverage clean

demo: $(VENV)/.demo
	$(BIN)/saddlery demo --output demo

test: lint types unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

unit: $(VENV)/.test  # a worker for each core: BLAS threads of their own would only wait for each other
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadscope

coverage: $(VENV)/.test
	$(BIN)/python benchmarks/coverage.py

clean:
	rm -rf $(VENV) demo

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Saddlery needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[plot]'
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[test]'
	touch $@ $(VENV)/.demo

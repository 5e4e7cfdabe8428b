# Two commands set up all there is on a fresh machine with Python 3.11+ and make: `make race` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
BENCH_VENV ?= .venv-bench
WHAT ?=
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: race test lint types tests test-matrix bench clean help

help:
	@echo "make race    make .venv, install, run: laptime race   (WHAT='cifar-mlp torch/cpu/best' for others)"
	@echo "make test    make .venv, install, run lint, types and tests"
	@echo "make test-matrix  environments with PyTorch, TensorFlow or JAX alone, and what has to work in each"
	@echo "make bench   what laptime itself costs, side by side with others (hours; writes bench/results/)"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) -e '.[torch]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) -e '.[torch,dev]'
	touch $@

race: $(VENV)/.installed
	$(BIN)/laptime race $(WHAT)

test: lint types tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples

types: $(VENV)/.installed-dev
	$(BIN)/mypy

tests: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist worksteal

# Each framework alone, in an environment of its own, with the tests of what has to work there.
ALONE_torch := .[torch,images]
ALONE_tensorflow := .[keras,images] tensorflow-cpu
ALONE_jax := .[keras,jax,images]

.venv-alone-%/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-alone-$*
	echo '*' > .venv-alone-$*/.gitignore
	.venv-alone-$*/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '$(firstword $(ALONE_$*))' \
		$(wordlist 2,9,$(ALONE_$*)) pytest pytest-randomly
	touch $@

.PRECIOUS: .venv-alone-%/.installed

test-matrix-%: .venv-alone-%/.installed
	.venv-alone-$*/bin/python -m pytest tests/alone

test-matrix: test-matrix-torch test-matrix-tensorflow test-matrix-jax

# The rival has an environment of its own, so that nothing of it is installed beside laptime.
$(BENCH_VENV)/.installed: bench/constraints.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	echo '*' > $(BENCH_VENV)/.gitignore
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c bench/constraints.txt tensorflow-cpu keras scipy pillow scikit-image
	touch $@

bench: $(VENV)/.installed-dev $(BENCH_VENV)/.installed
	$(BIN)/python bench/run.py --keras $(BENCH_VENV)/bin/python

clean:
	rm -rf $(VENV) build dist

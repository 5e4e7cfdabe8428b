# Two commands set up all there is on a fresh machine with Python 3.11+ and make: `make race` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
BENCH_VENV ?= .venv-bench
WHAT ?=
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: race test test-all test-again test-quick lint types tests docs llms house schema signatures pictures attack test-matrix test-pytorch test-mcp lock bench clean help

help:
	@echo "make race    make .venv, install, run: laptime race   (WHAT='cifar-mlp torch/cpu/best' for others)"
	@echo "make test    make .venv, install, run lint, types and tests (within 8 minutes on two cores)"
	@echo "make test-all  the rest of the tests, marked long: all engines, real programs, all attacks (half an hour)"
	@echo "make test-again  what failed in the run before, one after another"
	@echo "make test-quick  the fast ones of the tests that need no framework, within two minutes"
	@echo "make docs    build docs/ as a site, into site/"
	@echo "make pictures  draw the pictures of README and docs again, from kept records"
	@echo "make schema  write the JSON Schemas of all answers of commands: src/laptime/cli/schemas/, three of them in docs/, too"
	@echo "make house   draw docs/pictures/house.svg: the folders, and who imports from whom"
	@echo "make llms    write llms.txt, the list of pages for language models"
	@echo "make signatures  write src/laptime/library/functions.pyi, the typed functions of the library"
	@echo "make attack  damaged records, kills, hostile files and environments, by the thousand (about half an hour)"
	@echo "make test-matrix  environments with one framework alone, or the lowest or newest dependencies, and their tests"
	@echo "make test-pytorch VERSION=2.0.1 PYTHON=python3.8   watched scripts under that release of PyTorch"
	@echo "make test-mcp  the server of extras/laptime-mcp, with the official client, in an environment of its own"
	@echo "make lock    write requirements.lock: laptime's own dependencies of constraints.txt, with their hashes"
	@echo "make bench   what laptime itself costs, side by side with others (hours; writes bench/results/)"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) -e '.[torch]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed extras/trackers/pyproject.toml
	$(INSTALL) --no-compile -e '.[torch,dev]' -e ./extras/trackers  # the tests import a small part of what it brings
	touch $@

race: $(VENV)/.installed
	$(BIN)/laptime race $(WHAT)

test: lint types tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check src tests bench examples extras
	$(BIN)/ruff format --check src tests bench examples extras

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# What is marked `long` takes its time. A test next to it, in its room, shows that the thing works at all.
tests: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m 'not long' -n auto --dist worksteal

test-all: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m long -n auto --dist worksteal

# What failed in the run before, one after another.
test-again: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none -v

# What needs no framework and is fast. tests/walls hides the frameworks from these processes and from all that they start.
QUICK := analysis data diagnosis extending heat machine model pages planner run sensors stats store wire workloads
test-quick: $(VENV)/.installed-dev
	PYTHONPATH=$(CURDIR)/tests/walls$(if $(PYTHONPATH),:$(PYTHONPATH)) $(BIN)/python -m pytest $(QUICK:%=tests/%) \
		tests/test_architecture.py tests/test_checkpoint.py --ignore=tests/workloads/test_workloads_arithmetic.py \
		--ignore=tests/workloads/test_workloads_memory.py \
		--ignore=tests/sensors/test_sensors_load.py \
		-m 'not framework and not long' -n auto --dist worksteal

$(VENV)/.installed-docs: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) -e '.[docs]'
	touch $@

docs: $(VENV)/.installed-docs
	$(BIN)/zensical build --strict --clean

pictures: $(VENV)/.installed
	$(BIN)/python bench/docs_pictures.py

house: $(BIN)/python
	$(BIN)/python bench/docs_house.py

llms: $(BIN)/python
	$(BIN)/python bench/docs_llms.py

# What commands print for programs; three of these are on the site, too.
schema: $(VENV)/.installed
	$(BIN)/python -c "from laptime.cli.answers import *; \
		[(SCHEMAS / f'{row.schema}.json').write_text(make_schema(row)) for row in ALL_SCHEMAS]"
	cp src/laptime/cli/schemas/record.json docs/record.schema.json
	cp src/laptime/cli/schemas/board-row.json docs/board.schema.json
	cp src/laptime/cli/schemas/verdict.json docs/verdict.schema.json

# What editors and type checkers read of the library's functions, made from the table of options.
signatures: $(VENV)/.installed
	$(BIN)/python -c "from pathlib import Path; from laptime.library import asking, functions; \
		Path('src/laptime/library/functions.pyi').write_text(asking.stub_text(functions.FUNCTIONS))"

# The same attacks that `make test` and `make test-all` try for seconds, for as long as docs/reliability.md says.
attack: $(VENV)/.installed-dev
	LAPTIME_ATTACK=long $(BIN)/python -m pytest tests/attack tests/questions/test_cheat_suite.py -n auto --dist worksteal

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

# Real releases of PyTorch, each in an environment of its own that is removed again: scripts that laptime watches run
# there. A release for Linux brings gigabytes of CUDA along.
#   make test-pytorch VERSION=2.0.1 PYTHON=python3.8
VERSION ?= 2.13.0
test-pytorch: $(VENV)/.installed-dev
	rm -rf .venv-pytorch
	$(PYTHON) -m venv .venv-pytorch
	echo '*' > .venv-pytorch/.gitignore
	.venv-pytorch/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir torch==$(VERSION) 'numpy<3'
	LAPTIME_WATCHED_PYTHON=$(CURDIR)/.venv-pytorch/bin/python $(BIN)/python -m pytest tests/attach/test_attach_torch.py
	rm -rf .venv-pytorch

# The server for the Model Context Protocol, with the package of its client: neither is needed by anything else.
.venv-mcp/.installed: pyproject.toml extras/laptime-mcp/pyproject.toml
	$(PYTHON) -m venv .venv-mcp
	echo '*' > .venv-mcp/.gitignore
	.venv-mcp/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . -e ./extras/laptime-mcp pytest
	touch $@

test-mcp: .venv-mcp/.installed
	.venv-mcp/bin/python -m pytest -q -c extras/laptime-mcp/pyproject.toml extras/laptime-mcp

# laptime's own dependencies at the lowest and at the newest versions of their ranges, with PyTorch: the tests of a lone
# framework, and those that use these packages most.
ENDS := alone cli/test_cli_completion.py cli/test_cli_lists.py cli/test_cli_outputs.py pages pipelines sensors store wire

.venv-ends-%/.installed: pyproject.toml constraints.txt tests/tools/dependency_ends.py
	$(PYTHON) -m venv .venv-ends-$*
	echo '*' > .venv-ends-$*/.gitignore
	$(PYTHON) tests/tools/dependency_ends.py $* > .venv-ends-$*/constraints.txt
	.venv-ends-$*/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-ends-$*/constraints.txt \
		-e '.[torch,images]' hypothesis jsonschema pytest pytest-randomly
	touch $@

.PRECIOUS: .venv-ends-%/.installed

test-matrix-lowest test-matrix-newest: test-matrix-%: .venv-ends-%/.installed
	.venv-ends-$*/bin/python -m pytest $(ENDS:%=tests/%)

test-matrix: test-matrix-torch test-matrix-tensorflow test-matrix-jax test-matrix-lowest test-matrix-newest

# The exact versions of constraints.txt with the hash of each of their files, for pip's --require-hashes. uv knows all
# files of a version; pip then checks those that it would install here.
.venv-lock/.installed: constraints.txt
	$(PYTHON) -m venv .venv-lock
	echo '*' > .venv-lock/.gitignore
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	touch $@

lock: .venv-lock/.installed
	.venv-lock/bin/uv pip compile --quiet --no-config --universal --generate-hashes --no-annotate \
		--custom-compile-command 'make lock' -c constraints.txt -o requirements.lock pyproject.toml
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check --dry-run --require-hashes -r requirements.lock

# The rival has an environment of its own, so that nothing of it is installed next to laptime.
$(BENCH_VENV)/.installed: bench/constraints.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	echo '*' > $(BENCH_VENV)/.gitignore
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c bench/constraints.txt tensorflow-cpu keras scipy pillow scikit-image
	touch $@

bench: $(VENV)/.installed-dev $(BENCH_VENV)/.installed
	$(BIN)/python bench/run.py --keras $(BENCH_VENV)/bin/python

clean:
	rm -rf $(VENV) build dist site

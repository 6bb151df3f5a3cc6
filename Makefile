# Everything starts from a bare machine with Python 3.11, gcc and make: `make demo` and `make test` set up what they need.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
WORKERS = $(shell expr 2 \* $$(nproc))  # many tests wait for servers, so two share a core
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CORE := dpmpc/privacy/*,dpmpc/linear/noise/*,dpmpc/linear/sharing/*,dpmpc/linear/encoding/*
WASM := dpmpc/collect/intake/web/report.wasm
TESTS = $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
SOURCES := setup.py pyproject.toml $(wildcard csrc/*)

.PHONY: demo test doctor lint format types unit slow long durations core coverage faults lemmas bench report docs notebooks vectors wasm wheel clean

demo: .venv/installed  ## the main job: three server processes over TLS, a private ridge regression
	$(BIN)/dpmpc demo

test: lint types unit  ## lint, types and the tests, but for those that take long: `make slow` and `make long` run these

doctor: .venv/installed  ## whether kernels, disk and network of this machine are fit for dpmpc
	$(BIN)/dpmpc doctor --network

lint: .venv/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv/tested
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: .venv/tested
	$(BIN)/mypy

# Tests start hundreds of processes, which would each compile the package again where the environment forbids to keep it.
unit slow long durations core coverage: export PYTHONDONTWRITEBYTECODE =

unit: .venv/tested  ## two workers a core; the tests of a file stay together, in the order of tests/conftest.py
	$(TESTS) -m 'not long and not slow'

slow: .venv/tested  ## the tests on the list of slow ones; with SLICE=I/N one of N parts
	$(TESTS) -m 'slow and not long' $(if $(SLICE),--slice $(SLICE))

long: .venv/tested  ## studies among the tests; with SLICE=I/N one of N parts
	$(BIN)/python -m pytest --numprocesses auto --dist load --timeout 1800 -m long $(if $(SLICE),--slice $(SLICE))

durations: .venv/tested  ## measure which tests are slow, on an idle machine: write tests/slow.json
	$(TESTS) --write-durations

core: .venv/tested  ## what privacy rests on, by its own tests: a branch of CORE left out is a failure; two minutes
	$(TESTS) -m 'not long' tests/linear tests/privacy --cov --cov-report=
	$(BIN)/coverage report --fail-under=100 --skip-covered --include='$(CORE)'

coverage: .venv/tested  ## all tests with the processes they start; under 95 % is a failure
	$(TESTS) --timeout 600 --cov --cov-report=
	$(BIN)/coverage report --fail-under=95

faults: .venv/tested  ## faults made on purpose, and whether the tests notice them; with MINUTES=N as many as that allows
	$(PIP) install 'cython>=3.2' 'setuptools>=77'
	PYTHONPATH=.:tests $(BIN)/python -m faults $(if $(MINUTES),--minutes $(MINUTES))

lemmas:  ## check the proofs in proofs/ with Coq (Debian: apt-get install --no-install-recommends coq); some seconds
	rm -rf build/proofs && mkdir -p build/proofs && cp proofs/*.v build/proofs
	cd build/proofs && for source in *.v; do coqc -q $$source && echo "$$source: checked" || exit 1; done

bench: .venv/tested  ## short forms of the benches of speed, under five minutes; `python -m bench all` is the full set
	$(BIN)/python -m bench short

report: .venv/tested  ## the technical report, build/report/report.pdf (Debian: apt-get install texlive-latex-recommended)
	mkdir -p build/report
	for pass in 1 2; do (cd report && pdflatex -interaction=batchmode -halt-on-error -output-directory ../build/report \
		"\def\dpmpcversion{$$($(abspath $(BIN))/python -c 'import dpmpc; print(dpmpc.__version__)')}\input{report}") \
		|| { grep -A3 '^!' build/report/report.log; exit 1; }; done

docs: .venv/tested  ## the site, in build/site; every warning is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -d build/doctrees docs build/site

notebooks: .venv/tested  ## write the notebooks of examples/ from their programs, and the pictures of docs/
	$(BIN)/python examples/write_notebooks.py
	$(BIN)/python docs/pictures/draw.py

vectors: .venv/tested  ## write the known-answer vectors again from the slow references in tests/
	for reference in $(basename $(notdir $(wildcard tests/references/[a-z]*.py))); do \
		PYTHONPATH=tests $(BIN)/python -m references.$$reference; done

wasm:  ## compile csrc/report.c for browsers: clang 14 with lld, whose bytes a test compares with those in the package
	clang --target=wasm32 -O2 -ffreestanding -nostdlib -fno-builtin -fno-math-errno -fwrapv -ffp-contract=off \
		-fvisibility=hidden -Wall -Wextra -Werror -Icsrc/freestanding -Wl,--no-entry -Wl,--export-dynamic \
		-Wl,--export=__heap_base -Wl,--strip-all -Wl,-z,stack-size=65536 -o $(WASM) csrc/report.c
	chmod 644 $(WASM)

wheel: .venv/tested  ## build sdist and wheel, then install the wheel in a new environment and run doctor and demo from it
	$(PIP) install build
	rm -rf dist build/wheel-check
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build
	$(PYTHON) -m venv build/wheel-check
	build/wheel-check/bin/python -m pip --disable-pip-version-check --quiet install dist/*.whl
	cd build/wheel-check && bin/dpmpc doctor --network && bin/dpmpc demo --clients 20000 --delta 1e-6

.venv/installed: $(SOURCES) | .venv/bin/python
	@echo "compiling the kernels and installing what dpmpc needs in .venv: a minute or two"
	$(PIP) install --editable '.[parquet]'
	touch $@

.venv/tested: $(SOURCES) | .venv/bin/python
	@echo "compiling the kernels and installing what the tests need in .venv: some minutes"
	$(PIP) install --editable '.[test]'
	touch $@ .venv/installed

.venv/bin/python:
	$(PYTHON) -m venv .venv

clean:
	rm -rf build dist *.egg-info dpmpc/_kernels/*.so .pytest_cache .mypy_cache .ruff_cache .venv/installed .venv/tested

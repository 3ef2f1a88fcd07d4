# Every command works on a fresh machine with Python >= 3.11: the first call builds .venv, later calls
# reuse it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
OUT ?= build/verify
MUTANTS ?= --count 150
WORKERS ?= 2
MINUTES ?= 5
PROVE ?=
# Compiled modules are kept whatever the shell asks for: the tests start many processes, and each of
# them, in each run, would compile the package, and pytest its checks, again.
unexport PYTHONDONTWRITEBYTECODE
# One thread of BLAS per process: as many processes run as there are cores, and threads that wait for
# each other took a twentieth of the processor time of the numerical tests.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n logical --dist worksteal

.PHONY: verify self-test prove coqc test lint portable portable-short oldest newest constraints pythons mutants torture attack tour wheels bench docs docs-check figures clean

verify: $(RUNTIME)  ## check the papers' claims; writes $(OUT)/report.html and claims.json
	$(BIN)/ldpopt verify --out $(OUT) --figures experiments/results --workers $(WORKERS)

self-test: $(RUNTIME)  ## plant errors and see that a claim notices each: a few minutes
	$(BIN)/ldpopt verify --self-test --figures experiments/results --workers $(WORKERS)

prove: coqc $(RUNTIME)  ## let Coq check the theorems and record what it accepts: half a minute
	$(BIN)/python -m tools.prove $(PROVE)

coqc:
	@command -v coqc > /dev/null || \
		{ echo "make prove needs coqc, the compiler of the proof checker Coq. Debian and Ubuntu have it in the package coq: apt-get install coq"; exit 1; }

test: $(DEV) lint  ## everything that guards the code: five minutes on two cores
	$(PYTEST)

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.prose

portable: $(DEV)  ## the numerical tests under other processors' kernels: more than half an hour
	$(BIN)/python -m tools.portable

portable-short: $(DEV)  ## the part of it that runs on every change: under a minute
	$(BIN)/python -m tools.portable --short --workers 2

oldest: $(DEV)  ## the tests with the oldest versions that pyproject.toml allows
	$(BIN)/python -m tools.environments oldest

newest: $(DEV)  ## the tests with the newest versions, beyond upper bounds too: for every week
	$(BIN)/python -m tools.environments newest

constraints: $(DEV)  ## write constraints.txt, the versions of continuous integration, anew
	$(BIN)/python -m uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
		--upgrade --no-annotate --custom-compile-command "make constraints" -q -o constraints.txt

pythons: $(DEV)  ## the tests under every other supported Python that is installed
	$(BIN)/python -m tools.environments 3.12 3.13

mutants: $(DEV)  ## plant errors and print those that no test notices: about an hour
	$(BIN)/python -m tools.mutants $(MUTANTS)

torture: $(DEV)  ## more than 10^5 hostile files, commands, flipped bits, full disks and kills: half an hour
	LDPOPT_TORTURE=50 $(PYTEST) tests/test_fuzz.py tests/test_damage.py tests/test_kills.py

attack: $(DEV)  ## solve random problems, other ones each time: five minutes, or MINUTES=60
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tools.attack --minutes $(MINUTES) --workers $(WORKERS)

tour: $(DEV)  ## thirty variants, up to 4,096 values, five estimates each: certified, and refused when moved; ten minutes
	$(BIN)/python -m tests.test_variants 5 64 736 4096

wheels: $(DEV)  ## try the built wheel under every supported Python that is installed: some minutes
	$(BIN)/python -m tools.wheels

bench: $(DEV)  ## speeds as ratios within this run, peers included: more than a quarter of an hour
	$(BIN)/python -m experiments.bench

docs: $(VENV)/.docs  ## the documentation site, into build/docs/html: about three minutes
	$(BIN)/ldpopt verify --out build/docs/verify --figures experiments/results --workers $(WORKERS)
	$(BIN)/python -m tools.site

docs-check: docs $(VENV)/.browser  ## its pages in the system's Chromium: some minutes; says so where there is none
	$(BIN)/python -m tools.site.browser

figures: $(RUNTIME)  ## every figure of the papers with the comparison page, into build/figures: a few minutes
	$(BIN)/python -m experiments run all --workers 2 --compare --out build/figures || [ $$? -eq 3 ]  # 3: data sets are missing

$(RUNTIME): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "ldpopt needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV); this takes a minute or two, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	@touch $@

$(DEV): $(RUNTIME)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.docs: $(RUNTIME)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs,data]'
	@touch $@

$(VENV)/.browser: $(VENV)/.docs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	@touch $@

clean:
	rm -rf $(VENV) build

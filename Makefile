# Needs Python 3.11 or newer and make. Where uv is on the PATH, uv does the installing instead of pip.
#   PYTHON=python3.12  another interpreter        UV=  pip although there is a uv
#   ARGS="..."         passed on by test (to pytest) and bench
#   JOBS=0             test in one process; by default in three, since tests wait too, and make check in two

PYTHON ?= python3
UV ?= $(shell command -v uv 2>/dev/null)
ARGS ?=
JOBS ?= 3

FROM_LOCK := --require-hashes --only-binary :all: -r requirements.lock
LOADED := hpcdp.cli.running, hpcdp.driver.sequential_audit, hpcdp.clusters.jobs, hpcdp.report.plots_methods, \
	matplotlib.backends.backend_agg, sklearn.datasets
EDITABLE := --no-build-isolation --no-deps -C editable_mode=compat -e .

.PHONY: help install quickstart check test nightly kernels golden lint format site bench wild wheel wheel-check release-check lock clean

help:
	@echo "make install     .venv with hpcdp in it"
	@echo "make quickstart  run workflows/diabetes_mean.toml"
	@echo "make check       unit tests, one case of each: half a minute    ARGS=\"-k name\" is passed to pytest"
	@echo "make test        every promise once: 6 to 12 minutes"
	@echo "make nightly     all tests, the longest too, and the soak of 200 kills: hours"
	@echo "make golden      what differs from the golden record     ARGS=write records it anew"
	@echo "make lint        ruff and mypy"
	@echo "make format      let ruff format and mend the code"
	@echo "make bench       the benchmarks         ARGS=\"...\" is passed to them"
	@echo "make wild        check released libraries for published bugs: docs/wild.md     ARGS=\"...\" names cases"
	@echo "make wheel       dist/hpcdp-VERSION.whl"
	@echo "make wheel-check a wheel installed where the source tree is not does a study"
	@echo "make release-check  the package as users install it, other libraries, containers"
	@echo "make site        the documentation for a browser: build/site/html/index.html"
	@echo "make lock        pin the newest packages in requirements.lock (needs uv)"
	@echo "make clean       remove .venv, caches and build files, not runs"

install: .venv/.installed

# The stamps are touched last, so an install that failed is done again, from nothing. What hpcdp imports is compiled at the end,
# whatever the environment says: pip would compile everything, which takes four times as long. Dask and Matplotlib write into .venv then.
.venv/.packages: requirements.lock
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "hpcdp needs Python 3.11 or newer, and '$(PYTHON)' is not that. Name one that is:" \
	         "make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@rm -rf .venv
	@echo "Installing the packages of requirements.lock into .venv, which takes about a minute."
	@if [ -n "$(UV)" ]; then \
	    "$(UV)" venv -q --python "$$("$(PYTHON)" -c 'import sys; print(sys.executable)')" .venv && \
	    "$(UV)" pip install -q --python .venv/bin/python $(FROM_LOCK) && touch $@ || \
	    echo "uv could not do it. Trying again with pip." >&2; \
	fi
	@if [ ! -e $@ ]; then \
	    "$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	        echo "'$(PYTHON)' has no venv module. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }; \
	    "$(PYTHON)" -m venv --clear .venv && \
	    .venv/bin/python -m pip install -q --disable-pip-version-check --no-compile $(FROM_LOCK) && touch $@; \
	fi

.venv/.installed: .venv/.packages pyproject.toml
	@if [ -n "$(UV)" ]; then "$(UV)" pip install -q --python .venv/bin/python $(EDITABLE); \
	else .venv/bin/python -m pip install -q --disable-pip-version-check $(EDITABLE); fi
	@DASK_CONFIG=.venv/dask MPLBACKEND=agg MPLCONFIGDIR=.venv/matplotlib PYTHONDONTWRITEBYTECODE= \
	    .venv/bin/python -c "import $(LOADED)" || { rm -f .venv/.packages; exit 1; }
	@touch $@

quickstart: install
	.venv/bin/hpcdp run workflows/diabetes_mean.toml

# Compiled modules are kept, whatever the environment says: the tests start thousands of processes. Files are shuffled, since some
# wait and some compute: the same tests take a quarter less.
PYTEST = PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

check: JOBS = 2
check: kernels
	$(PYTEST) -q --dist worksteal --durations=5 --first tests/unit $(ARGS)

test: kernels
	@echo "make test: 6 to 12 minutes on two cores, by their speed. It runs one long test of each promise; make nightly runs the others too."
	$(PYTEST) --shuffle 1 -m "promise or not (slow or release)" $(ARGS)

nightly: kernels
	@echo "make nightly: all tests, and the soak of 200 kills: more than an hour on two cores."
	$(PYTEST) --shuffle 1 -m "slow or not slow" $(ARGS)
	.venv/bin/python -m benchmarks soak

# The processes of the tests would each compile the kernels that most of them need. The first time takes a minute, later ones seconds.
kernels: .venv/.kernels

.venv/.kernels: .venv/.installed tests/support/compiled.py $(shell find hpcdp -name '*.py')
	@[ -e $@ ] || echo "Compiling the kernels that tests need: about a minute, the first time."
	@PYTHONDONTWRITEBYTECODE= .venv/bin/python tests/support/compiled.py && touch $@

golden: install
	.venv/bin/python tests/golden $(ARGS)

lint: install
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check .
	.venv/bin/python -m mypy

format: install
	.venv/bin/python -m ruff check --fix .
	.venv/bin/python -m ruff format .

site: install
	.venv/bin/python docs/site/build.py build/site

bench: install
	.venv/bin/python -m benchmarks $(ARGS)

wild: install
	.venv/bin/python workflows/wild/make.py $(ARGS)

wheel: install
	.venv/bin/python -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w dist .

wheel-check: install
	.venv/bin/python -m tests.support.installed $(ARGS)

# Other interpreters where there are any; the lowest packages once; the steps of containers in roots of two releases of Debian, with
# the Pythons that these have (3.13, and 3.14 when this was written), and the recipes themselves with two engines.
release-check: install
	$(PYTEST) -m "slow or not slow" tests/packages $(ARGS)
	.venv/bin/python -m tests.support.installed --all
	.venv/bin/python -m tests.support.installed --all --lowest
	for python in python3.12 python3.13 python3.14; do ! $$python -c "" 2>/dev/null || \
	    .venv/bin/python -m tests.support.installed --all --python $$python || exit 1; done
	for suite in trixie sid; do SUITE=$$suite sh tests/packages/container.sh || exit 1; done
	for engine in podman apptainer; do ENGINE=$$engine sh tests/packages/container.sh || exit 1; done

# One version of each package for all supported Pythons, so that a result does not depend on the Python.
lock:
	uv pip compile pyproject.toml --extra parquet --extra dev --extra docs --extra http --universal --python-version 3.11 --fork-strategy fewest \
	    --upgrade --generate-hashes --no-emit-index-url --no-annotate --no-header -q -o requirements.lock
	uv pip compile pyproject.toml --extra parquet --universal --python-version 3.11 --fork-strategy fewest \
	    --constraint requirements.lock --generate-hashes --no-emit-index-url --no-annotate --no-header -q \
	    -o containers/requirements.lock

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	find . -path ./runs -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

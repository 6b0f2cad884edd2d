# Everything a clone needs, with nothing but python3 (3.11 or later): `make test`. VENV=path uses another environment.
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.calibody-installed
DOCS_INSTALLED := $(VENV)/.calibody-docs-installed
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install test test-slow lint format demo bench docs package clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

install: $(INSTALLED) ## make the virtual environment and install calibody with its tools and peers

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "calibody needs Python 3.11 or later; set PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing calibody into $(VENV) (the first time takes some minutes)"
	@$(PIP) install --editable '.[dev,test]'
	@touch $@

test: $(INSTALLED) ## run what must pass (not the slow tests)
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

test-slow: $(INSTALLED) ## run the slow tests only
	$(BIN)/python -m pytest -n $(WORKERS) -m slow $(ARGS)

lint: $(INSTALLED) ## ruff, its formatter, pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(INSTALLED) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(INSTALLED) ## calibrate a Furuta pendulum and compare with the truth
	$(BIN)/calibody demo furuta --out build/demo

bench: $(INSTALLED) ## measure times and compare them with the committed baseline
	$(BIN)/python -m pip install -q 'mujoco[sysid]' || echo 'mujoco.sysid could not be installed; the race is run without it'
	$(BIN)/python benchmarks/run.py $(ARGS)
	$(BIN)/python benchmarks/race.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/contact.py
	$(BIN)/python benchmarks/arm.py
	$(BIN)/python benchmarks/folds.py

docs: $(DOCS_INSTALLED) ## build the documentation into site/, with the demos' reports, and test it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python -m pytest -q tests/site

$(DOCS_INSTALLED): $(INSTALLED)
	@$(PIP) install --editable '.[docs]'
	@touch $@

package: $(INSTALLED) ## build sdist and wheel, check them, install into a clean environment and run the demo there
	rm -rf dist build/clean build/clean-demo
	mkdir -p build
	$(BIN)/python -m build > build/package.log 2>&1 || { cat build/package.log; exit 1; }
	$(BIN)/twine check --strict dist/*
	$(BIN)/python -m venv build/clean
	build/clean/bin/python -m pip -qq --disable-pip-version-check install dist/*.whl
	build/clean/bin/calibody --version
	cd build && clean/bin/calibody demo pendulum --out clean-demo --quiet
	test -s build/clean-demo/pendulum-fit/report.html && build/clean/bin/python -m pip check

clean: ## remove the virtual environment and everything built
	rm -rf .venv .cache build dist site

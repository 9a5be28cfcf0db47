# Two commands on a fresh machine with Python 3.11 and a package index: `make demo`, `make test`.
PYTHON ?= python3.11
EXTRAS ?= dev
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test format clean

$(VENV)/installed-$(EXTRAS): setup.py pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS)]"
	touch $@

demo: $(VENV)/installed-$(EXTRAS)
	$(BIN)/tf-transformer demo

test: $(VENV)/installed-$(EXTRAS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

format: $(VENV)/installed-$(EXTRAS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build *.egg-info demo-out

# Two commands on a fresh machine with Python and a package index: `make demo`, `make test`.
# `make docs` writes the documentation as a web site to site/.
# `make PYTHON=/path/to/python` takes that one; else make_venv.sh takes one on PATH that fits.
EXTRAS ?= dev
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test docs format clean always

$(VENV)/installed-%: setup.py pyproject.toml $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --disable-pip-version-check --editable ".[$*]"
	touch $@

# Looked after in every call; the file gets newer, and all is installed again, only if it is made.
$(VENV)/pyvenv.cfg: always
	@PYTHON="$(PYTHON)" ./make_venv.sh $(VENV)

demo: $(VENV)/installed-$(EXTRAS)
	$(BIN)/tf-transformer demo

test: $(VENV)/installed-$(EXTRAS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

docs: $(VENV)/installed-docs
	$(BIN)/mkdocs build --strict

format: $(VENV)/installed-$(EXTRAS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build *.egg-info demo-out site

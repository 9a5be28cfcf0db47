# Two commands on a fresh machine with Python and a package index: `make demo`, `make test`.
# `make docs` writes the documentation as a web site to site/.
# `make PYTHON=/path/to/python` takes that one; else make_venv.sh takes one on PATH that fits.
EXTRAS ?= dev
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-fast docs format protos clean always

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

# Without the tests that take a second or more; every package is covered.
test-fast: $(VENV)/installed-$(EXTRAS)
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal -m "not slow"

docs: $(VENV)/installed-docs
	$(BIN)/mkdocs build --strict

format: $(VENV)/installed-$(EXTRAS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Generates the *_pb2 modules. This version of protoc fits every protobuf that TensorFlow accepts.
protos:
	python3 -m venv build/protoc
	build/protoc/bin/pip install --quiet grpcio-tools==1.75.1
	build/protoc/bin/python -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. \
		export/client/serving.proto training/prepared/example.proto

clean:
	rm -rf $(VENV) build *.egg-info demo-out site

# `make demo` and `make test` need only Python and a package index.
# `make docs` writes the documentation as a web site to site/.
# `make PYTHON=/path/to/python` selects the Python; by default make_venv.sh finds one on PATH.
EXTRAS ?= dev
VENV := .venv
BIN := $(VENV)/bin

# A worker of pytest for each core, each with one thread; `test-all` has TensorFlow's own number.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal
ONE_THREAD := TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1

.PHONY: demo test test-all test-fast test-beam beam-tests test-comet test-gpu gpu-tests docs notebooks notebook-texts format protos clean always

$(VENV)/installed-%: setup.py pyproject.toml $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --disable-pip-version-check --editable ".[$*]"
	touch $@

# Checked in every call. Only if the environment is created is the file new and all installed again.
$(VENV)/pyvenv.cfg: always
	@PYTHON="$(PYTHON)" ./make_venv.sh $(VENV)

demo: $(VENV)/installed-$(EXTRAS)
	$(BIN)/tf-transformer demo

# Every feature, each by a few of its cases.
test: $(VENV)/installed-$(EXTRAS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(ONE_THREAD) $(PYTEST) -m "not exhaustive"

# Every case of every test.
test-all: $(VENV)/installed-$(EXTRAS)
	$(PYTEST)

# Without trainings, exports and the tests that take about half a second; every package is covered.
test-fast: $(VENV)/installed-$(EXTRAS)
	$(BIN)/ruff check .
	$(ONE_THREAD) $(PYTEST) -m "not slow and not exhaustive"

# Apache Beam wants protobuf below 7, and the comparisons with Transformers 7: so an environment apart.
test-beam:
	$(MAKE) beam-tests VENV=.venv-beam EXTRAS=dev,beam

beam-tests: $(VENV)/installed-$(EXTRAS)
	$(PYTEST) tests/export/bulk tests/training/preparation/test_beam.py

# Unbabel-comet wants protobuf below 5: its environment has nothing of this project.
test-comet: $(VENV)/installed-$(EXTRAS) .venv-comet/installed
	COMET_PYTHON=$(CURDIR)/.venv-comet/bin/python $(BIN)/python -m pytest tests/parity/test_comet.py

.venv-comet/installed:
	$(BIN)/python -m venv .venv-comet
	.venv-comet/bin/python -m pip install --disable-pip-version-check unbabel-comet 'setuptools<81'
	touch $@

# On a machine with an NVIDIA GPU; everywhere else they are skipped.
test-gpu:
	$(MAKE) gpu-tests EXTRAS=dev,cuda

gpu-tests: $(VENV)/installed-$(EXTRAS)
	$(BIN)/python -m pytest tests/gpu

docs: $(VENV)/installed-docs
	$(BIN)/mkdocs build --strict

# Runs the tutorials of docs/tutorials, and stores them as notebooks with their outputs.
notebooks: $(VENV)/installed-notebooks
	$(BIN)/python docs/notebooks.py

# The same without running them: outputs stay as they are.
notebook-texts: $(VENV)/installed-notebooks
	$(BIN)/python docs/notebooks.py --keep-outputs

format: $(VENV)/installed-$(EXTRAS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Generates the *_pb2 modules, compatible with every version of protobuf that TensorFlow accepts.
protos:
	python3 -m venv build/protoc
	build/protoc/bin/pip install --quiet grpcio-tools==1.75.1
	build/protoc/bin/python -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. \
		tf_transformer/predictors/client/serving.proto training/prepared/example.proto \
		tf_transformer/text/sentencepiece_model.proto

clean:
	rm -rf $(VENV) .venv-beam .venv-comet build *.egg-info demo-out site

"""Packaging; tool settings are in pyproject.toml."""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
VERSION = re.search(
    r'__version__ = "([^"]+)"', (HERE / "tf_transformer" / "__init__.py").read_text()
)[1]
# TensorFlow 2.21 has wheels for these; Keras 3.15 needs at least 3.11. Read by make_venv.sh.
PYTHON_VERSIONS = ("3.11", "3.12", "3.13")
HF = ["huggingface_hub>=0.34"]
# To run the tutorials, and to write them as notebooks; ipywidgets has their sliders.
NOTEBOOKS = ["ipykernel>=6.29", "ipywidgets>=8", "jupytext>=1.16", "nbclient>=0.10"]
MARKUP = ["justhtml>=3.16,<4"]
WEB = ["prometheus-client>=0.21", "starlette>=1,<2", "uvicorn>=0.35"]

setup(
    name="tf-transformer",
    version=VERSION,
    description="The Transformer for sequence-to-sequence work in TensorFlow and Keras",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    classifiers=[f"Programming Language :: Python :: {version}" for version in PYTHON_VERSIONS],
    packages=find_packages(
        include=[
            "tf_transformer",
            "tf_transformer.*",
            "training",
            "training.*",
            "export",
            "export.*",
        ]
    ),
    package_data={
        "": ["py.typed", "*.pyi"],
        "export.web": ["page/*"],
        "training.report": ["page/*"],
    },
    install_requires=[
        "babel>=2.16",
        "google-crc32c>=1.5",
        "google-re2>=1.1",
        "grpcio>=1.60",
        "jinja2>=3.1",
        "keras>=3.15,<3.16",
        "markupsafe>=2.1",
        "matplotlib>=3.9",
        "num2words>=0.5.14",
        "numpy",
        "protobuf>=6.31.1,<8",  # see `make protos`
        "pydantic>=2.11",
        "pyyaml>=6",
        "sacrebleu>=2.6",
        "sentencepiece>=0.2.1",
        "tabulate>=0.9",
        "tensorboard>=2.20",
        "tensorflow>=2.21,<2.22",
        "tensorflow-text>=2.21,<2.22",
        "tqdm>=4.66",
        "urllib3>=2",
        "zstandard>=0.22",
    ],
    extras_require={
        "dev": [
            "ctranslate2>=4.8",
            *HF,
            "httpx2>=2",  # starlette.testclient
            "fsspec>=2024.9",
            "hypothesis>=6",
            *MARKUP,
            "keras-nlp>=0.32",
            "mplfonts",
            "mypy>=1.18,<3",
            *NOTEBOOKS,
            *WEB,
            "optuna>=5",
            "pytest>=8",
            "pytest-xdist>=3.6",
            "ruff>=0.12",
            "tensorflow-serving-api>=2.21,<2.22",
        ],
        # For `make docs`.
        "docs": [
            "latex2mathml>=3.77,<4",
            "mkdocs>=1.6,<2",
            "mkdocs-material>=9.6,<10",
            "mkdocstrings>=1,<2",
            "mkdocstrings-python>=2,<3",
            "ruff>=0.12",  # formats signatures in the API reference
        ],
        # For `make notebooks`, and to open the tutorials in Jupyter.
        "notebooks": [*NOTEBOOKS, *HF, *WEB],
        # For GPUs: CUDA and cuDNN as Python packages.
        "cuda": ["tensorflow[and-cuda]>=2.21,<2.22"],
        # For `prepare --runner` and `translate --runner`; Dask is the cluster that pip can install.
        "beam": ["apache-beam>=2.77,<2.78", "distributed>=2024.4", "pyarrow>=15"],
        # For the command `web`, which needs no TensorFlow.
        "web": WEB,
        # For `import --input hf:NAME`.
        "hf": HF,
        # For `translate --markup html`; XML needs no package.
        "markup": MARKUP,
        # For `tune`.
        "tune": ["optuna>=5"],
        # For `train --backup` and `restore`, on Google Cloud Storage and S3.
        "backup": ["fsspec>=2024.9", "gcsfs>=2024.9", "s3fs>=2024.9"],
        # For examples/tfx. TFX has wheels for systems with glibc 2.39 or newer.
        "tfx": ["tfx>=1.21,<1.22"],
        # For `tf_transformer.hub`; installs keras-hub, whose classes it re-exports.
        "hub": ["keras-nlp>=0.32"],
        # For the screenshots of the docs and the tests of the web page, which also need Chromium.
        "screenshots": ["playwright>=1.49"],
        # For Chinese characters in figures, if the system has no font for them.
        "fonts": ["mplfonts"],
        # For the tests that compare with PyTorch, of which this release has a CPU build, and with
        # LiteRT.
        "parity": ["ai-edge-litert>=2.3", "torch==2.13.0", "transformers>=5"],
    },
    entry_points={"console_scripts": ["tf-transformer=tf_transformer.__main__:main"]},
)

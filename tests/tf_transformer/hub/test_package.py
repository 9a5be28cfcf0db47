"""The package without KerasHub, and before it is imported."""

import ast
import pathlib
import subprocess
import sys

import keras
import pytest

import tf_transformer.hub as package
from tf_transformer.registration import register_hub

ROOT = pathlib.Path(__file__).parents[3]


def run_python(program: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


def test_names_are_the_same_for_type_checkers():
    tree = ast.parse(pathlib.Path(package.__file__).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    (block,) = (node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING")
    read = {alias.name: node.module for node in block.body for alias in node.names}
    modules = package._MODULES
    assert read == {name: f"tf_transformer.hub.{module}" for name, module in modules.items()}
    assert sorted(package.__all__) == sorted(read)
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match=r"'tf_transformer.hub' has no attribute 'nowhere'"):
        _ = package.nowhere


def test_without_keras_hub_an_error_names_the_extra():
    done = run_python("import sys\nsys.modules['keras_hub'] = None\nimport tf_transformer.hub")
    assert done.stderr.splitlines()[-1] == (
        "ImportError: tf_transformer.hub needs KerasHub: pip install 'tf-transformer[hub]'"
    )
    assert "'hub': ['keras-nlp" in (ROOT / "setup.py").read_text().replace('"', "'")


def test_another_backend_has_no_classes(monkeypatch):
    """KerasHub must be imported there without an error of this package."""
    imported = []
    monkeypatch.setattr("importlib.import_module", imported.append)
    register_hub()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    register_hub()
    assert imported == ["tf_transformer.hub.seq_2_seq_lm"]

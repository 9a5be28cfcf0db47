"""Which commands hide GPUs from TensorFlow: those that gain nothing from one, and int8."""

import shutil

import pytest

from tf_transformer.__main__ import main

MODULES = (
    *("training.commands.average_cli", "training.commands.evaluate_cli"),
    *("export.commands.export_cli", "export.commands.translate_cli"),
    "tf_transformer.command_line.predictor_options",
)


class Imports(Exception):
    """TensorFlow is about to be imported; the argument is whether GPUs are hidden."""


@pytest.mark.parametrize(
    ("command", "hides"),
    [
        ("translate --model-dir {model} --input {text} --output {new}", False),
        ("translate --model-dir {model} --input {text} --output {new} --dtype bfloat16", False),
        ("translate --model-dir {model} --input {text} --output {new} --dtype int8", True),
        ("evaluate --model-dir {model} --source {text} --reference {text}", False),
        ("evaluate --model-dir {model} --source {text} --reference {text} --dtype int8", True),
        ("average --model-dir {model} --last 2", True),
        ("export --model-dir {model} --output {new}", True),
        ("export --model-dir {model} --output {new} --device gpu", True),
    ],
)
def test_gpus_are_hidden(command, hides, trained, corpus, tmp_path, monkeypatch):
    def imports(*, on_cpu=False):
        raise Imports(on_cpu)

    for module in MODULES:
        monkeypatch.setattr(f"{module}.import_tensorflow", imports)
    # A folder of its own, whose model no other test of this process has loaded.
    model_dir = shutil.copytree(trained, tmp_path / "model")
    places = {"model": model_dir, "text": corpus.path("test.en"), "new": tmp_path / "new"}
    with pytest.raises(Imports) as raised:
        main(command.format(**places).split())
    assert raised.value.args == (hides,)

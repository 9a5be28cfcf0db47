"""OpenNMT-tf's own program: its checkpoints are imported, with equal logits and translations.

Needs OpenNMT-tf 2.32.0, which needs TensorFlow 2.13, in an environment of its own:

    python3.11 -m venv opennmt-tf && opennmt-tf/bin/pip install "OpenNMT-tf[tensorflow]==2.32.0"
    export OPENNMT_TF_PYTHON=$PWD/opennmt-tf/bin/python
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

from tests.parity.checkpoint_parity import SOURCES, TARGETS, Imported, split_words
from tests.tf_transformer.formats.checkpoints import opennmt_tf_model as reference
from tf_transformer.formats.import_model import import_model

PYTHON = os.environ.get("OPENNMT_TF_PYTHON")
pytestmark = [
    pytest.mark.parity,
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="needs OPENNMT_TF_PYTHON"),
]
CASES = {
    "pre-norm": dict(),
    "all shared, swish": dict(share_embeddings="ALL", ffn_activation="swish"),
    "inputs shared, gelu, depths": dict(
        share_embeddings="SOURCE_TARGET_INPUT", ffn_activation="gelu", num_layers=(3, 1)
    ),
    "post-norm, learned": dict(
        share_embeddings="TARGET",
        pre_norm=False,
        position_encoder="learned",
        output_layer_bias=False,
    ),
    "relative, no biases": dict(position_encoder=None, maximum_relative_position=3, mha_bias=False),
    "relative and sinusoids": dict(maximum_relative_position=2),
}
NUM_SENTENCES, MAX_LENGTH = 40, 12


class Run:
    """A run of the program, its answers, and the same model imported."""

    def __init__(self, folder, options, source_end):
        self.options = reference.OPTIONS | options
        joint = self.options["share_embeddings"] in ("SOURCE_TARGET_INPUT", "ALL")
        texts = [SOURCES + TARGETS] * 2 if joint else [SOURCES, TARGETS]
        words = [list(dict.fromkeys(split_words(" ".join(side)).split())) for side in texts]
        self.entries = [[*reference.SPECIAL, *side[5:], "<unk>"] for side in words]
        self.lines = [
            [split_words(line) for line in side[:NUM_SENTENCES]] for side in (SOURCES, TARGETS)
        ]
        data = {}
        for side, entries, lines in zip(
            ("source", "target"), self.entries, self.lines, strict=True
        ):
            name = "joint" if joint else side
            text = "".join(f"{entry}\n" for entry in entries[:-1])
            (folder / f"{name}.vocab").write_text(text, encoding="utf-8")
            (folder / f"{side}.txt").write_text("\n".join(lines), encoding="utf-8")
            data[f"{side}_vocabulary"] = str(folder / f"{name}.vocab")
        data["source_sequence_controls"] = {"start": False, "end": source_end}
        self.variables = reference.random_variables(self.options, *map(len, self.entries))
        np.savez(folder / "weights.npz", **self.variables)
        request = {"options": self.options, "data": data, "max_length": MAX_LENGTH}
        (folder / "request.json").write_text(json.dumps(request))
        program = pathlib.Path(__file__).with_name("opennmt_tf_program.py")
        subprocess.run([PYTHON, program, folder], check=True)
        with np.load(folder / "answer.npz") as answer:
            self.answer = dict(answer)
        settings = {"num_heads": 4, "activation": self.options["ffn_activation"]}
        settings["source_end"] = source_end
        if self.options["position_encoder"] == "sinusoids":
            settings["positions"] = "concatenated"
        import_model(folder / "run", folder / "ours", settings=settings)
        import_model(folder / "run/avg", folder / "averaged", settings=settings)
        special = ["<blank>", "<unk>", "<s>", "</s>"]
        self.ours = Imported(folder / "ours", *self.entries, special=special)
        self.averaged = Imported(folder / "averaged", *self.entries, special=special)


@pytest.fixture(scope="module", params=CASES)
def run(request, tmp_path_factory):
    source_end = request.param in ("all shared, swish", "post-norm, learned")
    return Run(tmp_path_factory.mktemp("opennmt_tf"), CASES[request.param], source_end)


def test_logits_of_the_reference(run):
    """The equations in NumPy, with which the other tests compare."""
    answer = run.answer
    model = reference.Reference(run.options, run.variables)
    for row in range(NUM_SENTENCES):
        source = answer["source_ids"][row][: answer["source_length"][row]]
        target = answer["target_ids"][row][: answer["target_length"][row]]
        expected = answer["logits"][row][: len(target)]
        np.testing.assert_allclose(model.logits(source, target), expected, atol=1e-4)


@pytest.mark.parametrize("name", ["ours", "averaged"])
def test_logits(run, name):
    ours, answer = getattr(run, name), run.answer
    source, target = ours.batch(*run.lines)
    computed = np.asarray(ours.model({"source": source, "target": target}))
    assert np.abs(answer["logits"]).max() > 1
    for row in range(NUM_SENTENCES):
        length = answer["target_length"][row]
        np.testing.assert_array_equal(
            ours.target_rows[target[row][:length]], answer["target_ids"][row][:length]
        )
        expected = answer["logits"][row][:length][:, ours.target_rows]
        np.testing.assert_allclose(computed[row][:length], expected, atol=1e-4)


def test_greedy_translations(run):
    """Its search has a beam of one, and may not choose what ours does not."""
    if "tokens" not in run.answer:
        pytest.skip("without a bias, the program cannot be kept from unknown words")
    found = run.ours.translate(run.lines[0], MAX_LENGTH)
    expected = [
        " ".join(token.decode() for token in tokens[:length])
        for tokens, length in zip(run.answer["tokens"], run.answer["lengths"], strict=True)
    ]
    assert found == expected
    assert len(set(found)) > 5

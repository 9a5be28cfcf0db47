"""Damaged, foreign and unsupported checkpoints of OpenNMT-tf: one line, and no files."""

import os

import numpy as np
import pytest

from tests.tf_transformer.formats.bundles.written import write_bundle
from tests.tf_transformer.formats.checkpoints.faults import check_refused
from tests.tf_transformer.formats.checkpoints.opennmt_tf_model import (
    OPTIONS,
    SPECIAL,
    random_variables,
)
from tests.tf_transformer.formats.random_model import train_vocabularies
from tf_transformer.__main__ import main
from tf_transformer.formats.checkpoints.opennmt_tf import OpenNMTTF
from tf_transformer.formats.checkpoints.opennmt_tf_settings import complete_settings
from tf_transformer.formats.checkpoints.opennmt_tf_weights import Architecture
from tf_transformer.formats.import_model import read_model
from tf_transformer.formats.recognition import find_format

SMALL = OPTIONS | dict(num_units=8, ffn_inner_dim=12, num_heads=2)
SOURCE = "model/examples_inputter/features_inputter/embedding"
TARGET = "model/examples_inputter/labels_inputter/embedding"
DESCRIPTION = "model_description.py"
CATALOG = 'from opennmt import models\nmodel = lambda: models.get_model_from_catalog("{}")\n'
SLOT = "model/decoder/output_layer/bias/.OPTIMIZER_SLOT/optimizer/m"
ENTRIES = {"source": [*SPECIAL, *"abcdef"], "target": [*SPECIAL, *"uvwx"]}


class Original:
    """A run, to be changed.

    Attributes:
        variables: arrays by name.
        files: the other files' contents by name.
        settings: those that are given.
    """

    def __init__(self, **options):
        sizes = [len(entries) + 1 for entries in ENTRIES.values()]
        self.variables = random_variables(SMALL | options, *sizes)
        self.variables |= {"save_counter": np.array(1, "int64"), SLOT: np.zeros(8, "float32")}
        self.variables["optimizer/iter"] = np.array(9, "int64")
        self.files = {
            f"{side}.vocab": "".join(f"{entry}\n" for entry in entries)
            for side, entries in ENTRIES.items()
        }
        self.files["checkpoint"] = (
            'model_checkpoint_path: "ckpt-9"\nall_model_checkpoint_paths: "ckpt-8"\n'
        )
        self.settings = {"num_heads": 2}

    def write(self, folder):
        folder.mkdir()
        for name, text in self.files.items():
            (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        write_bundle(folder / "ckpt-9", self.variables)
        return folder


@pytest.fixture
def original():
    return Original()


def variable(name, array):
    return lambda original: original.variables.update({name: array})


def without(name):
    return lambda original: original.variables.pop(name)


def file(name, text):
    return lambda original: original.files.update({name: text})


def setting(**values):
    return lambda original: original.settings.update(values)


def vocabulary(edit):
    def change(original):
        original.files["target.vocab"] = edit(original.files["target.vocab"])

    return change


def no_heads(*changes):
    def change(original):
        original.settings.clear()
        for other in changes:
            other(original)

    return change


def small(*shape):
    return np.zeros(shape, "float32")


FAULTS = {
    "several sources": (
        variable("model/encoder/encoders/0/layer_norm/beta", small(8)),
        r"'model/encoder/encoders/0/layer_norm/beta': models of several encoders are not supported",
    ),
    "several attentions": (
        variable("model/decoder/layers/0/attention/1/layer/linear_keys/bias", small(8)),
        "models of several sources are not supported",
    ),
    "features": (
        variable("model/examples_inputter/features_inputter/inputters/0/embedding", small(9, 8)),
        "models of several sources or features are not supported",
    ),
    "characters": (
        variable("model/examples_inputter/features_inputter/char_embedding", small(9, 8)),
        "embeddings of characters are not supported",
    ),
    "a language model": (
        variable("model/examples_inputter/embedding", small(9, 8)),
        "language models and classifiers are not supported",
    ),
    "recurrent": (
        variable("model/encoder/rnn/cell/cells/0/kernel", small(8, 8)),
        "encoders and decoders that are no Transformers are not supported",
    ),
    "version 1": (
        lambda original: (
            original.variables.clear(),
            variable("transformer/encoder/w_embs", small(9, 8))(original),
        ),
        "no variables model/...; expected a checkpoint of OpenNMT-tf 2",
    ),
    "integers": (variable(SOURCE, np.zeros((10, 8), "int32")), "is of type int32, not floating"),
    "another part": (variable("discriminator/w", small(3)), "no weights for discriminator/w"),
    "one more weight": (
        variable("model/encoder/layers/0/moe/w", small(3)),
        "no weights for model/encoder/layers/0/moe/w",
    ),
    "no embedding": (without(SOURCE), "expected a matrix model/examples.*, got no such variable"),
    "a vector": (variable(SOURCE, small(10)), r"expected a matrix .*, got the shape \(10,\)"),
    "a missing weight": (
        without("model/encoder/layers/1/ffn/layer/inner/bias"),
        "No weight 'model/encoder/layers/1/ffn/layer/inner/bias'",
    ),
    "one bias of several": (
        without("model/decoder/layers/0/attention/0/layer/linear_keys/bias"),
        "No weight 'model/decoder/layers/0/attention/0/layer/linear_keys/bias'",
    ),
    "a layer of a huge number": (
        variable("model/encoder/layers/9999/ffn/layer/inner/bias", small(8)),
        "`num_encoder_layers` must be less than or equal to 1024",
    ),
    "no decoder": (
        lambda original: [
            original.variables.pop(name)
            for name in list(original.variables)
            if "decoder/layers" in name
        ],
        "`num_decoder_layers` must be greater than or equal to 1",
    ),
    "norms of both kinds": (
        variable("model/encoder/layers/0/ffn/output_layer_norm/beta", small(8)),
        "no weights for model/encoder/layers/0/ffn/output_layer_norm/beta",
    ),
    "a shape": (
        variable("model/encoder/layers/1/ffn/layer/inner/kernel", small(8, 9)),
        r"inner/kernel: expected the shape \(8, 12\) .* Received: \(8, 9\)",
    ),
    "not finite": (
        variable("model/encoder/layer_norm/beta", np.full(8, np.inf, "float32")),
        "8 of the 8 numbers in encoder/final_norm/beta are NaN or infinite",
    ),
    "heads": (setting(num_heads=3), "`num_heads` must divide"),
    "an unknown setting": (
        setting(num_head=3),
        "opennmt-tf: unknown setting 'num_head', expected one of num_heads, .*; did you mean",
    ),
    "a setting of another type": (
        setting(num_heads="3"),
        r"opennmt-tf: num_heads: Input should be a valid integer\. Received: num_heads='3'",
    ),
    "an activation": (setting(activation="tanh"), "activation: Input should be 'relu', 'gelu' or"),
    "no positions": (setting(positions="none"), "needs `relative_positions`"),
    "no number of heads": (no_heads(), "no model of the widths 8 and 12; give it: --set num_heads"),
    "a description of the user's": (
        no_heads(file(DESCRIPTION, "import os\nmodel = lambda: os.abort()\n")),
        "model_description.py is not executed; give the number in it: --set num_heads=NUMBER",
    ),
    "a description of another size": (
        no_heads(file(DESCRIPTION, CATALOG.format("TransformerBig"))),
        "TransformerBig has the widths 1024 and 4096, but the checkpoint has 8 and 12",
    ),
    "a description of another kind": (
        file(DESCRIPTION, CATALOG.format("LuongAttention")),
        "LuongAttention is not supported, only the Transformers TransformerTiny, ",
    ),
    "no vocabularies": (
        lambda original: [original.files.pop(f"{side}.vocab") for side in ENTRIES],
        "no vocabularies; expected a configuration in YAML",
    ),
    "which vocabulary": (
        lambda original: original.files.update({"a.vocab": original.files.pop("source.vocab")}),
        r"one for each side .* source\.vocab; found a\.vocab, target\.vocab",
    ),
    "one entry less": (
        vocabulary(lambda text: text.replace("x\n", "")),
        r"labels_inputter/embedding must have a row for each of the 7 entries .* shape \(8, 8\)",
    ),
    "an entry twice": (
        vocabulary(lambda text: text.replace("x\n", "u\n")),
        r"target\.vocab:7: 'u' occurs twice, first in line 4",
    ),
    "an empty entry": (vocabulary(lambda text: text.replace("x\n", "\n")), "not empty"),
    "no special entries": (
        vocabulary(lambda text: text.replace("<s>\n</s>\n", "a\nb\n")),
        r"target\.vocab: expected the first entries <blank>, <s>, </s>, got '<blank>', 'a', 'b'",
    ),
    "special entries elsewhere": (
        vocabulary(lambda text: text.replace("<s>\n</s>\n", "</s>\n<s>\n")),
        "expected the first entries <blank>, <s>, </s>, got '<blank>', '</s>', '<s>'",
    ),
    "not UTF-8": (vocabulary(lambda text: text + "\ud800\n"), r"target\.vocab: not UTF-8"),
    "a missing file": (
        file("run.yml", "data: {source_vocabulary: a/no.vocab, target_vocabulary: target.vocab}"),
        r"no\.vocab",
    ),
    "a name that is a list": (
        file("run.yml", "data: {source_vocabulary: [a], target_vocabulary: target.vocab}"),
        r"must name source_vocabulary, got \['a'\]",
    ),
    "vocabularies of several sources": (
        file("run.yml", "data: {source_1_vocabulary: a, source_2_vocabulary: b}"),
        "models of several sources or features",
    ),
    "not YAML": (file("run.yml", "data: ["), r"run\.yml: not YAML"),
    "two configurations": (
        lambda original: original.files.update({"a.yml": "data: {}", "b.yaml": "data: {}"}),
        r"one configuration with data, found a\.yml, b\.yaml",
    ),
    "a begin in the source": (
        file("run.yml", "data: {source_sequence_controls: {start: true, end: true}}"),
        "source_sequence_controls: start=True is not supported",
    ),
    "no begin in the target": (
        file("run.yml", "data: {target_sequence_controls: {start: false, end: true}}"),
        "target_sequence_controls: start=False is not supported",
    ),
    "a rate that is none": (
        file("run.yml", "data: {}\nparams: {dropout: 2}"),
        r"dropout_rate: Input should be less than 1\. Received: dropout_rate=2\.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(original, tmp_path, fault):
    change, message = FAULTS[fault]
    change(original)
    folder = original.write(tmp_path / "theirs")
    check_refused(folder, tmp_path, message, "opennmt-tf", original.settings)


def test_sides_that_share_a_matrix_need_one_vocabulary(tmp_path):
    original = Original(share_embeddings="ALL")
    original.variables[SOURCE] = small(10, 8)
    folder = original.write(tmp_path / "theirs")
    message = "the sides share embeddings, which needs equal vocabularies"
    check_refused(folder, tmp_path, message, "opennmt-tf", original.settings)


def test_heads_are_those_of_relative_positions(tmp_path):
    original = Original(maximum_relative_position=3, position_encoder=None)
    folder = original.write(tmp_path / "theirs")
    config = OpenNMTTF().read(folder).config
    assert (config.num_heads, config.positions, config.max_relative_distance) == (2, "none", 3)
    message = "relative positions need num_heads=2, got 4"
    check_refused(folder, tmp_path, message, "opennmt-tf", {"num_heads": 4})


@pytest.mark.parametrize("name", ["ckpt-9.index", "ckpt-9.data-00000-of-00001"])
@pytest.mark.parametrize("size", [0, 3, 100, 2000, -200, -1])
def test_truncated_files(original, tmp_path, name, size):
    folder = original.write(tmp_path / "theirs")
    path = folder / name
    os.truncate(path, size % path.stat().st_size)
    check_refused(folder, tmp_path, r"ckpt-9\.", "opennmt-tf", original.settings)


def test_changed_values(original, tmp_path):
    folder = original.write(tmp_path / "theirs")
    path = folder / "ckpt-9.data-00000-of-00001"
    content = bytearray(path.read_bytes())
    content[-2000] ^= 1
    path.write_bytes(content)
    message = r"data-00000-of-00001: damaged: the checksum of 'model/.*' is wrong"
    check_refused(folder, tmp_path, message, "opennmt-tf", original.settings)


def test_code_is_not_run(original, tmp_path, capsys):
    original.files[DESCRIPTION] = f"open({str(tmp_path / 'run')!r}, 'w')\n"
    folder = original.write(tmp_path / "theirs")
    words = ["import", "--input", str(folder), "--model-dir", str(tmp_path / "new")]
    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([*words, "--set", "num_heads"]) == 2
    assert "--set num_heads: expected NAME=VALUE" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_pipes_are_refused(original, tmp_path):
    for name in ("source.vocab", "checkpoint", "run.yml", DESCRIPTION, "ckpt-9.index"):
        folder = original.write(tmp_path / name)
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
        with pytest.raises(ValueError, match="expected a regular file, got a pipe"):
            read_model(folder, "opennmt-tf", {} if name == DESCRIPTION else original.settings)


def test_which_checkpoint(original, tmp_path):
    folder = original.write(tmp_path / "theirs")
    expected = OpenNMTTF(original.settings).read(folder).config
    write_bundle(folder / "ckpt-10", {"a": small(3)})
    for path in (folder, folder / "ckpt-9.index"):
        assert OpenNMTTF(original.settings).read(path).config == expected
    (folder / "checkpoint").write_text('model_checkpoint_path: "/else/where/ckpt-9"\n')
    assert OpenNMTTF(original.settings).read(folder).config == expected
    for text in ('model_checkpoint_path: "../ckpt-11"\n', "nothing"):
        (folder / "checkpoint").write_text(text)
        message = r"name of one checkpoint \*\.index; found ckpt-10\.index, ckpt-9\.index"
        check_refused(folder, tmp_path, message, "opennmt-tf")
    path = folder / "ckpt-9.data-00000-of-00001"
    check_refused(path, tmp_path, r"expected a folder, or a file \*\.index", "opennmt-tf")


def test_averaged_checkpoints(original, tmp_path):
    """In a folder of their own, with the vocabularies in the one above."""
    expected = OpenNMTTF(original.settings).read(original.write(tmp_path / "theirs"))
    averaged = tmp_path / "theirs" / "avg"
    averaged.mkdir()
    write_bundle(averaged / "ckpt-9", original.variables)
    assert OpenNMTTF(original.settings).read(averaged)[:3] == expected[:3]


def test_vocabularies_for_tensorboard(original, tmp_path):
    """A run's folder has them, and nothing else is needed."""
    expected = OpenNMTTF(original.settings).read(original.write(tmp_path / "one"))
    for side, name in (("source", "features"), ("target", "labels")):
        text = original.files.pop(f"{side}.vocab") + "<unk>\n"
        original.files[f"model_examples_inputter_{name}_inputter_embedding.txt"] = text
    assert OpenNMTTF(original.settings).read(original.write(tmp_path / "two"))[:3] == expected[:3]
    original.files["model_examples_inputter_labels_inputter_embedding.txt"] = text.replace(
        "v\n", "<whitespace0>\n"
    )
    folder = original.write(tmp_path / "three")
    message = "not a complete vocabulary; copy those of the training to this folder"
    check_refused(folder, tmp_path, message, "opennmt-tf", original.settings)


def test_sources_without_begin_and_end(original, tmp_path):
    original.files["source.vocab"] = "".join(f"{x}\n" for x in ["<blank>", *"abcdefgh"])
    found = OpenNMTTF(original.settings).read(original.write(tmp_path / "theirs"))
    rows = dict(found.weights)["source_embedding/embeddings"]
    np.testing.assert_array_equal(
        rows[[0, 1, 2, 3, 4]], original.variables[SOURCE][[0, 9, 0, 0, 1]]
    )


def test_unknown_words_are_the_last_row(original, tmp_path):
    """An entry named <unk> is another one."""
    original.files["source.vocab"] = original.files["source.vocab"].replace("c\n", "<unk>\n")
    found = OpenNMTTF(original.settings).read(original.write(tmp_path / "theirs"))
    rows = dict(found.weights)["source_embedding/embeddings"]
    order = [0, 9, 1, 2, 3, 4, 5, 6, 7, 8]
    np.testing.assert_array_equal(rows, original.variables[SOURCE][order])


def test_settings_of_the_model(original, tmp_path):
    original.files["run.yml"] = (
        "data: {source_vocabulary: source.vocab, target_vocabulary: target.vocab,\n"
        "  source_sequence_controls: {end: true}}\nparams: {dropout: 0.3}\n"
    )
    folder = original.write(tmp_path / "theirs")
    config = OpenNMTTF(original.settings).read(folder).config
    assert config.source_end and config.first_position == 1 and config.norm_position == "pre"
    assert (config.dropout_rate, config.attention_dropout_rate) == (0.3, 0.3)
    assert config.layer_norm_epsilon == 1e-3 and config.tied_embeddings == "none"
    given = dict(num_heads=4, layer_norm_epsilon=1e-6, source_end=False, attention_dropout_rate=0.0)
    config = OpenNMTTF(given).read(folder).config
    assert (config.num_heads, config.layer_norm_epsilon, config.source_end) == (4, 1e-6, False)
    assert (config.dropout_rate, config.attention_dropout_rate) == (0.3, 0.0)


@pytest.mark.slow
def test_models_of_the_catalog(tmp_path):
    original = Original(num_units=64, ffn_inner_dim=64)
    found = OpenNMTTF().read(original.write(tmp_path / "guessed"))
    assert found.config.num_heads == 2
    assert "catalog has models of this size with 2 heads" in found.notes[0]
    assert len(found.notes) == 2
    old = "from opennmt.models import catalog\nmodel = catalog.TransformerTiny\n"
    for number, text in enumerate([CATALOG.format("TransformerTiny"), old]):
        original.files[DESCRIPTION] = text
        found = OpenNMTTF().read(original.write(tmp_path / f"known{number}"))
        assert found.config.num_heads == 2 and len(found.notes) == 1


def test_models_with_settings_of_their_own(tmp_path):
    (tmp_path / DESCRIPTION).write_text(CATALOG.format("ScalingNmtEnDe"))
    sizes = Architecture((6, 6), 1024, 4096, "post", "target", False, 0, 0, None)
    index = tmp_path / "ckpt-9.index"
    found, notes = complete_settings({}, sizes, index, {})
    assert (found.num_heads, found.source_end, notes) == (16, True, [])
    assert found.dropout_rate == 0.3 and found.feed_forward_dropout_rate == 0
    run = {"data": {"source_sequence_controls": {"end": False}}}
    assert not complete_settings({}, sizes, index, run)[0].source_end


def test_recognition(original, tmp_path):
    folder = original.write(tmp_path / "theirs")
    assert find_format(folder).name == find_format(folder / "ckpt-9.index").name == "opennmt-tf"
    for change in (lambda path: os.truncate(path, 30), lambda path: path.unlink()):
        change(folder / "ckpt-9.index")
        with pytest.raises(ValueError, match="not recognized"):
            find_format(folder)
    write_bundle(folder / "ckpt-9", {"a": small(3)})
    with pytest.raises(ValueError, match="not recognized"):
        find_format(folder)


def test_other_formats_have_all_settings(tmp_path):
    message = "the files of the format marian contain all settings. Received: num_heads"
    with pytest.raises(ValueError, match=message):
        read_model(tmp_path, "marian", {"num_heads": 8})


def test_sentencepiece_model_of_another_vocabulary(original, tmp_path):
    for side, entries in ENTRIES.items():
        original.files[f"{side}.vocab"] = "".join(
            f"{entry}\n" for entry in [*entries[:-1], "\u2581" + entries[-1]]
        )
    folder = original.write(tmp_path / "theirs")
    (folder / "spm.model").write_bytes(train_vocabularies(True)[0])
    message = "most of its pieces are not in the vocabulary"
    check_refused(folder, tmp_path, message, "opennmt-tf", original.settings)


@pytest.mark.slow
def test_command(original, tmp_path, capsys):
    folder = original.write(tmp_path / "theirs")
    words = ["import", "--input", str(folder), "--model-dir", str(tmp_path / "new")]
    assert main([*words, "--set", "num_heads=2", "layer_norm_epsilon=1e-5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "text must be tokenized and split into the vocabulary's words before" in lines[0]
    assert "two sentences translated" in lines[1]

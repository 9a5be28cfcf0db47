"""What `import` refuses of any format's folder, in one line, and writes nothing."""

import json

import pytest

from tests.tf_transformer.formats.hf.t5_folder import write_t5
from tf_transformer.__main__ import main
from tf_transformer.formats.import_model import read_model


def edit_config(**changes):
    def edit(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


def repeat_key(name):
    """Two values for a setting, of which readers would take the last one."""

    def edit(folder):
        path = folder / name
        path.write_text('{"eos_token_id": 2, ' + path.read_text().lstrip()[1:])

    return edit


def link(name):
    return lambda folder: (folder / name).symlink_to("../blobs/1234")


def write_steps(*steps):
    """A tokenizer with other steps of its normalization than the SentencePiece model."""
    content = {"normalizer": {"type": "Sequence", "normalizers": steps}}
    return lambda folder: (folder / "tokenizer.json").write_text(json.dumps(content))


FAULTS = {
    "one position": (edit_config(n_positions=1), "at least 2 positions"),
    "a setting twice": (repeat_key("config.json"), "'eos_token_id' is repeated"),
    # It would be taken for a missing one, and the settings of generation for the usual ones.
    "a link to nothing": (
        link("generation_config.json"),
        "generation_config.json: a symbolic link to '../blobs/1234', which does not exist",
    ),
    "lower case": (write_steps({"type": "Lowercase"}), "normalizer {'type': 'Lowercase'} is not"),
    "other words": (
        write_steps({"type": "Replace", "pattern": {"String": "``"}, "content": '"'}),
        "is not supported, since the SentencePiece model",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(fault, tmp_path, capsys):
    write_t5(tmp_path / "theirs")
    prepare, message = FAULTS[fault]
    prepare(tmp_path / "theirs")
    words = ["--input", str(tmp_path / "theirs"), "--model-dir", str(tmp_path / "ours")]
    assert main(["import", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line and str(tmp_path / "theirs") in line
    assert not (tmp_path / "ours").exists()


def test_the_model_itself_is_a_link_to_nothing(tmp_path, capsys):
    (tmp_path / "theirs").symlink_to("nowhere")
    words = ["--input", str(tmp_path / "theirs"), "--model-dir", str(tmp_path / "ours")]
    assert main(["import", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "a symbolic link to 'nowhere', which does not exist" in line


def test_steps_of_spaces_are_accepted(tmp_path):
    """Those that Transformers writes beside a SentencePiece model."""
    write_t5(tmp_path / "theirs")
    write_steps(
        {"type": "Precompiled"},
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"},
        {"type": "Prepend", "prepend": "\u2581"},
    )(tmp_path / "theirs")
    path = tmp_path / "theirs" / "tokenizer.json"
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pre_tokenizer": metaspace}))
    assert read_model(tmp_path / "theirs").config.max_length == 64

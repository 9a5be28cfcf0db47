"""What BART's reader refuses; `tests/parity/test_hf_bart.py` compares what it reads."""

import json

import pytest

from tests.published_models.folders import write_small
from tests.published_models.models import MODELS
from tf_transformer.errors import InputError
from tf_transformer.formats.import_model import import_model, read_model

CNN = next(x for x in MODELS if x.name == "facebook/bart-large-cnn")
VOCABULARY, MERGES = "vocab.json", "merges.txt"


@pytest.fixture
def folder(tmp_path):
    write_small(tmp_path / "theirs", CNN)
    return tmp_path / "theirs"


def change_ids(folder, change):
    path = folder / VOCABULARY
    names = list(json.loads(path.read_text()))
    change(names)
    path.write_text(json.dumps({name: index for index, name in enumerate(names)}))


def test_notes(folder):
    (note,) = read_model(folder).notes
    assert "no_repeat_ngram_size=3, min_length=56" in note or "min_length=56" in note
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    del config["forced_bos_token_id"]
    (folder / "config.json").write_text(json.dumps(config))
    begin, _ = read_model(folder).notes
    assert begin.startswith("outputs here begin with <s>")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"normalize_before": True}, "normalize_before=True is not supported"),
        ({"forced_bos_token_id": 5}, "forced_bos_token_id must be the id of <s>. Received: 5"),
        ({"pad_token_id": 0}, "pad_token_id must be the id of <pad>. Received: 0"),
        ({"vocab_size": 300}, "the tokenizer has 561 ids, and vocab_size=300"),
        ({"vocab_size": 10**4}, "the tokenizer has 561 ids, and vocab_size=10000"),
    ],
)
def test_refused_settings(folder, settings, message):
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))
    with pytest.raises(InputError, match=message):
        read_model(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("e\n", r"merges.txt: expected pairs of pieces as merges, got 'e'"),
        ("e h r\n", "expected pairs of pieces as merges, got 'e h r'"),
        ("e h\ne h\n", "expected one merge for each piece, got two for 'eh'"),
        ("e x\n", "has no piece 'ex'"),
        ("eh \u4f60\n", "has no piece '\u4f60'"),
        ("e h\n<s >\n", "has no piece '<s'"),
        (b"\xff \xff\n", "expected text in UTF-8"),
        (None, "merges.txt"),
    ],
)
def test_damaged_merges(folder, tmp_path, content, message):
    if content is None:
        (folder / MERGES).unlink()
    else:
        content = content.encode() if isinstance(content, str) else content
        (folder / MERGES).write_bytes(b"#version: 0.2\n" + content)
    with pytest.raises((InputError, FileNotFoundError), match=message):
        import_model(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda names: names.__setitem__(names.index("A"), "filler"), "1 of them are missing"),
        (lambda names: names.__setitem__(3, "[UNK]"), "expected the piece <unk>"),
        (lambda names: names.__setitem__(0, "[CLS]"), "bos_token_id must be the id of <s>"),
        (lambda names: names.remove("eh"), "has no piece 'eh'"),
        (lambda names: names.__setitem__(300, "\u2581"), "must be different and not empty"),
        (lambda names: names.__setitem__(300, ""), "expected names and ids of tokens"),
    ],
)
def test_damaged_vocabulary(folder, change, message):
    change_ids(folder, change)
    with pytest.raises(InputError, match=message):
        read_model(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [("[1]", VOCABULARY), ('{"a": 7}', "expected the ids 0 to 0"), ('{"a": 0, "a": 0}', "a")],
)
def test_no_vocabulary(folder, content, message):
    (folder / VOCABULARY).write_text(content)
    with pytest.raises(InputError, match=message):
        read_model(folder)


def tokenizer_json(folder, **changes):
    """The same vocabulary as Transformers 5 writes it."""
    merges = [x.split(" ") for x in (folder / MERGES).read_text().splitlines()[1:]]
    content = {
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "post_processor": {
            "type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
            "add_prefix_space": False,
        },
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
            "vocab": json.loads((folder / VOCABULARY).read_text()), "merges": merges,
        },
    }  # fmt: skip
    for name, change in changes.items():
        old = content.get(name)
        content[name] = old | change if isinstance(old, dict) else change
    (folder / "tokenizer.json").write_text(json.dumps(content))
    for name in (VOCABULARY, MERGES):
        (folder / name).unlink()


@pytest.mark.slow
def test_tokenizer_json(folder):
    expected = read_model(folder)
    tokenizer_json(folder)
    found = read_model(folder)
    assert found.source_model == expected.source_model
    assert found.config == expected.config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalizer": {"type": "NFC"}}, "expected no normalizer"),
        ({"pre_tokenizer": {"add_prefix_space": True}}, "expected pre_tokenizer.add_prefix_space"),
        ({"pre_tokenizer": {"type": "Metaspace"}}, "expected pre_tokenizer.type='ByteLevel'"),
        ({"post_processor": {"cls": ["<s>", 4]}}, "expected post_processor.cls="),
        ({"model": {"type": "Unigram"}}, "expected model.type='BPE'"),
        ({"model": {"merges": None}}, "expected pairs of pieces as merges, got None"),
        ({"model": {"vocab": []}}, "expected the ids of pieces as model.vocab"),
        (
            {"added_tokens": [{"id": 560, "content": "<x>"}]},
            "the added token '<x>' is not supported",
        ),
    ],
)
def test_refused_tokenizer_json(folder, changes, message):
    tokenizer_json(folder, **changes)
    with pytest.raises(InputError, match=message):
        read_model(folder)


def test_refused_prefix_space(folder):
    (folder / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
    with pytest.raises(InputError, match="add_prefix_space is not supported"):
        read_model(folder)

"""A vocabulary that was made elsewhere: taken as it is, checked, part of what the run is."""

import io
import json

import pytest
import sentencepiece

import training
from tests.conftest import SMALL_SETTINGS, small_config
from tf_transformer.__main__ import main
from tf_transformer.storage.model_dir import read_config
from training.prepared.existing_vocabulary import read_vocabulary, vocabulary_for

IDS = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}


def spm(lines, size=200, kind="unigram", **options):
    """A SentencePiece model as its own command makes it."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size, model_type=kind,
        hard_vocab_limit=False, minloglevel=2, **options,
    )  # fmt: skip
    return model.getvalue()


@pytest.fixture(scope="module")
def lines(corpus):
    """Of both sides."""
    pair = corpus.pair("train")
    return [list(side.lines()) for side in (pair.source, pair.target)]


@pytest.fixture(scope="module")
def own(lines, tmp_path_factory):
    """A folder: a model for both sides, and one for each in a folder of its own."""
    directory = tmp_path_factory.mktemp("own")
    (directory / "joint.model").write_bytes(
        spm(lines[0] + lines[1], byte_fallback=True, size=400, **IDS)
    )
    (directory / "sides").mkdir()
    for name, side, size in (("source", 0, 120), ("target", 1, 160)):
        (directory / "sides" / f"{name}.spm").write_bytes(spm(lines[side], size, "bpe", **IDS))
    return directory


def command(corpus, model_dir, *options, **changes):
    settings = {name: value for name, value in SMALL_SETTINGS.items() if "vocabulary" not in name}
    settings |= {"optimization.steps": 2, "optimization.checkpoint_every": 2} | changes
    return [
        *("train", *corpus.options, "--model-dir", str(model_dir), *options),
        *("--set", *(f"{name}={value}" for name, value in settings.items())),
    ]


def fails(capsys, arguments):
    assert main([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("tf-transformer: error: ")
    return error.removeprefix("tf-transformer: error: ")


@pytest.mark.exhaustive
@pytest.mark.slow
def test_one_model_for_both_sides(corpus, own, tmp_path, capsys):
    path, model_dir = own / "joint.model", tmp_path / "model"
    options = ["--vocabulary", str(path)]
    assert main(command(corpus, model_dir, *options)) == 0
    for name in ("source.spm", "target.spm"):
        assert (model_dir / name).read_bytes() == path.read_bytes()
    run = json.loads((model_dir / "training.json").read_text())
    size = len(sentencepiece.SentencePieceProcessor(model_file=str(path)))
    has = {"size": size, "kind": "unigram", "joint": True, "byte_fallback": True, "languages": []}
    assert has.items() <= run["settings"]["vocabulary"].items()
    assert read_config(model_dir).target_vocab_size == size
    # It goes on with the same vocabulary alone, wherever that lies.
    moved = tmp_path / "moved.model"
    moved.write_bytes(path.read_bytes())
    more = {"optimization.steps": 4}
    message = f"{model_dir} was trained with another vocabulary; give the same --vocabulary"
    other = ["--vocabulary", str(own / "sides")]
    for wrong in ([], other):
        assert fails(capsys, command(corpus, model_dir, *wrong, **more)).startswith(message)
    assert main(command(corpus, model_dir, "--vocabulary", str(moved), **more)) == 0


@pytest.mark.slow
def test_a_model_for_each_side(corpus, own, tmp_path, monkeypatch):
    """In a training that ends before its first step, after it has built the model."""

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("training.trainer.TrainingLoop.run", stop)
    start = training.Start(vocabulary=own / "sides")
    with pytest.raises(KeyboardInterrupt):
        training.train(small_config(), start=start, model_dir=tmp_path, **corpus.arguments)
    found = read_config(tmp_path)
    assert (found.source_vocab_size, found.target_vocab_size) == (120, 160)
    assert found.tied_embeddings == "target"
    settings = json.loads((tmp_path / "training.json").read_text())["settings"]["vocabulary"]
    assert (settings["size"], settings["kind"], settings["joint"]) == (160, "bpe", False)


@pytest.mark.slow
def test_prepare_takes_the_same(corpus, own, tmp_path, capsys):
    files = corpus.options[:4]
    path = own / "joint.model"
    output = tmp_path / "prepared"
    assert main(["prepare", *files, "--output", str(output), "--vocabulary", str(path)]) == 0
    assert (output / "source.spm").read_bytes() == path.read_bytes()
    alone = tmp_path / "alone"
    target = files[2:]
    assert main(["prepare", *target, "--output", str(alone), "--vocabulary", str(path)]) == 0
    assert (alone / "target.spm").read_bytes() == path.read_bytes()
    assert not (alone / "source.spm").exists()
    error = fails(capsys, ["prepare", *files, "--output", tmp_path / "p", "--vocabulary", alone])
    assert error == (
        f"{alone}: its vocabulary is that of a language model and has no source.spm; give one of "
        "a translation model"
    )


def test_a_language_model_takes_the_target(lines, tmp_path):
    path = tmp_path / "tags.model"
    path.write_bytes(spm(lines[1], user_defined_symbols=["<2de>"], **IDS))
    settings, models = vocabulary_for(path, has_source=True)
    assert settings.languages == ["de"] and models == (path.read_bytes(),) * 2
    settings, models = vocabulary_for(path, has_source=False)
    assert settings.languages == [] and models == (None, path.read_bytes())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {},
            r"\(pad, unknown, begin, end\) ids \(0, 1, 2, 3\). Received: \(-1, 0, 1, 2\). Train",
        ),
        ({"kind": "word", "size": 50, **IDS}, r"of the type bpe, unigram or char. Received: word$"),
        (b"", r"not a usable SentencePiece.*\(Not a SentencePiece model \(0 bytes\).\)$"),
        (
            b"garbage",
            r"not a usable SentencePiece.*\(Not a SentencePiece model \(7 bytes\).\)$",
        ),
    ],
)
def test_models_that_do_not_fit(lines, tmp_path, content, message):
    path = tmp_path / "m.model"
    path.write_bytes(content if isinstance(content, bytes) else spm(lines[0], **content))
    with pytest.raises(ValueError, match=message) as raised:
        read_vocabulary(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_what_contradicts_it_is_refused(corpus, own, trained, tmp_path, capsys):
    path = str(own / "joint.model")
    given = command(corpus, tmp_path / "m", "--vocabulary", path)
    error = fails(capsys, [*given, "vocabulary.kind=bpe"])
    assert error == (
        f"{path} has a vocabulary with kind='unigram', which cannot change; leave out "
        "vocabulary.kind='bpe'"
    )
    error = fails(capsys, [*given, "--init-from", str(trained)])
    assert error == "--init-from has its own vocabulary; leave out --vocabulary"
    error = fails(capsys, [*given[:-1], given[-1], "model.tied_embeddings=all",
                           "--vocabulary", str(own / "sides")])  # fmt: skip
    assert "'model.tied_embeddings: all' needs 'vocabulary.joint: true'" in error
    assert fails(capsys, [*given, "--vocabulary", "nowhere"]).startswith("nowhere: has no voc")
    assert not (tmp_path / "m").exists()

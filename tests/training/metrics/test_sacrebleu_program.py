"""Scores against sacreBLEU's own program on the same files, to the last digit that it prints."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece

from tf_transformer.errors import InputError
from training.evaluation.metrics import MetricSettings, make_metrics
from training.metrics import bleu_tokenizer

DIGITS = 8
SENTENCES = 20


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path.name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts with punctuation, accents, Chinese, an empty line; and a SentencePiece model."""
    rng = np.random.default_rng(7)
    words = np.array(
        ["Haus,", "am", "See", "(rot)", "don't", "Zoë.", "3,5", "你好世界", "the", "A"]
    )
    texts = [
        [" ".join(rng.choice(words, rng.integers(4, 14))) for _ in range(SENTENCES)]
        for _ in range(3)
    ]
    folder = tmp_path_factory.mktemp("texts")
    hypotheses = [
        " ".join(word if rng.random() < 0.8 else rng.choice(words) for word in line.split())
        for line in texts[0]
    ]
    hypotheses[3] = texts[1][5] = ""
    write(folder / "hyp", hypotheses)
    write(folder / "a", texts[0])
    write(folder / "b", texts[1])
    (folder / "models").mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts[0] + texts[2]),
        model_prefix=str(folder / "flores"),
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    for name in ("flores101", "flores200"):
        path = bleu_tokenizer.model_path(name)
        shutil.copy(folder / "flores.model", folder / "models" / os.path.basename(path))
    return folder


@pytest.fixture
def cache(folder, monkeypatch):
    """Makes the folder sacreBLEU's cache, in this process and in those that it starts."""
    monkeypatch.setenv("SACREBLEU", str(folder))
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(folder))
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(folder))


def program(folder, *words):
    """What the program prints: an object for each score."""
    command = [sys.executable, "-m", "sacrebleu", *words, "-w", str(DIGITS)]
    return subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True).stdout


def corpus_scores(folder, references, *words):
    found = json.loads(program(folder, *references, "-i", "hyp", "-f", "json", *words))
    return found if isinstance(found, list) else [found]


def lines_of(folder, *names):
    return [(folder / name).read_text(encoding="utf-8").split("\n")[:-1] for name in names]


def check(found, expected, resamples=0):
    """The score, the signature, and the interval."""
    assert round(found.value, DIGITS) == expected["score"]
    theirs = dict(part.split(":") for part in expected["signature"].split("|"))
    assert dict(part.split(":") for part in found.signature.split("|")) == theirs
    if resamples:
        assert round(found.interval, DIGITS) == expected["confidence_var"]


@pytest.mark.slow
@pytest.mark.parametrize("references", [["a"], ["a", "b"]])
def test_texts(folder, references):
    hypotheses, *texts = lines_of(folder, "hyp", *references)
    metrics = make_metrics(["bleu", "chrf", "ter", "chrf++"])
    sampled = ["-ci", "-cin", "9"]
    bleu, chrf, ter = corpus_scores(folder, references, "-m", "bleu", "chrf", "ter", *sampled)
    (plus,) = corpus_scores(folder, references, "-m", "chrf", "--chrf-word-order", "2", *sampled)
    for name, theirs in (("bleu", bleu), ("chrf", chrf), ("ter", ter), ("chrf++", plus)):
        check(metrics[name].score(hypotheses, texts, resamples=9), theirs, 9)
        assert 0 < metrics[name].score(hypotheses, texts).value < 100
        assert metrics[name].score(hypotheses, texts).interval is None


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", ["zh", "flores200", "flores101"])
def test_tokenizers(folder, cache, tokenizer):
    hypotheses, *texts = lines_of(folder, "hyp", "a", "b")
    (theirs,) = corpus_scores(folder, ["a", "b"], "-tok", tokenizer)
    metrics = make_metrics(["bleu"], MetricSettings(bleu_tokenizer=tokenizer))
    found = metrics["bleu"].score(hypotheses, texts)
    check(found, theirs)
    assert f"tok:{tokenizer}" in found.signature
    assert found.value != make_metrics(["bleu"])["bleu"].score(hypotheses, texts).value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [("bleu", ["-m", "bleu"]), ("ter", ["-m", "ter"]), ("chrf++", ["-m", "chrf", "-cw", "2"])],
)
def test_sentences(folder, name, words):
    hypotheses, *texts = lines_of(folder, "hyp", "a", "b")
    printed = program(folder, "a", "b", "-i", "hyp", "-sl", "-b", *words).split()
    found = make_metrics([name])[name].sentence_scores(hypotheses, texts)
    assert [f"{score:.{DIGITS}f}" for score in found] == printed
    assert len(set(found)) > SENTENCES / 2


def test_exact_matches():
    metric = make_metrics(["exact"])["exact"]
    texts = ["a", "b", "c", "d"], [["a", "x", "x", "x"], ["y", "b", "c", "y"]]
    assert metric.sentence_scores(*texts) == [1.0, 1.0, 1.0, 0.0]
    assert metric.score(*texts) == (0.75, "", None)


def test_what_a_tokenizer_needs(tmp_path, monkeypatch):
    """One line that says what to install, or which file is missing or damaged."""

    def refuse(tokenizer):
        with pytest.raises(InputError) as error:
            make_metrics(["bleu"], MetricSettings(bleu_tokenizer=tokenizer))
        assert "\n" not in str(error.value)
        return str(error.value)

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ko_mecab.MeCab", None)
    assert "pip install 'sacrebleu[ja]'" in refuse("ja-mecab")
    assert "pip install 'sacrebleu[ko]'" in refuse("ko-mecab")

    for module in ("sacrebleu.utils", "sacrebleu.tokenizers.tokenizer_spm"):
        monkeypatch.setattr(f"{module}.SACREBLEU_DIR", str(tmp_path))
    models = {"flores200": {"url": "http://127.0.0.1:9/flores200", "signature": "flores200"}}
    for module in (bleu_tokenizer.__name__, "sacrebleu.tokenizers.tokenizer_spm"):
        monkeypatch.setattr(f"{module}.SPM_MODELS", models)
    message = refuse("flores200")
    path = tmp_path / "models" / "flores200"
    assert "cannot be downloaded" in message and "refused" in message
    assert f"Save http://127.0.0.1:9/flores200 as {path}" in message
    path.write_bytes(b"no model")
    assert f"{path}: expected the SentencePiece model" in refuse("flores200")


def test_names_of_metrics():
    with pytest.raises(InputError, match=r"Unknown metric: 'chrf\+'; did you mean 'chrf\+\+'"):
        make_metrics(["bleu", "chrf+"])
    assert list(make_metrics(["ter", "bleu", "ter"])) == ["ter", "bleu"]

"""Training a classifier of languages, and the commands `train-language-id` and `identify`."""

import collections
import gzip
import random
import re
import unicodedata

import numpy as np
import pytest

from tests.serving_stub import Behaviour, serve
from tests.test_light_checks import run_without_tensorflow
from tf_transformer.__main__ import main
from tf_transformer.errors import InputError
from tf_transformer.language_id.classifier_file import read_classifier
from tf_transformer.language_id.ngrams import find_ngrams
from tf_transformer.text.text_file import TextFile
from training.language_id.accuracy import accuracy_table, confusion
from training.language_id.fitting import _gradient, fit_classifier
from training.language_id.known_texts import random_part, read_known_texts, sample_lines
from training.language_id.unknown_texts import make_unknown_texts

WORDS = {
    "en": "the of and house garden with a green window three people walk through their street",
    "de": "der die und Haus Garten mit einem grünen Fenster drei Leute gehen durch ihre Straße",
    "zh": "这 是 一个 绿色 的 窗户 三 个 人 走过 他们 街道 花园 房子",
}


def sentences(language, count, seed=0):
    """Different texts of words of a toy language."""
    draw = random.Random(f"{language} {seed}")
    separator = "" if language == "zh" else " "
    words = WORDS[language].split()
    return [separator.join(draw.choices(words, k=draw.randint(6, 9))) for _ in range(count)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of each language: plain, compressed, a column of a TSV file."""
    folder = tmp_path_factory.mktemp("known")
    (folder / "en").write_text("".join(f"{line}\n" for line in sentences("en", 400)))
    (folder / "de.gz").write_bytes(gzip.compress("\n".join(sentences("de", 200)).encode()))
    (folder / "zh.tsv").write_text("".join(f"x\t{line}\n" for line in sentences("zh", 300)))
    return {"en": f"{folder}/en", "de": f"{folder}/de.gz", "zh": f"{folder}/zh.tsv:2"}


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "classifier"
    corpora = [word for item in files.items() for word in ("--corpus", "=".join(item))]
    assert main(["train-language-id", *corpora, "--output", str(path), "--epochs", "3"]) == 0
    return path


def test_the_languages_are_told_apart(trained):
    classifier = read_classifier(trained)
    assert classifier.languages == ("en", "de", "zh", "und")
    texts = {name: sentences(name, 50, seed=1) for name in WORDS}
    counts = confusion(classifier, texts)
    np.testing.assert_array_equal(counts, np.diag([50, 50, 50]) @ np.eye(3, 4, dtype=int))
    short = {name: [" ".join(line.split()[:2])[:8] for line in texts[name]] for name in WORDS}
    counts = confusion(classifier, short)
    assert (np.diag(counts) >= 40).all()
    assert classifier.identify([b"123", b"", b" - "]).languages == ["und"] * 3


def test_the_same_seed_gives_the_same_file(files, trained, tmp_path, capsys):
    command = ["train-language-id", "--output", str(tmp_path / "f"), "--epochs", "3"]
    for item in files.items():
        command += ["--corpus", "=".join(item)]
    assert main(command) == 0
    assert (tmp_path / "f").read_bytes() == trained.read_bytes()
    report = capsys.readouterr().out
    for name, held_out in (("en", 20), ("de", 10), ("zh", 15)):
        assert re.search(rf"\| {name} .*\| 100.00 % *\|", report)
        row = re.search(rf"\| {name} .*", report)[0]
        assert sum(map(int, re.findall(r"\| (\d+) ", row))) == held_out
    assert "a classifier of en, de, zh" in report and "trained on 855 lines in" in report
    assert main([*command, "--seed", "2"]) == 0
    assert (tmp_path / "f").read_bytes() != trained.read_bytes()


def test_the_gradient_is_that_of_the_loss():
    """By finite differences."""
    texts, labels = ["the house", "das Haus", "12", "der"], np.array([0, 1, 1, 1])
    draw = np.random.default_rng(0)
    weights, balance = draw.normal(size=(2**8, 2)), np.array([0.7, 1.4])

    def loss(weights):
        total = 0.0
        logits = np.zeros((4, 2))
        counts = np.zeros(4)
        for rows, buckets in find_ngrams([text.encode() for text in texts], 2**8):
            np.add.at(logits, rows, weights[buckets])
            np.add.at(counts, rows, 1)
        for row, label in enumerate(labels):
            scores = logits[row] / max(counts[row], 1)
            total -= balance[label] * (scores[label] - np.log(np.exp(scores).sum()))
        return total

    found = _gradient(weights, texts, labels, balance)
    for place in [*zip(*np.nonzero(found), strict=True)][::7]:
        moved = [weights.copy(), weights.copy()]
        moved[0][place] += 1e-5
        moved[1][place] -= 1e-5
        expected = (loss(moved[0]) - loss(moved[1])) / 2e-5
        np.testing.assert_allclose(found[place], expected, rtol=1e-5, atol=1e-9)


def test_a_language_with_more_text_is_not_preferred():
    """What both languages have in common says nothing, whatever the sizes of the corpora."""
    common = [f"same {word} words" for word in ("xu", "vo", "ka", "li", "mo", "ne", "tu", "ri")]
    texts = {"a": [*common * 9, "alpha beta"], "b": [*common, "gamma delta"]}
    classifier = fit_classifier(texts, num_buckets=2**12, epochs=30, threshold=0.7, seed=1)
    probabilities = np.exp(classifier.score([line.encode() for line in common]).log_probs)
    assert (np.abs(probabilities[:, :2] - 0.5) < 0.2).all()


def test_other_scripts_are_undetermined(trained):
    texts = ["Привет, как дела?", "Καλημέρα κόσμε", "مرحبا بالعالم", "नमस्ते", "안녕하세요", "שלום"]
    found = read_classifier(trained).score([text.encode() for text in texts])
    assert found.log_probs.argmax(axis=1).tolist() == [3] * len(texts)


def test_unknown_texts():
    """They have no script of the known ones, however rare its characters."""
    known = {"de": ["Größe äöü"] * 40, "el": ["αβγ"] * 40, "zh": ["你好吗"] * 40}
    found = make_unknown_texts(known, random.Random(1))
    assert len(found) == 11
    found = "".join(make_unknown_texts({"de": known["de"] * 200, "el": ["αβγ"]}, random.Random(1)))
    names = {unicodedata.name(char, "?").split()[0] for char in found}
    assert {"CYRILLIC", "HANGUL", "CJK"} <= names
    assert not set(found) & {chr(code) for code in (*range(0x80, 0x100), *range(0x380, 0x400))}
    assert all(unicodedata.category(char)[0] in "LMNPSZ" for char in found)
    everything = "".join(map(chr, [*range(0x80, 0xD800), *range(0xE000, 0x20000)]))
    assert make_unknown_texts({"all": [everything]}, random.Random(1)) == []
    texts = {"a": [everything, "alpha"] * 3, "b": ["beta", "gamma"]}
    classifier = fit_classifier(texts, num_buckets=2**8, epochs=1, threshold=0.7, seed=1)
    assert classifier.languages == ("a", "b")


def test_samples():
    """Every line is in the sample with the same probability."""
    counts = collections.Counter()
    for seed in range(2000):
        found = sample_lines((str(number) for number in range(8)), 2, random.Random(seed))
        assert len(set(found)) == 2
        counts.update(found)
    assert all(abs(counts[str(number)] - 500) < 80 for number in range(8))
    assert sample_lines(iter(["a", "b"]), 5, random.Random(0)) == ["a", "b"]


def test_held_out_texts_are_no_training_texts(tmp_path):
    lines = [f"line {number % 50}" for number in range(200)]
    (tmp_path / "f").write_text("\n".join([*lines, "", "  "]))
    files = [TextFile(tmp_path / "f")]
    found = read_known_texts({"en": files, "de": files}, 1000, seed=1)
    for name in ("en", "de"):
        assert len(found.held_out[name]) == 2 and len(found.training[name]) == 48
        assert {*found.training[name], *found.held_out[name]} == {*lines}
    with pytest.raises(InputError, match=r"f: expected at least 20 different lines .* en, got 1"):
        read_known_texts({"en": files}, 1, seed=1)


def test_parts_of_texts():
    draw = random.Random(0)
    text = "one two three four five six seven"
    found = {random_part(text, draw) for _ in range(500)}
    assert all(f" {part} " in f" {text} " for part in found)
    assert {len(part.split()) for part in found} == {1, 2, 3, 4, 5}
    found = {random_part("一二三四五六七", draw) for _ in range(200)}
    assert all(part in "一二三四五六七" and part for part in found)
    assert random_part(" ", draw) == ""


def test_the_table():
    counts = np.array([[9, 1, 0], [0, 0, 5]])
    assert accuracy_table(["en", "de"], counts).splitlines()[2:] == [
        "| en        | 9       | 1       | 0              | 90.00 %    |",
        "| de        | 0       | 0       | 5              | 0.00 %     |",
    ]


def test_identify_command(trained, tmp_path, monkeypatch, capfdbinary):
    lines = [sentences("de", 1)[0], "", "42", *sentences("zh", 2), sentences("en", 1)[0]]
    (tmp_path / "f").write_text("".join(f"{line}\n" for line in lines))
    assert main(["identify", "--language-id", str(trained), "--input", f"{tmp_path}/f"]) == 0
    found = capfdbinary.readouterr().out.decode().splitlines()
    names = [line.split("\t")[0] for line in found]
    assert names == ["de", "und", "und", "zh", "zh", "en"]
    expected = read_classifier(trained).identify([line.encode() for line in lines]).probabilities
    assert [line.split("\t")[1] for line in found] == [f"{value:.4f}" for value in expected]


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_identify_by_a_server(protocol, tmp_path, capfdbinary):
    def identify(text):
        return {"language": [line[:2] for line in text], "probability": [0.25] * len(text)}

    outputs = {"language": ("DT_STRING", ()), "probability": ("DT_FLOAT", ())}
    behaviour = Behaviour(
        specs={"language": ({"text": ("DT_STRING", ())}, outputs)}, answers={"language": identify}
    )
    (tmp_path / "f").write_text("en\n\nde x\n")
    with serve(protocol, behaviour) as address, serve(protocol, Behaviour()) as other:
        words = ["identify", "--protocol", protocol, "--input", f"{tmp_path}/f", "--server"]
        assert main([*words, address]) == 0
        assert capfdbinary.readouterr().out == b"en\t0.2500\n\t0.2500\nde\t0.2500\n"
        assert main([*words, other]) == 2
    message = b"no signature 'language'; export it with --language-id F, a file of `train-language"
    assert message in capfdbinary.readouterr().err


@pytest.mark.slow
def test_identify_needs_no_tensorflow(trained, tmp_path):
    (tmp_path / "f").write_text("the house\n")
    command = ["identify", "--language-id", str(trained), "--input", f"{tmp_path}/f"]
    (answer,) = run_without_tensorflow({"identify": command}).values()
    assert answer[0] == 0, answer


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--corpus", "en={en}"], "expected 2 to 256 languages, got 1"),
        (["--corpus", "en={en}", "--corpus", "und={en}"], "expected the name of a language"),
        (["--corpus", "en={en}", "--corpus", "de=/none"], "/none: no such file"),
        (["--corpus", "en={en}", "--corpus", "de={small}"], "expected at least 20 different lines"),
        (["--corpus", "en={en}", "--corpus", "de={bytes}"], "bytes:1: not UTF-8"),
        (["--buckets", "1000"], "expected a power of two from 256 to"),
        (["--threshold", "2"], "expected a probability from 0 to 1 as the threshold, got 2.0"),
        (["--epochs", "0"], "--epochs 0: expected 1 to 1000"),
        (["--max-lines", "0"], "--max-lines 0: expected 1 to"),
        (["--output", "{en}"], "is an input file"),
        (["--output", "/none/f"], "there is no folder /none"),
    ],
    ids=str,
)
def test_options_that_are_refused(files, tmp_path, capsys, changes, message):
    (tmp_path / "small").write_text("a\nb\n")
    (tmp_path / "bytes").write_bytes(b"caf\xe9\n" * 30)
    places = {"en": files["en"], "small": tmp_path / "small", "bytes": tmp_path / "bytes"}
    command = ["train-language-id", "--output", str(tmp_path / "f")]
    if "--corpus" not in changes:
        command += ["--corpus", f"en={files['en']}", "--corpus", f"de={files['de']}"]
    assert main([*command, *(word.format(**places) for word in changes)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "f").exists()


def test_names_of_files_are_required(capsys):
    for value in ("en", "=f", "en="):
        with pytest.raises(SystemExit) as raised:
            main(["train-language-id", "--corpus", value, "--output", "f"])
        assert raised.value.code == 2 and "expected L=F" in capsys.readouterr().err

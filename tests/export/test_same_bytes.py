"""A model directory, a SavedModel and a server: the same command writes the same bytes."""

import functools
import json
import re

import pytest

from export.commands import align_cli, distill_cli
from tests.served_functions import behaviour_of, saved_model_predictor
from tests.serving_stub import serve
from tf_transformer.__main__ import main
from tf_transformer.command_line import predictor_options

LINES = (
    "The man buys 3 horses.\n\nA WOMAN SLEEPS IN THE GARDEN.\nThe Old Man Buys A Red Lamp\n"
    "Anna sees the TWO DOGS. See https://a.example/b.\n7.5\n"
)
PAGE = """<!doctype html>
<h1>THE OLD MAN <b>BUYS</b> A LAMP</h1>
<h2>The Old Man <i>Buys a Red</i> Lamp</h2>
<p>The man buys <b>3</b> horses. Anna <i>sees</i> the TWO DOGS, i think.<br>A woman sleeps.</p>
<ul><li>7<li>https://a.example/b<li><b>lamps</b><li>{name}</ul>
<p title="The man sleeps.">The <code>f(x)</code> horse<sup>1</sup> runs.</p>
"""
TERMS = "horses\tHunde\nlamps\tLampe\nlamp\tLampe\n7\tsieben\n"
SIDES = ("source", "target")
HTML = "--markup html --input page"
TERM_OPTIONS = "--terms terms --protect urls placeholders"
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+(?:e-?[0-9]+)?|e-?[0-9]+)")
SEARCH = "--beam-size 2 --length-penalty 1.5"
OPTIONS = {"beam_size": 1, "no_repeat_ngram": 1}
REQUESTS = {
    "lines": {"lines": LINES.splitlines()},
    "details": {"lines": LINES.splitlines(), "num_best": 2, "alignment": True, "confidence": True},
    "options": {"lines": ["Anna sees the TWO DOGS."], "options": OPTIONS},
    "refused": {"lines": ["a"], "num_best": 5},
}
COMMANDS = {
    "lines": "--input lines",
    "search options": "--input lines --beam-size 2 --length-penalty 1.5",
    "limits of outputs": "--input lines --no-repeat-ngram 1 --min-length 5 --max-length 6",
    "n best": "--input lines --n-best 3",
    "documents": "--input lines --split-sentences",
    "capitals": "--input lines --split-sentences --keep-capitals",
    "terms": f"--input lines {TERM_OPTIONS}",
    "documents with terms": f"--input lines --split-sentences {TERM_OPTIONS}",
    "Bayes risk": "--input lines --mbr --beam-size 3 --n-best 2",
    "Bayes risk of samples": "--input lines --mbr bleu --mbr-samples 4",
    "Bayes risk of nucleus samples": "--input lines --mbr --mbr-samples 4 --mbr-top-p 0.9",
    "reverse model": "--input lines --rerank-reverse {model} --rerank-reverse-weight 0.5",
    "page": HTML,
    "search options of a page": f"{HTML} --beam-size 1 --translate-attributes title",
    "limits of outputs of a page": f"{HTML} --no-repeat-ngram 1 --max-length 4",
    "capitals of a page": f"{HTML} --keep-capitals --document-languages en",
    "English page": f"{HTML} --document-languages en --no-split-sentences",
    "page with terms": f"{HTML} {TERM_OPTIONS}",
}


@pytest.fixture(scope="module")
def places(talkative, exported, loaded):
    """The options that name each predictor."""
    behaviour = behaviour_of(loaded)
    saved_model = saved_model_predictor(exported / "1", loaded)  # not again in each command
    with (
        pytest.MonkeyPatch.context() as patch,
        serve("rest", behaviour) as rest,
        serve("grpc", behaviour) as grpc,
    ):
        for module in (predictor_options, distill_cli):
            patch.setattr(module, "load_saved_model", lambda _: saved_model)
        yield [
            ["--model-dir", str(talkative)],
            ["--saved-model", str(exported / "1")],
            ["--server", rest, "--deadline", "600"],  # also on a busy machine
            ["--server", grpc, "--protocol", "grpc", "--deadline", "600"],
        ]


@pytest.mark.slow
@pytest.mark.representatives("documents", "page with terms", "Bayes risk of samples")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_bytes(places, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in (("lines", LINES), ("page", PAGE), ("terms", TERMS)):
        (tmp_path / name).write_text(text)
    outputs, errors = [], []
    options = [word.replace("{model}", places[0][1]) for word in COMMANDS[command].split()]
    for number, place in enumerate(places):
        words = ["translate", *place, *options, "--output", f"out{number}"]
        assert main(words) == 0, capsys.readouterr().err
        outputs.append((tmp_path / f"out{number}").read_bytes())
        errors.append([x for x in capsys.readouterr().err.splitlines() if "that lack" in x])
    assert outputs[1:] == outputs[:1] * 3
    assert errors[1:] == errors[:1] * 3
    text = outputs[0].decode()
    if "terms" in command:
        assert "Hunde" in text and "https://a.example/b" in text
    if "page" in command:
        heading = text[text.index("<h1>") : text.index("</h1>")]
        is_upper = heading.upper() == heading.replace("<h1>", "<H1>").replace("b>", "B>")
        assert is_upper or "--keep-capitals" in options
        assert "<li>https://a.example/b</li>" in text
        assert ("<li>{name}</li>" in text) == ("terms" in command)


def without_decimals(text: str) -> tuple[str, list[float]]:
    """A text without its decimal numbers, and these: those of two predictors may be rounded."""
    return _DECIMAL.sub("#", text), [float(number) for number in _DECIMAL.findall(text)]


def check_same(found: list[str]) -> None:
    """Everything is the same, and decimals but for the last of the 3 that confidences have."""
    texts, numbers = zip(*map(without_decimals, found), strict=True)
    for other_text, others in zip(texts[1:], numbers[1:], strict=True):
        assert other_text == texts[0]
        assert others == pytest.approx(numbers[0], abs=1.1e-3)


@pytest.mark.slow
def test_the_same_confidences(places, confidence_file, tmp_path, monkeypatch, capsys):
    """With the options of `test_the_same_page`, for which the model directory is loaded once."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines").write_text(LINES)
    found = []
    for number, place in enumerate(places):
        words = ["translate", *place, "--input", "lines", "--output", f"out{number}"]
        words += SEARCH.split()
        words += ["--confidence", *([str(confidence_file)] if number == 0 else [])]
        assert main(words) == 0, capsys.readouterr().err
        found.append((tmp_path / f"out{number}").read_text())
    check_same(found)
    assert [line.count("\t") for line in found[0].splitlines()] == [3, 0, 3, 3, 3, 3]


@pytest.mark.slow
def test_the_same_languages(places, language_file, tmp_path, capfdbinary):
    """A classifier is a file of its own, in place of a model directory."""
    (tmp_path / "lines").write_text(LINES)
    outputs = []
    for place in (["--language-id", str(language_file)], *places[1:]):
        assert main(["identify", *place, "--input", str(tmp_path / "lines")]) == 0
        outputs.append(capfdbinary.readouterr().out.decode())
    check_same(outputs)
    assert len(outputs[0].splitlines()) == len(LINES.splitlines())


@pytest.mark.slow
@pytest.mark.representatives("options")
@pytest.mark.parametrize("search", ["", SEARCH], ids=["defaults", "options"])
def test_the_same_page(places, confidence_file, search, monkeypatch, capsys):
    """What the API says that the model offers, and its answers to the same requests."""
    testclient = pytest.importorskip("starlette.testclient")
    for name in ("uvicorn", "prometheus_client"):
        pytest.importorskip(name)
    from export.web import server
    from export.web.application import create_application
    from export.web.metrics import WebMetrics

    def answer_requests(predictor, settings, *_):
        application = create_application(predictor, settings, WebMetrics(1))
        with testclient.TestClient(application) as web:
            answers = [web.get("/api/model")]
            answers += [web.post("/api/translate", json=body) for body in REQUESTS.values()]
        statuses.append([answer.status_code for answer in answers])
        found.append("\n".join(re.sub(', "seconds": .*', "", answer.text) for answer in answers))

    found, statuses = [], []
    monkeypatch.setattr(server, "run_server", answer_requests)
    for number, place in enumerate(places):
        confidence = ["--confidence", str(confidence_file)] if number == 0 else []
        words = ["web", *place, *confidence, *search.split(), "--allowed-hosts", "*"]
        assert main(words) == 0, capsys.readouterr().err
    assert statuses == [[200, 200, 200, 200, 400]] * 4
    check_same(found)
    offered, _, details, options, _ = found[0].splitlines()
    offered = json.loads(offered)
    assert offered["num_best"] == (2 if search else 4)
    assert offered["alignment"] and offered["confidence"]
    penalty = next(x for x in offered["options"] if x["name"] == "length_penalty")
    assert penalty["unset_meaning"] == ("1.5" if search else "the exported one")
    assert '"alignment": {' in details and '"confidence": {' in details
    assert '"text": "' in options


@pytest.mark.slow
def test_the_same_alignments(places, corpus, tmp_path, monkeypatch, capsys):
    """With a reverse model that is named in the same way; it is the same one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(align_cli, "load_models", functools.cache(align_cli.load_models))
    for side in ("en", "de"):
        lines = (corpus.directory / f"test.{side}").read_text(encoding="utf-8").splitlines()[:12]
        lines[3:5] = ["", "the " * 60] if side == "de" else ["a", "b"]
        (tmp_path / side).write_text("\n".join(lines) + "\n", encoding="utf-8")
    outputs = []
    for number, (option, place, *others) in enumerate(places):
        words = ["align", option, place, *others, option.replace("--", "--reverse-"), place]
        words += ["--source", "en", "--target", "de", "--output", f"out{number}"]
        assert main(words) == 0, capsys.readouterr().err
        outputs.append((tmp_path / f"out{number}").read_bytes())
    assert outputs[1:] == outputs[:1] * 3
    lines = outputs[0].decode().splitlines()
    assert [number for number, line in enumerate(lines) if not line] == [3, 4]


CORPORA = {
    "sources": "back-translate --input lines --beam-size 2",
    "samples": "back-translate --input lines --sample 3 --top-k 20",
    "teacher": "distill --source lines --target lines --beam-size 3 --only-synthetic",
    "reference": "distill --source lines --target lines --beam-size 3 --keep chrf",
}


@pytest.mark.slow
@pytest.mark.representatives("samples", "reference")
@pytest.mark.parametrize("command", CORPORA)
def test_the_same_corpus(places, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines").write_text(LINES)
    outputs = []
    for number, (option, place, *others) in enumerate(places):
        words = [*CORPORA[command].split(), *others, "--output", f"out{number}"]
        words += ["--teacher" if "distill" in words else option, place]
        assert main(words) == 0, capsys.readouterr().err
        outputs.append([(tmp_path / f"out{number}/train.{x}").read_bytes() for x in SIDES])
    assert outputs[1:] == outputs[:1] * 3
    assert outputs[0][0] != outputs[0][1]


@pytest.mark.slow
def test_the_same_evaluation(places, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("lines", "references"):
        (tmp_path / name).write_text(LINES)
    (tmp_path / "more").write_text(LINES.upper())
    names = ["bleu", "chrf", "exact", "chrf++", "ter", "perplexity"]
    outputs, scores = [], []
    for number, place in enumerate(places):
        words = ["evaluate", *place, "--source", "lines", "--reference", "references", "more"]
        words += ["--beam-size", "2", "--output", f"out{number}", "--json", f"json{number}"]
        words += ["--metrics", *names, "--sentence-scores", f"sentences{number}"]
        assert main(words) == 0, capsys.readouterr().err
        outputs.append([(tmp_path / f"{x}{number}").read_bytes() for x in ("out", "sentences")])
        scores.append(json.loads((tmp_path / f"json{number}").read_text()))
    assert outputs[1:] == outputs[:1] * 3
    for name in (*names[:-1], "sentences", "beam_size", "source", "reference", "references"):
        assert [found[name] for found in scores[1:]] == [scores[0][name]] * 3
    perplexities = [found["perplexity"] for found in scores]
    assert perplexities[1:] == pytest.approx(perplexities[:1] * 3, rel=1e-4)
    assert [("saved_model" in x, "server" in x) for x in scores[1:3]] == [
        (True, False),
        (False, True),
    ]

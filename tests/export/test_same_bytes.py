"""A model directory, a SavedModel and a server: the same command writes the same bytes."""

import functools

import pytest

from export.commands.options import predictors
from export.saved_model.signatures import ServedTranslator
from tests.served_functions import behaviour_of
from tests.serving_stub import serve
from tf_transformer.__main__ import main
from tf_transformer.inference.translator import Translator
from tf_transformer.storage.model_dir import load_model
from tf_transformer.storage.saved_model import write_saved_model

# Signatures with options answer requests without, too.
NAMES = [
    *("translate_options", "nbest_options", "terms"),
    *("document_options", "document_terms", "markup_options", "markup_terms"),
]
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
HTML = "--markup html --input page"
TERM_OPTIONS = "--terms terms --protect urls placeholders"
COMMANDS = {
    "lines": "--input lines",
    "search options": "--input lines --beam-size 2 --length-penalty 1.5",
    "n best": "--input lines --n-best 3",
    "documents": "--input lines --split-sentences",
    "capitals": "--input lines --split-sentences --keep-capitals",
    "terms": f"--input lines {TERM_OPTIONS}",
    "documents with terms": f"--input lines --split-sentences {TERM_OPTIONS}",
    "page": HTML,
    "search options of a page": f"{HTML} --beam-size 1 --translate-attributes title",
    "capitals of a page": f"{HTML} --keep-capitals --document-languages en",
    "English page": f"{HTML} --document-languages en --no-split-sentences",
    "page with terms": f"{HTML} {TERM_OPTIONS}",
}


@pytest.fixture(scope="module")
def places(talkative, tmp_path_factory):
    """The options that name each predictor."""
    folder = tmp_path_factory.mktemp("served")
    served = ServedTranslator(Translator(*load_model(talkative)), NAMES)
    write_saved_model(served, folder / "1", served.functions)
    behaviour = behaviour_of(served.functions)
    load = functools.cache(predictors._load_saved_model)  # once, not for each command
    with (
        pytest.MonkeyPatch.context() as patch,
        serve("rest", behaviour) as rest,
        serve("grpc", behaviour) as grpc,
    ):
        patch.setattr(predictors, "_load_saved_model", load)
        yield [
            ["--model-dir", str(talkative)],
            ["--saved-model", str(folder / "1")],
            ["--server", rest],
            ["--server", grpc, "--protocol", "grpc"],
        ]


@pytest.mark.slow
@pytest.mark.representatives("search options", "documents with terms", "page", "page with terms")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_bytes(places, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in (("lines", LINES), ("page", PAGE), ("terms", TERMS)):
        (tmp_path / name).write_text(text)
    outputs, errors = [], []
    for number, place in enumerate(places):
        words = ["translate", *place, *COMMANDS[command].split(), "--output", f"out{number}"]
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
        assert heading.upper() == heading.replace("<h1>", "<H1>").replace("b>", "B>")
        assert "<li>https://a.example/b<li>" in text
        assert ("<li>{name}</ul>" in text) == ("terms" in command)

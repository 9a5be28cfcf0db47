"""A language model from a text to a completion, by the commands."""

import itertools
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from export.saved_model.signatures import ServedTranslator
from tests.other_models import language_model
from tests.served_functions import behaviour_of
from tests.serving_stub import serve
from tests.test_cli import fails
from tf_transformer.__main__ import main
from tf_transformer.inference.continuer import Continuer
from tf_transformer.inference.translator import Translator
from tf_transformer.models.language_model import LanguageModel
from tf_transformer.predictors.completer import Completer
from tf_transformer.predictors.model_predictor import ModelPredictor
from tf_transformer.storage.model_dir import load_model
from tf_transformer.tasks.parts import Parts
from tf_transformer.text.special_ids import BEGIN_ID, END_ID


@pytest.fixture(scope="module")
def language_model_dir(corpus, tmp_path_factory):
    return language_model(corpus, tmp_path_factory)


@pytest.fixture
def loaded(language_model_dir):
    model, source_tokenizer, tokenizer = load_model(language_model_dir)
    assert isinstance(model, LanguageModel)
    assert source_tokenizer is None
    return model, tokenizer


def log_probs(model, ids):
    """log p of every next token after `ids`, by the parallel pass."""
    logits = model({"target": np.array([ids], "int32")})
    return np.array(tf.nn.log_softmax(logits))[0]


@pytest.mark.slow
def test_it_learned_something(language_model_dir, loaded, corpus, tmp_path, capsys):
    scores, text = tmp_path / "scores.json", tmp_path / "text"
    lines = (corpus.directory / "test.de").read_text(encoding="utf-8").splitlines()[:30]
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    arguments = ["evaluate", "--model-dir", str(language_model_dir), "--reference", str(text)]
    assert main([*arguments, "--json", str(scores)]) == 0
    perplexity = json.loads(scores.read_text())["perplexity"]
    assert capsys.readouterr().out == f"perplexity  {perplexity:6.2f}\n"
    model, tokenizer = loaded
    rows = [
        ids for ids in tokenizer.tokenize(lines).to_list() if len(ids) < model.config.max_length
    ]
    target = tf.ragged.constant([[BEGIN_ID, *ids] for ids in rows], tf.int32).to_tensor()
    tables = np.array(tf.nn.log_softmax(model({"target": target})))
    losses = [
        -table[place, label]
        for table, ids in zip(tables, rows, strict=True)
        for place, label in enumerate([*ids, END_ID])
    ]
    assert perplexity == pytest.approx(math.exp(np.mean(losses)), rel=1e-4)
    assert perplexity < tokenizer.vocab_size / 4


@pytest.mark.slow
def test_greedy_completion(loaded):
    """The most probable token at every step of the parallel pass, and nothing before changed."""
    model, tokenizer = loaded
    completer = Completer(model, tokenizer, beam_size=1, length_penalty=0.0, max_new_tokens=8)
    for text in ("", "Der", "Am Montag kauft"):
        ids = tokenizer.tokenize([text])[0].numpy().tolist()
        total = 0.0
        for step in itertools.count():
            table = log_probs(model, [BEGIN_ID, *ids])[-1]
            table[[0, 1, BEGIN_ID]] = -np.inf
            best = END_ID if step == 8 else int(table.argmax())
            total += table[best]
            if best == END_ID:
                break
            ids.append(best)
        found = completer.complete(text)
        assert found.text == tokenizer.detokenize(tf.constant([ids], tf.int32))[0].numpy().decode()
        assert found.text.startswith(text)
        assert found.score == pytest.approx(total, abs=1e-3)


@pytest.mark.slow
def test_a_loaded_completer_is_called_with_a_list(language_model_dir):
    texts = ["Der", "", "Am Montag"]
    completer = Completer.load(str(language_model_dir), beam_size=2, max_new_tokens=5)
    assert completer(texts) == [completer.complete(text).text for text in texts]
    assert completer([]) == []
    with pytest.raises(
        ValueError, match=r"`texts` must be a list of strings.*single string, 'Der'"
    ):
        completer("Der")


@pytest.mark.representatives("1-5")
@pytest.mark.slow
@pytest.mark.parametrize(("beam_size", "max_new_tokens"), [(1, 5), (3, 30)])
def test_compiled_completions_are_those_of_the_ordinary_search(loaded, beam_size, max_new_tokens):
    """Of prompts of all lengths, the longest up to the model's limit of 39 tokens."""
    options = dict(beam_size=beam_size, max_new_tokens=max_new_tokens, end_pieces=["."])
    ordinary, compiled = Completer(*loaded, **options), Completer(*loaded, xla="on", **options)
    for text in ("", "Der", "Am Montag kauft", "Der Zug nach Wien " * 4):
        expected, found = ordinary.complete(text), compiled.complete(text)
        assert found.text == expected.text
        assert found.score == pytest.approx(expected.score, abs=1e-4)
    assert set(compiled._predictor._parts) == {0, 1}


def test_completions_are_compiled_after_many_single_texts(loaded, monkeypatch):
    """Of several together never; up to the first size that holds all that the model can read."""
    monkeypatch.setattr(Continuer, "rows_before_compiling", 2)
    continuer = Continuer(*loaded)
    predictor = ModelPredictor(lambda shapes: Parts(continuer), xla="auto")
    assert [predictor._compiled_rows(rows) for rows in (40, 1, 1, 40, 1)] == [0, 0, 0, 0, 1]
    assert continuer.default_shapes(1) == [(1, 32), (1, 64)]


def test_each_model_is_loaded_for_what_it_does(language_model_dir, trained):
    with pytest.raises(ValueError, match="LanguageModel has no source to translate"):
        Translator.load(language_model_dir)
    with pytest.raises(ValueError, match=r"Transformer needs a source\. Use it to translate"):
        Completer.load(trained)


@pytest.mark.slow
def test_an_exported_model_completes_alike(
    unverified, language_model_dir, loaded, tmp_path, capsys
):
    """Also lines that are blank; on a server, too. What it cannot do is said."""
    served, model_dir = tmp_path / "served", ["--model-dir", str(language_model_dir)]
    text = tmp_path / "text"
    text.write_text("Der\n\nAm Montag\n☃\n", encoding="utf-8")
    command = ["export", *model_dir, "--beam-size", "3", "--output", str(served)]
    assert "'nbest' needs a translation model" in fails(capsys, *command, "--signatures", "nbest")
    assert "--xla is for a translation model" in fails(capsys, *command, "--xla")
    assert main(command) == 0
    assert "complete --server localhost:8501" in (served / "README.md").read_text()
    functions = ServedTranslator(Continuer(*loaded, beam_size=3)).functions
    assert list(functions) == ["continuation"]
    behaviour = behaviour_of(functions)
    with serve("rest", behaviour) as rest, serve("grpc", behaviour) as grpc:
        places = [
            [*model_dir, "--beam-size", "3"],
            ["--saved-model", str(served)],
            ["--server", rest, "--deadline", "600"],
            ["--server", grpc, "--protocol", "grpc", "--deadline", "600"],
        ]
        for options in (["--max-tokens", "9" * 20], ["--max-tokens", "5", "--length-penalty", "0"]):
            found = []
            for place in places:
                capsys.readouterr()
                assert main(["complete", *place, *options, "--input", str(text)]) == 0
                found.append(capsys.readouterr().out)
            assert found[1:] == found[:1] * 3
            lines = found[0].splitlines()
            assert len(lines) == 4
            assert lines[0].startswith("Der") and lines[2].startswith("Am Montag")
        text.write_text("Montag " * 60 + "\n")
        command = ["complete", *places[2], "--input", str(text)]
        assert "text:1 must have fewer tokens" in fails(capsys, *command)
    command = ["translate", "--saved-model", str(served), "--input", str(text)]
    assert "export it with a translation model as --model-dir" in fails(capsys, *command)


def test_checkpoints_are_averaged(language_model_dir):
    assert main(["average", "--model-dir", str(language_model_dir), "--last", "2"]) == 0


@pytest.mark.exhaustive  # tests/training/test_lora.py has it for translation
@pytest.mark.slow
def test_an_adapter_is_the_model_that_it_was_merged_into(
    language_model_dir, corpus, tmp_path, capsys
):
    tuned = tmp_path / "tuned"
    settings = {"steps": 60, "checkpoint_every": 60, "warmup_steps": 10}
    settings |= {"learning_rate_factor": 10.0}
    files = ["--target", corpus.path("train.en"), "--validation-target", corpus.path("test.en")]
    command = ["train", *files, "--init-from", str(language_model_dir), "--lora", "4"]
    command += ["--model-dir", str(tuned), "--set"]
    command += [f"optimization.{name}={value}" for name, value in settings.items()]
    assert main(command) == 0
    text = tmp_path / "text"
    lines = (corpus.directory / "test.en").read_text(encoding="utf-8").splitlines()[:20]
    text.write_text("".join(f"{line[:12]}\n" for line in lines), encoding="utf-8")
    capsys.readouterr()

    def complete(model_dir, *options):
        options = ["--input", str(text), "--max-tokens", "8", "--beam-size", "1", *options]
        assert main(["complete", "--model-dir", str(model_dir), *options]) == 0
        return capsys.readouterr().out

    adapter = ["--adapter", str(tuned / "adapter.h5")]
    adapted = complete(language_model_dir, *adapter)
    assert adapted == complete(tuned) != complete(language_model_dir)
    command = ["complete", "--model-dir", str(tuned), *adapter, "--input", str(text)]
    assert "adapts the model with the weights digest" in fails(capsys, *command)


def test_nothing_to_complete_loads_no_model(language_model_dir, monkeypatch, capsys):
    def load(*_, **__):
        raise AssertionError("loaded")

    monkeypatch.setattr("export.commands.complete_cli.load_models", load)
    command = ["complete", "--model-dir", str(language_model_dir)]
    assert main([*command, "--input", "/dev/null"]) == 0
    assert capsys.readouterr().out == ""
    with pytest.raises(AssertionError, match="loaded"):
        main([*command, "--input", __file__])


@pytest.mark.parametrize("command", ["translate", "attention"])
def test_it_does_not_translate(language_model_dir, command, tmp_path, capsys):
    options = {
        "translate": ["--input", __file__],
        "attention": ["--text", "Der", "--output", str(tmp_path / "a.html")],
    }[command]
    assert main([command, "--model-dir", str(language_model_dir), *options]) == 2
    assert "LanguageModel has no source to translate" in capsys.readouterr().err


def test_misuse(corpus, trained, loaded, tmp_path, capsys):
    with pytest.raises(ValueError, match=r"A Transformer needs a source\. Use it to translate"):
        Completer(load_model(trained)[0], loaded[1])
    with pytest.raises(
        ValueError, match=r"The text must have at most 39 tokens.* Received: \d+ tokens"
    ):
        Completer(*loaded).complete("Montag " * 60)
    reference = ["--reference", corpus.path("test.de")]
    assert main(["evaluate", "--model-dir", str(trained), *reference]) == 2
    assert "holds a translation model; give a --source" in capsys.readouterr().err
    output = ["--output", str(tmp_path / "translations")]
    assert main(["evaluate", "--model-dir", str(trained), *reference, *output]) == 2
    assert "--output is for translations; give a --source" in capsys.readouterr().err
    model_dir = ["--model-dir", str(tmp_path / "model")]
    assert main(["train", *corpus.options[2:], *model_dir]) == 2
    assert "a language model (model.decoder_only) has no validation source" in (
        capsys.readouterr().err
    )
    decoder_only = ["--set", "model.decoder_only=true"]
    assert main(["train", *corpus.options, *model_dir, *decoder_only]) == 2
    assert "a language model (model.decoder_only) has no source" in capsys.readouterr().err


@pytest.mark.slow
def test_completing_stops_at_a_prompt_that_is_too_long(language_model_dir, tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("Der\n" + "Montag " * 60 + "\n")
    options = ["--model-dir", str(language_model_dir), "--input", str(text)]
    assert main(["complete", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith("Der") and captured.out.count("\n") == 1
    assert "text:2 must have fewer tokens: the model's limit is exceeded" in captured.err


@pytest.mark.slow
def test_prompts_are_completed_as_they_come(language_model_dir, no_hang):
    command = [sys.executable, "-m", "tf_transformer", "complete", "--beam-size", "1"]
    process = subprocess.Popen(
        [*command, "--model-dir", str(language_model_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    for prompt in (b"Der", b"Montag"):
        process.stdin.write(prompt + b"\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith(prompt)
    process.stdin.close()
    assert (process.stdout.read(), process.wait()) == (b"", 0)


def test_huge_limits_are_the_models(loaded):
    assert Completer(*loaded, max_new_tokens=10**20).max_new_tokens == 40


@pytest.mark.parametrize("text", ["\n\n", "Montag " * 60 + "\n"])
def test_perplexity_of_nothing_is_refused(language_model_dir, tmp_path, text, capsys):
    (tmp_path / "text").write_text(text)
    options = ["--model-dir", str(language_model_dir), "--reference", str(tmp_path / "text")]
    assert main(["evaluate", *options]) == 2
    assert "no sentence is left to evaluate" in capsys.readouterr().err


@pytest.mark.slow
def test_what_perplexity_leaves_out_is_said(corpus, language_model_dir, tmp_path, caplog):
    lines = "Der\n\n" + "Montag " * 60 + "\n"
    (tmp_path / "text").write_text(lines)
    options = ["--model-dir", str(language_model_dir), "--reference", str(tmp_path / "text")]
    assert main(["evaluate", *options]) == 0
    assert "1 are empty, 1 longer than the model's limit of 40 tokens" in caplog.text


def test_a_missing_source_is_said(corpus, tmp_path, capsys):
    """Against an explicit setting it is refused; in any other refusal it is named."""
    model_dir = ["--model-dir", str(tmp_path / "model")]
    target = [*corpus.options[2:4], *corpus.options[6:]]
    for setting in ("model.decoder_only=false", "model.tied_embeddings=all"):
        assert main(["train", *target, *model_dir, "--set", setting]) == 2
        error = capsys.readouterr().err
        assert "source" in error, setting
    assert "(without --source, a language model is trained)" in error

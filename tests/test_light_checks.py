"""Wrong command lines are refused, and `runs` answers, without waiting for TensorFlow."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.conftest import SMALL_SETTINGS
from tf_transformer.__main__ import main

ROOT = pathlib.Path(__file__).parents[1]

# Runs command lines one after the other in a process that cannot import TensorFlow or Keras.
PROGRAM = """\
import contextlib, io, json, sys, traceback
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name in ("tensorflow", "tensorflow_text", "keras"):
            raise RuntimeError(f"{name} is imported")
sys.meta_path.insert(0, Refusing())
from tf_transformer.__main__ import main
found = {}
for name, words in json.load(sys.stdin).items():
    streams = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            status = main(words)
        except SystemExit as exit:
            status = exit.code
        except BaseException:
            status = traceback.format_exc()
    for stream in streams:
        stream.flush()
    found[name] = [status, *(stream.buffer.getvalue().decode() for stream in streams)]
json.dump(found, sys.stdout)
"""


def run_without_tensorflow(command_lines, **variables):
    """Status, output and errors of command lines, `{name: words}`, as `{name: [...]}`.

    `variables` are those of the environment.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(command_lines),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | variables,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Name: the words of a wrong command line, and what its one line on standard error says. Braces
# stand for the files that `places` makes.
WRONG = {
    "train, corpus": (
        "train --source {none} --target {text} --validation-source {text} --validation-target "
        "{text} --model-dir {new}",
        "none: no such file",
    ),
    "train, validation": (
        "train --target {text} --validation-target {none} --model-dir {new}",
        "none: no such file",
    ),
    "train, prepared": (
        "train --prepared {none} --validation-target {text} --model-dir {new}",
        "none: no such folder",
    ),
    "train, settings": (
        "train --target {text} --validation-target {text} --model-dir {new} --set model.d_modle=8",
        "Unknown setting of the model: 'd_modle'",
    ),
    "train, folder": (
        "train --target {text} --validation-target {text} --model-dir {text}",
        "text: expected a folder",
    ),
    "train, first model": (
        "train --target {text} --validation-target {text} --model-dir {new} --init-from {none}",
        "none is not a model directory",
    ),
    "train, vocabulary": (
        "train --target {text} --validation-target {text} --model-dir {new} --vocabulary {none}",
        "none: has no vocabulary",
    ),
    "train, vectors": (
        "train --target {text} --validation-target {text} --model-dir {new} "
        "--set vocabulary.target_vectors={none}",
        "none: no such file",
    ),
    "train, a link in its place": (
        "train --target {text} --validation-target {text} --model-dir {linked}",
        "model.weights.h5: expected",
    ),
    "train, a shard that is gone": (
        "train --prepared {gone} --validation-target {text} --model-dir {new}",
        "shard-00000.tfrecord: no such file",
    ),
    "train, alignments that are gone": (
        "train {corpus} --alignments {none} --model-dir {new}",
        "none: no such file",
    ),
    "train, alignments of a prepared corpus": (
        "train --prepared {gone} --alignments {text} --validation-target {text} --model-dir {new}",
        "a prepared folder cannot have any: leave out --alignments",
    ),
    "train, alignments that are text": (
        "train --source {text} --target {text} --alignments {text} --validation-source {text} "
        "--validation-target {text} --model-dir {new}",
        "text:1: expected links of words such as 0-0 1-2, got ",
    ),
    "train, alignments of a language model": (
        "train --target {text} --alignments {text} --validation-target {text} --model-dir {new}",
        "a language model has no source to align with; leave out --alignments",
    ),
    "train, a head without alignments": (
        "train {corpus} --model-dir {new} --set model.alignment_head=1",
        "'model.alignment_head: 1' needs word alignments",
    ),
    "align, model": (
        "align --model-dir {none} --source {text} --target {text} --output {new}",
        "none is not a model directory",
    ),
    "align, symmetrization": (
        "align --model-dir {model} --source {text} --target {text} --output {new} "
        "--symmetrize union",
        "--symmetrize is valid only with --reverse-model-dir",
    ),
    "align, weights of a server": (
        "align --server h:1 --ensemble-weights 1 --source {text} --target {text} --output {new}",
        "--ensemble-weights is valid only with --model-dir",
    ),
    "align, type of exported models": (
        "align --server h:1 --dtype int8 --source {text} --target {text} --output {new}",
        "--dtype is valid only with --model-dir or --reverse-model-dir",
    ),
    "align, options of a server": (
        "align --model-dir {model} --deadline 1 --source {text} --target {text} --output {new}",
        "--deadline is valid only with --server",
    ),
    "align, name of another server": (
        "align --model-dir {model} --reverse-server h:1 --model m --source {text} --target {text} "
        "--output {new}",
        "--model is valid only with --server",
    ),
    "align, name of a reverse model": (
        "align --model-dir {model} --reverse-model m --source {text} --target {text} "
        "--output {new}",
        "--reverse-model is valid only with --reverse-server",
    ),
    "align, reverse SavedModel": (
        "align --model-dir {model} --reverse-saved-model {none} --source {text} --target {text} "
        "--output {new}",
        "none: expected an exported model, such as served/1",
    ),
    "align, reference": (
        "align --model-dir {model} --source {text} --target {text} --output {new} "
        "--reference {text}",
        "text:1: expected links of words such as 0-0 1-2, got ",
    ),
    "align, output": (
        "align --model-dir {model} --source {text} --target {text} --output {text}",
        "text is an input file",
    ),
    "train, no name": (
        "train --target {text} --validation-target {text} --model-dir=",
        "expected the name of a folder, got ''",
    ),
    "translate, no name": ("translate --model-dir=", "expected the name of a folder, got ''"),
    "translate, a name of the Hub": (
        "translate --model-dir hf:a/b",
        "expected a folder, got hf:a/b; `tf-transformer import --input hf:a/b --model-dir DIR`",
    ),
    "translate, no name of the terms": (
        "translate --model-dir {model} --terms=",
        "expected the name of a file, got ''",
    ),
    "translate, no name of the output": (
        "translate --model-dir {model} --output=",
        "expected the name of a file, got ''",
    ),
    "prepare, no name of the output": (
        "prepare --source {text} --target {text} --output=",
        "expected the name of a folder, got ''",
    ),
    "runs, no name": ("runs {model} ", "expected the name of a folder, got ''"),
    "train, a file that no run wrote": (
        "train --target {text} --validation-target {text} --model-dir {taken}",
        "training.png is not of a training run",
    ),
    "train, a record that no run wrote": (
        "train --target {text} --validation-target {text} --model-dir {recorded}",
        "training.json: expected the record of a training run",
    ),
    "translate, no server": ("translate --server= --input {text}", "`address` must be HOST:PORT"),
    "train, settings that a run keeps": (
        "train {corpus} --model-dir {model} --set {small} model.dropout_rate=0.2",
        "model was trained with model.dropout_rate=0.1; received 0.2",
    ),
    "train, fewer steps": (
        "train {corpus} --model-dir {model} --set {small} --steps 20",
        "model has been trained for 30 steps; received optimization.steps=20",
    ),
    "train, model of others": (
        "train {corpus} --model-dir {foreign}",
        "foreign holds a model that this command did not train",
    ),
    "train, backup": (
        "train --target {text} --validation-target {text} --model-dir {new} --backup bucket",
        "--backup bucket: expected a URL such as gs://bucket/run",
    ),
    "restore, backup": ("restore --backup bucket --model-dir {new}", "expected a URL such as gs:"),
    "restore, folder": (
        "restore --backup file:///nowhere --model-dir {model}",
        "model: expected a new or empty folder",
    ),
    "train, cluster": (
        "train --target {text} --validation-target {text} --model-dir {new} "
        "--strategy multi_worker",
        "expected the workers' addresses in the environment variable TF_CONFIG",
    ),
    "train, devices": (
        "train --target {text} --validation-target {text} --model-dir {new} "
        "--strategy one_device --devices 2",
        "--strategy one_device: expected no --devices, or 1. Received: 2",
    ),
    "train, devices without end": (
        "train --target {text} --validation-target {text} --model-dir {new} "
        "--devices 99999999999999999999",
        "--devices: expected 1 to 1024. Received: 99999999999999999999",
    ),
    "train, validation source": (
        "train --source {text} --target {text} --validation-target {text} --model-dir {new}",
        "no validation source is given, which every model but a language model "
        "(model.decoder_only) needs; give it as --validation-source",
    ),
    "train, source too many": (
        "train --target {text} --validation-source {text} --validation-target {text} "
        "--model-dir {new}",
        "has no validation source; leave out --validation-source",
    ),
    "train, lengths": (
        "train --source {text} --target {two} --validation-source {text} --validation-target "
        "{text} --model-dir {new}",
        "text has 1 lines, ",
    ),
    "train, validation lengths": (
        "train --source {text} --target {text} --validation-source {text} --validation-target "
        "{two} --model-dir {new}",
        "text has 1 lines, ",
    ),
    "train, empty": (
        "train --target {empty} --validation-target {text} --model-dir {new}",
        "empty is empty",
    ),
    "train, LoRA of no model": (
        "train {corpus} --model-dir {new} --lora 4",
        "LoRA (--lora, lora.rank) adapts a trained model; give it as --init-from",
    ),
    "train, LoRA of no layer": (
        "train {corpus} --model-dir {new} --init-from {model} --lora 4 --lora-targets encodr/*",
        "'lora.targets': 'encodr/*' matches nothing of this model",
    ),
    "train, frozen": (
        "train {corpus} --model-dir {new} --set optimization.frozen=[encodr/*]",
        "'optimization.frozen': 'encodr/*' matches nothing of this model",
    ),
    "train, pieces of no model": (
        "train {corpus} --model-dir {new} --add-pieces {text}",
        "--add-pieces extends the vocabulary of a model; give it as --init-from",
    ),
    "train, pieces": (
        "train {corpus} --model-dir {new} --init-from {model} --add-pieces {none}",
        "none: no such file",
    ),
    "translate, adapter": (
        "translate --model-dir {model} --adapter {none}",
        "none: no such file",
    ),
    "evaluate, adapter": (
        "evaluate --model-dir {model} --source {text} --reference {text} --adapter {text}",
        "text: damaged, or of another model",
    ),
    "evaluate, adapter as output": (
        "evaluate --model-dir {model} --source {text} --reference {text} --adapter {two} "
        "--json {two}",
        "two is an input file; give another one",
    ),
    "export, adapters": (
        "export --model-dir {model} --output {new} --adapters a={none}",
        "none: no such file",
    ),
    "export, signature of adapters": (
        "export --model-dir {model} --output {new} --signatures adapted",
        "The signature 'adapted' needs --adapters NAME=F",
    ),
    "export, files of left out signatures": (
        "export --model-dir {model} --output {new} --signatures score --confidence {none}",
        "--confidence is for the signature `confidence`, which --signatures leaves out",
    ),
    "export, confidence": (
        "export --model-dir {model} --output {new} --confidence {text}",
        "text: not JSON",
    ),
    "translate, sentences and n best": (
        "translate --model-dir {model} --split-sentences --n-best 2",
        "--n-best is not valid with --split-sentences",
    ),
    "translate, sentences and candidates": (
        "translate --model-dir {model} --split-sentences --mbr",
        "--split-sentences is not valid with reranking or minimum Bayes risk, which",
    ),
    "translate, an output without length": (
        "translate --model-dir {model} --max-length 0",
        "--max-length 0: expected 1 to 1048576",
    ),
    "translate, n-grams of candidates": (
        "translate --model-dir {model} --no-repeat-ngram 3 --mbr",
        "--no-repeat-ngram is not valid with reranking or minimum Bayes risk",
    ),
    "translate, capitals of lines": (
        "translate --model-dir {model} --keep-capitals",
        "--keep-capitals is valid only with --split-sentences or --markup",
    ),
    "translate, confidence of a model": (
        "translate --model-dir {model} --confidence",
        "--confidence: expected a file with --model-dir",
    ),
    "translate, confidence of a server": (
        "translate --server localhost:8501 --confidence {text}",
        "--confidence: expected no file with --server",
    ),
    "translate, confidence and n best": (
        "translate --model-dir {model} --confidence {text} --n-best 2",
        "--n-best is not valid with --confidence",
    ),
    "translate, file of confidences": (
        "translate --model-dir {model} --confidence {text}",
        "text: not JSON",
    ),
    "translate, languages of lines": (
        "translate --model-dir {model} --document-languages en",
        "--document-languages is valid only with --split-sentences",
    ),
    "translate, languages of documents": (
        "translate --model-dir {model} --split-sentences --document-languages German",
        "--document-languages 'German': no abbreviations are known; expected some of bg, ca, cs",
    ),
    "translate, unknown language of documents": (
        "translate --model-dir {model} --split-sentences --document-languages en xx",
        "--document-languages 'xx': no abbreviations are known; expected some of bg, ca, cs",
    ),
    "translate, languages of a server": (
        "translate --server localhost:8501 --split-sentences --document-languages en",
        "--document-languages is valid only with --model-dir",
    ),
    "export, languages of documents": (
        "export --model-dir {model} --output {new} --document-languages en",
        "--document-languages is for the signatures document, document_options, document_terms, "
        "which --signatures leaves out",
    ),
    "translate, markup and n best": (
        "translate --server localhost:8501 --markup xml --n-best 2",
        "--n-best is not valid with --markup",
    ),
    "train-confidence, lines": (
        "train-confidence --model-dir {model} --source {text} --reference {two} --output {new}",
        "expected the same number of lines",
    ),
    "train, itself": (
        "train {corpus} --model-dir {model} --init-from {model}/../{model.name}",
        "is the --model-dir; give another --model-dir",
    ),
    "train, place": (
        "train --target {text} --validation-target {text} --model-dir /proc/x",
        "/proc: cannot create a folder there",
    ),
    "train, tag": (
        "train --source {text} --target {text} --validation-source {text} --validation-target "
        "{text} --model-dir {new} --set vocabulary.languages=[de]",
        "text:1: a source for this vocabulary must start with the tag of the target language",
    ),
    "evaluate, lengths": (
        "evaluate --model-dir {model} --source {text} --reference {two}",
        "text has 1 lines, ",
    ),
    "evaluate, metric": (
        "evaluate --model-dir {model} --source {text} --reference {text} --metrics ter blue",
        "Unknown metric: 'blue'; did you mean 'bleu'?",
    ),
    "evaluate, option of another metric": (
        "evaluate --model-dir {model} --source {text} --reference {text} --comet-gpus 1",
        "--comet-gpus is valid only with --metrics comet",
    ),
    "evaluate, no metric of sentences": (
        "evaluate --model-dir {model} --source {text} --reference {text} --metrics perplexity "
        "--sentence-scores {none}",
        "--sentence-scores needs metrics of sentences",
    ),
    "evaluate, nothing to compare": (
        "evaluate --model-dir {model} --source {text} --reference {text} --metrics exact "
        "perplexity --compare {text}",
        "--compare needs another metric than exact and perplexity, or --report",
    ),
    "evaluate, second reference": (
        "evaluate --model-dir {model} --source {text} --reference {text} {two}",
        "must have the same number of lines",
    ),
    "evaluate, no reference": (
        "evaluate --model-dir {model} --source {text}",
        "give --source and --reference, or --test-set and --language-pair",
    ),
    "evaluate, test set": (
        "evaluate --model-dir {model} --test-set wmt33 --language-pair en-de",
        "Unknown test set: 'wmt33'; did you mean 'wmt23'?",
    ),
    "evaluate, test set and source": (
        "evaluate --model-dir {model} --test-set wmt23 --language-pair en-de --source {text}",
        "--source is not valid with --test-set, which has its own",
    ),
    "evaluate, languages of a test set": (
        "evaluate --model-dir {model} --test-set wmt23",
        "--test-set needs a --language-pair",
    ),
    "evaluate, subset of a file": (
        "evaluate --model-dir {model} --source {text} --reference {text} --subset news",
        "--subset is valid only with --test-set",
    ),
    "evaluate, systems' lengths": (
        "evaluate --model-dir {model} --source {text} --reference {text} --compare {two}",
        "two must have one line for each of the 1 sentences of the test set. Received: 2 lines",
    ),
    "distill, tokenizer": (
        "distill --teacher {model} --source {text} --target {text} --output {new} --tokenize zh",
        "--tokenize is valid only with --keep bleu",
    ),
    "tune, space": (
        "tune {corpus} --output {new} --trials 2 --space {none}",
        "none: no such file",
    ),
    "tune, no space": (
        "tune {corpus} --output {new} --trials 2 --space {text}",
        "text: expected the sections settings and search",
    ),
    "tune, trials": (
        "tune {corpus} --output {new} --space {space}",
        "--trials: expected the number of models to train",
    ),
    "tune, no trials": (
        "tune {corpus} --output {new} --space {space} --trials 0",
        "--trials 0: expected 1 to 100,000",
    ),
    "tune, grid of a range": (
        "tune {corpus} --output {new} --space {space} --sampler grid",
        "model.dropout_rate: a grid needs a list of values, or a range with a step",
    ),
    "tune, settings of a model": (
        "tune --model-dir {model} --validation-source {text} --validation-target {text} "
        "--output {new} --space {space}",
        "with --model-dir, expected the section search alone",
    ),
    "tune, trials of a model": (
        "tune --model-dir {model} --validation-target {text} --output {new} --space {space} "
        "--trials 2",
        "--trials is for training; leave it out with --model-dir",
    ),
    "tune, corpus": (
        "tune --target {none} --validation-target {text} --output {new} --space {space} --trials 1",
        "none: no such file",
    ),
    "tune, base settings": (
        "tune {corpus} --output {new} --space {space} --trials 1 --set model.d_modle=8",
        "Unknown setting of the model: 'd_modle'",
    ),
    "tune, adapter": (
        "tune {corpus} --output {new} --trials 1 --space {space} --adapter {none}",
        "--adapter is valid only with --model-dir",
    ),
    "tune, a rank": (
        "tune {corpus} --output {new} --trials 1 --space {ranks}",
        "ranks: lora.rank is of the adaptation of a trained model; `tune` trains models from",
    ),
    "tune, the size of a vocabulary": (
        "tune {corpus} --output {new} --trials 1 --space {sizes} --vocabulary {model}",
        "sizes: vocabulary.size cannot change, since the vocabulary is that of --vocabulary",
    ),
    "average, model": ("average --model-dir {none} --last 1", "none is not a model directory"),
    "average, none": ("average --model-dir {model} --last 0", "--last 0: expected at least 1"),
    "average, gone": ("average --model-dir {weightless} --last 9", "holds no checkpoints"),
    "average, one model": (
        "average --model-dir {new} --models {model}",
        "--models: expected at least two models",
    ),
    "average, weights of checkpoints": (
        "average --model-dir {model} --last 1 --weights 1",
        "--weights is valid only with --models",
    ),
    "average, weights of models": (
        "average --model-dir {new} --models {model} {model} --weights 1 0",
        "a model's weight: expected a positive number, got 0.0",
    ),
    "evaluate, no name": (
        "evaluate --model-dir {model} --reference {text} --source=",
        "argument --source: expected the name of a file, got ''",
    ),
    "train, no name of the source": (
        "train --source= --target {text} --validation-target {text} --model-dir {new}",
        "argument --source: expected the name of a file, got ''",
    ),
    "average, over a model": (
        "average --model-dir {model} --models {model} {model}",
        "expected a new or empty folder",
    ),
    "average, best": ("average --model-dir {model} --best 0", "--best 0: expected at least 1"),
    "evaluate, corpus": (
        "evaluate --model-dir {model} --source {none} --reference {text}",
        "none: no such file",
    ),
    "evaluate, systems": (
        "evaluate --model-dir {model} --source {text} --reference {text} --compare {none}",
        "none: no such file",
    ),
    "evaluate, model": (
        "evaluate --model-dir {none} --source {text} --reference {text}",
        "none is not a model directory",
    ),
    "evaluate, source": (
        "evaluate --model-dir {model} --reference {text}",
        "holds a translation model; give a --source",
    ),
    "evaluate, beam": (
        "evaluate --model-dir {model} --source {text} --reference {text} --beam-size 0",
        "--beam-size 0: expected 1 to 1000",
    ),
    "evaluate, language": (
        "evaluate --model-dir {model} --source {text} --reference {text} --target-language de",
        "no tag for the language 'de', it is not multilingual",
    ),
    "evaluate, output": (
        "evaluate --model-dir {model} --source {text} --reference {text} --json {none}/x",
        "there is no folder",
    ),
    "translate, model": ("translate --model-dir {none}", "none is not a model directory"),
    "translate, weights": ("translate --model-dir {weightless}", "no model.weights.h5 yet"),
    "translate, vocabulary": ("translate --model-dir {mute}", "target.spm: missing or damaged"),
    "translate, input": ("translate --model-dir {model} --input {none}", "none: no such file"),
    "translate, column": (
        "translate --model-dir {model} --input x.tsv:" + "9" * 5000,
        "expected a column of at most 9 digits, got 5,000 digits",
    ),
    "train, column": (
        "train --target x.tsv:" + "9" * 5000 + " --validation-target {text} --model-dir {new}",
        "expected a column of at most 9 digits, got 5,000 digits",
    ),
    "translate, folder": ("translate --model-dir {model} --input {model}", "is a directory"),
    "translate, output": ("translate --model-dir {model} --output {none}/x", "there is no folder"),
    "translate, weights as output": (
        "translate --model-dir {model} --input {text} --output {model}/model.weights.h5",
        "is a file of the model",
    ),
    "translate, vocabulary as output": (
        "translate --model-dir {model} --input {text} --output {model}/../{model.name}/target.spm",
        "is a file of the model",
    ),
    "evaluate, checkpoint as output": (
        "evaluate --model-dir {model} --source {text} --reference {text} --json "
        "{model}/checkpoints/step-30.index",
        "is a file of the model",
    ),
    "evaluate, log of scores as output": (
        "evaluate --model-dir {model} --source {text} --reference {text} --json "
        "{model}/scores.jsonl",
        "is a file of the model",
    ),
    "runs, weights as output": (
        "runs {model}/.. --json {model}/model.weights.h5",
        "is a file of the model",
    ),
    "picture, log as output": (
        "picture training --model-dir {model} --output {model}/logs/x.png",
        "is a file of the model",
    ),
    "attention, checkpoints as output": (
        "attention --model-dir {model} --text x --output {model}/checkpoints/x.png",
        "is a file of the model",
    ),
    "export, logs as output": (
        "export --model-dir {model} --output {model}/logs/served",
        "is a file of the model",
    ),
    "translate, beam": (
        "translate --model-dir {model} --beam-size 1001",
        "--beam-size 1001: expected 1 to 1000",
    ),
    "translate, penalty": (
        "translate --model-dir {model} --length-penalty nan",
        "--length-penalty nan: expected 0 to 10",
    ),
    "translate, best": (
        "translate --model-dir {model} --n-best 5",
        "--n-best 5: expected at most the --beam-size, 4",
    ),
    "translate, best of samples": (
        "translate --model-dir {model} --mbr --mbr-samples 8 --n-best 9",
        "--n-best 9: expected at most the --mbr-samples, 8",
    ),
    "translate, utility": ("translate --model-dir {model} --mbr ter", "invalid choice: 'ter'"),
    "translate, samples alone": (
        "translate --model-dir {model} --mbr-samples 8",
        "--mbr-samples is valid only with --mbr",
    ),
    "translate, seed alone": (
        "translate --model-dir {model} --mbr --seed 8",
        "--seed is valid only with --mbr-samples",
    ),
    "translate, samples": (
        "translate --model-dir {model} --mbr --mbr-samples 1",
        "--mbr-samples 1: expected 2 to 1000",
    ),
    "translate, temperature": (
        "translate --model-dir {model} --mbr --mbr-samples 2 --mbr-temperature nan",
        "--mbr-temperature nan: expected 0.001 to 100",
    ),
    "translate, tokenizer of chrF": (
        "translate --model-dir {model} --mbr --mbr-tokenize zh",
        "--mbr-tokenize is valid only with --mbr bleu",
    ),
    "translate, one candidate": (
        "translate --model-dir {model} --mbr --beam-size 1",
        "--mbr chooses among the hypotheses of the beam; expected a --beam-size of at least 2",
    ),
    "translate, two criteria": (
        "translate --model-dir {model} --mbr --rerank-lm {model} --rerank-lm-weight 1",
        "--mbr and --rerank-lm choose by different criteria; give one of them",
    ),
    "translate, samples and beam": (
        "translate --model-dir {model} --mbr --mbr-samples 8 --beam-size 8",
        "--beam-size is for beam search; leave it out with --mbr-samples",
    ),
    "evaluate, samples and length": (
        "evaluate --model-dir {model} --source {text} --reference {text} --mbr --mbr-samples 8 "
        "--length-penalty 1",
        "--length-penalty is for beam search; leave it out with --mbr-samples",
    ),
    "translate, samples and shortlist": (
        "translate --model-dir {model} --mbr --mbr-samples 8 --shortlist {none}",
        "--shortlist is for beam search; leave it out with --mbr-samples",
    ),
    "translate, no weight": (
        "translate --model-dir {model} --rerank-reverse {model}",
        "--rerank-reverse needs --rerank-reverse-weight; `evaluate --tune-weights` finds a value",
    ),
    "translate, weight": (
        "translate --model-dir {model} --rerank-reverse {model} --rerank-reverse-weight -1",
        "--rerank-reverse-weight -1: expected 0 to 1000",
    ),
    "translate, reverse model": (
        "translate --model-dir {model} --rerank-reverse {none} --rerank-reverse-weight 1",
        "none is not a model directory",
    ),
    "translate, languages of the reverse model": (
        "translate --model-dir {model} --rerank-reverse {model} --rerank-reverse-weight 1 "
        "--rerank-reverse-languages en",
        "needs no languages. Received: en",
    ),
    "translate, no language model": (
        "translate --model-dir {model} --rerank-lm {model} --rerank-lm-weight 1",
        "expected a language model",
    ),
    "translate, no terms": (
        "translate --model-dir {model} --terms {none}",
        "none: no such file",
    ),
    "translate, terms without tabs": (
        "translate --model-dir {model} --terms {two}",
        "two:1: expected two phrases separated by a tab, got 0 tabs",
    ),
    "translate, protected": (
        "translate --model-dir {model} --protect dates",
        "invalid choice: 'dates'",
    ),
    "translate, terms and several translations": (
        "translate --model-dir {model} --protect urls --n-best 2",
        "--n-best is not valid with --protect",
    ),
    "translate, terms and XLA": (
        "translate --model-dir {model} --protect urls --xla on",
        "--xla on is not valid with --protect",
    ),
    "translate, server and int8": (
        "translate --server localhost:1 --dtype int8",
        "--dtype is valid only with --model-dir",
    ),
    "evaluate, server and a shortlist": (
        "evaluate --server localhost:1 --source {text} --reference {text} --shortlist {text}",
        "--shortlist is valid only with --model-dir",
    ),
    "evaluate, server without source": (
        "evaluate --server localhost:1 --reference {text}",
        "give a --source. A language model is evaluated with --model-dir",
    ),
    "back-translate, an empty text": (
        "back-translate --server localhost:1 --input {empty} --output {new}",
        "empty is empty",
    ),
    "back-translate, server and int8": (
        "back-translate --server localhost:1 --input {text} --output {new} --dtype int8",
        "--dtype is valid only with --model-dir",
    ),
    "distill, no name": (
        "distill --source {text} --target {text} --output {new} --teacher ",
        "argument --teacher: expected the name of a folder, got ''",
    ),
    "distill, teacher": (
        "distill --source {text} --target {text} --output {new} --teacher localhost:0",
        "`address` must be HOST:PORT",
    ),
    "identify, no model": (
        "identify --input {text}",
        "one of the arguments --language-id --saved-model --server is required",
    ),
    "identify, protocol": (
        "identify --language-id {text} --protocol grpc --input {text}",
        "--protocol is valid only with --server",
    ),
    "evaluate, MBR without source": (
        "evaluate --model-dir {model} --reference {text} --mbr",
        "--mbr is for translations; give a --source",
    ),
    "evaluate, tokenizer without source": (
        "evaluate --model-dir {model} --reference {text} --tokenize zh",
        "--tokenize is for translations; give a --source",
    ),
    "evaluate, nothing to tune": (
        "evaluate --model-dir {model} --source {text} --reference {text} --tune-weights",
        "--tune-weights is valid only with --rerank-reverse or --rerank-lm",
    ),
    "evaluate, output of tuning": (
        "evaluate --model-dir {model} --source {text} --reference {text} --rerank-reverse {model} "
        "--tune-weights --output {new}",
        "--output is not valid with --tune-weights",
    ),
    "translate, piece": (
        "translate --model-dir {model} --end-piece Zugspitze",
        "`end_pieces` must be pieces of the vocabulary",
    ),
    "translate, dtype": ("translate --model-dir {model} --dtype float8", "invalid choice"),
    "translate, XLA": ("translate --model-dir {model} --xla yes", "invalid choice"),
    "translate, XLA and int8": (
        "translate --model-dir {model} --xla on --dtype int8",
        "--xla on: XLA cannot compile a model in int8; leave out --dtype int8",
    ),
    "translate, XLA and server": (
        "translate --server localhost:1 --xla off",
        "--xla is valid only with --model-dir",
    ),
    "export, int8 for a GPU": (
        "export --model-dir {model} --output {new} --device gpu --dtype int8",
        "--device gpu: int8 needs the CPU; leave out --dtype int8",
    ),
    "evaluate, XLA and int8": (
        "evaluate --model-dir {model} --source {text} --reference {text} --xla on --dtype int8",
        "--xla on: XLA cannot compile a model in int8; leave out --dtype int8",
    ),
    "evaluate, XLA without source": (
        "evaluate --model-dir {model} --reference {text} --xla on",
        "--xla is for translations; give a --source",
    ),
    "complete, XLA and int8": (
        "complete --model-dir {model} --xla on --dtype int8",
        "--xla on: XLA cannot compile a model in int8; leave out --dtype int8",
    ),
    "translate, server": ("translate --server nowhere", "`address` must be HOST:PORT"),
    "complete, model": ("complete --model-dir {none}", "none is not a model directory"),
    "complete, source": ("complete --model-dir {model}", "expected a language model"),
    "complete, pieces of a server": (
        "complete --server h:1 --end-piece .",
        "--end-piece is valid only with --model-dir",
    ),
    "complete, two places": (
        "complete --server h:1 --model-dir {model}",
        "not allowed with argument",
    ),
    "complete, tokens": (
        "complete --model-dir {model} --max-tokens 0",
        "--max-tokens 0: expected at least 1",
    ),
    "complete, beam": ("complete --model-dir {model} --beam-size 0", "expected 1 to 1000"),
    "export, model": (
        "export --model-dir {none} --output {new}",
        "none is not a model directory",
    ),
    "export, output": (
        "export --model-dir {model} --output {text}",
        "text: expected a folder",
    ),
    "export, model as output": (
        "export --model-dir {model} --output {model}/../{model.name}",
        "is the model directory; expected another folder",
    ),
    "export, signatures": (
        "export --model-dir {model} --output {new} --signatures bset",
        "Unknown signature. Expected one of all, serving_default",
    ),
    "export, bytes that are not UTF-8": (
        "export --model-dir {model} --output {new}/\udcff",
        r"\udcff: expected a folder whose whole path is in UTF-8",
    ),
    "export, pattern": (
        "export --model-dir {model} --output {new}/[1]",
        "TensorFlow cannot load files from a folder with [ or ",
    ),
    "export, languages": (
        "export --model-dir {model} --output {new} --languages x",
        "--languages x: expected FROM-TO",
    ),
    "export, scores": (
        "export --model-dir {model} --output {new} --scores {text}",
        "text: not JSON",
    ),
    "export, beam": (
        "export --model-dir {model} --output {new} --beam-size -1",
        "--beam-size -1: expected 1 to 1000",
    ),
    "export, calibration without int8": (
        "export --model-dir {model} --output {new} --calibrate {text}",
        "--calibrate is valid only with --dtype int8",
    ),
    "export, empty calibration": (
        "export --model-dir {model} --output {new} --dtype int8 --calibrate {empty}",
        "empty: expected sentences to calibrate with",
    ),
    "evaluate, noise": (
        "evaluate --model-dir {model} --source {text} --reference {text} --perturb uper",
        "--perturb uper: expected one of upper, title, no_end, typos, copies",
    ),
    "evaluate, noise without source": (
        "evaluate --model-dir {model} --reference {text} --perturb upper",
        "--perturb is for translations; give a --source",
    ),
    "train, noise of a prepared folder": (
        "train --prepared {gone} --validation-target {text} --model-dir {new} --set "
        "data.noise.typos=0.1",
        "'data.noise'",
    ),
    "evaluate, percentile": (
        "evaluate --model-dir {model} --source {text} --reference {text} --dtype int8 "
        "--calibrate {text} --calibration-percentile 0",
        "--calibration-percentile 0: expected from 50 to 100",
    ),
    "attention, model": ("attention --model-dir {none} --text x", "none is not a model directory"),
    "attention, text": ("attention --model-dir {model} --text=", "--text '': expected a sentence"),
    "attention, output": (
        "attention --model-dir {model} --text x --output x.gif",
        "expected a name that ends in",
    ),
    "attention, beam": (
        "attention --model-dir {model} --text x --beam-size 0",
        "--beam-size 0: expected 1 to 1000",
    ),
    "picture, masks": ("picture masks --lengths 0", "expected numbers from 1 to 1000"),
    "picture, positions": ("picture positions --d-model 3", "--d-model must be even"),
    "picture, products": (
        "picture position-products --shift -1",
        "--shift must be between 0 and 1,000,000",
    ),
    "picture, rates": ("picture learning-rate --steps 0", "--steps must be between"),
    "picture, labels": ("picture smoothed-labels --label-smoothing 1", "at least 0 and below 1"),
    "picture, penalty": ("picture overconfidence --label-smoothing -1", "at least 0 and below 1"),
    "picture, training": ("picture training --model-dir {none}", "no TensorBoard files there"),
    "picture, search": (
        "picture search --model-dir {none} --text x",
        "none is not a model directory",
    ),
    "prepare, corpus": ("prepare --target {none} --output {new}", "none: no such file"),
    "prepare, vocabulary": (
        "prepare --target {text} --output {new} --vocabulary {none}",
        "none: has no vocabulary",
    ),
    "prepare, damaged": (
        "prepare --target {text} --output {new} --vocabulary {mute}",
        "SentencePiece model",
    ),
    "prepare, settings": (
        "prepare --target {text} --output {new} --set data.max_length=0",
        "setting 'data.max_length'",
    ),
    "data-service, port": (
        "data-service --trust-network --port 65536",
        "port 65536: expected 0 to 65535",
    ),
    "data-service, network": ("data-service --port 0", "--trust-network"),
    "data-service, busy": ("data-service --trust-network --port {busy}", "address already in use"),
    "import, input": ("import --input {none} --model-dir {new}", "none: no such file or directory"),
    "import, format": ("import --input {model} --model-dir {new}", "not recognized as a model of"),
    "import, setting": (
        "import --input {model} --model-dir {new} --format marian --set num_heads=8",
        "the files of the format marian contain all settings",
    ),
    "import, no value": (
        "import --input {model} --model-dir {new} --set num_heads",
        "--set num_heads: expected NAME=VALUE",
    ),
    "import, output": (
        "import --input {model} --model-dir {model}",
        "expected a new or empty folder",
    ),
    "convert, output": (
        "convert --model-dir {model} --to hf --output {model}",
        "expected a new or empty folder",
    ),
    "convert, model": (
        "convert --model-dir {none} --to hf --output {new}",
        "not a model directory",
    ),
    "convert, setting": (
        "convert --model-dir {model} --to hf --output {new}",
        "the format hf cannot hold a model with positions='interleaved', only 'concatenated'",
    ),
    "compare, no file": ("compare {text} {none}", "none: no such file"),
    "compare, lengths": ("compare {text} {two}", "must have one line for each of the"),
    "evaluate, report": (
        "evaluate --model-dir {model} --source {text} --reference {text} --report {none}/r.html",
        "there is no folder",
    ),
    "runs, folder": ("runs {none}", "none: no such folder"),
    "runs, output": ("runs {model} --json {none}/x", "there is no folder"),
    "train-shortlist, corpus": (
        "train-shortlist --model-dir {model} --source {none} --target {text} --output {new}",
        "none: no such file",
    ),
    "train-shortlist, candidates": (
        "train-shortlist --model-dir {model} --source {text} --target {text} --output {new} "
        "--candidates -1",
        "--candidates -1: expected 0 to 1000",
    ),
    "train-shortlist, model": (
        "train-shortlist --model-dir {none} --source {text} --target {text} --output {new}",
        "none is not a model directory",
    ),
    "train-shortlist, output": (
        "train-shortlist --model-dir {model} --source {text} --target {text} --output {text}",
        "is an input file",
    ),
    "train-language-id, corpus": (
        "train-language-id --corpus en={text} --corpus de={none} --output {new}",
        "none: no such file",
    ),
    "train-language-id, one language": (
        "train-language-id --corpus en={text} --corpus en={two} --output {new}",
        "expected 2 to 256 languages, got 1",
    ),
    "train-language-id, output": (
        "train-language-id --corpus en={text} --corpus de={two} --output {two}",
        "is an input file",
    ),
    "identify, classifier": (
        "identify --language-id {none} --input {text}",
        "none: no such file; expected a classifier, as `train-language-id` writes it",
    ),
    "prepare, language alone": (
        "prepare --target {text} --output {new} --target-language de",
        "are valid only with --language-id",
    ),
    "prepare, classifier": (
        "prepare --target {text} --output {new} --target-language de --language-id {text}",
        "expected safetensors",
    ),
    "export, classifier": (
        "export --model-dir {model} --output {new} --language-id {text}",
        "expected safetensors",
    ),
    "translate, shortlist": (
        "translate --model-dir {model} --input {text} --shortlist {empty}",
        "empty: empty; expected a shortlist",
    ),
    "translate, shortlist of a server": (
        "translate --server localhost:1 --input {text} --shortlist {text}",
        "--shortlist is valid only with --model-dir",
    ),
    "evaluate, shortlist": (
        "evaluate --model-dir {model} --source {text} --reference {text} --shortlist {none}",
        "none: expected a shortlist",
    ),
    "evaluate, shortlist without a source": (
        "evaluate --model-dir {model} --reference {text} --shortlist {text}",
        "--shortlist is for translations; give a --source",
    ),
    "export, shortlist": (
        "export --model-dir {model} --output {new} --shortlist {text}",
        "text:1: expected a source piece, a tab, and target pieces",
    ),
    "web, address": ("web --server localhost", "`address` must be HOST:PORT"),
    "web, no model": ("web", "one of the arguments --model-dir --saved-model --server is required"),
    "web, port": ("web --server localhost:1 --port 65536", "65536: expected a port, 0 to 65535"),
    "web, confidence": (
        "web --server localhost:1 --confidence {text}",
        "--confidence is valid only with --model-dir",
    ),
    "web, file of confidence": ("web --model-dir {model} --confidence {text}", "text: not JSON"),
    "web, beam": ("web --saved-model {new} --beam-size 0", "--beam-size 0: expected 1 to 1000"),
    "web, limit": (
        "web --server localhost:1 --max-sentences 0",
        "--max-sentences 0: expected at least 1",
    ),
    "web, host": (
        "web --server localhost:1 --allowed-hosts example.*",
        "--allowed-hosts example.*: expected a name such as translate.example.com",
    ),
    "web, language": (
        "web --server localhost:1 --target-languages d|e",
        "expected the name of a language, such as 'de'",
    ),
    "web, languages": (
        "web --server localhost:1 --source-languages en",
        "--source-languages is valid only with --target-languages",
    ),
    "demo, output": ("demo --out {text}", "text: expected a folder"),
    "demo, seed": ("demo --out {new} --seed -1", "--seed -1: expected 0 to 4294967295"),
}


@pytest.fixture(scope="module")
def places(trained, corpus, tmp_path_factory):
    import socket

    directory = tmp_path_factory.mktemp("places")
    (directory / "text").write_text("a dog\n")
    (directory / "two").write_text("a dog\na cat\n")
    (directory / "empty").write_text("")
    (directory / "space").write_text("settings: {model.dropout_rate: {from: 0.0, to: 0.3}}\n")
    (directory / "ranks").write_text("settings: {lora.rank: [2, 4]}\n")
    (directory / "sizes").write_text("settings: {vocabulary.size: [300, 400]}\n")
    for name in ("weightless", "mute", "foreign"):
        shutil.copytree(trained, directory / name)
    (directory / "foreign" / "training.json").unlink()
    (directory / "weightless" / "model.weights.h5").unlink()
    shutil.rmtree(directory / "weightless" / "checkpoints")
    (directory / "mute" / "target.spm").write_text("mute")
    for name, file in (("taken", "training.png"), ("recorded", "training.json")):
        (directory / name).mkdir()
        (directory / name / file).write_text("mine")
    (directory / "linked").mkdir()
    (directory / "linked" / "model.weights.h5").symlink_to(directory / "text")
    command = ["prepare", "--target", corpus.path("train.de"), "--output", str(directory / "gone")]
    assert main([*command, "--set", "vocabulary.size=400", "model.decoder_only=true"]) == 0
    (directory / "gone" / "shard-00000.tfrecord").unlink()
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        names = (
            "text two empty new none weightless mute foreign linked gone taken recorded space "
            "ranks sizes"
        )
        yield {name: directory / name for name in names.split()} | {
            "model": trained,
            "busy": taken.getsockname()[1],
            "corpus": " ".join(corpus.options),
            "small": " ".join(f"{name}={value}" for name, value in SMALL_SETTINGS.items()),
        }


@pytest.fixture(scope="module")
def refused(places):
    lines = {name: words.format_map(places).split(" ") for name, (words, _) in WRONG.items()}
    return run_without_tensorflow(lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_is_refused_before_tensorflow_is_imported(refused, places, name):
    status, output, errors = refused[name]
    assert status == 2, status
    assert output == ""
    assert errors.startswith("tf-transformer") and errors.count("\n") == 1
    assert WRONG[name][1] in errors
    assert not places["new"].exists()


@pytest.mark.slow
@pytest.mark.parametrize("tf_config", ["{", "[" * 100_000, '{"cluster": {"worker": ["a"]}}'])
def test_a_broken_cluster_is_refused_before_tensorflow_is_imported(places, tf_config):
    words = "train --target {text} --validation-target {text} --model-dir {new}"
    line = {"train": words.format_map(places).split()}
    status, _, errors = run_without_tensorflow(line, TF_CONFIG=tf_config)["train"]
    assert status == 2, status
    assert errors.startswith("tf-transformer: error: the environment variable TF_CONFIG: ")
    assert errors.count("\n") == 1 and len(errors) < 2000
    assert not places["new"].exists()


@pytest.mark.slow
def test_runs_needs_no_tensorflow(trained, tmp_path):
    lines = {"runs": ["runs", str(trained.parent), "--json", str(tmp_path / "runs.json")]}
    status, output, errors = run_without_tensorflow(lines)["runs"]
    assert (status, errors) == (0, "")
    assert "damaged" not in output
    (run,) = json.loads((tmp_path / "runs.json").read_text())
    assert run["step"] == 30 and run["num_weights"] > 0 and run["validation"]["loss"] > 0


@pytest.mark.slow
def test_compare_needs_no_tensorflow(tmp_path):
    (tmp_path / "a").write_text("Ein Hund.\n")
    file, report = str(tmp_path / "a"), str(tmp_path / "r.html")
    words = ["compare", file, file, "--report", report]
    status, output, errors = run_without_tensorflow({"compare": words})["compare"]
    assert status == 0, errors
    assert "100.00 ± 0.00" in output and (tmp_path / "r.html").exists()

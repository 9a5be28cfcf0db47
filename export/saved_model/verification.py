"""Compares a SavedModel, run in a process without this project, with the original translator."""

import logging
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from typing import IO, cast

import numpy as np
import tensorflow as tf

from export.saved_model.answer_comparison import AnswerComparison
from export.saved_model.progress import with_progress
from export.saved_model.signatures import ServedTranslator
from tf_transformer.errors import InputError
from tf_transformer.inference.finite_scores import check_scores
from tf_transformer.inference.translator import Translator
from tf_transformer.tasks.table import TASKS
from tf_transformer.text.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

_PROBE = pathlib.Path(__file__).with_name("probe.py")

# Inputs that are hard for tokenizers: empty, blank, control bytes, invalid UTF-8, very long.
_ODD_STRINGS = (
    b"",
    b"   ",
    b"\t\x00\r",
    b"\xff\xfe\xe4",
    "😀 𝄞 e\u0301 \u202e".encode(),
    "你好，世界。".encode(),
    b"x" * 5000,
)
_NUM_BLANK = 2  # the first ones
# The first rows of the batches in which the texts are sent. In a batch all rows take as much memory
# as the longest, so the very long text is sent alone.
_BATCH_STARTS = (0, 6, 7, 15)

Inputs = dict[str, np.ndarray]


def verify(
    served: ServedTranslator,
    texts: list[bytes],
    saved_model: pathlib.Path,
    compiled: Sequence[dict[str, Inputs]] = (),
    *,
    is_int8: bool = False,
) -> None:
    """Compares every signature of a SavedModel with the translator in this process.

    Args:
        served: the signatures that were saved.
        texts: texts to translate.
        saved_model: folder of the SavedModel.
        compiled: requests for compiled searches, see `compiled_requests`.
        is_int8: whether the model is quantized, so that more rounding is allowed, see
            `AnswerComparison`.

    Raises:
        InputError: the process failed, an output differs, or a score is not finite.
    """
    requests = {name: _batches(inputs) for name, inputs in sample_requests(served, texts).items()}
    for batch in compiled:
        for name, inputs in batch.items():
            requests[name].append(inputs)
    _log.info("Running the SavedModel in a fresh process")
    answers = run_in_fresh_process(saved_model, requests)
    _log.info("Comparing its outputs with the model's")
    _compare_answers(served, requests, answers, is_int8)


def _compare_answers(served, requests, answers, is_int8):
    for name in with_progress(requests, "comparing"):
        comparison = AnswerComparison(name, is_int8=is_int8, num_exact=_NUM_BLANK)
        for inputs, answer in zip(requests[name], answers[name], strict=True):
            outputs = served.functions[name](*map(tf.constant, inputs.values()))
            for output, values in outputs.items():
                if output == "score" and values.shape.rank == 1:
                    check_scores(values)
            comparison.add({key: value.numpy() for key, value in outputs.items()}, answer)
        comparison.check()


def _batches(inputs: Inputs) -> list[Inputs]:
    ends = (*_BATCH_STARTS[1:], None)
    return [
        {name: array[start:end] for name, array in inputs.items()}
        for start, end in zip(_BATCH_STARTS, ends, strict=True)
    ]


def sample_texts(tokenizer: Tokenizer) -> list[bytes]:
    """Returns difficult strings, followed by 16 texts of 1 to 34 random pieces."""
    random = np.random.default_rng(0)
    size = tokenizer.vocab_size
    ids = tf.ragged.constant(
        [random.integers(4, size, length).tolist() for length in (1, 2, 3, 5, 8, 13, 21, 34) * 2],
        dtype=tf.int32,
    )
    return [*_ODD_STRINGS, *tokenizer.detokenize(ids).numpy().tolist()]


def warm_up_texts(texts: list[bytes]) -> list[bytes]:
    """Returns 8 of `sample_texts`, 1 to 34 pieces long like sentences, the one of 13 first."""
    *shorter, thirteen, longer, longest = texts[-8:]
    return [thirteen, *shorter, longer, longest]


def sample_requests(served: ServedTranslator, texts: list[bytes]) -> dict[str, Inputs]:
    """Returns inputs for every signature, with one row per text and varied per-row options."""
    lengths = np.arange(len(texts)) % 13
    return {
        name: sample_inputs(
            function.structured_input_signature[0], texts, lengths, served.adapter_names
        )
        for name, function in served.functions.items()
    }


def compiled_requests(served: ServedTranslator, translator: Translator) -> list[dict[str, Inputs]]:
    """Returns, for each compiled search, inputs of its shape for every signature."""
    requests = []
    for rows, length in translator.search.compiled_shapes:
        pieces = translator.source_tokenizer.tokenize([b" ".join([b"a"] * length)])
        text = translator.source_tokenizer.detokenize(pieces[:, : length - 1]).numpy()[0]
        lengths = np.full(rows, length - 1)
        requests.append(
            {
                name: sample_inputs(function.structured_input_signature[0], [text] * rows, lengths)
                for name, function in served.functions.items()
            }
        )
    return requests


def sample_inputs(
    specs: Iterable[tf.TensorSpec],
    texts: Sequence[bytes],
    lengths: np.ndarray,
    adapter_names: Sequence[str] = (),
) -> Inputs:
    """Returns inputs of a signature, with varied options.

    Args:
        specs: the inputs, each with its name.
        texts: a text for each row.
        lengths: the number of ids of each row, for a signature that takes ids.
        adapter_names: the adapters that a row can choose.
    """
    adapters = ["", *adapter_names, "no adapter"]
    strings = np.array(texts, object)
    rows = np.arange(len(texts))
    choices = {
        "text": strings,
        "source": strings,
        "target": np.roll(strings, 1),
        "adapter": np.array([adapters[row % len(adapters)].encode() for row in rows], object),
        "terms": np.array([_sample_terms(row, texts) for row in rows], object),
        "protect": rows % 16,
        "prefix": np.where(rows % 3 == 0, strings[-1], np.array(b"", object)),
        "keep_capitals": rows % 2 == 0,
        "is_english": rows % 4 < 2,
    }
    for task in TASKS.values():
        for option in task.options:
            choices[option.name] = np.resize(option.samples, len(texts))
    for spec in specs:
        if spec.name == "ids":
            is_real = np.arange(spec.shape[1]) < lengths[:, None]
            choices["ids"] = np.where(is_real, 4 + rows[:, None] * 7 % 90, 0)
    return {spec.name: choices[spec.name].astype(spec.dtype.as_numpy_dtype) for spec in specs}


def _sample_terms(row, texts):
    """Returns up to 2 entries that apply to every source, with the first words of other texts."""
    others = [texts[(row + number) % len(texts)] for number in range(1, 1 + row % 3)]
    return b"\n".join(b"\t" + b" ".join(text.split()[:2]) for text in others)


def run_in_fresh_process(
    saved_model: pathlib.Path, requests: dict[str, list[Inputs]]
) -> dict[str, list[dict[str, list]]]:
    """Calls signatures in a process that imports only tensorflow and tensorflow_text.

    Args:
        saved_model: folder of the SavedModel.
        requests: for each signature a list of batches, `{input: array}`.

    Returns:
        For each signature the outputs of each batch, `{output: values}`, with the values as nested
        lists.

    Raises:
        InputError: the process failed; the message ends with what it printed last.
    """
    command = [sys.executable, "-I", str(_PROBE), str(saved_model), str(os.getpid())]
    answers = {}
    with tempfile.TemporaryFile() as questions, tempfile.TemporaryFile() as printed:
        pickle.dump(requests, questions)
        questions.seek(0)
        with subprocess.Popen(
            command, stdin=questions, stdout=subprocess.PIPE, stderr=printed
        ) as process:
            try:
                for name in with_progress(requests, "running"):
                    answers[name] = pickle.load(cast(IO[bytes], process.stdout))
            except (EOFError, pickle.UnpicklingError):  # it ended early; reported below
                pass
            except BaseException:
                process.kill()
                raise
        printed.seek(0)
        reason = printed.read().decode(errors="replace").strip()[-400:]
    if process.returncode < 0:
        raise InputError(
            "the process that verifies the SavedModel was killed by signal "
            f"{-process.returncode}, perhaps because memory ran out: {reason}"
        )
    if process.returncode > 0 or len(answers) < len(requests):
        raise InputError(f"the SavedModel cannot be loaded in a fresh process: {reason}")
    return answers

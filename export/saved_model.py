"""A translator as a SavedModel: written beside, verified in a fresh process, renamed into place."""

import base64
import errno
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import tensorflow as tf

from tf_transformer.files import remove_leftovers
from tf_transformer.translator import Translator

_PROBE = pathlib.Path(__file__).with_name("probe.py")

# Strings that have broken translators.
_ODD_STRINGS = (
    b"",
    b"   ",
    b"\t\x00\r",
    b"\xff\xfe\xe4",
    "😀 𝄞 e\u0301 \u202e".encode(),
    "你好，世界。".encode(),
    b"x" * 5000,
)


class ServedTranslator(tf.Module):
    """The signatures of an exported translator.

    Args:
        translator: what they call.
    """

    def __init__(self, translator: Translator):
        super().__init__(name="served_translator")
        self.translator = translator

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serving_default(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates sentences.

        Args:
            text: `(batch,)` strings.

        Returns:
            translation: `(batch,)` UTF-8 strings.
            score: `(batch,)` float32, log-probability over length penalty.
            truncated: `(batch,)` bool, the source was longer than the model's limit and its end
                was cut off.
        """
        found = self.translator.translate(text)
        return {
            "translation": found.text[:, 0],
            "score": found.scores[:, 0],
            "truncated": found.truncated,
        }


def export_translator(translator: Translator, directory: pathlib.Path) -> pathlib.Path:
    """Writes the translator as the next version below a directory that TF Serving can watch.

    The version is written under a name that no server reads and verified there; it appears under
    its number only when everything is right.

    Args:
        translator: what to export.
        directory: holds the numbered versions.

    Returns:
        The new version's folder.

    Raises:
        ValueError: the SavedModel's answers differ from the translator's.
    """
    directory.mkdir(parents=True, exist_ok=True)
    remove_leftovers(directory)
    temporary = directory / f".writing-{os.getpid()}"
    served = ServedTranslator(translator)
    try:
        _save(served, temporary)
        verify(translator, temporary)
        return _rename_to_next_version(temporary, directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _save(served: ServedTranslator, path: pathlib.Path) -> None:
    try:
        tf.saved_model.save(
            served, str(path), signatures={"serving_default": served.serving_default}
        )
    except tf.errors.OpError as error:  # of the files it writes, as on a full disk
        raise OSError(errno.EIO, error.message.partition(" [Op")[0], str(path.parent)) from error


def _rename_to_next_version(temporary: pathlib.Path, directory: pathlib.Path) -> pathlib.Path:
    while True:
        versions = [int(entry.name) for entry in directory.iterdir() if entry.name.isdigit()]
        version = directory / str(max(versions, default=0) + 1)
        try:
            temporary.rename(version)
            return version
        except OSError as error:
            # Another export took the number in between.
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise


def verify(translator: Translator, saved_model: pathlib.Path) -> None:
    """Compares a SavedModel, loaded in a fresh process, with the translator in this one.

    Args:
        translator: what was saved.
        saved_model: its folder.

    Raises:
        ValueError: the process failed, or any answer differs.
    """
    texts = [*_ODD_STRINGS, *_random_texts(translator)]
    expected = translator.translate(tf.constant(texts))
    answer = run_in_fresh_process(saved_model, texts)
    for row, text in enumerate(texts):
        theirs = (answer["translation"][row], answer["score"][row], answer["truncated"][row])
        ours = (
            expected.text[row, 0].numpy(),
            float(expected.scores[row, 0]),
            bool(expected.truncated[row]),
        )
        if theirs != ours:
            raise ValueError(
                f"the SavedModel differs from the model: for {text[:80]!r} it gives {theirs}, "
                f"the model gives {ours}"
            )


def _random_texts(translator: Translator) -> list[bytes]:
    """Strings of random pieces, of many lengths: the tokenizer's own language."""
    random = np.random.default_rng(0)
    size = translator.source_tokenizer.vocab_size
    ids = tf.ragged.constant(
        [random.integers(4, size, length).tolist() for length in (1, 2, 3, 5, 8, 13, 21, 34) * 2],
        dtype=tf.int32,
    )
    return translator.source_tokenizer.detokenize(ids).numpy().tolist()


def run_in_fresh_process(saved_model: pathlib.Path, texts: list[bytes]) -> dict[str, list]:
    """Translates with a SavedModel in a process that imports tensorflow and tensorflow_text alone.

    Raises:
        ValueError: the process failed; carries the end of what it printed.
    """
    process = subprocess.run(
        [sys.executable, "-I", str(_PROBE), str(saved_model)],
        input=json.dumps([base64.b64encode(text).decode() for text in texts]),
        capture_output=True,
        text=True,
    )
    if process.returncode != 0:
        raise ValueError(
            f"the SavedModel does not load in a fresh process: {process.stderr.strip()[-400:]}"
        )
    answer = json.loads(process.stdout.splitlines()[-1])
    answer["translation"] = [base64.b64decode(text) for text in answer["translation"]]
    return answer

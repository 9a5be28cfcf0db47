"""The engines: each loads a model from a folder and translates text to text.

Every class imports its library itself, since each worker has only one of them. An engine splits its
requests into batches of `BATCH_SIZE` sentences of similar length.
"""

import os
import pathlib
from typing import Protocol

BATCH_SIZE = 32
_MARIAN_WORKSPACE = 256  # MB, which Marian allocates before it starts


class Engine(Protocol):
    """A loaded model; its constructor takes the folder, the beam size and the number of threads."""

    def translate(self, sentences: list[str]) -> list[str]:
        """Returns the translation of each sentence."""


class SavedModel:
    """The newest version of an export, whose graph contains tokenization, search and batches."""

    def __init__(self, folder: pathlib.Path, beam_size: int, threads: int):
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers the tokenizer's ops

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self._tf = tf
        newest = max(folder.glob("[0-9]*"), key=lambda path: int(path.name))
        # The variables exist as long as the loaded object.
        self._loaded = tf.saved_model.load(str(newest))
        self._signature = self._loaded.signatures["serving_default"]

    def translate(self, sentences: list[str]) -> list[str]:
        found = self._signature(text=self._tf.constant(sentences))["translation"]
        return [text.decode() for text in found.numpy()]


class CTranslate2:
    """CTranslate2 between two SentencePiece models, with `vmap.txt` if the folder has one."""

    def __init__(self, folder: pathlib.Path, beam_size: int, threads: int):
        import ctranslate2
        import sentencepiece

        self._source, self._target = (
            sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
            for side in ("source", "target")
        )
        self._translator = ctranslate2.Translator(
            str(folder), inter_threads=1, intra_threads=threads
        )
        self._options = dict(
            beam_size=beam_size,
            length_penalty=1,
            max_batch_size=BATCH_SIZE,
            use_vmap=(folder / "vmap.txt").exists(),
        )

    def translate(self, sentences: list[str]) -> list[str]:
        source = self._source.encode(sentences, out_type=str)
        longest = max(map(len, source))
        # As the default limit of this project's search.
        limit = int(1.5 * longest) + 20
        found = self._translator.translate_batch(source, max_decoding_length=limit, **self._options)
        return self._target.decode_pieces([result.hypotheses[0] for result in found])


class Marian:
    """Marian's library, which splits text itself."""

    def __init__(self, folder: pathlib.Path, beam_size: int, threads: int):
        import pymarian

        os.chdir(folder)  # its options are split at spaces, which the path may contain
        self._translator = pymarian.Translator(
            config="decoder.yml",
            beam_size=beam_size,
            normalize=1,
            mini_batch=BATCH_SIZE,
            maxi_batch=1000,
            maxi_batch_sort="src",
            cpu_threads=threads,
            workspace=_MARIAN_WORKSPACE,
            quiet="",
        )

    def translate(self, sentences: list[str]) -> list[str]:
        return self._translator.translate(sentences)


ENGINES: dict[str, type[Engine]] = {
    "saved_model": SavedModel,
    "ctranslate2": CTranslate2,
    "marian": Marian,
}

"""Whether an exported translator is good enough to be served: BLEU of the SavedModel itself."""

import os

import sacrebleu
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations of the tokenizer

_BATCH_SIZE = 32


def bleu(saved_model: str | os.PathLike, sources: list[str], references: list[str]) -> float:
    """Returns sacreBLEU of the translations by the signature that TF Serving calls.

    Args:
        saved_model: folder of the SavedModel.
        sources: sentences to translate.
        references: one translation of each.
    """
    loaded = tf.saved_model.load(os.fspath(saved_model))
    translate = loaded.signatures["serving_default"]
    translations = []
    for begin in range(0, len(sources), _BATCH_SIZE):
        outputs = translate(text=tf.constant(sources[begin : begin + _BATCH_SIZE]))
        translations += [text.decode() for text in outputs["translation"].numpy()]
    return sacrebleu.corpus_bleu(translations, [references]).score


def write_verdict(folder: str | os.PathLike, is_blessed: bool) -> None:
    """Writes the empty file by which TFX marks a model as blessed or not."""
    tf.io.gfile.makedirs(os.fspath(folder))
    name = "BLESSED" if is_blessed else "NOT_BLESSED"
    with tf.io.gfile.GFile(os.path.join(folder, name), "w") as file:
        file.write("")

"""Model directories with random weights, written without a model or TensorFlow."""

import functools
import pathlib

import numpy as np

from tf_transformer import TransformerConfig
from tf_transformer.presets import PRESETS
from tf_transformer.storage.model_dir import WEIGHTS_NAME, write_config_and_tokenizers
from tf_transformer.storage.weight_shapes import weight_shapes
from tf_transformer.storage.weights_file import write_arrays
from tf_transformer.text.special_ids import END_ID, SUPPRESSED_IDS
from tf_transformer.text.vocabulary import Vocabulary
from training.config import VocabularyConfig
from training.data.vocabulary import train_sentencepiece
from training.demo.corpus import generate_pairs

PAIRS = generate_pairs(1000, seed=1)
SOURCES, TARGETS = (list(side) for side in zip(*PAIRS, strict=True))
SIZES = dict(
    num_encoder_layers=2, num_decoder_layers=2, d_model=32, d_ff=48, num_heads=4, max_length=256
)
# The preset of Marian's students with these sizes.
STUDENT = PRESETS["student"] | SIZES


@functools.cache
def train_vocabularies(joint: bool, kind: str = "unigram") -> tuple[bytes, bytes]:
    """Trains SentencePiece models on the sentences of the demonstration, of different sizes."""
    sizes = (130, 130) if joint else (120, 110)
    texts = (SOURCES + TARGETS,) * 2 if joint else (SOURCES, TARGETS)
    return tuple(
        train_sentencepiece(lines, VocabularyConfig(size=size, kind=kind, byte_fallback=False))
        for lines, size in zip(texts, sizes, strict=True)
    )


def write_random_model(
    folder: pathlib.Path,
    models: tuple[bytes, bytes],
    end_bias: float = 0.0,
    spread: float = 0.35,
    **settings,
) -> None:
    """Writes a model directory with random weights, biases and gains too.

    Args:
        folder: the folder to create.
        models: SentencePiece models of source and target.
        end_bias: added to the end's bias in the logits, so that translations end; the ids that
            the search suppresses then get a bias of -100.
        spread: standard deviation of the matrices. Large ones give different translations, and
            magnify differences of rounding.
        **settings: settings of `TransformerConfig` that replace `SIZES`.
    """
    config = TransformerConfig(
        source_vocab_size=Vocabulary(models[0]).vocab_size,
        target_vocab_size=Vocabulary(models[1]).vocab_size,
        **(SIZES | settings),
    )
    write_config_and_tokenizers(folder, config, *models)
    random = np.random.default_rng(1)
    shapes = weight_shapes(config)
    arrays = {
        name: random.uniform(0.5, 1.5, shape)
        if name.endswith(("gamma", "scale"))
        else random.normal(0, spread if len(shape) > 1 else 0.1, shape)
        for name, shape in shapes.items()
    }
    if end_bias:
        name = "logits_bias" if config.logits_tied else "logits_projection/bias"
        arrays[name][END_ID] += end_bias
        arrays[name][list(SUPPRESSED_IDS)] = -100
    write_arrays(folder / WEIGHTS_NAME, shapes, arrays.items())


def read_all(folder: pathlib.Path) -> dict[str, bytes]:
    """Returns the content of all files of a folder by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

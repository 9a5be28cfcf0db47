"""Reading of Marian's models: Transformers, and students with a recurrent decoder (SSRU)."""

import pathlib

from tf_transformer.config import TransformerConfig
from tf_transformer.errors import InputError
from tf_transformer.formats.imported_model import ImportedModel
from tf_transformer.formats.marian.folder import MarianFiles, find_files, is_marian
from tf_transformer.formats.marian.settings import MarianSettings, read_settings
from tf_transformer.formats.marian.vocabularies import ReadVocabulary, read_vocabulary
from tf_transformer.formats.marian.weights import MarianWeights, marian_names
from tf_transformer.formats.naming import convert_weights
from tf_transformer.formats.tensors.opening import open_tensors
from tf_transformer.formats.vocabulary_rows import row_edits
from tf_transformer.formats.word_vocabulary import SEGMENTED_BEFORE
from tf_transformer.storage.weight_shapes import weight_shapes

# Of `layerNorm` in Marian's src/layers/generic.h.
LAYER_NORM_EPSILON = 1e-6
# The default of `--max-length` in translation.
_MAX_LENGTH = 1000


class Marian:
    """Marian's own format, see `ModelFormat`."""

    name = "marian"

    def recognizes(self, path: pathlib.Path) -> bool:
        """Returns whether there is a file named as a model of Marian."""
        return is_marian(path)

    def read(self, path: pathlib.Path) -> ImportedModel:
        """Reads a model.

        Marian has neither pad nor begin id, and its decoder starts with a zero vector. Their rows
        of the embeddings are zero, and their logits get the bias `NO_OUTPUT`.

        Args:
            path: the `.npz` file, or the folder.

        Raises:
            InputError: a file is missing or damaged, the files do not fit together, or a setting is
                not supported.
        """
        files = find_files(path)
        file = open_tensors(files.model)
        settings, model_settings = read_settings(file)
        source, target = _read_vocabularies(files, settings)
        names = marian_names(model_settings["norm_position"], settings.tying)
        weights = MarianWeights(
            file,
            names,
            (source.rows.original_size, target.rows.original_size),
            has_logits_bias=not settings.output_omit_bias,
        )
        config = TransformerConfig(
            source_vocab_size=source.rows.vocab_size,
            target_vocab_size=target.rows.vocab_size,
            positions="concatenated",
            begin_embedding="zero",
            logits_bias=True,
            layer_norm_epsilon=LAYER_NORM_EPSILON,
            max_length=_MAX_LENGTH,
            **model_settings,
        )
        edits = row_edits(source.rows, target.rows)
        return ImportedModel(
            config,
            source.model,
            target.model,
            convert_weights(weight_shapes(config), names, weights, edits),
            _notes(source, target),
        )


def _notes(source: ReadVocabulary, target: ReadVocabulary) -> tuple[str, ...]:
    is_segmented_before = source.is_segmented_before or target.is_segmented_before
    return source.notes + target.notes + ((SEGMENTED_BEFORE,) if is_segmented_before else ())


def _read_vocabularies(
    files: MarianFiles, settings: MarianSettings
) -> tuple[ReadVocabulary, ReadVocabulary]:
    sides = []
    for side, path, size in zip(("source", "target"), files[1:], settings.dim_vocabs, strict=True):
        vocabulary = read_vocabulary(path, path.with_name(f"{side}.spm"))
        found = vocabulary.rows.original_size
        if found != size:
            raise InputError(
                f"{path}: expected {size} entries, as in dim-vocabs of the model, got {found}"
            )
        sides.append(vocabulary)
    return sides[0], sides[1]

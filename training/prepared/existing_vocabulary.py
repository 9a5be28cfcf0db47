"""Using the vocabulary of a prepared folder, of a model, or of other SentencePiece files."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.text.language_tags import is_tag
from tf_transformer.text.sentencepiece_model_pb2 import ModelProto, TrainerSpec
from tf_transformer.text.special_ids import NUM_SPECIAL
from tf_transformer.text.vocabulary import Vocabulary
from training.config import TrainingConfig, VocabularyConfig
from training.prepared.prepared_folder import (
    DESCRIPTION_NAME,
    WORK_NAME,
    SentencePieceModels,
    read_description,
    read_models,
    vocabulary_settings,
)
from training.recorded_config import read_training_config
from training.settings import config_to_dict, make_config


def read_vocabulary(path: pathlib.Path) -> tuple[VocabularyConfig, SentencePieceModels]:
    """Reads an existing vocabulary.

    Args:
        path: a prepared folder, a model directory, another folder with the SentencePiece models
            `source.spm` and `target.spm`, or a SentencePiece model for both sides.

    Returns:
        The settings of the vocabulary, and the SentencePiece models of source and target. Settings
        that a SentencePiece model does not record have their defaults.

    Raises:
        InputError: there is no vocabulary, or a model is damaged or has other special ids.
    """
    models = read_models(path)
    try:
        source = None if models[0] is None else Vocabulary(models[0])
        target = Vocabulary(models[1])
    except ValueError as error:
        raise InputError(
            f"{path}: its vocabulary is not a usable SentencePiece model ({error})"
        ) from error
    trained = read_training_config(path)
    if trained is not None:
        settings = trained.vocabulary
    elif (path / DESCRIPTION_NAME).exists() or (path / WORK_NAME).exists():
        settings = vocabulary_settings(path, read_description(path))
    else:
        settings = _settings_from_model(target, path)
    joint = source is None or _ids(source) == _ids(target)
    languages = source.languages if source else []
    return dataclasses.replace(settings, joint=joint, languages=languages), models


def _ids(vocabulary: Vocabulary) -> list[str]:
    """Returns the pieces, without those that take part in segmentation only.

    The sides of an imported model can share them, and segment by different SentencePiece models.
    """
    return vocabulary.pieces[NUM_SPECIAL:]


def vocabulary_for(
    path: pathlib.Path, has_source: bool
) -> tuple[VocabularyConfig, SentencePieceModels]:
    """Reads an existing vocabulary for a corpus with or without a source.

    Args:
        path: see `read_vocabulary`.
        has_source: whether the corpus has a source; a language model uses the target's vocabulary.

    Returns:
        As `read_vocabulary`.

    Raises:
        InputError: as `read_vocabulary`, or the source needs a vocabulary and has none.
    """
    settings, (source, target) = read_vocabulary(path)
    if not has_source:
        return dataclasses.replace(settings, joint=True, languages=[]), (None, target)
    if source is None:
        raise InputError(
            f"{path}: its vocabulary is that of a language model and has no source.spm; give one "
            "of a translation model"
        )
    return settings, (source, target)


def with_vocabulary(config: TrainingConfig, vocabulary: VocabularyConfig) -> TrainingConfig:
    """Returns the settings with those of an existing vocabulary, except for word vectors."""
    vectors = {
        name: getattr(config.vocabulary, name) for name in ("source_vectors", "target_vectors")
    }
    vocabulary = dataclasses.replace(vocabulary, **vectors)
    return make_config(config_to_dict(dataclasses.replace(config, vocabulary=vocabulary)))


def _settings_from_model(vocabulary: Vocabulary, path: pathlib.Path) -> VocabularyConfig:
    """Returns the settings that a SentencePiece model records."""
    spec = ModelProto.FromString(vocabulary.model).trainer_spec
    kind = TrainerSpec.ModelType.Name(spec.model_type).lower()
    if kind not in ("bpe", "unigram", "char"):
        raise InputError(
            f"{path}: expected a SentencePiece model of the type bpe, unigram or char. "
            f"Received: {kind}"
        )
    return VocabularyConfig(
        size=vocabulary.vocab_size,
        kind=kind,
        byte_fallback=spec.byte_fallback,
        split_digits=spec.split_digits,
        symbols=[symbol for symbol in spec.user_defined_symbols if not is_tag(symbol)],
    )


def check_vocabulary(
    given: Mapping[str, Any], vocabulary: VocabularyConfig, owner: pathlib.Path
) -> None:
    """Checks that settings do not contradict an existing vocabulary.

    Settings of word vectors are ignored, because they belong to the model, not to the vocabulary.

    Args:
        given: settings by their names in `VocabularyConfig`; unknown names are ignored.
        vocabulary: settings of the existing vocabulary.
        owner: path of the existing vocabulary, for the message.

    Raises:
        InputError: a setting differs; the message names the first one.
    """
    for name, value in given.items():
        expected = getattr(vocabulary, name, value)
        if expected != value and not name.endswith("_vectors"):
            raise InputError(
                f"{owner} has a vocabulary with {name}={expected!r}, which cannot change; leave "
                f"out vocabulary.{name}={value!r}"
            )

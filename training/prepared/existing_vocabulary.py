"""A vocabulary that is there already: of a prepared folder, of a model, or from elsewhere."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.text.vocabulary import Vocabulary
from training.config import TrainingConfig, VocabularyConfig
from training.prepared.prepared_folder import (
    DESCRIPTION_NAME,
    WORK_NAME,
    Models,
    read_description,
    read_models,
    vocabulary_settings,
)
from training.recorded_config import read_training_config
from training.settings import config_to_dict, make_config


def read_vocabulary(path: pathlib.Path) -> tuple[VocabularyConfig, Models]:
    """The vocabulary of a prepared folder or a model directory, or one that was made elsewhere.

    Args:
        path: the folder; or one with the SentencePiece models `source.spm` and `target.spm`; or a
            file with one model for both sides.

    Returns:
        Its settings, which a model from elsewhere says only a part of, and the SentencePiece models
        of source and target.

    Raises:
        ValueError: there is none, or a model is damaged or has other special ids.
    """
    models = read_models(path)
    try:
        source = None if models[0] is None else Vocabulary(models[0])
        target = Vocabulary(models[1])
    except ValueError as error:
        raise InputError(
            f"{path}: its vocabulary is no SentencePiece model that can be used ({error})"
        ) from error
    trained = read_training_config(path)
    if trained is not None:
        settings = trained.vocabulary
    elif (path / DESCRIPTION_NAME).exists() or (path / WORK_NAME).exists():
        settings = vocabulary_settings(path, read_description(path))
    else:
        settings = _settings_of(target, path)
    joint = models[0] in (None, models[1])
    languages = source.languages if source else []
    return dataclasses.replace(settings, joint=joint, languages=languages), models


def vocabulary_for(path: pathlib.Path, has_source: bool) -> tuple[VocabularyConfig, Models]:
    """`read_vocabulary` for a corpus; a language model takes what is there for the target.

    Raises:
        ValueError: as `read_vocabulary`, or there is none for the source.
    """
    settings, (source, target) = read_vocabulary(path)
    if not has_source:
        return dataclasses.replace(settings, joint=True, languages=[]), (None, target)
    if source is None:
        raise InputError(f"{path}: its vocabulary is a language model's and has no source side")
    return settings, (source, target)


def with_vocabulary(config: TrainingConfig, vocabulary: VocabularyConfig) -> TrainingConfig:
    """The settings with those of a vocabulary that is there; vectors stay what they are."""
    vectors = {
        name: getattr(config.vocabulary, name) for name in ("source_vectors", "target_vectors")
    }
    vocabulary = dataclasses.replace(vocabulary, **vectors)
    return make_config(config_to_dict(dataclasses.replace(config, vocabulary=vocabulary)))


def _settings_of(vocabulary: Vocabulary, path: pathlib.Path) -> VocabularyConfig:
    """What a model from elsewhere says of its training."""
    # Not at once: other packages bring their own copy of this, and two can get into a conflict.
    from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

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
    )


def check_vocabulary(
    given: Mapping[str, Any], vocabulary: VocabularyConfig, owner: pathlib.Path
) -> None:
    """Refuses settings that contradict a vocabulary; they may repeat what it has.

    Vectors are not looked at: the embeddings that start from them are a model's.

    Args:
        given: settings by their names in `VocabularyConfig`; unknown ones are for others to refuse.
        vocabulary: what it has.
        owner: what it is of, for the message.

    Raises:
        ValueError: names the first that differs.
    """
    for name, value in given.items():
        has = getattr(vocabulary, name, value)
        if has != value and not name.endswith("_vectors"):
            raise InputError(
                f"{owner} has a vocabulary with {name}={has!r} and keeps it; leave out "
                f"vocabulary.{name}={value!r}"
            )

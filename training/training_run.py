"""One training run: what is trained, from what, and what happens before its first step."""

import dataclasses
import functools
import logging
import pathlib
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.storage.model_dir import (
    read_tokenizers,
    read_weights,
    write_config_and_tokenizers,
)
from tf_transformer.text.tokenizer import Tokenizer
from training.checkpointing.checkpoint_files import checkpoint_directory
from training.checkpointing.run_metadata import run_fingerprint
from training.checkpointing.validation_history import read_validation_scores
from training.config import TrainingConfig
from training.data.pipeline import ParallelText
from training.data.text_pair import TextPair
from training.data.vocabulary import train_vocabularies
from training.early_checks import with_alignment_head
from training.fine_tuning import INITIAL_NAME, copy_weights, describe_coverage
from training.initial_model import set_word_vectors
from training.prepared.existing_vocabulary import vocabulary_for, with_vocabulary
from training.prepared.prepared_folder import SentencePieceModels
from training.prepared.prepared_text import PreparedText
from training.train_step import TrainableLanguageModel, TrainableTransformer
from training.vocabulary_extension import (
    Extension,
    check_extension,
    copy_extended_weights,
    extend_vocabulary,
)

_log = logging.getLogger(__name__)

Tokenizers = tuple[Tokenizer | None, Tokenizer]


def vocab_sizes(tokenizers: Tokenizers) -> tuple[int | None, int]:
    """Returns the number of token ids of the source, None without one, and of the target."""
    source, target = tokenizers
    return None if source is None else source.vocab_size, target.vocab_size


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """A run of `train`, before and after it has begun.

    Args:
        model_dir: the folder for everything that is written.
        config: all settings.
        corpus: the training corpus.
        validation: the validation set.
        init_from: the model directory whose vocabulary and weights training starts from.
        vocabulary: the path of an existing vocabulary, see `read_vocabulary`.
        given_models: the SentencePiece models of `vocabulary`.
        added_pieces: pieces to add to the vocabulary of `init_from`, see `read_pieces`.
    """

    model_dir: pathlib.Path
    config: TrainingConfig
    corpus: TextPair | PreparedText
    validation: TextPair
    init_from: pathlib.Path | None
    vocabulary: pathlib.Path | None
    given_models: SentencePieceModels | None = None
    added_pieces: tuple[str, ...] = ()

    def with_existing_vocabulary(self) -> "TrainingRun":
        """Returns the run with the settings of an existing vocabulary, if there is one.

        Raises:
            InputError: more than one vocabulary is given, or it does not suit the corpus.
        """
        is_prepared = isinstance(self.corpus, PreparedText)
        if self.added_pieces:
            check_extension(self.config, self.init_from, is_prepared)
        if self.vocabulary:
            if is_prepared or self.init_from:
                raise InputError(
                    "`prepared` and `init_from` have their own vocabulary; leave out `vocabulary`"
                )
            settings, models = vocabulary_for(self.vocabulary, has_source=self.corpus.has_source)
            config = with_vocabulary(self.config, settings)
            return dataclasses.replace(self, config=config, given_models=models)
        if isinstance(self.corpus, PreparedText) and not self.init_from:
            config = with_vocabulary(self.config, self.corpus.vocabulary)
            return dataclasses.replace(self, config=config)
        return self

    @property
    def is_guided(self) -> bool:
        """Whether the corpus has word alignments."""
        return isinstance(self.corpus, TextPair) and self.corpus.alignments is not None

    def with_alignment_head(self) -> "TrainingRun":
        """Returns the run with the settings of its alignments, if it has any.

        Raises:
            InputError: as the function `with_alignment_head`.
        """
        config = with_alignment_head(
            self.config,
            has_alignments=self.is_guided,
            has_initial_model=self.init_from is not None,
        )
        return dataclasses.replace(self, config=config)

    def check_texts(self) -> None:
        """Reads the texts once and checks them; `prepare` has checked those of a prepared corpus.

        Raises:
            InputError: a text is faulty.
        """
        _log.info("checking the text")
        for text in (self.corpus, self.validation):
            if isinstance(text, TextPair):
                text.check(self.config.vocabulary.languages, self.config.num_tags)

    def fingerprint(self) -> dict[str, Any]:
        """Returns what must be equal for another call to resume this run."""
        return run_fingerprint(
            self.config, self.corpus.digest, self.init_from, self.given_models, self.added_pieces
        )

    @functools.cached_property
    def models(self) -> SentencePieceModels:
        """The SentencePiece models of source and target: given ones, or trained ones.

        Raises:
            InputError: the corpus is too small, or not prepared with the vocabulary of `init_from`.
        """
        if self.given_models:
            return self.given_models
        if self._extension:
            return self._extension.models
        if self.init_from:
            source, target = read_tokenizers(self.init_from)
            models = (source and source.model, target.model)
            if isinstance(self.corpus, PreparedText) and self.corpus.models != models:
                raise InputError(
                    f"the corpus is not prepared with the vocabulary of {self.init_from}; "
                    f"prepare it with --vocabulary {self.init_from}"
                )
            return models
        if isinstance(self.corpus, PreparedText):
            return self.corpus.models
        vocabulary = self.config.vocabulary
        sources = [self.corpus.source] if self.corpus.source else []
        _log.info(
            "learning the vocabulary: %s %s pieces%s",
            f"{vocabulary.size:,}",
            vocabulary.kind,
            " for each side" if sources and not vocabulary.joint else "",
        )
        return train_vocabularies(sources, [self.corpus.target], vocabulary)

    @functools.cached_property
    def _extension(self) -> Extension | None:
        if not (self.init_from and self.added_pieces):
            return None
        return extend_vocabulary(self.init_from, self.added_pieces)

    def write_description(self) -> None:
        """Writes the configuration, the vocabularies and a copy of the initial weights.

        Raises:
            InputError: a shard of a prepared corpus is damaged, or see `models`.
        """
        if isinstance(self.corpus, PreparedText):
            self.corpus.check_digests()
        source, target = self.models
        if self.init_from:
            # The model there may change before the first checkpoint.
            if self._extension:
                copy_extended_weights(
                    self.init_from, self.model_dir / INITIAL_NAME, self._extension
                )
            else:
                copy_weights(self.init_from, self.model_dir / INITIAL_NAME)
        tokenizers = (None if source is None else Tokenizer(source), Tokenizer(target))
        config = self.config.transformer_config(*vocab_sizes(tokenizers))
        write_config_and_tokenizers(self.model_dir, config, source, target)

    def tokenized(self, tokenizers: Tokenizers) -> tuple[ParallelText | PreparedText, ParallelText]:
        """Returns the corpus and the validation set as token ids."""
        validation = self.validation.tokenized(tokenizers, self.config.data)
        if isinstance(self.corpus, PreparedText):
            return self.corpus, validation
        return self.corpus.tokenized(tokenizers, self.config.data), validation

    def initialize(
        self,
        model: TrainableTransformer | TrainableLanguageModel,
        corpus: ParallelText | PreparedText,
        tokenizers: Tokenizers,
    ) -> None:
        """Sets the weights before the first step: given ones, else random ones with given vectors.

        Raises:
            InputError: the checkpoints of the run are gone, or the vectors do not suit the
                vocabulary.
        """
        self._check_nothing_lost()
        coverage = ""
        if (self.init_from or self.vocabulary) and isinstance(corpus, ParallelText):
            coverage = describe_coverage(corpus)
        if self.init_from:
            read_weights(self.model_dir / INITIAL_NAME, model)
            _log.info("Starting from %s%s", self.init_from, coverage and f": {coverage}")
        else:
            if self.vocabulary:
                _log.info("vocabulary of %s: %s", self.vocabulary, coverage)
            set_word_vectors(model, self.config.vocabulary, *tokenizers)
        model.optimizer.reset_averages(model.trainable_variables)

    def _check_nothing_lost(self):
        """Refuses a run whose checkpoints are gone; validation scores show that it had some."""
        if scores := read_validation_scores(self.model_dir):
            raise InputError(
                f"{checkpoint_directory(self.model_dir)}: the checkpoints are missing although "
                f"training reached step {scores[-1]['step']}; restore them, or give another "
                "--model-dir"
            )

"""What a model directory holds before the first step: configuration, vocabularies, weights."""

import functools
import logging

from tf_transformer.errors import InputError
from tf_transformer.storage.model_dir import read_tokenizers, write_config_and_tokenizers
from tf_transformer.text.tokenizer import Tokenizer
from training.data.vocabulary import train_vocabularies
from training.fine_tuning import INITIAL_NAME, copy_weights
from training.prepared.prepared_corpus import PreparedCorpus
from training.prepared.prepared_folder import SentencePieceModels
from training.run import TrainingRun
from training.vocabulary_extension import copy_extended_weights

_log = logging.getLogger(__name__)

Tokenizers = tuple[Tokenizer | None, Tokenizer]


def vocab_sizes(tokenizers: Tokenizers) -> tuple[int | None, int]:
    """Returns the number of token ids of the source, None without one, and of the target."""
    source, target = tokenizers
    return None if source is None else source.vocab_size, target.vocab_size


class Description:
    """The description of a new run.

    Args:
        run: the run, checked.
    """

    def __init__(self, run: TrainingRun):
        self._run = run

    @functools.cached_property
    def models(self) -> SentencePieceModels:
        """The SentencePiece models of source and target: given ones, or trained ones.

        Raises:
            InputError: the corpus is too small, or not prepared with the vocabulary of `init_from`.
        """
        run = self._run
        if run.given_models:
            return run.given_models
        if run.extension:
            return run.extension.models
        if run.init_from:
            return self._models_of_initial(run.init_from)
        if isinstance(run.corpus, PreparedCorpus):
            return run.corpus.models
        vocabulary = run.config.vocabulary
        sources = [run.corpus.source] if run.corpus.source else []
        _log.info(
            "learning the vocabulary: %s %s pieces%s",
            f"{vocabulary.size:,}",
            vocabulary.kind,
            " for each side" if sources and not vocabulary.joint else "",
        )
        return train_vocabularies(sources, [run.corpus.target], vocabulary)

    def _models_of_initial(self, init_from):
        source, target = read_tokenizers(init_from)
        models = (source and source.model, target.model)
        if isinstance(self._run.corpus, PreparedCorpus) and self._run.corpus.models != models:
            raise InputError(
                f"the corpus is not prepared with the vocabulary of {init_from}; "
                f"prepare it with --vocabulary {init_from}"
            )
        return models

    def write(self) -> None:
        """Writes the configuration, the vocabularies and a copy of the initial weights.

        Raises:
            InputError: a shard of a prepared corpus is damaged, or see `models`.
        """
        run = self._run
        if isinstance(run.corpus, PreparedCorpus):
            run.corpus.check_digests()
        source, target = self.models
        if run.init_from:
            # The model there may change before the first checkpoint.
            initial = run.model_dir / INITIAL_NAME
            if run.extension:
                copy_extended_weights(run.init_from, initial, run.extension)
            else:
                copy_weights(run.init_from, initial)
        tokenizers = (None if source is None else Tokenizer(source), Tokenizer(target))
        config = run.config.transformer_config(*vocab_sizes(tokenizers))
        write_config_and_tokenizers(run.model_dir, config, source, target)

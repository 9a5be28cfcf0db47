"""One training run: what is trained, from what, on which devices; and its checks.

TensorFlow is not imported here, so that a command refuses a run within a second.
"""

import dataclasses
import functools
import logging
import os
import pathlib
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.known_names import suggest_arguments
from tf_transformer.storage.files import check_folder
from tf_transformer.storage.model_dir import CONFIG_NAME
from tf_transformer.text.text_file import TextFile
from training.backup.object_store import check_backup_url
from training.checkpointing.run_files import check_run_files
from training.checkpointing.run_metadata import (
    check_resumable,
    run_fingerprint,
    was_initialized_from,
)
from training.config import TrainingConfig
from training.data.text_pair import TextPair
from training.distributed.cluster import choose_strategy, read_cluster
from training.early_checks import (
    check_draft_heads,
    check_initial_model,
    check_language_tags,
    check_lengths,
    check_noise,
    check_some_alignments,
    check_sources,
    with_alignment_head,
)
from training.prepared.existing_vocabulary import vocabulary_for, with_vocabulary
from training.prepared.prepared_corpus import PreparedCorpus
from training.prepared.prepared_folder import SentencePieceModels
from training.vocabulary_extension import (
    Extension,
    check_extension,
    extend_vocabulary,
    read_pieces,
)

_log = logging.getLogger(__name__)
_MAX_DEVICES = 1024


@suggest_arguments
@dataclasses.dataclass(frozen=True)
class Start:
    """What weights and vocabulary start from; by default, both are new.

    Args:
        model: the model directory whose vocabulary and weights training starts from; make the
            settings with `config_like`.
        vocabulary: the path of an existing vocabulary, see `read_vocabulary`.
        add_pieces: a file of pieces to add to the vocabulary of `model`, see `read_pieces`; give
            them to `config_like` as well.
    """

    model: str | os.PathLike | None = None
    vocabulary: str | os.PathLike | None = None
    add_pieces: str | os.PathLike | None = None


@suggest_arguments
@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices that train.

    Args:
        strategy: see `make_strategy`.
        number: see `make_strategy`.
        deterministic: makes equal calls give bit-identical weights, interrupted or not; slower.
    """

    strategy: str = "auto"
    number: int | None = None
    deterministic: bool = False


NEW, ALL_DEVICES = Start(), Devices()


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """A run of `train`.

    Args:
        config: all settings.
        model_dir: the folder for everything that is written. Several workers share it.
        corpus: the training corpus.
        validation: the validation set.
        start: what weights and vocabulary start from.
        devices: the devices that train.
        backup: URL of a copy of `model_dir` on object storage, or None.
        profile: the first and the last step, counted from 1, of a profile for TensorBoard, or None.
        given_models: the SentencePiece models of `start.vocabulary`; `check` reads them.
        added_pieces: the pieces of `start.add_pieces`; `check` reads them unless they are given.
    """

    config: TrainingConfig
    model_dir: pathlib.Path
    corpus: TextPair | PreparedCorpus
    validation: TextPair
    start: Start = NEW
    devices: Devices = ALL_DEVICES
    backup: str | None = None
    profile: tuple[int, int] | None = None
    given_models: SentencePieceModels | None = None
    added_pieces: tuple[str, ...] = ()

    @property
    def init_from(self) -> pathlib.Path | None:
        """The model that training starts from."""
        return None if self.start.model is None else pathlib.Path(self.start.model)

    @property
    def is_prepared(self) -> bool:
        """Whether the corpus is prepared."""
        return isinstance(self.corpus, PreparedCorpus)

    @property
    def is_guided(self) -> bool:
        """Whether the corpus has word alignments."""
        return isinstance(self.corpus, TextPair) and self.corpus.alignments is not None

    @functools.cached_property
    def extension(self) -> Extension | None:
        """The vocabulary of the initial model with the added pieces; None without such pieces.

        Raises:
            InputError: it cannot be extended by them.
        """
        if not (self.init_from and self.added_pieces):
            return None
        return extend_vocabulary(self.init_from, self.added_pieces)

    def check(self) -> "TrainingRun":
        """Checks everything that takes no pass over the words of the corpus, the fastest first.

        Returns:
            The run with the settings of its vocabulary and of its alignments.

        Raises:
            InputError: a setting, a file or a folder is not valid, or they contradict each other.
        """
        self._check_devices()
        if self.backup is not None:
            check_backup_url(self.backup)
        self._check_profile()
        check_sources(self.config, self.corpus.has_source, self.validation.has_source)
        run = self._with_alignment_head()
        if run.config.data.curriculum and not run.is_prepared:
            raise InputError(
                "'data.curriculum' has the shares of prepared folders; give --prepared"
            )
        check_noise(run.config, run.is_prepared, run.is_guided)
        run = run._with_existing_vocabulary()
        check_initial_model(run.model_dir, run.init_from, run.config)
        # Once the run has started, the initial model may have changed or be gone.
        if run.init_from and not was_initialized_from(run.model_dir, run.init_from):
            _ = run.extension
        check_draft_heads(
            run.config,
            has_initial_model=run.init_from is not None,
            is_guided=run.is_guided,
            adds_pieces=bool(run.added_pieces),
        )
        check_resumable(run.model_dir, run.config, run.init_from)
        run._check_corpus()
        return run

    def check_texts(self) -> None:
        """Reads the texts once and checks them; `prepare` has checked those of a prepared corpus.

        Raises:
            InputError: a text is faulty.
        """
        _log.info("checking the text")
        if isinstance(self.corpus, TextPair):
            self.corpus.check(self.config.vocabulary.languages, self.config.num_tags)
        self.validation.check_lines()  # `check` has read its language tags

    def fingerprint(self) -> dict[str, Any]:
        """Returns what must be equal for another call to resume this run."""
        return run_fingerprint(
            self.config, self.corpus.digest, self.init_from, self.given_models, self.added_pieces
        )

    def _check_devices(self):
        number = self.devices.number
        if number is not None and not 1 <= number <= _MAX_DEVICES:
            raise InputError(f"--devices: expected 1 to {_MAX_DEVICES}. Received: {number}")
        cluster = read_cluster(os.environ.get("TF_CONFIG", ""))
        choose_strategy(self.devices.strategy, number, cluster)
        if not cluster.addresses:  # of several workers, only the chief writes
            check_folder(self.model_dir)
            check_run_files(self.model_dir)

    def _check_profile(self):
        if self.profile is None:
            return
        first, last = self.profile
        if not 1 <= first <= last <= self.config.optimization.steps:
            raise profile_error(f"{first}:{last}", self.config.optimization.steps)

    def _with_alignment_head(self):
        config = with_alignment_head(
            self.config,
            has_alignments=self.is_guided,
            has_initial_model=self.start.model is not None,
        )
        return dataclasses.replace(self, config=config)

    def _with_existing_vocabulary(self):
        """Returns the run with the settings of an existing vocabulary, if there is one."""
        run = self
        if self.start.add_pieces is not None:
            check_extension(self.config, self.init_from, self.is_prepared)
            pieces = self.added_pieces or read_pieces(pathlib.Path(self.start.add_pieces))
            run = dataclasses.replace(self, added_pieces=tuple(pieces))
        if self.start.vocabulary is not None:
            others = {"--prepared": self.is_prepared, "--init-from": self.start.model is not None}
            for name, is_given in others.items():
                if is_given:
                    raise InputError(f"{name} has its own vocabulary; leave out --vocabulary")
            path = pathlib.Path(self.start.vocabulary)
            settings, models = vocabulary_for(path, has_source=self.corpus.has_source)
            config = with_vocabulary(self.config, settings)
            return dataclasses.replace(run, config=config, given_models=models)
        if isinstance(self.corpus, PreparedCorpus) and self.start.model is None:
            config = with_vocabulary(self.config, self.corpus.vocabulary)
            return dataclasses.replace(run, config=config)
        return run

    def _check_corpus(self):
        # They are read once, before the first step, unless the embeddings are another model's.
        if self.start.model is None and not (self.model_dir / CONFIG_NAME).exists():
            for name in ("source_vectors", "target_vectors"):
                if vectors := getattr(self.config.vocabulary, name):
                    TextFile.parse(vectors)  # raises if there is no such file
        source = None
        if isinstance(self.corpus, PreparedCorpus):
            self.corpus.check(self.config.data)
        else:
            source = self.corpus.source
            check_lengths(source, self.corpus.target)
            check_some_alignments(self.corpus.alignments, source, self.corpus.target)
        check_lengths(self.validation.source, self.validation.target)
        config = self.config
        check_language_tags(
            config.vocabulary.languages, config.num_tags, source, self.validation.source
        )


def profile_error(given: str, steps: int) -> InputError:
    """Returns the error for a profile of steps that a run does not have."""
    return InputError(
        f"--profile {given}: expected FIRST:LAST, two of the steps 1 to {steps}, as in 100:110"
    )

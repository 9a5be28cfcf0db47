"""Validation during training: scores, sample translations, attention maps, early stopping."""

import functools
import itertools
import logging
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_transformer.inference.inspection import inspect_pair
from tf_transformer.inference.translator import Translator
from tf_transformer.text.lines import join_lines
from tf_transformer.text.parallel_text import digest
from training.callbacks.callbacks import StopOnSignal, ValidateAverage, current_step
from training.callbacks.monitoring import quality_scalars
from training.callbacks.progress import ValidationProgress
from training.callbacks.tensorboard_log import TensorBoardLog
from training.callbacks.user_callbacks import ScoreCallback
from training.checkpointing.best_checkpoints import keep_best
from training.checkpointing.validation_history import ValidationScores
from training.config import TrainingConfig
from training.data.pipeline import ParallelText
from training.distributed.workers import Workers
from training.evaluation.scores import bleu_and_chrf
from training.plots.attention_maps import PARTS, draw_attention
from training.settings import config_to_dict, flatten

_log = logging.getLogger(__name__)

_METRICS = ("loss", "perplexity", "accuracy")
_NUM_SAMPLES = 8
# Attention maps of more pieces are not readable.
_MAX_PIECES = 24


class Validation(keras.callbacks.Callback):
    """Scores the model at each checkpoint, keeps the best checkpoints, and stops early.

    Writes loss, perplexity and accuracy, BLEU and chrF of the translations, sample translations and
    attention maps to TensorBoard, and all scores to `ValidationScores`. It draws no random numbers,
    so it does not affect the weights.

    Args:
        corpus: the validation set.
        batches: the batches of the validation set.
        config: settings of the run.
        model_dir: directory of the checkpoints and scores.
        log: the TensorBoard files to write.
        workers: the workers that train together; the chief decides for all.
        stop: callback that can abort a validation; `begin` of the next run then repeats it.
        progress: callback that shows the progress of a validation.
        score_callbacks: the user's callbacks that decide by the scores.

    Attributes:
        early_stop: why training should stop early, or None.

    Raises:
        InputError: the file of scores is damaged.
    """

    def __init__(
        self,
        *,
        corpus: ParallelText,
        batches: tf.data.Dataset,
        config: TrainingConfig,
        model_dir: pathlib.Path,
        log: TensorBoardLog,
        workers: Workers,
        stop: StopOnSignal,
        progress: ValidationProgress,
        score_callbacks: Sequence[ScoreCallback] = (),
    ):
        super().__init__()
        self._score_callbacks = score_callbacks
        self._settings = config.validation
        self._steps = config.optimization.steps
        self._checkpoint_every = config.optimization.checkpoint_every
        self._corpus = corpus
        self._batches = batches
        self._model_dir = model_dir
        self._dashboard = log
        self._workers = workers
        self._stop = stop
        self._progress = progress
        self._translates = not config.is_language_model and self._settings.translate_every > 0
        self._scores = ValidationScores(model_dir, config.best_by, self._made_by())
        self.early_stop: str | None = None

    def _made_by(self) -> dict[str, Any]:
        names = ("sentences", "beam_size", "length_penalty", "bleu_tokenizer")
        search = {name: getattr(self._settings, name) for name in names}
        files = (self._corpus.source, self._corpus.target)
        return {"validation_set": digest(*files)} | (search if self._translates else {})

    def begin(self, model: keras.Model) -> None:
        """Validates the checkpoint that training resumes from, if that was not done before."""
        self.set_model(model)
        step = current_step(model)
        is_missing = self._is_due(step) and self._scores.find(step) is None
        if self._workers.any(is_missing):
            results = model.evaluate(
                self._batches,
                return_dict=True,
                verbose=0,
                callbacks=[self._stop, self._progress, ValidateAverage()],
            )
            if not self._stop.stopped_by:
                self._record(step, results)
        elif step:
            self._keep_best_and_decide(step)

    def on_epoch_end(self, epoch, logs=None):
        step = current_step(self.model)
        if self._is_due(step) and not self._stop.stopped_by:
            self._record(step, {name: logs[f"val_{name}"] for name in _METRICS})
        self.model.stop_training |= (
            self.early_stop is not None or self._stop.any_worker_requests_stop()
        )

    def _is_due(self, step):
        return step > 0 and (step % self._checkpoint_every == 0 or step >= self._steps)

    def _record(self, step, results):
        if self._workers.is_chief:
            self._add_scores(step, results)
        self._keep_best_and_decide(step)

    def _add_scores(self, step, results):
        scores = {name: float(results[name]) for name in _METRICS}
        quality = quality_scalars(scores)
        checkpoint = step // self._checkpoint_every
        if self._translates and (
            checkpoint % self._settings.translate_every == 0 or step >= self._steps
        ):
            with self.model.optimizer.averaged_weights(self.model.trainable_variables):
                translated = self._translate(step)
            if translated is None:
                return
            scores |= translated
        self._dashboard.scalars("validation", quality, step)
        self._scores.add(step, scores)
        if self._settings.histograms:
            self._dashboard.histograms(self.model, step)

    def _keep_best_and_decide(self, step):
        self.early_stop = None
        if self._workers.is_chief:
            keep_best(self._model_dir, self._scores.ranked(step), self._settings.keep_best)
            patience = self._settings.patience
            count = self._scores.num_without_improvement(step)
            if patience is not None and count >= patience:
                best = self._scores.describe_best(step)
                self.early_stop = f"{best} was not surpassed in {count} validations since"
            for callback in self._score_callbacks:
                reason = callback.on_scores(self._scores.until(step))
                self.early_stop = self.early_stop or reason
        if self._workers.any(self.early_stop is not None):
            self.early_stop = self.early_stop or "the chief has decided so"

    def _translate(self, step):
        """Scores the translations; writes scores, samples and attention maps to TensorBoard.

        Returns:
            The scores by name; None if the validation was aborted.
        """
        sources, references = self._sentences
        translations = []
        found = self._translator.translate_lines(sources, description="translating")
        for best in found:
            if self._stop.has_received:
                return None
            translations.append(join_lines(best[0].text))
        scores = bleu_and_chrf(
            translations, references, bleu_tokenizer=self._settings.bleu_tokenizer
        )
        scalars = {"quality/BLEU": scores.bleu, "quality/chrF": scores.chrf}
        self._dashboard.scalars("validation", scalars, step)
        rows = zip(sources, translations, references, strict=True)
        self._dashboard.translations(itertools.islice(rows, _NUM_SAMPLES), step)
        self._draw_attention(step)
        _log.info("step %s: BLEU %.2f, chrF %.2f", f"{step:,}", scores.bleu, scores.chrf)
        return scores._asdict()

    def _draw_attention(self, step):
        """Draws attention maps of the first pair.

        The target is the reference, not the translation, so that the axes never change.
        """
        pairs = zip(*self._sentences, strict=True)
        pair = next((pair for pair in pairs if all(side.strip() for side in pair)), None)
        if pair is None:
            return
        sentence = inspect_pair(self._translator, *pair, limit=_MAX_PIECES)
        for part in PARTS:
            if layers := len(getattr(sentence.attention, part)):
                figure = draw_attention(sentence, part, [layers - 1])
                figure.set_dpi(60)
                self._dashboard.picture(f"attention/{part}", figure, step)

    @functools.cached_property
    def _sentences(self) -> tuple[list[str], list[str]]:
        source, target = (
            list(itertools.islice(file.lines(), self._settings.sentences)) if file else []
            for file in (self._corpus.source, self._corpus.target)
        )
        return source, target

    @functools.cached_property
    def _translator(self) -> Translator:
        return Translator(
            self.model,
            self._corpus.source_tokenizer,
            self._corpus.target_tokenizer,
            beam_size=self._settings.beam_size,
            length_penalty=self._settings.length_penalty,
        )


def log_settings_and_graph(
    log: TensorBoardLog, config: TrainingConfig, model: keras.Model, model_dir: pathlib.Path
) -> None:
    """Writes the settings to TensorBoard, and the model's graph if the run is new.

    Args:
        log: the TensorBoard files to write.
        config: settings of the run.
        model: the model.
        model_dir: the model directory, which names the run.
    """
    metrics = ["loss", "perplexity"]
    if not config.is_language_model and config.validation.translate_every:
        metrics = ["quality/BLEU", "quality/chrF", *metrics]
    settings = {
        name: value
        for name, value in flatten(config_to_dict(config)).items()
        if not name.startswith("validation.")  # does not affect the model
    }
    log.settings(str(model_dir), settings | {"parameters": model.count_params()}, metrics)
    if current_step(model) == 0:
        log.graph(model)

"""Building and compiling the model to train, and initializing its embeddings."""

from typing import Any

from tf_transformer.losses.label_smoothing import LabelSmoothedCrossEntropy
from tf_transformer.losses.metrics import Perplexity, SmoothedLoss, TokenAccuracy
from tf_transformer.losses.schedule import NoamSchedule
from tf_transformer.text.text_file import TextFile
from tf_transformer.text.tokenizer import Tokenizer
from training.config import TrainingConfig, VocabularyConfig
from training.data.word_vectors import read_vectors
from training.optimizer import Adam
from training.step import TrainableDraftHeads, TrainableLanguageModel, TrainableTransformer
from training.trained_weights import choose_trained


def build_model(
    config: TrainingConfig,
    source_vocab_size: int | None,
    target_vocab_size: int,
    *,
    is_guided: bool = False,
) -> TrainableTransformer | TrainableLanguageModel:
    """Returns the built model, compiled with its loss, metrics and optimizer.

    Call it in the scope of the distribution strategy. If it `is_guided`, batches have alignments,
    see `losses/guided_alignment.py`.
    """
    optimization = config.optimization
    model_config = config.transformer_config(source_vocab_size, target_vocab_size)
    model = _class_to_train(model_config)(model_config, dtype=optimization.dtype)
    choose_trained(model, config)
    schedule = NoamSchedule(
        model.config.side("decoder").d_model,
        optimization.warmup_steps,
        optimization.learning_rate_factor,
        initial_rate=optimization.initial_rate,
        minimum_rate=optimization.minimum_rate,
    )
    smoothing: dict[str, Any] = dict(
        label_smoothing=optimization.label_smoothing, smoothed_over=optimization.smoothed_over
    )
    model.compile(
        optimizer=Adam(
            schedule,
            clip_norm=optimization.clip_norm,
            average_decay=optimization.average_decay,
            scales_loss=optimization.dtype == "mixed_float16",
        ),
        loss=LabelSmoothedCrossEntropy(**smoothing),
        # Replaces Keras' loss metric, which the training step does not update.
        metrics=[SmoothedLoss(**smoothing, name="loss"), Perplexity(), TokenAccuracy()],
        auto_scale_loss=False,  # our Adam scales it
        jit_compile=False,  # XLA would recompile for every batch shape
    )
    model.optimizer.build(model.trainable_variables)
    model.num_micro_batches = optimization.micro_batches
    model.r_drop = optimization.r_drop
    model.alignment_weight = optimization.alignment_weight if is_guided else 0.0
    return model


def _class_to_train(config):
    if config.decoder_only:
        return TrainableLanguageModel
    return TrainableDraftHeads if config.draft_heads else TrainableTransformer


def set_word_vectors(
    model: TrainableTransformer | TrainableLanguageModel,
    vocabulary: VocabularyConfig,
    source_tokenizer: Tokenizer | None,
    target_tokenizer: Tokenizer,
) -> None:
    """Initializes the embeddings from the vocabulary's files of word vectors, if any."""
    for name, tokenizer in (("source", source_tokenizer), ("target", target_tokenizer)):
        path = getattr(vocabulary, f"{name}_vectors")
        if path is not None and tokenizer is not None:  # make_config refuses vectors without a side
            embedding = getattr(model, f"{name}_embedding")
            file = TextFile.parse(path)
            embedding.set_vectors(read_vectors(file, tokenizer, embedding.d_model))

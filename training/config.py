"""The settings of a training run and their defaults."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic

from tf_transformer.config import TransformerConfig
from tf_transformer.decoding.search_options import LARGEST_LENGTH_PENALTY
from tf_transformer.errors import InputError
from tf_transformer.presets import PRESETS

# TensorFlow counts most of what they stand for in 32 bits.
Positive = Annotated[int, pydantic.Field(gt=0, le=2**30, strict=True)]
Seed = Annotated[int, pydantic.Field(ge=0, lt=2**32, strict=True)]
PositiveFloat = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]
Rate = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, pydantic.Field(ge=0, lt=1)]

if TYPE_CHECKING:  # which know no literals that are computed
    Preset = str
else:
    Preset = Literal[tuple(PRESETS)]

_STRICT = pydantic.ConfigDict(extra="forbid")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """How SentencePiece cuts text into pieces.

    Args:
        size: pieces, the special ones included.
        kind: "bpe", "unigram" or "char".
        joint: one vocabulary for both sides, which lets all embeddings be tied.
        byte_fallback: spells characters outside the vocabulary as bytes instead of losing them.
        split_digits: cuts numbers into single digits.
        character_coverage: share of the corpus's characters that become pieces of their own.
        normalization: SentencePiece's rule; "identity" keeps full-width forms, which matters when
            the target is Chinese or Japanese.
        languages: target languages of one model; each sentence of the source begins with the tag of
            its own, such as `<2de>`, which is a piece that is never split.
        source_vectors, target_vectors: files of word vectors that the embeddings start from, see
            `read_vectors`; a matrix that both sides share takes `target_vectors`. They stay as they
            are with `model.trainable_embeddings: false`.
    """

    __pydantic_config__ = _STRICT

    size: Positive = 8000
    kind: Literal["bpe", "unigram", "char"] = "bpe"
    joint: bool = True
    byte_fallback: bool = True
    split_digits: bool = False
    character_coverage: Annotated[float, pydantic.Field(ge=0.98, le=1)] = 0.9999
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = "nmt_nfkc"
    languages: list[str] = dataclasses.field(default_factory=list)
    source_vectors: str | None = None
    target_vectors: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig:
    """How text becomes batches.

    Args:
        batch_tokens: a batch holds as many pairs as fit into this many tokens when each counts
            with the upper end of its length bucket, for the longer of its two sides.
        batch_sentences: a batch holds this many pairs instead, however long they are.
        max_length: pairs with a side of more tokens, its end token included, are dropped.
        shuffle_buffer: pairs among which the next one is drawn.
        subword_dropout: in training, a piece is cut into its two parts with this probability, and
            these again (subword regularization; see `split_pieces`).
        word_dropout: in training, a source token becomes the unknown id with this probability.
    """

    __pydantic_config__ = _STRICT

    batch_tokens: Positive = 4096
    batch_sentences: Positive | None = None
    max_length: Positive = 128
    shuffle_buffer: Positive = 200_000
    subword_dropout: Share = 0.0
    word_dropout: Share = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizationConfig:
    """How the weights are trained.

    Args:
        steps: optimizer updates in all.
        warmup_steps: updates until the learning rate's peak.
        learning_rate_factor, initial_rate, minimum_rate: see `NoamSchedule`.
        label_smoothing: mass of the label distribution spread over the vocabulary.
        smoothed_over: which entries share it, see `smoothed_cross_entropy`.
        checkpoint_every: updates between two checkpoints, each followed by a validation.
        keep_checkpoints: how many of the last checkpoints stay.
        micro_batches: a device's batch goes through the model in so many parts, which needs less
            memory; the update is that of the whole batch.
        clip_norm: largest global norm of the gradient; None sets no limit, as in the paper.
        average_decay: training also keeps an exponential moving average of the weights, see `Adam`,
            which is validated and becomes the model; None keeps none.
        dtype: "float32", "mixed_bfloat16", or "mixed_float16", which is for GPUs and scales the
            loss.
        seed: of weights, dropout and the order of the data.
    """

    __pydantic_config__ = _STRICT

    steps: Positive = 10_000
    warmup_steps: Positive = 2000
    learning_rate_factor: PositiveFloat = 2.0
    initial_rate: Rate = 0.0
    minimum_rate: Rate = 0.0
    label_smoothing: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.1
    smoothed_over: Literal["all", "others", "others_but_padding"] = "all"
    checkpoint_every: Positive = 500
    keep_checkpoints: Positive = 10
    micro_batches: Positive = 1
    clip_norm: PositiveFloat | None = None
    average_decay: Annotated[float, pydantic.Field(gt=0, lt=1)] | None = None
    dtype: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    seed: Seed = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationConfig:
    """How the model is judged and watched while it is trained; none of it changes the weights.

    Args:
        translate_every: the validation set is translated at every so many checkpoints and at the
            end, for BLEU and chrF; 0 never does. A language model never translates.
        sentences: so many of the first are translated; None takes all.
        beam_size, length_penalty: of this search; 1 is greedy.
        bleu_tokenizer: sacreBLEU's name of it.
        best_by: which checkpoint is better, "bleu" or "loss"; None takes "bleu" where there are
            translations, else "loss".
        keep_best: so many of the best checkpoints stay beside the last ones.
        patience: training ends once so many judged checkpoints in a row were not better than the
            best; None never ends it early.
        report_every: steps between two reports to TensorBoard.
        histograms: also writes the distribution of every weight, at each checkpoint.
    """

    __pydantic_config__ = _STRICT

    translate_every: Annotated[int, pydantic.Field(ge=0, strict=True)] = 1
    sentences: Positive | None = None
    beam_size: Positive = 1
    length_penalty: Annotated[float, pydantic.Field(ge=0, le=LARGEST_LENGTH_PENALTY)] = 0.6
    bleu_tokenizer: Literal["13a", "intl", "zh", "char", "none"] = "13a"
    best_by: Literal["bleu", "loss"] | None = None
    keep_best: Annotated[int, pydantic.Field(ge=0, strict=True)] = 1
    patience: Positive | None = None
    report_every: Positive = 50
    histograms: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """All settings of a run, as the YAML file nests them.

    Args:
        preset: where the model's sizes start from.
        model: settings of `TransformerConfig` that replace the preset's.
        vocabulary, data, optimization, validation: see their classes.
    """

    __pydantic_config__ = _STRICT

    preset: Preset = "tiny"
    model: dict[str, Any] = dataclasses.field(default_factory=dict)
    vocabulary: VocabularyConfig = dataclasses.field(default_factory=VocabularyConfig)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    optimization: OptimizationConfig = dataclasses.field(default_factory=OptimizationConfig)
    validation: ValidationConfig = dataclasses.field(default_factory=ValidationConfig)

    def transformer_config(
        self, source_vocab_size: int | None, target_vocab_size: int
    ) -> TransformerConfig:
        """The preset with its replacements, for vocabularies of these sizes.

        Raises:
            ValueError: the settings contradict each other.
        """
        for name in ("source_vocab_size", "target_vocab_size"):
            if name in self.model:
                raise InputError(f"'model.{name}' follows from the corpus; set 'vocabulary.size'")
        if not self.vocabulary.joint and self.model.get("tied_embeddings") in ("inputs", "all"):
            raise InputError(
                f"'model.tied_embeddings: {self.model['tied_embeddings']}' needs "
                "'vocabulary.joint: true'"
            )
        # Two vocabularies may have one size and still nothing to share.
        shares_nothing = not self.vocabulary.joint and "tied_embeddings" not in PRESETS[self.preset]
        defaults = {"tied_embeddings": "target"} if shares_nothing else {}
        return TransformerConfig.preset(
            self.preset,
            source_vocab_size=None if self.is_language_model else source_vocab_size,
            target_vocab_size=target_vocab_size,
            **(defaults | self.model),
        )

    @property
    def is_language_model(self) -> bool:
        """Whether the model is a decoder alone, which is trained on a target without a source."""
        return bool(self.model.get("decoder_only", False))

    @property
    def best_by(self) -> str:
        """By what checkpoints are judged, "bleu" or "loss"."""
        translates = self.validation.translate_every > 0 and not self.is_language_model
        return self.validation.best_by or ("bleu" if translates else "loss")

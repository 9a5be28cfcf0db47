"""The settings of a training run and their defaults."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic

from tf_transformer.config import TransformerConfig
from tf_transformer.decoding.search_options import DEFAULT_LENGTH_PENALTY, LARGEST_LENGTH_PENALTY
from tf_transformer.errors import InputError
from tf_transformer.known_names import suggest_fields
from tf_transformer.language_tags import count_tags
from tf_transformer.presets import PRESETS
from tf_transformer.storage.adapter_file import LARGEST_ALPHA, LARGEST_RANK

# TensorFlow holds most of these values in 32 bits.
Positive = Annotated[int, pydantic.Field(gt=0, le=2**30, strict=True)]
Seed = Annotated[int, pydantic.Field(ge=0, lt=2**32, strict=True)]
PositiveFloat = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]
Rate = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, pydantic.Field(ge=0, lt=1)]
Probability = Annotated[float, pydantic.Field(ge=0, le=1)]

if TYPE_CHECKING:  # type checkers do not accept computed literals
    Preset = str
else:
    Preset = Literal[tuple(PRESETS)]

_STRICT = pydantic.ConfigDict(extra="forbid")


@suggest_fields("setting")
@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Settings of the SentencePiece vocabulary.

    Args:
        size: number of pieces, including the special ones.
        kind: "bpe", "unigram" or "char".
        joint: whether both sides share one vocabulary, which tying all embeddings requires.
        byte_fallback: encodes characters outside the vocabulary as bytes, not as the unknown piece.
        split_digits: splits numbers into single digits.
        character_coverage: share of the corpus's characters that get a piece of their own.
        normalization: name of a SentencePiece normalization rule; "identity" keeps full-width
            forms, which matters for Chinese and Japanese targets.
        languages: target languages of a multilingual model; each source sentence begins with a tag
            such as `<2de>`, a piece that is never split.
        symbols: other pieces that are never split, such as `<bt>`, the mark of back-translations.
        source_vectors: file of word vectors to initialize the source embedding, see
            `read_vectors`; not allowed if both sides share one matrix.
        target_vectors: file of word vectors to initialize the target embedding, or the shared one.
            `model.trainable_embeddings: false` freezes all embeddings.
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
    symbols: list[str] = dataclasses.field(default_factory=list)
    source_vectors: str | None = None
    target_vectors: str | None = None


@suggest_fields("setting")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """The shares of several prepared corpora in the batches from a step on.

    Args:
        from_step: number of updates before the first one of the phase.
        weights: weight of each corpus, in the order of `--prepared`.
    """

    __pydantic_config__ = _STRICT

    from_step: Annotated[int, pydantic.Field(ge=0, le=2**30, strict=True)]
    weights: list[Rate]


@suggest_fields("setting")
@dataclasses.dataclass(frozen=True, kw_only=True)
class NoiseConfig:
    """Rates of noise in the text of training pairs, see `training.noise`.

    Args:
        upper: probability that both sides of a pair are in upper case.
        title: probability that both sides have a capital at the beginning of each word; no pair
            has both, so `upper` and `title` are together at most 1.
        no_end: probability that both sides lose the punctuation at their end; only where both have
            the same class of it.
        typos: probability of a typing error at each letter of the source.
        copies: probability that a token without a translation (emoji, tag, address, number) is
            inserted into both sides, at the begin of both or at the end of both.
    """

    __pydantic_config__ = _STRICT

    upper: Probability = 0.0
    title: Probability = 0.0
    no_end: Probability = 0.0
    typos: Probability = 0.0
    copies: Probability = 0.0

    @property
    def is_on(self) -> bool:
        """Whether a rate is above 0."""
        return any(dataclasses.astuple(self))


@suggest_fields("setting")
@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Settings that turn text into batches.

    Args:
        batch_tokens: token budget of a batch: number of pairs times the upper bound of their length
            bucket, which is chosen by the longer side of a pair.
        batch_sentences: fixed number of pairs per batch, which replaces `batch_tokens`.
        max_length: maximum number of tokens of a side, including the end token; longer pairs are
            dropped.
        shuffle_buffer: number of pairs in the shuffle buffer.
        subword_dropout: probability, in training, of splitting a piece into its two parts, and
            those again (subword regularization; see `split_pieces`).
        word_dropout: probability, in training, of replacing a source token by the unknown id.
        curriculum: phases in which each batch is one of several prepared corpora, see `Curriculum`;
            empty mixes them within batches, by fixed weights.
        noise: see `NoiseConfig`; for text files, not for prepared folders.
    """

    __pydantic_config__ = _STRICT

    batch_tokens: Positive = 4096
    batch_sentences: Positive | None = None
    max_length: Positive = 128
    shuffle_buffer: Positive = 200_000
    subword_dropout: Share = 0.0
    word_dropout: Share = 0.0
    curriculum: list[Phase] = dataclasses.field(default_factory=list)
    noise: NoiseConfig = dataclasses.field(default_factory=NoiseConfig)


@suggest_fields("setting")
@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizationConfig:
    """Settings of the optimizer, the loss and the checkpoints.

    Args:
        steps: total number of optimizer updates.
        warmup_steps: updates until the peak of the learning rate.
        learning_rate_factor: `factor` of `NoamSchedule`. The defaults of that class are the paper's
            4,000 and 1.0, for 100,000 updates; `steps` is 10,000 by default, so here the warm-up is
            shorter and the rates are higher.
        initial_rate: learning rate at which the warm-up starts, see `NoamSchedule`.
        minimum_rate: lower bound of the learning rate, see `NoamSchedule`.
        label_smoothing: probability mass of the label that is spread over the vocabulary.
        smoothed_over: the entries that receive it, see `smoothed_cross_entropy`.
        checkpoint_every: updates between two checkpoints; each is followed by a validation.
        keep_checkpoints: number of most recent checkpoints to keep.
        micro_batches: number of parts in which a device's batch passes through the model, to save
            memory; the update is that of the whole batch.
        r_drop: weight of the divergence between two passes with different dropout (R-Drop), see
            `losses/r_drop.py`; 0 makes a single pass.
        alignment_weight: weight of the loss of word alignments, if the run has any, see
            `losses/guided_alignment.py`; 0.05 in Garg et al., 2019.
        clip_norm: maximum global norm of the gradient; None sets no limit, as in the paper.
        average_decay: decay of an exponential moving average of the weights, see `Adam`. The
            average is validated and becomes the model. None keeps no average.
        dtype: "float32", "mixed_bfloat16", or "mixed_float16" (for GPUs, with loss scaling).
        seed: random seed of the weights, dropout and the order of the data.
        frozen: patterns of the names of weights that are not trained, such as "encoder/*", see
            `freeze`.
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
    r_drop: Rate = 0.0
    alignment_weight: PositiveFloat = 0.05
    clip_norm: PositiveFloat | None = None
    average_decay: Annotated[float, pydantic.Field(gt=0, lt=1)] | None = None
    dtype: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    seed: Seed = 1
    frozen: list[str] = dataclasses.field(default_factory=list)


@suggest_fields("setting")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ValidationConfig:
    """Settings of validation and monitoring; none of them changes the weights of an update.

    Args:
        translate_every: number of checkpoints between two translations of the validation set for
            BLEU and chrF; the last step is always translated. 0 translates never, and a language
            model never translates.
        sentences: number of sentences to translate, from the start; None translates all.
        beam_size: beam size of this search; 1 is greedy.
        length_penalty: length penalty of this search.
        bleu_tokenizer: sacreBLEU's name of the tokenizer for BLEU.
        best_by: what the best checkpoint is chosen by, "bleu" or "loss"; None means "bleu" where
            there are translations, else "loss".
        keep_best: number of best checkpoints to keep in addition to the most recent ones.
        patience: number of consecutive scored checkpoints without improvement after which training
            stops early; None never stops early.
        report_every: steps between two reports to TensorBoard and to the log.
        histograms: whether to write a histogram of every weight at each checkpoint.
    """

    __pydantic_config__ = _STRICT

    translate_every: Annotated[int, pydantic.Field(ge=0, strict=True)] = 1
    sentences: Positive | None = None
    beam_size: Positive = 1
    length_penalty: Annotated[float, pydantic.Field(ge=0, le=LARGEST_LENGTH_PENALTY)] = (
        DEFAULT_LENGTH_PENALTY
    )
    bleu_tokenizer: Literal["13a", "intl", "zh", "char", "none"] = "13a"
    best_by: Literal["bleu", "loss"] | None = None
    keep_best: Annotated[int, pydantic.Field(ge=0, strict=True)] = 1
    patience: Positive | None = None
    report_every: Positive = 50
    histograms: bool = False


@suggest_fields("setting")
@dataclasses.dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Settings of LoRA: matrices of low rank are trained instead of the model's weights.

    Args:
        rank: number of columns of A, see `models/lora.py`; None trains the model's weights.
        alpha: factor of the update, which is divided by the rank; None means the rank.
        targets: patterns of the names of the dense layers that get an update. The default means
            those of attention and feed-forward networks; the rest is "logits_projection", in
            models that have it.
    """

    __pydantic_config__ = _STRICT

    rank: Annotated[int, pydantic.Field(gt=0, le=LARGEST_RANK, strict=True)] | None = None
    alpha: Annotated[PositiveFloat, pydantic.Field(le=LARGEST_ALPHA)] | None = None
    targets: list[str] = dataclasses.field(default_factory=lambda: ["*/layer_*"])


@suggest_fields("setting")
@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """All settings of a training run, nested as in the YAML file.

    Args:
        preset: name of the preset that gives the model's sizes.
        model: settings of `TransformerConfig` that override the preset's.
        vocabulary: see `VocabularyConfig`.
        data: see `DataConfig`.
        optimization: see `OptimizationConfig`.
        validation: see `ValidationConfig`.
        lora: see `LoraConfig`.
    """

    __pydantic_config__ = _STRICT

    preset: Preset = "tiny"
    model: dict[str, Any] = dataclasses.field(default_factory=dict)
    vocabulary: VocabularyConfig = dataclasses.field(default_factory=VocabularyConfig)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    optimization: OptimizationConfig = dataclasses.field(default_factory=OptimizationConfig)
    validation: ValidationConfig = dataclasses.field(default_factory=ValidationConfig)
    lora: LoraConfig = dataclasses.field(default_factory=LoraConfig)

    @property
    def num_tags(self) -> int:
        """Number of tags that a source starts with, if the vocabulary has languages."""
        return count_tags(self.model.get("language_tags", "source"))

    def transformer_config(
        self, source_vocab_size: int | None, target_vocab_size: int
    ) -> TransformerConfig:
        """Returns the preset with `model` applied, for vocabularies of these sizes.

        Raises:
            InputError: the settings contradict each other, or `model` sets a vocabulary size.
        """
        for name in ("source_vocab_size", "target_vocab_size"):
            if name in self.model:
                raise InputError(
                    f"'model.{name}' is derived from the vocabulary; set 'vocabulary.size' instead"
                )
        if not self.vocabulary.joint and self.model.get("tied_embeddings") in ("inputs", "all"):
            raise InputError(
                f"'model.tied_embeddings: {self.model['tied_embeddings']}' needs "
                "'vocabulary.joint: true'"
            )
        # Separate vocabularies cannot share embeddings, even when they have the same size.
        is_separate = not self.vocabulary.joint and "tied_embeddings" not in PRESETS[self.preset]
        defaults = {"tied_embeddings": "target"} if is_separate else {}
        return TransformerConfig.preset(
            self.preset,
            source_vocab_size=None if self.is_language_model else source_vocab_size,
            target_vocab_size=target_vocab_size,
            **(defaults | self.model),
        )

    @property
    def is_language_model(self) -> bool:
        """Whether the model is decoder-only, which is trained on a target without a source."""
        return bool(self.model.get("decoder_only", False))

    @property
    def best_by(self) -> str:
        """The score that the best checkpoints are chosen by, "bleu" or "loss"."""
        translates = self.validation.translate_every > 0 and not self.is_language_model
        return self.validation.best_by or ("bleu" if translates else "loss")

"""The sizes and switches of a Transformer, checked."""

import dataclasses
from typing import Any, NamedTuple

from tf_transformer.config_checks import (
    Activation,
    Autoregression,
    BeginEmbedding,
    DropoutRate,
    Epsilon,
    FirstPosition,
    HeadIndex,
    HeadWidth,
    InnerWidth,
    LanguageTags,
    ModelWidth,
    NormPosition,
    NormType,
    NumBuckets,
    NumDraftHeads,
    NumHeads,
    NumLayers,
    NumPositions,
    Positions,
    RelativePositions,
    Switch,
    TiedEmbeddings,
    VocabSize,
    check_fields,
    check_relations,
)
from tf_transformer.errors import InputError
from tf_transformer.known_names import check_names, nearest, suggest_fields
from tf_transformer.language_tags import count_tags
from tf_transformer.presets import PRESETS
from tf_transformer.printable import shown


@suggest_fields("setting of one side")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SideConfig:
    """Per-side overrides for the encoder or the decoder; None means the model's value.

    Args:
        d_model, d_ff, num_heads, head_dim, norm_position, final_norm, norm_type, layer_history: see
            `TransformerConfig`.
        cross_num_heads: heads of the decoder's cross-attention; its `num_heads` when None.
    """

    d_model: ModelWidth | None = None
    d_ff: InnerWidth | None = None
    num_heads: NumHeads | None = None
    head_dim: HeadWidth | None = None
    cross_num_heads: NumHeads | None = None
    norm_position: NormPosition | None = None
    final_norm: Switch | None = None
    norm_type: NormType | None = None
    layer_history: Switch | None = None


class ResolvedSide(NamedTuple):
    """The settings of the encoder or the decoder: the fields of `SideConfig`, each with a value.

    Only `head_dim` can be None, see `TransformerConfig`.
    """

    d_model: ModelWidth
    d_ff: InnerWidth
    num_heads: NumHeads
    head_dim: HeadWidth | None
    cross_num_heads: NumHeads
    norm_position: NormPosition
    final_norm: Switch
    norm_type: NormType
    layer_history: Switch

    def head_dim_of(self, num_heads: int) -> int:
        """Returns the width of each of a number of heads."""
        return self.head_dim or self.d_model // num_heads


@suggest_fields("setting of the model")
@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The settings that determine the weights and the equations of a model.

    Args:
        source_vocab_size: number of source token ids, the special ones included; None for a
            decoder-only model, which has no source.
        target_vocab_size: number of target token ids, the special ones included.
        num_encoder_layers: N of the encoder.
        num_decoder_layers: N of the decoder.
        d_model: width of embeddings and of every layer's output.
        d_ff: inner width of the feed-forward sublayers.
        num_heads: h; must divide `d_model`, unless `head_dim` is given.
        head_dim: width of the queries, keys and values of each head; None means
            `d_model / num_heads`, as in the paper.
        dense_bias: whether the dense layers of attention and feed-forward sublayers have biases, as
            in the Annotated Transformer; the paper's formula has them in the latter only.
        dropout_rate: on embeddings and on each sublayer's output (P_drop of the paper).
        attention_dropout_rate: on attention weights; `dropout_rate` when None. The paper does not
            mention this dropout; its authors' code and the Annotated Transformer apply it.
        feed_forward_dropout_rate: on the inner activations; `dropout_rate` when None. The paper
            does not mention this dropout either; the same two implementations apply it.
        norm_position: "post" is the paper's `norm(x + sublayer(x))`, "pre" is
            `x + sublayer(norm(x))`.
        final_norm: one more norm after each stack; None means True with `norm_position` "pre",
            else False.
        norm_type: "layer", "sample_std" (the Annotated Transformer's), "l1" or "rms"; see
            `make_norm`.
        positions: what is added to the embeddings: sinusoids "interleaved" (the paper),
            "concatenated" (NiuTensor, Tensor2Tensor) or "marian" (Hugging Face's Marian), a
            "learned" vector for each of the `num_positions`, or "none".
        first_position: position of the first token in the sinusoids: 0 in the paper, 2 in M2M100,
            NLLB and NiuTensor's program.
        relative_positions: what self-attention knows of distances: learned vectors, added to "keys"
            or to "keys_values" (Shaw et al., 2018); "buckets", a bias of each head for ranges of
            distances, shared by the layers of a stack (T5, see `RelativeBias`); or "none".
        max_relative_distance: positions further apart than this share one vector, or bucket.
        relative_buckets: number of biases of each head, at least 4.
        activation: of the feed-forward sublayers; those with "glu" in their name, such as
            "geglu_tanh", are gated (Shazeer, 2020).
        decoder_autoregression: how a position of the decoder sees earlier ones: by masked
            "self_attention" as in the paper, or by the recurrent layer "ssru" (Kim et al., 2019),
            with which a step of decoding takes the same time for any length; see `SSRU`.
        layer_history: every layer sees a learned mix of all layers below it (Wang et al., 2019).
        tied_embeddings: "all" shares one matrix among source embedding, target embedding and
            logits (the paper, section 3.4), "target" shares the last two, "inputs" the first two,
            "none" shares nothing. None means "all" if both vocabularies and both widths are
            equal, else "target".
        scaled_embeddings: whether token vectors are multiplied by sqrt(d_model), as in the paper.
        embedding_norm: whether the embeddings, with their positions, are normalized (BART).
        trainable_embeddings: False freezes the embeddings, for pretrained vectors.
        begin_embedding: vector of the begin id in the decoder's input: its "own" row of the matrix,
            "zero" (Marian), or the row of the "end" id (fairseq, M2M100, NLLB); the positional
            encoding is added.
        source_end: whether attention sees the end id of the source. False masks it like padding,
            for models that were trained without it, such as OpenNMT's.
        logits_bias: adds a bias to the logits; None means True unless the logits are tied to the
            target embedding.
        language_tags: how the languages of a multilingual model are named. "source": the source
            starts with the tag of the target language (Johnson et al., 2017). "source_and_target":
            each side starts with the tag of its own language (Fan et al., 2020, M2M100 and NLLB);
            in text and in token ids both stand at the start of the source, first the target's,
            which the search and training move to the target, see `framing.split_tags`.
            "both_in_source": the encoder sees both tags, its own language's at the first position
            and the target's at the second one (Gala et al., 2023, IndicTrans2); their order in
            text is the same as above, and their positions are exchanged. "end_and_begin": the tag
            of the source's language follows its end id, and the target's takes the place of the
            begin id (Liu et al., 2020, mBART); their order in text and in token ids is that of
            "source_and_target". The positions are those of the original order, and no token attends
            to the begin id, which the search and training still put before the tag.
        alignment_head: the head of the cross-attention of `alignment_layer` that was trained to
            align words, see `losses/guided_alignment.py`; it alone is the model's alignment. None
            means that none was, and the alignment is the mean over the heads. Changes no other
            result.
        draft_heads: number of heads that draft the tokens after the next one, see `DraftHeads`;
            greedy search of few sentences then takes several tokens in a step. Changes no result.
        depth_scaled_initialization: the initial weights of layer l are scaled by 1 / sqrt(l)
            (Zhang et al., 2019).
        layer_norm_epsilon: of every norm.
        max_length: the longest source or target that a translator handles, in tokens; at most
            2**20. Every size has an upper limit, see `config_checks`.
        decoder_only: a language model: no encoder, no cross-attention.
        encoder, decoder: per-side overrides, a `SideConfig` or a dictionary of its fields.

    Raises:
        InputError: a value has the wrong type, is out of range or contradicts another one.
    """

    source_vocab_size: VocabSize | None = None
    target_vocab_size: VocabSize
    num_encoder_layers: NumLayers = 6
    num_decoder_layers: NumLayers = 6
    d_model: ModelWidth = 512
    d_ff: InnerWidth = 2048
    num_heads: NumHeads = 8
    head_dim: HeadWidth | None = None
    dense_bias: Switch = True
    dropout_rate: DropoutRate = 0.1
    attention_dropout_rate: DropoutRate | None = None
    feed_forward_dropout_rate: DropoutRate | None = None
    norm_position: NormPosition = "post"
    final_norm: Switch | None = None
    norm_type: NormType = "layer"
    positions: Positions = "interleaved"
    first_position: FirstPosition = 0
    relative_positions: RelativePositions = "none"
    max_relative_distance: NumPositions = 16
    relative_buckets: NumBuckets = 16
    activation: Activation = "relu"
    decoder_autoregression: Autoregression = "self_attention"
    layer_history: Switch = False
    tied_embeddings: TiedEmbeddings | None = None
    scaled_embeddings: Switch = True
    embedding_norm: Switch = False
    trainable_embeddings: Switch = True
    begin_embedding: BeginEmbedding = "own"
    source_end: Switch = True
    logits_bias: Switch | None = None
    language_tags: LanguageTags = "source"
    alignment_head: HeadIndex | None = None
    draft_heads: NumDraftHeads = 0
    depth_scaled_initialization: Switch = False
    layer_norm_epsilon: Epsilon = 1e-6
    max_length: NumPositions = 256
    decoder_only: Switch = False
    encoder: SideConfig = SideConfig()
    decoder: SideConfig = SideConfig()

    def __post_init__(self):
        for name in ("encoder", "decoder"):
            object.__setattr__(self, name, _side_config(name, getattr(self, name)))
            check_fields(getattr(self, name), f"{name}.")
        check_fields(self)
        if self.tied_embeddings is None:
            tied = "all" if self._sides_can_share() else "target"
            object.__setattr__(self, "tied_embeddings", tied)
        if self.logits_bias is None:
            object.__setattr__(self, "logits_bias", not self.logits_tied)
        check_relations(self)

    def _sides_can_share(self) -> bool:
        encoder, decoder = self.side("encoder"), self.side("decoder")
        return (
            self.source_vocab_size == self.target_vocab_size and encoder.d_model == decoder.d_model
        )

    @classmethod
    def preset(
        cls,
        name: str,
        *,
        source_vocab_size: int | None = None,
        target_vocab_size: int,
        **overrides: Any,
    ) -> "TransformerConfig":
        """Returns the named preset, such as "tiny" or "base", with single values replaced.

        Raises:
            InputError: there is no such preset, or no setting of that name.
        """
        if name not in PRESETS:
            raise InputError(
                f"`name` must be one of {tuple(PRESETS)}. Received: preset {shown(name)}"
                + nearest(name, PRESETS)
            )
        return cls(
            source_vocab_size=source_vocab_size,
            target_vocab_size=target_vocab_size,
            **(PRESETS[name] | overrides),
        )

    def side(self, name: str) -> ResolvedSide:
        """Returns the settings of the "encoder" or the "decoder", defaults filled in."""
        own = getattr(self, name)
        values: dict[str, Any] = {
            field.name: getattr(self, field.name, None)
            if getattr(own, field.name) is None
            else getattr(own, field.name)
            for field in dataclasses.fields(SideConfig)
        }
        if values["final_norm"] is None:
            values["final_norm"] = values["norm_position"] == "pre"
        if values["cross_num_heads"] is None:
            values["cross_num_heads"] = values["num_heads"]
        return ResolvedSide(**values)

    def dropout_rate_of(self, part: str) -> float:
        """Returns the dropout rate of the "attention" weights or "feed_forward" activations."""
        rate = getattr(self, f"{part}_dropout_rate")
        return self.dropout_rate if rate is None else rate

    @property
    def num_tags(self) -> int:
        """Number of tags at the start of a source, if the vocabulary has languages."""
        return count_tags(self.language_tags)

    @property
    def num_target_tags(self) -> int:
        """Number of tags at the start of a source that belong to its target."""
        return int(self.language_tags in ("source_and_target", "end_and_begin"))

    @property
    def hides_begin(self) -> bool:
        """Whether no token attends to the begin id, whose position is that of the next token."""
        return self.language_tags == "end_and_begin"

    @property
    def num_positions(self) -> int:
        """Number of positions of a source or a target: `max_length`, and those of its tags."""
        return self.max_length + self.num_target_tags

    @property
    def alignment_layer(self) -> int:
        """Index of the decoder layer whose cross-attention is the model's alignment.

        It is the second-to-last layer, which matches word alignments best (Garg et al., 2019), or
        the only one.
        """
        return max(self.num_decoder_layers - 2, 0)

    @property
    def logits_tied(self) -> bool:
        """Whether the logits are computed with the matrix of the target embedding."""
        return self.tied_embeddings in ("target", "all")


def _side_config(name: str, value: Any) -> SideConfig:
    if isinstance(value, SideConfig):
        return value
    if not isinstance(value, dict):
        raise InputError(
            f"`{name}` must hold settings of one side. Received: {name}={shown(value)}"
        )
    check_names(
        (f"{name}.{key}" for key in value),
        (f"{name}.{field.name}" for field in dataclasses.fields(SideConfig)),
        "setting of the model",
    )
    return SideConfig(**value)

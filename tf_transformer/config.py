"""The sizes and switches of a Transformer, and the presets known from the literature."""

import dataclasses
import difflib
from typing import Any

NORM_POSITIONS = ("post", "pre")
TIED_EMBEDDINGS = ("none", "target", "all")

PRESETS: dict[str, dict[str, Any]] = {
    # Wu et al., 2021, "Good for Misconceived Reasons", for corpora of the size of Multi30k; they
    # have no dropout inside attention and feed-forward either. Their norms come last; first is
    # what learned faster here.
    "tiny": dict(
        num_encoder_layers=4,
        num_decoder_layers=4,
        d_model=128,
        d_ff=256,
        num_heads=4,
        dropout_rate=0.3,
        attention_dropout_rate=0.0,
        feed_forward_dropout_rate=0.0,
        norm_position="pre",
    ),
    # Vaswani et al., 2017, table 3.
    "base": dict(
        num_encoder_layers=6,
        num_decoder_layers=6,
        d_model=512,
        d_ff=2048,
        num_heads=8,
        dropout_rate=0.1,
    ),
    "big": dict(
        num_encoder_layers=6,
        num_decoder_layers=6,
        d_model=1024,
        d_ff=4096,
        num_heads=16,
        dropout_rate=0.3,
    ),
}


def nearest(name: str, known: Any) -> str:
    """Returns `"; did you mean 'x'?"` for the known name closest to `name`, or an empty string."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{matches[0]}'?" if matches else ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Everything that decides the weights and the equations of a `Transformer`.

    Args:
        source_vocab_size: number of source token ids, the special ones included.
        target_vocab_size: number of target token ids, the special ones included.
        num_encoder_layers: N of the encoder.
        num_decoder_layers: N of the decoder.
        d_model: width of embeddings and of every layer's output.
        d_ff: inner width of the feed-forward sublayers.
        num_heads: h; must divide `d_model`.
        dropout_rate: on embeddings and on each sublayer's output (P_drop of the paper).
        attention_dropout_rate: on attention weights; `dropout_rate` when None. The paper has none,
            its own code and the Annotated Transformer do.
        feed_forward_dropout_rate: on the inner activations; `dropout_rate` when None. As above.
        norm_position: "post" is the paper's `norm(x + sublayer(x))`, "pre" is
            `x + sublayer(norm(x))` with one more norm after each stack.
        tied_embeddings: "all" shares one matrix among source embedding, target embedding and
            logits (the paper, section 3.4), "target" shares the latter two, "none" shares nothing.
            None stands for "all" where both vocabularies have one size, else for "target".
        layer_norm_epsilon: added to the variance in every layer norm.
        max_length: the longest source or target that a translator handles, in tokens.

    Raises:
        ValueError: a value is out of range or contradicts another one.
    """

    source_vocab_size: int
    target_vocab_size: int
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    dropout_rate: float = 0.1
    attention_dropout_rate: float | None = None
    feed_forward_dropout_rate: float | None = None
    norm_position: str = "post"
    tied_embeddings: str | None = None
    layer_norm_epsilon: float = 1e-6
    max_length: int = 256

    def __post_init__(self):
        same_size = self.source_vocab_size == self.target_vocab_size
        for name, value in (
            ("attention_dropout_rate", self.dropout_rate),
            ("feed_forward_dropout_rate", self.dropout_rate),
            ("tied_embeddings", "all" if same_size else "target"),
        ):
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        self._check_sizes()
        self._check_rates()
        for name, allowed in (
            ("norm_position", NORM_POSITIONS),
            ("tied_embeddings", TIED_EMBEDDINGS),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"`{name}` must be one of {allowed}. Received: {name}={getattr(self, name)!r}"
                )
        if self.tied_embeddings == "all" and not same_size:
            raise ValueError(
                "`tied_embeddings='all'` needs one vocabulary for both sides. Received: "
                f"source_vocab_size={self.source_vocab_size}, "
                f"target_vocab_size={self.target_vocab_size}"
            )

    def _check_sizes(self):
        for name in (
            "source_vocab_size",
            "target_vocab_size",
            "num_encoder_layers",
            "num_decoder_layers",
            "d_model",
            "d_ff",
            "num_heads",
            "max_length",
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value!r}")
        if self.d_model % self.num_heads:
            raise ValueError(
                "`num_heads` must divide `d_model`. Received: "
                f"num_heads={self.num_heads}, d_model={self.d_model}"
            )
        if self.d_model % 2:
            raise ValueError(
                "`d_model` must be even: sines and cosines share it. "
                f"Received: d_model={self.d_model}"
            )
        if not isinstance(self.layer_norm_epsilon, float) or not self.layer_norm_epsilon > 0:
            raise ValueError(
                "`layer_norm_epsilon` must be a positive float. "
                f"Received: layer_norm_epsilon={self.layer_norm_epsilon!r}"
            )

    def _check_rates(self):
        for name in ("dropout_rate", "attention_dropout_rate", "feed_forward_dropout_rate"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < 1:
                raise ValueError(
                    f"`{name}` must be at least 0 and less than 1. Received: {name}={value!r}"
                )

    @classmethod
    def preset(
        cls, name: str, *, source_vocab_size: int, target_vocab_size: int, **overrides: Any
    ) -> "TransformerConfig":
        """Returns the named preset ("tiny", "base", "big") with single values replaced.

        Raises:
            ValueError: no such preset, or no such value to replace.
        """
        if name not in PRESETS:
            raise ValueError(
                f"`name` must be one of {tuple(PRESETS)}. Received: preset {name!r}"
                + nearest(name, PRESETS)
            )
        known = {field.name for field in dataclasses.fields(cls)}
        for key in overrides:
            if key not in known:
                raise ValueError(f"Unknown setting of the model: {key!r}{nearest(key, known)}")
        return cls(
            source_vocab_size=source_vocab_size,
            target_vocab_size=target_vocab_size,
            **(PRESETS[name] | overrides),
        )

    @property
    def head_dim(self) -> int:
        """Width of one head, d_k = d_v = d_model / h."""
        return self.d_model // self.num_heads

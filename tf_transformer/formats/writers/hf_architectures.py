"""The classes of Transformers that `hf_writer` writes, and what each can hold."""

from typing import Any, NamedTuple

from tf_transformer.config import TransformerConfig
from tf_transformer.formats.position_tables import SINUSOIDS


class Architecture(NamedTuple):
    """One of Transformers' classes.

    Attributes:
        class_name: name of the class.
        model_type: its name in `config.json`.
        supported: what the class can hold, see `check_supported`.
        has_bias: whether its logits have a bias.
        stores_positions: whether its files contain tables of positions.
        unused_positions: number of rows before its learned positions, which no token has.
    """

    class_name: str
    model_type: str
    supported: dict[str, list[Any]]
    has_bias: bool
    stores_positions: bool
    unused_positions: int = 0


_SUPPORTED: dict[str, list[Any]] = {
    "decoder_autoregression": ["self_attention"],
    "source_end": [True],
    "norm_type": ["layer"],
    "head_dim": [None],
    "dense_bias": [True],
    "embedding_norm": [False],
    "layer_history": [False],
    "relative_positions": ["none"],
    "activation": ["relu", "gelu", "swish"],
}
_MARIAN = Architecture(
    "MarianMTModel",
    "marian",
    _SUPPORTED
    | {
        "norm_position": ["post"],
        "final_norm": [False],
        "positions": [*SINUSOIDS, "learned"],
        "begin_embedding": ["own", "zero"],
        "language_tags": ["source"],
    },
    has_bias=True,
    stores_positions=True,
)
_M2M100 = Architecture(
    "M2M100ForConditionalGeneration",
    "m2m_100",
    _SUPPORTED
    | {
        "norm_position": ["pre"],
        "final_norm": [True],
        "positions": ["concatenated"],
        "first_position": [1, 2],  # the pad id + 1, see `_order`
        "tied_embeddings": ["all"],
        "logits_bias": [False],
        "language_tags": ["source", "source_and_target"],
    },
    has_bias=False,
    stores_positions=False,
)
_BARTS = _SUPPORTED | {
    "embedding_norm": [True],
    "positions": ["learned"],
    "tied_embeddings": ["all"],
    "begin_embedding": ["end"],
}
_MBART = Architecture(
    "MBartForConditionalGeneration",
    "mbart",
    _BARTS
    | {
        "norm_position": ["pre"],
        "final_norm": [True],
        "language_tags": ["source_and_target", "end_and_begin"],
    },
    has_bias=True,
    stores_positions=True,
    unused_positions=2,
)
_BART = Architecture(
    "BartForConditionalGeneration",
    "bart",
    _BARTS
    | {
        "norm_position": ["post"],
        "final_norm": [False],
        "language_tags": ["source_and_target"],
    },
    has_bias=True,
    stores_positions=True,
    unused_positions=2,
)
_PEGASUS = Architecture(
    "PegasusForConditionalGeneration",
    "pegasus",
    _SUPPORTED
    | {
        "norm_position": ["pre"],
        "final_norm": [True],
        "positions": ["marian"],
        "first_position": [0],
        "tied_embeddings": ["all"],
        "begin_embedding": ["own", "zero"],
        "language_tags": ["source"],
    },
    has_bias=True,
    stores_positions=True,
)


def architecture_of(config: TransformerConfig) -> Architecture:
    """Returns the class that can hold a model, or nearly can: see `Architecture.supported`."""
    is_post_norm = config.side("encoder").norm_position == "post"
    if config.embedding_norm:
        return _BART if is_post_norm else _MBART
    if is_post_norm:
        return _MARIAN
    return _PEGASUS if config.positions == "marian" else _M2M100

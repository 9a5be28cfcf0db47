"""Weights of T5 in folders of Hugging Face's Transformers."""

import math
import pathlib
import re
from collections.abc import Callable, Iterator

import numpy as np

from tf_transformer.config import TransformerConfig
from tf_transformer.config_checks import GATED_ACTIVATIONS, SIDES, TiedEmbeddings
from tf_transformer.formats.hf.weights import open_weights
from tf_transformer.formats.naming import Naming, convert_weights
from tf_transformer.formats.tensors.renamed_tensors import RenamedTensors
from tf_transformer.formats.vocabulary_rows import VocabularyRows, row_edits
from tf_transformer.storage.weight_shapes import weight_shapes

EMBEDDING, LOGITS, LOGITS_BIAS = "shared.weight", "lm_head.weight", "logits_bias"
_COPIES = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
# In old files, which no computation reads.
_UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"


def t5_names(is_gated: bool) -> Naming:
    """Returns the names of T5's weights, after those of `T5Weights`.

    Args:
        is_gated: whether the feed-forward sublayers are gated.
    """
    return Naming(
        layer="{stack}.block.{index}",
        self_attention="{layer}.layer.0.SelfAttention",
        cross_attention="{layer}.layer.1.EncDecAttention",
        projections=tuple(f"{{attention}}.{name}" for name in "qkvo"),
        norms={
            "encoder": ("{layer}.layer.0.layer_norm", "", "{layer}.layer.1.layer_norm"),
            "decoder": tuple(f"{{layer}}.layer.{index}.layer_norm" for index in range(3)),
        },
        final_norm="{stack}.final_layer_norm",
        inner="{layer}.DenseReluDense.wi_0" if is_gated else "{layer}.DenseReluDense.wi",
        gated="{layer}.DenseReluDense.wi_1" if is_gated else "",
        outer="{layer}.DenseReluDense.wo",
        matrix=".weight",
        vector=".bias",
        gain=".weight",
        shift=".bias",
        embeddings=(EMBEDDING, EMBEDDING),
        logits="lm_head",
        logits_bias=LOGITS_BIAS,
        relative_bias="{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    )


class T5Weights(RenamedTensors):
    """The arrays of a folder, with the embedding once.

    The names of the feed-forward sublayers lose the index of the sublayer, which differs in encoder
    and decoder. Token vectors are not scaled in T5. A model with one matrix for embeddings and
    logits scales its logits by 1 / sqrt(d_model): here the matrix is scaled by it, and the token
    vectors by sqrt(d_model) as in every other model.

    Args:
        folder: folder of the model.
        scales_logits: whether logits are scaled.

    Attributes:
        tied_embeddings: the setting of `TransformerConfig`.
        scaled_embeddings: the setting of `TransformerConfig`.

    Raises:
        InputError: there are no weights, the file is damaged, or a copy has other values.
    """

    tied_embeddings: TiedEmbeddings

    def __init__(self, folder: pathlib.Path, scales_logits: bool):
        super().__init__(open_weights(folder), _short_name)
        self.drop(_UNUSED)
        self.keep_one([EMBEDDING, *_COPIES])
        if LOGITS not in self or self.equal(LOGITS, EMBEDDING):
            self.drop(LOGITS)
        self.tied_embeddings = "inputs" if LOGITS in self else "all"
        self._scales_logits = scales_logits
        self.scaled_embeddings = scales_logits and self.tied_embeddings == "all"

    def check_vocabulary(self, rows: VocabularyRows) -> None:
        """Checks that embedding and logits have a row for each entry of the vocabulary.

        Raises:
            InputError: one has another number of rows.
        """
        self.check_rows(EMBEDDING, rows.original_size)
        if LOGITS in self:
            self.check_rows(LOGITS, rows.original_size)

    def keep_bias(self, target: VocabularyRows) -> None:
        """Adds a bias of the logits if there are ids that are no outputs."""
        if target.added:
            self.add(LOGITS_BIAS, np.zeros(target.original_size, "float32"))

    def convert(
        self, config: TransformerConfig, source: VocabularyRows, target: VocabularyRows
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Returns the name and the value of each weight of the model, see `convert_weights`.

        Args:
            config: the settings of the model.
            source: the vocabulary of the source.
            target: the vocabulary of the target.

        Raises:
            InputError: see `convert_weights`.
        """
        edits = dict(row_edits(source, target))
        scale = 1 / math.sqrt(config.d_model)
        if self.scaled_embeddings:
            edits["target_embedding/embeddings"] = _scaled(target.take, scale)
        elif self._scales_logits:
            edits["logits_projection/kernel"] = _scaled(edits["logits_projection/kernel"], scale)
        for side in SIDES:
            for layer in range(getattr(config, f"num_{side}_layers")):
                settings = config.side(side)
                head_dim = settings.head_dim_of(settings.num_heads)
                where = f"{side}/layer_{layer}"
                edits[f"{where}/self_attention/query_key_value/kernel"] = _scaled_queries(head_dim)
                edits[f"{where}/cross_attention/query/kernel"] = _scaled(
                    np.array, math.sqrt(head_dim)
                )
        names = t5_names(config.activation in GATED_ACTIVATIONS)
        return convert_weights(weight_shapes(config), names, self, edits)


def _short_name(name: str) -> str:
    return re.sub(r"(\.block\.\d+)\.layer\.\d\.(DenseReluDense\.)", r"\1.\2", name)


def published_name(name: str) -> str:
    """Returns the name in a file of a weight of `t5_names`, the inverse of `T5Weights`."""
    index = 1 if name.startswith("encoder") else 2
    return name.replace(".DenseReluDense.", f".layer.{index}.DenseReluDense.")


def _scaled(
    edit: Callable[[np.ndarray], np.ndarray], factor: float
) -> Callable[[np.ndarray], np.ndarray]:
    return lambda matrix: edit(matrix) * np.float32(factor)


def _scaled_queries(head_dim: int) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the edit of queries, keys and values side by side: T5 divides no scores."""

    def edit(matrix: np.ndarray) -> np.ndarray:
        query, key, value = np.split(matrix, 3, axis=-1)
        return np.concatenate([query * np.float32(math.sqrt(head_dim)), key, value], axis=-1)

    return edit

"""Ensembles: several models that translate together."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tf_transformer.config import TransformerConfig
from tf_transformer.ensemble_config import common_config, normalized_weights
from tf_transformer.models.transformer import Transformer


@keras.saving.register_keras_serializable(package="tf_transformer")
class Ensemble(keras.Model):
    """Several `Transformer`s whose distributions of the next token are combined.

    The log-probability of a token is the weighted mean of the members' log-probabilities,
    normalized over the vocabulary:

    p(y_t | y_<t, x) = 1/Z prod_k p_k(y_t | y_<t, x)^(w_k),    sum_k w_k = 1

    which is the softmax of the weighted mean of their logits. (Some programs take the mean of the
    probabilities, or do not normalize.) An ensemble translates, scores and is exported like a
    model; it cannot be trained.

    Args:
        members: the models, of any sizes and variants, with the same vocabularies and tags.
        weights: the weight of each member, positive; they are divided by their sum. None weights
            all equally.
        **kwargs: those of `keras.Model`.

    Call arguments:
        inputs: see `Transformer`.

    Returns:
        The logits, `(batch, target_length, target_vocab_size)` float32.

    Raises:
        InputError: the members do not fit together, or the weights do not fit the members.
    """

    def __init__(
        self, members: Sequence[Transformer], weights: Sequence[float] | None = None, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.config: TransformerConfig = common_config([member.config for member in members])
        self.members = list(members)
        self.member_weights = normalized_weights(weights, len(members))
        self.built = True

    def call(self, inputs, training=None):
        return self.mean([member(inputs, training=training) for member in self.members])

    def mean(self, values: Sequence[Any]) -> Any:
        """Returns the weighted mean of one array per member."""
        return sum(
            weight * value for weight, value in zip(self.member_weights, values, strict=True)
        )

    def source_mask(self, source: Any) -> Any:
        """Returns which tokens attention sees, see `Transformer.source_mask`."""
        return self.members[0].source_mask(source)

    def encode(self, source: Any, training: bool | None = None) -> tuple[Any, ...]:
        """Encodes source ids `(batch, source_length)`; returns the memory of each member."""
        return tuple(member.encode(source, training) for member in self.members)

    def alignment(self, inputs: Any) -> Any:
        """Returns the weighted mean of the members' `Transformer.alignment`."""
        return self.mean([ops.cast(member.alignment(inputs), "float32") for member in self.members])

    def get_config(self):
        members = [keras.saving.serialize_keras_object(member) for member in self.members]
        return super().get_config() | {"members": members, "weights": self.member_weights}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        members = [
            keras.saving.deserialize_keras_object(member, custom_objects)
            for member in config["members"]
        ]
        return cls(**(config | {"members": members}))

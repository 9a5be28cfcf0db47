"""Dynamic linear combination of layers (Wang et al., 2019, "Learning Deep Transformer Models")."""

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.normalization import make_norm
from tf_transformer.private_interfaces import CompositeLayer


@keras.saving.register_keras_serializable(package="tf_transformer")
class LayerHistory(CompositeLayer):
    """Computes the input of layer l + 1 from the embedding y_0 and all outputs y_1 ... y_l.

    "pre":     x_(l+1) = w_(l,0) y_0 + sum_(k = 1 ... l) w_(l,k) norm_k(y_k)
    "post":    x_(l+1) = norm_l(sum_(k = 0 ... l) w_(l,k) y_k)

    The weights w_(l,k) are learned and start at 1 / (l + 1). The last combination, x_(N+1), is the
    stack's output. Deviation: the first layer's input is x_1 = y_0, which Wang et al. and NiuTensor
    weight and normalize as well.

    Args:
        num_layers: N.
        norm_position: "post" or "pre".
        norm_type: type of the norms, see `make_norm`.
        epsilon: epsilon of the norms.

    Call arguments:
        states: list of the embedding, the second results of all earlier calls, and the last
            layer's output, each `(batch, length, d_model)`.

    Returns:
        The input of the next layer, and the last layer's output to put in `states` in later calls
        (normalized with "pre"), both `(batch, length, d_model)`.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        norm_position: str = "post",
        norm_type: str = "layer",
        epsilon: float = 1e-6,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.norm_position = norm_position
        self.norm_type = norm_type
        self.epsilon = epsilon
        self.norms = [
            make_norm(norm_type, epsilon, self.dtype_policy, f"norm_{layer_index}")
            for layer_index in range(num_layers)
        ]

    def build(self, states_shape):
        for norm in self.norms:
            norm.build(states_shape[-1])
        self.mixes = [
            self.add_weight(
                name=f"mix_{layer_index}",
                shape=(layer_index + 2,),
                initializer=keras.initializers.Constant(1.0 / (layer_index + 2)),
            )
            for layer_index in range(self.num_layers)
        ]
        self.built = True

    def call(self, states):
        layer_index = len(states) - 2
        norm, mix = self.norms[layer_index], self.mixes[layer_index]
        if self.norm_position == "pre":
            states = [*states[:-1], norm(states[-1])]
        mixed = sum(ops.cast(mix[k], state.dtype) * state for k, state in enumerate(states))
        return mixed if self.norm_position == "pre" else norm(mixed), states[-1]

    def compute_output_shape(self, states_shape):
        return states_shape[-1], states_shape[-1]

    def get_config(self):
        return super().get_config() | {
            "num_layers": self.num_layers,
            "norm_position": self.norm_position,
            "norm_type": self.norm_type,
            "epsilon": self.epsilon,
        }

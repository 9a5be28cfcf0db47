"""The base class of layers that hold sublayers."""

import keras

from tf_transformer.private_interfaces import sublayers


class CompositeLayer(keras.layers.Layer):
    """Base class of layers whose sublayers `Model.summary(expand_nested=True)` shows.

    Attributes:
        layers: the sublayers, in order of creation.
    """

    @property
    def layers(self) -> list[keras.layers.Layer]:
        return sublayers(self, recursive=False)

    def __dir__(self):
        # Keras names the weights in a file after the attributes listed here. Every sublayer
        # already is an attribute, so `layers` would list it twice.
        return [name for name in super().__dir__() if name != "layers"]

"""What every layer that is made of layers shares."""

import keras

from tf_transformer.private_interfaces import sublayers


class CompositeLayer(keras.layers.Layer):
    """A layer whose sublayers `Model.summary(expand_nested=True)` shows.

    Attributes:
        layers: the sublayers, in the order in which they were made.
    """

    @property
    def layers(self) -> list[keras.layers.Layer]:
        return sublayers(self, recursive=False)

    def __dir__(self):
        # Keras names the weights in a file after the attributes listed here; each sublayer has one
        # of its own already.
        return [name for name in super().__dir__() if name != "layers"]

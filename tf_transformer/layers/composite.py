"""What every layer that is made of layers shares."""

import keras


class CompositeLayer(keras.layers.Layer):
    """A layer whose sublayers `Model.summary(expand_nested=True)` shows.

    Attributes:
        layers: the sublayers, in the order in which they were made.
    """

    @property
    def layers(self) -> list[keras.layers.Layer]:
        return list(self._flatten_layers(include_self=False, recursive=False))

    def __dir__(self):
        # Keras names the weights in a file after the attributes listed here; each sublayer has one
        # of its own already.
        return [name for name in super().__dir__() if name != "layers"]

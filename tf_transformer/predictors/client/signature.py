"""The inputs and outputs of a served model."""

from typing import NamedTuple


class TensorSpec(NamedTuple):
    """One input or output of a signature.

    Attributes:
        data_type: TensorFlow's name of the type, such as `DT_INT32`.
        shape: sizes, with None for any size; None instead of a tuple for any rank.
    """

    data_type: str
    shape: tuple[int | None, ...] | None


class Signature(NamedTuple):
    """One signature of a model.

    Attributes:
        inputs: the inputs by name.
        outputs: the outputs by name.
    """

    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]

"""What a model on a server takes and gives."""

from typing import NamedTuple


class TensorSpec(NamedTuple):
    """One input or output of a signature.

    Attributes:
        data_type: TensorFlow's name, such as `DT_INT32`.
        shape: sizes, None where any will do; None in all for any rank.
    """

    data_type: str
    shape: tuple[int | None, ...] | None


class Signature(NamedTuple):
    """The inputs and outputs of one of a model's signatures, by name."""

    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]

"""Type checks of numeric arguments."""

import numbers
from typing import Any


def is_whole(value: Any) -> bool:
    """Returns whether a value is an integer of Python or NumPy, and not a bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Returns whether a value is a real number of Python or NumPy, and not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)

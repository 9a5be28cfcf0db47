"""When XLA compiles a search. This module does not import TensorFlow.

`ModelPredictor` asks it; `compiled_search.py` compiles, also for
`export --xla`, which gives the shapes itself, and `Continuer` the search of a language model.
"""

from collections.abc import Hashable
from typing import Any

from tf_transformer.errors import InputError
from tf_transformer.printable import shown

XLA_CHOICES = ("auto", "on", "off")


class CompilationRule:
    """Decides whether a search runs compiled.

    "on" compiles a size, such as a number of rows, when it is first searched, which takes seconds.
    "auto" does so after as many ordinary searches of this size as a compiled one needs to save
    these seconds. So a short run never waits for a compiler, and a run of any length takes at most
    about twice as long as with the better one of "on" and "off".

    Args:
        xla: one of `XLA_CHOICES`.
        is_quantized: whether the model is in int8, which XLA cannot compile; "auto" is then "off".

    Raises:
        InputError: `xla` is not one of these, or "on" although the model is in int8.
    """

    def __init__(self, xla: Any, is_quantized: bool):
        if xla not in XLA_CHOICES:
            raise InputError(
                f"`xla` must be one of {', '.join(XLA_CHOICES)}. Received: {shown(xla)}"
            )
        if xla == "on" and is_quantized:
            raise InputError('`xla="on"`: XLA cannot compile a model in int8')
        self._xla = "off" if is_quantized else xla
        self._num_ordinary: dict[Hashable, int] = {}

    def compiles(self, size: Hashable, after: int | None) -> bool:
        """Returns whether the next search runs compiled; counts it if not.

        Args:
            size: what a compiled search is made for.
            after: number of ordinary searches of this size before "auto" compiles; None is never.
        """
        if self._xla != "auto":
            return self._xla == "on"
        done = self._num_ordinary.get(size, 0)
        if after is not None and done >= after:
            return True
        self._num_ordinary[size] = done + 1
        return False

    def compiled_rows(self, num_rows: int, chunk_size: int, rows_before: int) -> int:
        """Returns the number of rows that the search of a batch is compiled for; 0 if it is not.

        Args:
            num_rows: number of rows of the batch.
            chunk_size: rows that are decoded together.
            rows_before: number of single rows before "auto" compiles their search.
        """
        rows = 1 if num_rows == 1 else chunk_size
        after = rows_before if rows == 1 else None
        return rows if num_rows >= rows and self.compiles(rows, after) else 0

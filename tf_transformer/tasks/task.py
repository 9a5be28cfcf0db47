"""A task: what a trained model answers, with its inputs, outputs and signatures.

A module of a task does not import TensorFlow before the task is computed, so that a client, which
needs none, reads the same table.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tf_transformer.decoding.search_options import SEARCH_OPTIONS, RowOption


class Input(NamedTuple):
    """An input, with one value for each row.

    Attributes:
        name: its name.
        dtype: TensorFlow's name of its type.
        description: what it is, in a few words.
        has_source_width: whether a row has as many values as the model's limit of source tokens.
    """

    name: str
    dtype: str
    description: str
    has_source_width: bool = False


class Output(NamedTuple):
    """An output.

    Attributes:
        name: its name.
        dtype: TensorFlow's name of its type.
        description: what it is, in a few words.
        rank: 1 for one value for each row, 2 for several.
        is_numbers: whether it is text that contains numbers which depend on rounding.
    """

    name: str
    dtype: str
    description: str
    rank: int = 1
    is_numbers: bool = False


class Task(NamedTuple):
    """What a trained model answers.

    Attributes:
        name: its name.
        description: what it does, in a few words.
        inputs: the inputs that every row must have.
        outputs: the outputs.
        compute: returns the outputs by name, from `Parts` and the inputs by name.
        plain: name of the signature with these inputs only, if there is one.
        with_options: name of the signature that also has `flags` and `options`, if there is one.
        options: the options of each row.
        flags: boolean inputs of the signature with options; unset they are False.
        needs: attribute of `Parts` without which there is no such task.
        needed_option: the option of `export` for it; "" if it is the translator.
        is_optional: whether it is exported only if its signature is named.
    """

    name: str
    description: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    compute: Callable[..., dict[str, Any]]
    plain: str | None = None
    with_options: str | None = None
    options: tuple[RowOption, ...] = SEARCH_OPTIONS
    flags: tuple[Input, ...] = ()
    needs: str = "translator"
    needed_option: str = ""
    is_optional: bool = False

    @property
    def signatures(self) -> tuple[str, ...]:
        """The names of its signatures."""
        return tuple(name for name in (self.plain, self.with_options) if name)

    @property
    def exported_by(self) -> str:
        """The option of `export` with which a SavedModel has its signatures."""
        return self.needed_option or " ".join(["--signatures", "all", *self.optional_signatures])

    @property
    def file_option(self) -> str:
        """The option of `export` with a file that it needs, such as "--adapters"; "" if none."""
        option = self.needed_option.partition(" ")[0]
        return option if option.startswith("--") else ""

    @property
    def optional_signatures(self) -> tuple[str, ...]:
        """The names of its signatures if they are exported only when they are named."""
        return self.signatures if self.is_optional else ()

    @property
    def reads_text(self) -> bool:
        """Whether an input is text."""
        return any(own.dtype == "string" for own in self.inputs)

    @property
    def reads_documents(self) -> bool:
        """Whether a text is of several sentences."""
        return DOCUMENT in self.inputs

    @property
    def has_terms(self) -> bool:
        """Whether the rows have terms."""
        return any(own.name == "terms" for own in self.inputs)

    def inputs_of(self, signature: str) -> Iterator[Input | RowOption]:
        """Yields the inputs of one of its signatures."""
        yield from self.inputs
        if signature == self.with_options:
            yield from self.flags
            yield from self.options


# For messages about signatures of translation models.
A_TRANSLATOR = "a translation model as --model-dir"

TEXT = Input("text", "string", "a sentence, with the language tags that the model needs")
DOCUMENT = Input("text", "string", "sentences and line breaks, after the tags that each needs")
KEEP_CAPITALS = Input("keep_capitals", "bool", "whether to translate capitals as they are")

# Outputs that several tasks have.
TRANSLATION = Output("translation", "string", "the best translation")
SCORE = Output("score", "float32", "its log-probability, divided by the length penalty")
TRUNCATED = Output("truncated", "bool", "whether the source exceeded the model's limit")

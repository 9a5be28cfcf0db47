"""Messages about names that do not exist: the nearest one that does, or all that do."""

import difflib
import functools
import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from tf_transformer.errors import InputError
from tf_transformer.printable import shown

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_Class = TypeVar("_Class", bound=type)


# What other toolkits call some options: near to other names of this project in letters alone.
_ELSEWHERE = {
    "num_beams": "beam_size",
    "num_hypotheses": "num_best",
    "num_return_sequences": "num_best",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns `"; did you mean 'x'?"` for the known name closest to `name`, or an empty string."""
    known = list(known)
    meant = _ELSEWHERE.get(name)
    matches = [meant] if meant in known else difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{matches[0]}'?" if matches else ""


def check_names(names: Iterable[Any], known: Iterable[str], kind: str = "option") -> None:
    """Checks that all names are known.

    Args:
        names: the names that were given.
        known: the names that there are.
        kind: what they name, for the error message.

    Raises:
        InputError: a name is unknown; the message has the nearest known one, or else all.
    """
    known = list(dict.fromkeys(known))
    for name in names:
        if name not in known:
            meant = nearest(str(name), known) or f". Known are {', '.join(known)}"
            raise InputError(f"Unknown {kind}: {shown(name)}{meant}")


def missing_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Returns the error for an attribute that a module does not have.

    Args:
        module: name of the module.
        name: name of the attribute.
        known: its public names.
    """
    meant = nearest(name, known) or f"; dir({module}) lists its names"
    return AttributeError(f"module {module!r} has no attribute {name!r}{meant}")


def keywords(*functions: Callable[..., Any]) -> list[str]:
    """Returns the names of the arguments that can only be given by name."""
    parameters = (inspect.signature(function).parameters.values() for function in functions)
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    names = [own.name for each in parameters for own in each if own.kind == keyword_only]
    return list(dict.fromkeys(names))


def suggest_arguments(
    function: Callable[_Parameters, _Result], kind: str = "argument"
) -> Callable[_Parameters, _Result]:
    """Decorates a function so that the error for an unknown argument has the name that was meant.

    Args:
        function: a function without `**` arguments.
        kind: what the names name, for the error message.
    """
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def checked(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        check_names(named, known, kind)
        return function(*arguments, **named)

    return checked


def name_options_of_load(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Decorates a method that applies a model, which takes no options of the search.

    The error for an unknown argument, such as `beam_size`, says where it belongs, or which
    arguments there are.

    Args:
        function: a method of a class whose class method `load_options` returns the names of the
            options of its `load`; or of one with such an object as `translator`.
    """
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def checked(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        if unknown := [name for name in named if name not in known]:
            owner: Any = arguments[0]
            owner = getattr(owner, "translator", owner)
            options = owner.load_options()
            name = _ELSEWHERE.get(unknown[0], unknown[0])
            if name in options:
                load = f"{type(owner).__name__}.load"
                raise InputError(
                    f"{name!r} is an option of `{load}`, for all calls: {load}(model_dir, "
                    f"{name}=...). The arguments of a call are {', '.join(known)}; the options of "
                    f"`{load}` are {', '.join(options)}"
                )
            check_names(unknown, known, "argument")
        return function(*arguments, **named)

    return checked


def suggest_fields(kind: str) -> Callable[[_Class], _Class]:
    """Decorates a dataclass as `suggest_arguments` does a function.

    `help` shows the types of the fields without the ranges of their values.

    Args:
        kind: what the fields are, for the error message.
    """

    def decorate(dataclass: _Class) -> _Class:
        constructor: Any = suggest_arguments(dataclass.__init__, kind)  # type: ignore[misc]
        hints = typing.get_type_hints(dataclass)
        signature = inspect.signature(constructor)
        parameters = [
            parameter.replace(annotation=hints.get(name, parameter.annotation))
            for name, parameter in signature.parameters.items()
        ]
        constructor.__signature__ = signature.replace(parameters=parameters)
        dataclass.__init__ = constructor  # type: ignore[misc]
        return dataclass

    return decorate

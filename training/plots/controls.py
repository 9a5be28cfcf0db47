"""Pictures in notebooks: a figure, and one that moves with its parameters."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_SIZE = 3.4  # of a picture, in inches


def draw_row(draw: Callable[..., None], examples: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws a row of pictures, one for each example.

    Args:
        draw: draws a picture, `draw(axes, **parameters)`.
        examples: the parameters of each picture.
    """
    figure = Figure(figsize=(_SIZE * len(examples), _SIZE), layout="constrained", dpi=80)
    for axes, parameters in zip(
        figure.subplots(1, len(examples), squeeze=False)[0], examples, strict=True
    ):
        _draw_titled(draw, axes, parameters)
    return figure


def show_figure(figure: Figure) -> None:
    """Shows a figure in a notebook, whether or not it was made by `matplotlib.pyplot`."""
    from IPython.display import Image, display

    written = io.BytesIO()
    figure.savefig(written, format="png")
    display(Image(written.getvalue()))


def show_with_controls(
    draw: Callable[..., None],
    examples: Sequence[Mapping[str, Any]],
    **choices: Sequence[Any],
) -> None:
    """Shows a row of pictures in a notebook, and below it a picture that moves with its parameters.

    The second one needs the package `ipywidgets`, and a program that runs the notebook; where it is
    only displayed, the row remains.

    Args:
        draw: draws a picture, `draw(axes, **parameters)`.
        examples: the parameters of each picture in the row.
        choices: the values of each parameter to choose from.
    """
    show_figure(draw_row(draw, examples))
    try:
        from ipywidgets import SelectionSlider, interact
    except ImportError:
        return

    def show_one(**parameters: Any) -> None:
        show_figure(draw_row(draw, [parameters]))

    sliders = {
        name: SelectionSlider(options=values, value=values[0], continuous_update=False)
        for name, values in choices.items()
    }
    interact(show_one, **sliders)


def _draw_titled(draw: Callable[..., None], axes: Axes, parameters: Mapping[str, Any]) -> None:
    draw(axes, **parameters)
    if not axes.get_title():
        axes.set_title(", ".join(f"{name}={value}" for name, value in parameters.items()))

"""Drawing attention weights of every layer and head."""

import textwrap
from collections.abc import Sequence

from matplotlib.figure import Figure

from tf_transformer.errors import InputError
from tf_transformer.inference.inspection import InspectedSentence
from training.plots.fonts import font_families

# The parts of `AttentionWeights`, and the sides that their rows and columns belong to.
PARTS = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}
# Names of the axes that belong to a side.
_AXES = {"source": "source", "target": "decoder input"}
# What the maps of a part show.
_MEANINGS = {
    "encoder": "encoder self-attention: a row is a source token; a column is one that it attends "
    "to",
    "decoder": "decoder self-attention: a row is an input token of the decoder, which predicts the "
    "next token; a column is an input token that it attends to",
    "cross": "cross-attention: a row is an input token of the decoder, which predicts the next "
    "token; a column is a source token that it attends to",
}
_CHARACTERS_AN_INCH = 15  # of the title


def draw_attention(
    sentence: InspectedSentence, part: str = "cross", layers: Sequence[int] | None = None
) -> Figure:
    """Draws a grid of maps with a row for each layer and a column for each head.

    Args:
        sentence: the result of `inspect_attention`.
        part: "encoder", "decoder" or "cross".
        layers: indices of the layers to draw; None draws all.

    Raises:
        InputError: there is no such part or layer, or the model has no such attention.
    """
    if part not in PARTS:
        raise InputError(f"`part` must be one of {tuple(PARTS)}. Received: part={part!r}")
    weights = getattr(sentence.attention, part)
    if not weights:
        raise InputError(
            f"The model has no {part} attention to draw. Received: part={part!r}. Choose one of "
            f"{tuple(name for name in PARTS if getattr(sentence.attention, name))}"
        )
    layers = range(len(weights)) if layers is None else layers
    for layer in layers:
        if not 0 <= layer < len(weights):
            raise InputError(
                f"`layers` must be indices from 0 to {len(weights) - 1}. Received: layer={layer}"
            )
    rows, columns = (getattr(sentence, side) for side in PARTS[part])
    num_heads = max(len(weights[layer]) for layer in layers)
    width = 1.2 + num_heads * (0.8 + 0.2 * len(columns))
    size = (width, 0.6 + len(layers) * (0.9 + 0.2 * len(rows)))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(layers), num_heads, squeeze=False)
    families = font_families("".join([*rows, *columns]))
    for layer, axes_row in zip(layers, grid, strict=True):
        for head, axes in enumerate(axes_row):
            _draw_map(axes, weights[layer][head], rows if head == 0 else None, columns, families)
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=8)
    title = textwrap.fill(_MEANINGS[part], int(width * _CHARACTERS_AN_INCH))
    figure.suptitle(title, fontsize=9)
    row_axis, column_axis = (_AXES[side] for side in PARTS[part])
    figure.supylabel(row_axis, fontsize=8)
    figure.supxlabel(column_axis, fontsize=8)
    return figure


def _draw_map(axes, weights, rows, columns, families):
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    style = dict(fontsize=7, fontfamily=families)
    axes.set_xticks(range(len(columns)), columns, rotation=90, **style)
    if rows is None:
        axes.set_yticks([])
    else:
        axes.set_yticks(range(len(rows)), rows, **style)

"""Pictures of the formulas: masks, positions, learning rate, label smoothing."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tf_transformer.layers.masks import causal_attention_mask, padding_attention_mask, padding_mask
from tf_transformer.layers.positions import sinusoidal_positions
from tf_transformer.losses.label_smoothing import (
    label_distribution,
    label_entropy,
    smoothed_cross_entropy,
)
from tf_transformer.losses.schedule import NoamSchedule


def draw_masks(lengths: Sequence[int] = (8, 5)) -> Figure:
    """Which keys a query may attend to: padding and causal mask of sentences of these lengths."""
    width = max(lengths)
    ids = np.array([[1] * length + [0] * (width - length) for length in lengths])
    mask = padding_mask(ids)
    figure = Figure(figsize=(3 * len(lengths) + 1, 6.4), layout="constrained")
    grid = figure.subplots(2, len(lengths), squeeze=False)
    rows = (
        ("encoder", np.broadcast_to(padding_attention_mask(mask), (len(ids), 1, width, width))),
        ("decoder", np.asarray(causal_attention_mask(mask))),
    )
    for axes_row, (name, masks) in zip(grid, rows, strict=True):
        for axes, length, allowed in zip(axes_row, lengths, masks, strict=True):
            axes.imshow(allowed[0], cmap="Blues", vmin=0, vmax=1.4)
            axes.set(
                title=f"{name}, {length} tokens", xlabel="key", ylabel="query",
                xticks=range(width), yticks=range(width),
            )  # fmt: skip
    figure.suptitle("Blue: may attend")
    return figure


def draw_positions(length: int = 100, d_model: int = 128, layout: str = "interleaved") -> Figure:
    """The positional encoding as a map, and four of its columns as curves."""
    table = np.asarray(sinusoidal_positions(np.arange(length), d_model, layout))
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    image = left.imshow(table, aspect="auto", cmap="RdBu")
    left.set(title=f"PE(position, i), {layout}", xlabel="i", ylabel="position")
    figure.colorbar(image, ax=left)
    for column in range(d_model // 4, min(d_model // 4 + 4, d_model)):
        right.plot(table[:, column], label=f"i = {column}")
    right.set(title="four of its columns", xlabel="position")
    right.legend()
    return figure


def draw_position_products(length: int = 100, d_model: int = 128, shift: int = 10) -> Figure:
    """That PE(pos + k) is a linear map of PE(pos).

    Left, the dot products PE(pos) . PE(pos + k), which depend on k alone; right, PE(pos + k) itself
    beside M_k PE(pos), with the one matrix M_k of rotations by k times the rate of each pair.
    """
    table = np.asarray(sinusoidal_positions(np.arange(length + shift), d_model))
    rates = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    sines, cosines = table[:length, 0::2], table[:length, 1::2]
    turned = np.empty((length, d_model))
    turned[:, 0::2] = sines * np.cos(shift * rates) + cosines * np.sin(shift * rates)
    turned[:, 1::2] = cosines * np.cos(shift * rates) - sines * np.sin(shift * rates)
    figure = Figure(figsize=(12, 4), layout="constrained")
    products, shifted, mapped = figure.subplots(1, 3)
    image = products.imshow(table[:length] @ table[:length].T, cmap="viridis")
    products.set(title="PE(p) . PE(q)", xlabel="q", ylabel="p")
    figure.colorbar(image, ax=products)
    for axes, values, title in (
        (shifted, table[shift:], f"PE(pos + {shift})"),
        (mapped, turned, f"$M_{{{shift}}}$ PE(pos)"),
    ):
        axes.imshow(values, aspect="auto", cmap="RdBu")
        axes.set(title=title, xlabel="i", ylabel="pos")
    difference = np.abs(table[shift:] - turned).max()
    mapped.text(0.5, -0.2, f"differ by {difference:.0e} at most", transform=mapped.transAxes,
                ha="center")  # fmt: skip
    return figure


def draw_learning_rate(
    settings: Sequence[tuple[int, int]] = ((512, 4000), (512, 8000), (256, 4000)),
    steps: int = 20_000,
    factor: float = 1.0,
) -> Figure:
    """`NoamSchedule` by step, one curve for each (d_model, warmup_steps)."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    numbers = np.arange(steps)
    for d_model, warmup_steps in settings:
        rates = NoamSchedule(d_model, warmup_steps, factor)(numbers)
        axes.plot(
            numbers + 1, np.asarray(rates), label=f"d_model {d_model}, warm-up {warmup_steps}"
        )
    axes.set(title="learning rate", xlabel="step")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def draw_smoothed_labels(
    labels: Sequence[int] = (2, 1, 0, 3, 3),
    vocab_size: int = 5,
    label_smoothing: float = 0.4,
    smoothed_over: str = "others_but_padding",
) -> Figure:
    """The distributions that the loss compares with; the row of a padding label counts nothing."""
    rows = np.array(
        [
            label_distribution(label, vocab_size, label_smoothing, smoothed_over)
            if label
            else np.zeros(vocab_size)
            for label in labels
        ]
    )
    figure = Figure(figsize=(1 + 0.9 * vocab_size, 1.2 + 0.6 * len(labels)), layout="constrained")
    axes = figure.subplots()
    axes.imshow(rows, cmap="viridis", vmin=0, vmax=1)
    for (row, column), value in np.ndenumerate(rows):
        axes.text(column, row, f"{value:.2f}", ha="center", va="center",
                  color="black" if value > 0.6 else "white")  # fmt: skip
    axes.set(
        title=f"q, smoothing {label_smoothing:g} over {smoothed_over}",
        xlabel="token", ylabel="label", yticks=range(len(labels)), yticklabels=labels,
    )  # fmt: skip
    return figure


def draw_overconfidence(label_smoothing: float = 0.1, most: int = 100) -> Figure:
    """KL divergence from the smoothed label as the model puts x times as much on it as elsewhere.

    Of 5 tokens, padding has probability 0, the label x / (x + 3), the three others 1 / (x + 3).
    """
    odds = np.linspace(1, most, 400)
    probabilities = np.stack([np.full_like(odds, 1e-30), odds, *[np.ones_like(odds)] * 3], axis=-1)
    logits = np.log(probabilities / (odds + 3)[:, None]).astype("float32")[None]
    labels = np.ones(logits.shape[:2], "int32")
    convention: dict[str, Any] = dict(
        label_smoothing=label_smoothing, smoothed_over="others_but_padding"
    )
    losses = np.asarray(smoothed_cross_entropy(labels, logits, **convention))[0]
    divergence = losses - label_entropy(5, **convention)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(odds / (odds + 3), divergence)
    axes.axvline(1 - label_smoothing, color="grey", linestyle=":")
    axes.set(
        title=f"penalty for over-confidence, smoothing {label_smoothing:g}",
        xlabel="probability of the label", ylabel="KL divergence (nats)",
    )  # fmt: skip
    axes.grid(alpha=0.3)
    return figure

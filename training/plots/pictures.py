"""Figures of masks, positional encoding, learning rate and label smoothing."""

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
    """Draws the padding masks and causal masks of sentences of the given lengths."""
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
    """Draws the positional encoding as a map, and four of its columns as curves."""
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
    """Illustrates that PE(pos + k) is a linear map of PE(pos).

    The left panel shows the dot products PE(p) . PE(q), which depend only on q - p. The other two
    show PE(pos + k) and M_k PE(pos), where M_k rotates each pair of columns by k times its rate.

    Args:
        length: number of positions.
        d_model: width of the encoding.
        shift: k.
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
    """Draws `NoamSchedule` by step, with a curve for each (d_model, warmup_steps)."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    indices = np.arange(steps)
    for d_model, warmup_steps in settings:
        rates = NoamSchedule(d_model, warmup_steps, factor)(indices)
        axes.plot(
            indices + 1, np.asarray(rates), label=f"d_model {d_model}, warm-up {warmup_steps}"
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
    """Draws the smoothed label distributions; the row of a padding label (0) is zero."""
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


def draw_overconfidence(label_smoothing: float = 0.1, max_odds: int = 100) -> Figure:
    """Draws the KL divergence between smoothed label and prediction by the label's probability.

    Of 5 tokens, padding has probability 0, the label x / (x + 3), and each of the three others
    1 / (x + 3), for x from 1 to `max_odds`.
    """
    odds = np.linspace(1, max_odds, 400)
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

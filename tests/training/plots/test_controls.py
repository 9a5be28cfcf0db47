"""Rows of pictures, and pictures with sliders."""

import sys

import pytest

from training.plots.controls import draw_row, show_with_controls

EXAMPLES = [dict(start=1, factor=2), dict(start=3, factor=4)]


def draw(axes, start, factor):
    axes.plot([start, start * factor])
    if factor == 4:
        axes.set_title("its own")


def test_a_row_has_a_picture_of_each_example():
    figure = draw_row(draw, EXAMPLES)
    assert [axes.lines[0].get_ydata().tolist() for axes in figure.axes] == [[1, 2], [3, 12]]
    assert [axes.get_title() for axes in figure.axes] == ["start=1, factor=2", "its own"]


@pytest.fixture
def displayed(monkeypatch):
    display = pytest.importorskip("IPython.display")
    pictures = []
    monkeypatch.setattr(display, "display", pictures.append)
    return pictures


def test_without_widgets_the_row_is_shown(displayed, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    show_with_controls(draw, EXAMPLES, start=[1, 2], factor=[2])
    assert [picture.data[:4] for picture in displayed] == [b"\x89PNG"]


@pytest.mark.slow
def test_with_widgets_each_choice_is_drawn(displayed, monkeypatch):
    widgets = pytest.importorskip("ipywidgets")
    made = {}
    monkeypatch.setattr(
        widgets, "interact", lambda function, **sliders: made.update(sliders, function=function)
    )
    show_with_controls(draw, EXAMPLES, start=[1, 2], factor=[5])
    assert made["start"].options == (1, 2) and made["factor"].value == 5
    made["function"](start=2, factor=5)
    row, one = (picture.data for picture in displayed)
    assert int.from_bytes(row[16:20]) == 2 * int.from_bytes(one[16:20])  # their widths

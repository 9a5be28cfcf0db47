"""Pictures: what they show, and the commands that draw them."""

import itertools
import logging
import random
import re

import numpy as np
import pytest
import tensorflow as tf
from matplotlib import font_manager, ft2font
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tf_transformer.__main__ import main
from tf_transformer.inference.inspection import InspectedSentence, inspect_attention
from tf_transformer.inference.translator import Translator
from tf_transformer.models.states import AttentionWeights
from tf_transformer.storage.model_dir import load_model
from training.plots import pictures
from training.plots.attention_maps import draw_attention
from training.plots.fonts import font_families
from training.plots.recorded_search import SearchTree, record_search
from training.plots.search_tree import draw_search, place_nodes
from training.plots.training_curves import plot_training


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator(*load_model(talkative), beam_size=3)


@pytest.fixture(scope="module")
def sentence(translator):
    return inspect_attention(translator, "two dogs")


# Formulas


def images(figure):
    return [image.get_array() for axes in figure.axes for image in axes.images]


def test_masks():
    encoder_full, encoder_short, decoder_full, decoder_short = images(pictures.draw_masks((4, 2)))
    np.testing.assert_array_equal(encoder_full, np.ones((4, 4)))
    np.testing.assert_array_equal(encoder_short, [[1, 1, 0, 0]] * 4)
    np.testing.assert_array_equal(decoder_full, np.tril(np.ones((4, 4))))
    np.testing.assert_array_equal(decoder_short, np.tril(np.ones((4, 4))) * [1, 1, 0, 0])


def test_positions():
    figure = pictures.draw_positions(20, 8)
    table = images(figure)[0]
    assert table.shape == (20, 8)
    np.testing.assert_allclose(table[:, 0], np.sin(np.arange(20)), atol=1e-5)
    assert len(figure.axes[1].lines) == 4


def test_position_products():
    _, shifted, mapped = images(pictures.draw_position_products(30, 16, shift=3))
    np.testing.assert_allclose(mapped, shifted, atol=1e-5)


def test_learning_rate():
    (axes,) = pictures.draw_learning_rate([(512, 40), (256, 20)], steps=100).axes
    peaks = [line.get_xdata()[np.argmax(line.get_ydata())] for line in axes.lines]
    assert peaks == [40, 20]


def test_smoothed_labels():
    (rows,) = images(pictures.draw_smoothed_labels((2, 0), 5, 0.4))
    np.testing.assert_allclose(rows[0], [0, 0.4 / 3, 0.6, 0.4 / 3, 0.4 / 3], rtol=1e-6)
    assert not rows[1].any()


def test_overconfidence():
    """No divergence where the model equals the smoothed label, and more on either side."""
    (axes,) = pictures.draw_overconfidence(0.1).axes
    x, y = axes.lines[0].get_data()
    assert x[np.argmin(y)] == pytest.approx(0.9, abs=0.01)
    assert 0 <= min(y) < 1e-3
    assert y[-1] > 0.01


# Attention


@pytest.mark.slow
def test_attention_of_a_sentence(translator, sentence):
    model = translator.model
    assert sentence.source[-1] == "</s>"
    assert sentence.target[0] == "<s>"
    assert len(sentence.attention.cross) == model.config.num_decoder_layers
    shape = (model.config.num_heads, len(sentence.target), len(sentence.source))
    assert sentence.attention.cross[0].shape == shape
    assert sentence.translation == next(translator.translate_lines(["two dogs"]))[0].text


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_maps(translator, sentence, part):
    figure = draw_attention(sentence, part)
    weights = getattr(sentence.attention, part)
    assert len(figure.axes) == sum(len(layer) for layer in weights)
    np.testing.assert_allclose(images(figure)[1], weights[0][1])
    assert len(draw_attention(sentence, part, layers=[0]).axes) == len(weights[0])
    columns, rows = figure.get_supxlabel(), figure.get_supylabel()
    sides = {"encoder": ("source", "source"), "decoder": ("decoder input", "decoder input")}
    assert (rows, columns) == sides.get(part, ("decoder input", "source"))
    title = " ".join(figure.get_suptitle().split())
    is_target = part != "encoder"
    assert ("a row is an input token of the decoder, which predicts the next" in title) == is_target
    assert ("a column is a source token" in title) == (part == "cross")


def test_the_title_of_a_narrow_map_fits(sentence):
    """One head and two tokens on each side."""
    weights = [np.full((1, 2, 2), 0.5)]
    narrow = InspectedSentence(["a"] * 2, ["b"] * 2, "", False, AttentionWeights(*[weights] * 3))
    figure = draw_attention(narrow)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = canvas.get_width_height()
    for text in (figure._suptitle, figure._supxlabel, figure._supylabel):
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height


def test_unknown_parts_and_layers(sentence):
    with pytest.raises(ValueError, match=r"`part` must be one of .* Received: part='middle'"):
        draw_attention(sentence, "middle")
    with pytest.raises(ValueError, match=r"indices from 0 to 0. Received: layer=2"):
        draw_attention(sentence, layers=[2])


def test_no_self_attention_in_the_decoder(sentence):
    without = sentence._replace(attention=sentence.attention._replace(decoder=[]))
    message = r"no decoder attention to draw. Received: part='decoder'. .*\('encoder', 'cross'\)"
    with pytest.raises(ValueError, match=message):
        draw_attention(without, "decoder")
    assert draw_attention(without, "cross").axes


def test_nothing_to_look_at(translator):
    for look in (inspect_attention, record_search):
        with pytest.raises(ValueError, match=r"must contain words\. Received: '  '"):
            look(translator, "  ")


def test_chinese_characters_show(caplog):
    text = "我们喜欢机器翻译。"
    families = font_families(text)
    files = [font_manager.findfont(family) for family in families]
    characters = set().union(*(ft2font.FT2Font(file).get_charmap() for file in files))
    assert set(map(ord, text)) <= characters
    assert not caplog.records
    figure = Figure()
    figure.text(0, 0, text, fontfamily=families)
    with caplog.at_level(logging.WARNING):
        figure.canvas.draw()
    assert not caplog.records


def test_characters_of_no_font_are_named(caplog):
    font_families("a\U00012000")  # a cuneiform sign
    assert "No installed font has the characters \U00012000" in caplog.text


# Search


@pytest.mark.slow
def test_search_tree(translator):
    tree = record_search(translator, "two dogs")
    best = next(translator.translate_lines(["two dogs"]))[0]
    ids, score = next(iter(tree.finished.items()))
    assert score == pytest.approx(best.score, abs=1e-5)
    assert "".join(tree.pieces[number] for number in ids).replace("▁", " ").strip() == best.text
    assert list(tree.finished.values()) == sorted(tree.finished.values(), reverse=True)
    # Every hypothesis grew from one that was in the beam, and lost probability by it.
    for hypothesis, log_prob in tree.live.items():
        if hypothesis:
            assert log_prob <= tree.live[hypothesis[:-1]] + 1e-6
    for hypothesis in tree.finished:
        assert hypothesis in tree.live
    by_length = itertools.groupby(sorted(map(len, tree.live)))
    assert all(len(list(group)) <= 3 for _, group in by_length)
    figure = draw_search(tree)
    assert len(figure.axes[0].lines) == len(tree.live) - 1 + len(tree.finished)


def random_tree(draw):
    """A tree of up to 60 nodes, of which some leaves end hypotheses, with scores."""
    nodes = [()]
    for _ in range(draw.randint(0, 60)):
        parent = draw.choice(nodes[-8:])
        nodes.append((*parent, sum(node[:-1] == parent for node in nodes if node)))
    parents = {ids[:-1] for ids in nodes}
    return nodes, {
        ids: draw.random() for ids in nodes if ids not in parents and draw.random() < 0.5
    }


def test_nodes_scores_and_lines_of_a_tree_do_not_overlap():
    draw = random.Random(0)
    for _ in range(300):
        nodes, ended = random_tree(draw)
        rows = place_nodes(nodes, ended)
        assert rows.keys() == set(nodes)
        taken = {(rows[ids], 2 * len(ids)): ids for ids in nodes}
        assert len(taken) == len(nodes)
        best = max(ended, key=ended.get, default=())
        assert {rows[best[:length]] for length in range(len(best) + 1)} == {0}
        for ids in nodes[1:]:
            # The line goes down from the parent's row, in the gap before the node's column.
            parent, gap = ids[:-1], 2 * len(ids) - 1
            assert rows[parent] <= rows[ids]
            for row in range(rows[parent], rows[ids] + 1):
                assert taken.setdefault((row, gap), parent) == parent
        for ids in ended:
            for half in (2 * len(ids) + 1, 2 * len(ids) + 2):
                assert (rows[ids], half) not in taken


def test_branches_of_a_tree_share_rows():
    """Three alternatives at each of ten steps: as many rows as one step needs."""
    best = tuple(range(10))
    nodes = [best[:length] for length in range(11)]
    nodes += [(*best[:length], other) for length in range(10) for other in (20, 21, 22)]
    rows = place_nodes(nodes, {best: -0.5})
    assert set(rows.values()) == {0, 1, 2, 3}


def test_the_empty_translation_has_a_node_and_a_score():
    pieces = ["<pad>", "<unk>", "<s>", "</s>", "a", "b"]
    tree = SearchTree({(): 0.0, (4,): -1.0, (4, 5): -1.5}, {(4, 5): -0.5, (): -7.25}, pieces, [])
    axes = draw_search(tree).axes[0]
    texts = {text.get_text(): text.get_position() for text in axes.texts}
    assert texts.keys() == {"<s>", "a", "b", "</s>", "-0.50", "-7.25"}
    ends = sorted(text.get_position() for text in axes.texts if text.get_text() == "</s>")
    assert len(ends) == 2 and ends[0][1] > ends[1][1] == texts["<s>"][1]
    for score, end in zip(("-7.25", "-0.50"), ends, strict=True):
        assert texts[score][0] > end[0] and texts[score][1] == end[1]
    assert len(axes.lines) == 4


@pytest.mark.parametrize("text", ["a", "机" * 8, "W" * 30])
def test_labels_of_a_tree_do_not_touch(text):
    pieces = ["<pad>", "<unk>", "<s>", "</s>", text]
    live = {(4,) * length: -1.0 for length in range(4)}
    figure = draw_search(SearchTree(live, {(4, 4, 4): -10.25}, pieces, []))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = sorted(text.get_window_extent().extents.tolist() for text in figure.axes[0].texts)
    for left, right in itertools.pairwise(boxes):
        assert left[2] < right[0]
    assert boxes[0][0] >= 0 and boxes[-1][2] <= canvas.get_width_height()[0]


def test_lines_of_a_tree_turn_between_its_columns():
    """Also where a narrow column follows a wide one."""
    pieces = ["<pad>", "<unk>", "<s>", "</s>", "W" * 30, "a", "b"]
    live = {(): 0.0, (4,): -1.0, (4, 5): -1.5, (4, 6): -2.0}
    figure = draw_search(SearchTree(live, {}, pieces, []))
    FigureCanvasAgg(figure).draw()
    axes = figure.axes[0]
    wide = next(text for text in axes.texts if text.get_text() == "W" * 30)
    right = axes.transData.inverted().transform(wide.get_window_extent())[1, 0]
    assert min(line.get_xdata()[1] for line in axes.lines if line.get_ydata()[-1] > 0.32) > right


# Curves


@pytest.mark.parametrize("steps", [[10], [10, 20]])
def test_a_curve_of_one_point_is_a_dot(tmp_path, steps):
    for name in ("training", "validation"):
        writer = tf.summary.create_file_writer(str(tmp_path / name))
        with writer.as_default():
            for step in (10, 20) if name == "training" else steps:
                tf.summary.scalar("loss", 3.0, step=step)
        writer.close()
    training, validation = plot_training(tmp_path).axes[0].lines
    assert training.get_marker() == "None"
    assert validation.get_marker() == ("o" if len(steps) == 1 else "None")
    assert list(validation.get_xdata()) == steps


# Commands


FORMULAS = [
    ["masks", "--lengths", "5", "3"],
    ["positions", "--length", "10", "--d-model", "6", "--layout", "concatenated"],
    ["position-products", "--shift", "2"],
    ["learning-rate", "--settings", "64:10", "--steps", "30", "--factor", "2"],
    ["smoothed-labels", "--label-smoothing", "0.2", "--smoothed-over", "others"],
    ["overconfidence", "--label-smoothing", "0.2"],
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", FORMULAS, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_picture_commands(arguments, suffix, tmp_path, capsys):
    output = tmp_path / f"picture{suffix}"
    assert main(["picture", *arguments, "--output", str(output)]) == 0
    assert output.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")
    assert capsys.readouterr().out.strip() == str(output)
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.slow
def test_commands_with_a_model(talkative, tmp_path, capsys):
    model = ["--model-dir", str(talkative)]
    text = ["--text", "two dogs"]
    for arguments, name in (
        (["attention", *model, *text], "a.html"),
        (["attention", *model, *text, "--part", "encoder", "--beam-size", "1"], "a.png"),
        (["picture", "search", *model, *text], "s.png"),
        (["picture", "training", *model], "t.png"),
    ):
        assert main([*arguments, "--output", str(tmp_path / name)]) == 0
        assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["masks", "--output", "a.gif"], r"--output a.gif: expected a name that ends in .png"),
        (["masks", "--lengths", "0"], r"--lengths: expected numbers from 1 to 1000, got \[0\]"),
        (
            ["positions", "--d-model", "7"],
            r"--d-model must be even, and .* Received: 7",
        ),
        (["masks", "--lengths", "1001"], r"numbers from 1 to 1000, got \[1001\]"),
        (["positions", "--length", "10001"], r"--length must be between 1 and 10,000"),
        (["position-products", "--shift", "9" * 30], r"--shift must be between 0 and 1,000,000"),
        (["learning-rate", "--settings", "512"], r"pairs D_MODEL:WARMUP .* Received: '512'"),
        (["learning-rate", "--settings", "512:0"], r"pairs D_MODEL:WARMUP .* Received: '512:0'"),
        (["learning-rate", "--settings", "0:5"], r"pairs D_MODEL:WARMUP .* Received: '0:5'"),
        (["smoothed-labels", "--label-smoothing", "1"], r"at least 0 and below 1. Received: 1.0"),
        (["training", "--model-dir", "nowhere"], r"nowhere/logs: no TensorBoard files"),
    ],
)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["picture", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)
    assert not list(tmp_path.iterdir())


def test_curves_of_nothing_are_refused(tmp_path, capsys):
    (tmp_path / "logs").mkdir()
    options = ["--model-dir", str(tmp_path), "--output", str(tmp_path / "t.png")]
    assert main(["picture", "training", *options]) == 2
    assert "no TensorBoard files" in capsys.readouterr().err

"""The page of `attention` in headless Chromium: chosen by mouse, touch and keyboard, played."""

import re

import numpy as np
import pytest

from tests.training.report.chromium import CHROMIUM
from tests.training.report.explained import make_sentence
from tests.training.report.hostile import HOSTILE, NAME
from training.report.attention_report import attention_page

playwright_api = pytest.importorskip("playwright.sync_api")
expect = playwright_api.expect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

SENTENCE = make_sentence(
    ["▁Two", "▁dogs", "▁run", "."], ["▁Zwei", "▁Hunde", "▁ren", "nen", "."], layers=3
)
OTHER = make_sentence(["▁A", "▁cat"], ["▁Eine", "▁Katze"], layers=3, seed=1)


def draw(*sentences, **options):
    return attention_page(sentences, beam_size=2, length_penalty=0.6, **options)


@pytest.fixture
def page(open_page):
    page = open_page(draw(SENTENCE, OTHER))
    expect(page.locator("#map canvas")).to_have_count(1)
    return page


def shown_weights(page, strip):
    """The percentages that are shown at the tokens of a strip; 0 where there is none."""
    texts = page.locator(f"#{strip} .weight").all_text_contents()
    return [int(text.removesuffix(" %") or 0) for text in texts]


def percentages(weights):
    return np.rint(100 * weights).astype(int)


def test_the_weights_of_a_token(page):
    layers = SENTENCE.inspected.attention.cross
    page.locator("#queries .token").nth(2).hover()
    # At first, the mean of the last layer but one.
    expected = percentages(layers[1].mean(axis=0)[2])
    assert np.abs(shown_weights(page, "keys") - expected).max() <= 1
    best = int(expected.argmax())
    expect(page.locator("#reading")).to_have_text(
        re.compile(
            rf"^▁Hunde, which predicts ▁ren, attends to {SENTENCE.inspected.source[best]} "
            rf"{shown_weights(page, 'keys')[best]} %, "
        )
    )
    page.get_by_role("combobox", name="Layer").select_option("3 of 3")
    page.get_by_role("combobox", name="Head").select_option("maximum of the heads")
    page.locator("#keys .token").nth(1).hover()
    expected = percentages(layers[2].max(axis=0)[:, 1])
    assert np.abs(shown_weights(page, "queries") - expected).max() <= 1
    page.get_by_role("combobox", name="Head").select_option("2 of 3")
    page.locator("#keys .token").nth(1).hover()
    expected = percentages(layers[2][1][:, 1])
    assert np.abs(shown_weights(page, "queries") - expected).max() <= 1
    page.get_by_role("combobox", name="Attention").select_option("decoder self-attention")
    expect(page.locator("#keys .token")).to_have_count(6)
    page.locator("#queries .token").nth(3).hover()
    expected = percentages(SENTENCE.inspected.attention.decoder[1][1][3])
    shown = shown_weights(page, "keys")
    assert np.abs(shown - expected).max() <= 1 and not any(shown[4:])
    page.get_by_role("combobox", name="Attention").select_option("encoder self-attention")
    expect(page.locator("#queries .token")).to_have_text(
        [re.compile(f"^{re.escape(token)}") for token in SENTENCE.inspected.source]
    )


def test_the_colours_of_the_map(page):
    """The canvas has a pixel for each weight, as opaque as the weight is large."""
    pixels = page.locator("#map canvas").evaluate(
        "c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]"
    )
    opacity = np.array(pixels).reshape(6, 5, 4)[:, :, 3] / 255
    np.testing.assert_allclose(
        opacity, SENTENCE.inspected.attention.cross[1].mean(axis=0), atol=0.01
    )


def test_the_map_and_the_overview_choose(page):
    canvas = page.locator("#map canvas")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] / 2, "y": box["height"] / 6 * 3.5})
    page.mouse.move(0, 0)
    expect(page.locator("#reading")).to_have_text(re.compile("^▁ren, which predicts nen, attends"))
    expect(page.locator(".token[aria-pressed=true] .piece")).to_have_text("▁ren")
    page.get_by_role("button", name="layer 1, head 3 of 3").click()
    expect(page.get_by_role("combobox", name="Layer")).to_have_value("0")
    expect(page.get_by_role("combobox", name="Head")).to_have_value("2")
    expect(page.locator("#overview button[aria-pressed=true]")).to_have_count(1)
    # The token is still held.
    expected = percentages(SENTENCE.inspected.attention.cross[0][2][3])
    assert np.abs(shown_weights(page, "keys") - expected).max() <= 1
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.get_by_role("combobox", name="Layer")).to_have_value("1")
    expect(page.get_by_role("combobox", name="Head")).to_have_value("1")


def test_tokens_from_the_keyboard(page):
    page.get_by_role("combobox", name="Head").focus()
    page.keyboard.press("Tab")
    expect(page.locator("#queries .token").first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#reading")).to_have_text(re.compile("^▁Zwei, which predicts ▁Hunde"))
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#keys .token").first).to_be_focused()
    expect(page.locator("#reading")).to_have_text(re.compile("^▁Two is attended to by"))
    page.keyboard.press("End")
    expect(page.locator("#reading")).to_have_text(re.compile("^</s> is attended to by"))
    page.keyboard.press("Tab")
    # What was held is shown again.
    expect(page.locator("#reading")).to_have_text(re.compile("^▁Zwei, which predicts ▁Hunde"))


def test_a_tap_holds_a_token(open_page):
    page = open_page(draw(SENTENCE), has_touch=True, viewport={"width": 390, "height": 800})
    page.locator("#queries .token").nth(1).tap()
    expect(page.locator("#reading")).to_have_text(re.compile("^▁Zwei, which predicts"))
    page.locator("#queries .token").nth(1).tap()
    expect(page.locator("#reading")).to_have_text("No token is chosen.")


def fates(page):
    """The pieces of the nodes that can be seen, by what became of them."""
    found = {}
    for node in page.locator("#tree g.node").all():
        kind = node.get_attribute("class").split()[1]
        if kind != "later":
            found.setdefault(kind, []).append(node.locator("text").first.text_content())
    return found


def test_the_tree_grows(page):
    """The beam after each step of `make_search`."""
    best = ["<s>", "▁Zwei", "▁Hunde", "▁ren", "nen", "."]
    state = page.locator("#state")
    expect(state).to_have_text("Step 6 of 6: 0 in the beam, 2 ended. The search is over.")
    assert fates(page) == {
        "best": [*best, "</s>"], "dropped": ["x"] * 4, "ended": ["</s>"],
    }  # fmt: skip
    assert page.locator("#tree .best .score").all_text_contents() == ["-1.250"]
    rows = page.locator("#finished tbody tr")
    expect(rows).to_have_text(
        [re.compile("^-1.250.*▁Zwei ▁Hunde ▁ren nen .-3.0006$"), re.compile("^-1.500.*nen-3.0005$")]
    )
    page.get_by_role("slider", name="Step").fill("0")
    expect(state).to_have_text("Step 0 of 6: 1 in the beam, 0 ended.")
    assert fates(page) == {"live": ["<s>"]}
    expect(page.get_by_role("button", name="Back")).to_be_disabled()
    expect(page.locator("#candidates")).to_be_hidden()
    page.get_by_role("button", name="Forward").click()
    page.get_by_role("button", name="Forward").click()
    expect(state).to_have_text("Step 2 of 6: 2 in the beam, 0 ended.")
    assert fates(page) == {"live": ["<s>", "▁Zwei", "▁Hunde", "x"], "dropped": ["x"]}
    cells = [
        row.locator("th, td").all_text_contents()
        for row in page.locator("#candidates tbody tr").all()
    ]
    assert cells == [
        ["<s> ▁Zwei", "▁Hunde", "60.7 %", "-1.000", "stays in the beam"],
        ["<s> ▁Zwei", "x", "36.8 %", "-1.500", "stays in the beam"],
        ["<s> ▁Zwei", "y", "5.0 %", "-3.500", "dropped"],
    ]
    expect(page.locator("#finished")).to_be_hidden()
    page.get_by_role("slider", name="Step").fill("5")
    expect(page.locator("#candidates tbody tr").nth(1)).to_have_text(
        re.compile("</s>36.8 %-3.000ends, score -1.500$")
    )
    expect(rows).to_have_count(1)
    assert fates(page)["ended"] == ["</s>"]


def test_the_search_plays(page):
    page.clock.install()
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#state")).to_have_text(re.compile("^Step 0 of 6"))
    page.clock.run_for(1000)
    expect(page.locator("#state")).to_have_text(re.compile("^Step 1 of 6"))
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(5000)
    expect(page.locator("#state")).to_have_text(re.compile("^Step 1 of 6"))
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(20_000)
    expect(page.locator("#state")).to_have_text(re.compile("^Step 6 of 6.*over"))
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_another_sentence(page):
    page.locator("#queries .token").nth(5).click()
    page.get_by_role("combobox", name="Sentence").select_option("2: ▁A ▁cat")
    expect(page.locator("#texts .translation .text")).to_have_text("▁Eine ▁Katze")
    expect(page.locator("#queries .token")).to_have_count(3)
    expect(page.locator("#reading")).to_have_text("No token is chosen.")
    expect(page.locator("#state")).to_have_text(re.compile("^Step 3 of 3"))
    expect(page.locator("#finished tbody tr")).to_have_count(2)


def test_a_decoder_without_self_attention(open_page):
    attention = SENTENCE.inspected.attention._replace(decoder=[])
    recurrent = SENTENCE._replace(inspected=SENTENCE.inspected._replace(attention=attention))
    page = open_page(draw(recurrent, part="decoder"))
    expect(page.locator("#recurrent")).to_contain_text("it has no self-attention")
    expect(page.get_by_role("combobox", name="Attention")).to_have_value("cross")
    expect(page.locator("#part option[value=decoder]")).to_be_disabled()
    expect(page.locator("#map canvas")).to_have_count(1)
    expect(page.get_by_role("combobox", name="Sentence")).to_be_hidden()


def test_hostile_tokens_are_text(open_page):
    tokens = [text for text in HOSTILE if text.strip() and len(text) < 1000]
    hostile = make_sentence(tokens, [*tokens[::-1], NAME])
    page = open_page(draw(hostile))
    expect(page.locator("#map canvas")).to_have_count(1)
    for index in range(len(tokens) + 2):
        page.locator("#queries .token").nth(index).hover()
    assert page.title() == "Attention and beam search"
    assert page.locator("main script, main img, main b").count() == 0
    shown = page.locator("#keys .piece").all_text_contents()
    for text, expected in zip(shown, tokens, strict=False):
        if "<" in expected:
            assert text == expected
    assert {"U+202E", "U+0000", "U+2028"} <= set(
        page.locator(".hidden-character").all_inner_texts()
    )
    assert not page.evaluate(r"/[\u202a-\u202e\u0000]/.test(document.body.innerText)")
    assert not page.evaluate(
        r"/[\u202a-\u202e\u0000]/.test(document.querySelector('#tree').textContent)"
    )


def test_a_long_sentence(open_page):
    words = [f"▁word{number}" for number in range(150)]
    page = open_page(draw(make_sentence(words, words, layers=6, heads=8)))
    expect(page.locator("#overview canvas")).to_have_count(48)
    page.locator("#queries .token").nth(149).hover()
    expect(page.locator("#reading")).to_contain_text("▁word148, which predicts ▁word149")
    expect(page.locator("#state")).to_contain_text("Step 151 of 151")
    tree = page.locator("#tree")
    scrolled = tree.evaluate("t => t.scrollLeft")
    page.get_by_role("slider", name="Step").fill("0")
    assert tree.evaluate("t => t.scrollLeft") < scrolled


@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_the_screen_in_both_colour_schemes(open_page, width):
    colours = set()
    for scheme in ("light", "dark"):
        page = open_page(
            draw(SENTENCE, OTHER), viewport={"width": width, "height": 800}, color_scheme=scheme
        )
        expect(page.locator("#map canvas")).to_have_count(1)
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) == 0
        colours.add(
            page.evaluate("getComputedStyle(document.querySelector('#tree .best rect')).fill")
        )
        colours.add(page.evaluate("getComputedStyle(document.querySelector('#tree text')).fill"))
    assert len(colours) == 4


def test_print_has_no_controls(page):
    page.emulate_media(media="print")
    expect(page.get_by_role("combobox", name="Layer")).to_be_hidden()
    expect(page.get_by_role("button", name="Play")).to_be_hidden()
    expect(page.locator("#meaning")).to_contain_text(
        "Shown is cross-attention, layer 2, mean of the heads."
    )
    expect(page.locator("#tree svg")).to_be_visible()
    expect(page.locator("#map canvas")).to_be_visible()
    expect(page.locator("#finished")).to_be_visible()

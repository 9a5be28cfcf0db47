"""The page in a real browser, headless Chromium, against the command and a stand-in server."""

import itertools
import os
import shutil
from collections.abc import Iterator

import pytest

from tests.export.web.running import run_web
from tests.export.web.translating import BEAM_SIZE, OPTIONS, make_behaviour
from tests.serving_stub import Behaviour, serve
from tf_transformer.decoding.search_options import SEARCH_OPTIONS

for name in ("starlette", "uvicorn", "prometheus_client"):
    pytest.importorskip(name)
playwright_api = pytest.importorskip("playwright.sync_api")
expect = playwright_api.expect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
HOSTILE = "<img src=x onerror=\"document.title='bad'\"><script>document.title='bad'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright_api.sync_playwright() as playwright:
        # Chromium refuses to run as root with its sandbox, as in containers.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Behaviour, str]]:
    """The stand-in for TF Serving, and the address of the page."""
    behaviour = make_behaviour(is_confident=True)
    with serve("rest", behaviour) as server, run_web(server, "--max-sentences", "5") as web:
        yield behaviour, web.address


@pytest.fixture
def behaviour(running) -> Behaviour:
    behaviour = running[0]
    behaviour.requests.clear()
    behaviour.failures = []
    return behaviour


class Opened:
    """A page, and what must not happen on it."""

    def __init__(self, browser, address, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []  # of the browser, such as violations of the policy
        self.requested: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.goto(address)
        expect(self.page.locator("#model")).to_have_text("model translator")


@pytest.fixture
def opened(browser, running) -> Iterator[Opened]:
    """A page that has loaded what the model offers; the browser must not complain."""
    opened = Opened(browser, running[1])
    yield opened
    assert opened.complaints == []
    assert all(url.startswith(running[1]) for url in opened.requested)
    opened.context.close()


@pytest.fixture
def page(opened):
    return opened.page


def translate(page, text):
    page.get_by_label("Source text").fill(text)
    page.get_by_role("button", name="Translate").click()


def results(page):
    return page.locator("#results > li")


def test_translations_appear(page, behaviour):
    translate(page, "hello world\n\nsecond line\n")
    expect(results(page)).to_have_count(2)
    expect(results(page).nth(0).locator(".source")).to_have_text("hello world")
    expect(results(page).nth(0).locator(".translation")).to_have_text("HELLO WORLD")
    expect(results(page).nth(1).locator(".translation")).to_have_text("SECOND LINE")
    expect(results(page).nth(0)).to_contain_text("score -1.100")
    expect(page.get_by_role("status")).to_contain_text("s")
    expect(page.locator("#count")).to_have_text("22 characters")
    assert behaviour.requests == [[b"hello world", b"second line"]]


def test_the_keyboard_is_enough(page):
    expect(page.get_by_label("Source text")).to_be_focused()
    page.keyboard.type("hello")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".translation")).to_have_text("HELLO")


def test_truncated_sentences_are_marked(page):
    translate(page, f"short\n{'long ' * 30}")
    expect(results(page)).to_have_count(2)
    expect(results(page).nth(0).locator(".truncated")).to_have_count(0)
    expect(results(page).nth(1).locator(".truncated")).to_have_text("truncated")


def test_n_best(page):
    field = page.get_by_label("Translations per sentence")
    assert field.get_attribute("max") == str(BEAM_SIZE)
    field.fill("3")
    translate(page, "a b")
    rows = page.get_by_role("table", name="The 3 best translations of line 1").locator("tbody tr")
    expect(rows).to_have_count(3)
    cells = [rows.nth(index).locator("td").all_inner_texts() for index in range(3)]
    assert cells == [
        ["1", "-0.500", "3", "A B"],
        ["2", "-1.000", "4", "A B 2"],
        ["3", "-1.500", "5", "A B 3"],
    ]


def test_sentences_of_a_line(page, behaviour):
    """One text, and the n best and the alignment of each sentence."""
    page.get_by_label("Translations per sentence").fill("2")
    page.get_by_label("Alignment").check()
    page.get_by_label("Confidence").check()
    translate(page, "It is.  So.")
    expect(results(page)).to_have_count(1)
    expect(page.locator("p.source")).to_have_text("It is. So.")
    expect(page.locator("p.translation")).to_have_text("IT IS. SO.")
    expect(page.locator("p.translation .word")).to_have_count(3)
    for sentence in ("line 1, sentence 1", "line 1, sentence 2"):
        name = f"The 2 best translations of {sentence}"
        expect(page.get_by_role("table", name=name)).to_be_visible()
        expect(page.get_by_role("img", name=f"Alignment of {sentence}")).to_be_visible()


def test_an_invalid_number_is_not_sent(page, behaviour):
    page.get_by_text("Search options").click()
    page.locator("#option-beam_size").fill("2")
    page.locator("#option-length_penalty").fill("11")
    page.get_by_text("Search options").click()  # closes them
    translate(page, "a")
    expect(page.locator("#option-length_penalty")).to_be_visible()
    assert behaviour.requests == []


def test_options_are_sent(page):
    page.get_by_text("Search options").click()
    shown = page.locator("#options input")
    expect(shown).to_have_count(len(OPTIONS))
    for index, option in enumerate(SEARCH_OPTIONS):
        assert shown.nth(index).get_attribute("placeholder") == option.unset_meaning
    page.locator("#option-beam_size").fill("2")
    page.locator("#option-length_penalty").fill("0.5")
    page.locator("#option-min_length").fill("0")
    translate(page, "a")
    expect(page.locator(".translation")).to_have_text("A beam_size=2 length_penalty=0.5")


def test_doubtful_words_are_underlined(page):
    page.get_by_label("Confidence", exact=True).check()
    translate(page, "one two three")
    expect(page.locator(".translation")).to_have_text("ONE TWO THREE")
    words = page.locator(".translation .word")
    expect(words).to_have_class(["word doubtful", "word uncertain", "word"])
    titles = words.evaluate_all("words => words.map(word => word.title)")
    assert titles == ["40 % confident", "70 % confident", "100 % confident"]
    lines = words.evaluate_all("words => words.map(x => getComputedStyle(x).textDecorationLine)")
    assert lines == ["underline", "underline", "none"]
    expect(page.locator(".facts")).to_contain_text("confidence 63 %")


def test_words_without_spaces_between_them(page):
    page.get_by_label("Confidence", exact=True).check()
    translate(page, "ab 早上好")
    expect(page.locator(".translation")).to_have_text("AB 早上好")
    assert page.locator(".translation .word").all_text_contents() == ["AB", "早", "上", "好"]


def test_the_alignment_is_drawn_as_lines(page):
    page.get_by_label("Alignment", exact=True).check()
    translate(page, "one two three")
    figure = page.get_by_role("img", name="Alignment of line 1")
    expect(figure).to_be_visible()
    pieces = figure.locator(".piece")
    assert pieces.all_text_contents() == ["▁one", "▁two", "▁three", "▁ONE", "▁TWO", "▁THREE"]
    boxes = [pieces.nth(index).bounding_box() for index in range(6)]
    centres = [box["x"] + box["width"] / 2 for box in boxes]
    assert boxes[0]["y"] + boxes[0]["height"] < boxes[3]["y"]
    assert all(a["x"] + a["width"] < b["x"] for a, b in itertools.pairwise(boxes[:3]))
    # The first two words change places.
    lines = figure.locator("line.aligned")
    ends = lines.evaluate_all(
        """lines => lines.map(line => {
            const left = line.ownerSVGElement.getBoundingClientRect().x;
            return [left + line.x1.baseVal.value, left + line.x2.baseVal.value];
        })"""
    )
    expected = [(1, 0), (0, 1), (2, 2)]
    for (top, bottom), (source, target) in zip(ends, expected, strict=True):
        assert top == pytest.approx(centres[source], abs=1)
        assert bottom == pytest.approx(centres[3 + target], abs=1)
    assert figure.locator("line.weight").count() == 6  # the other weights, of 0.1
    pieces.nth(0).hover()
    expect(figure.locator("line.selected")).to_have_count(3)


def test_the_alignment_is_drawn_as_a_matrix(page, behaviour):
    page.get_by_label("Alignment", exact=True).check()
    translate(page, "one two three")
    page.get_by_label("matrix").check()
    figure = page.get_by_role("img", name="Alignment of line 1")
    expect(figure.locator(".cell")).to_have_count(3 * 4)
    expect(figure.locator(".cell.aligned")).to_have_count(3)
    opacities = figure.locator(".cell .value").evaluate_all(
        "cells => cells.map(cell => cell.getAttribute('fill-opacity'))"
    )
    assert opacities[:4] == ["0.1", "0.8", "0.1", "0.1"]
    page.get_by_label("lines").check()
    expect(figure.locator(".piece")).to_have_count(6)
    assert len(behaviour.requests) == 1  # drawn again without another request


def test_hostile_text_stays_text(page):
    page.get_by_label("Alignment", exact=True).check()
    page.get_by_label("Translations per sentence").fill("2")
    translate(page, HOSTILE)
    expect(page.locator(".source")).to_have_text(HOSTILE)
    expect(page.locator(".translation")).to_have_text(HOSTILE.upper())
    assert page.locator("main img, main script, main iframe").count() == 0
    page.get_by_label("matrix").check()
    assert page.locator("main img, main script, main iframe").count() == 0
    assert page.title() == "Translator"


def test_the_policy_forbids_inline_scripts(browser, running):
    """Whatever would get into the page as HTML would not run."""
    opened = Opened(browser, running[1])
    opened.page.evaluate("html => { document.querySelector('main').innerHTML = html; }", HOSTILE)
    opened.page.wait_for_function("() => document.querySelector('main img').complete")
    assert opened.page.title() == "Translator"
    assert any("Content Security Policy" in complaint for complaint in opened.complaints)
    opened.context.close()


def test_errors_appear_and_go(opened, behaviour):
    page = opened.page
    behaviour.failures = [("INTERNAL", HOSTILE)] * 3
    translate(page, "a")
    alert = page.get_by_role("alert")
    expect(alert).to_have_text("The translation server failed; its operator finds the reason.")
    behaviour.failures = ["UNAVAILABLE"] * 3
    translate(page, "a")
    expect(alert).to_have_text(
        "The translation server is not available; try again later (in 5 seconds)."
    )
    translate(page, "\n".join("abcdef"))
    expect(alert).to_contain_text("Expected 1 to 5 sentences")
    translate(page, "a" * 5001)
    expect(page.locator("#count")).to_contain_text("5001 characters (at most 5000)")
    expect(alert).to_contain_text("Expected at most 5000 characters")
    translate(page, "a")
    expect(page.locator(".translation")).to_have_text("A")
    expect(alert).to_be_hidden()
    # The browser reports each response that is not a success.
    assert all("Failed to load resource" in complaint for complaint in opened.complaints)
    opened.complaints.clear()


def test_what_is_not_exported_is_hidden(browser):
    behaviour = make_behaviour()
    behaviour.specs = {"serving_default": behaviour.specs["serving_default"]}
    with serve("rest", behaviour) as server, run_web(server) as web:
        page = Opened(browser, web.address).page
        for label in ("Translations per sentence", "Alignment", "Search options"):
            expect(page.get_by_text(label, exact=True)).to_be_hidden()
        translate(page, "a")
        expect(page.locator(".translation")).to_have_text("A")


def test_languages(browser):
    behaviour = make_behaviour()
    with (
        serve("rest", behaviour) as server,
        run_web(server, "--target-languages", "de", "fr") as web,
    ):
        page = Opened(browser, web.address).page
        page.get_by_label("Target language").select_option("fr")
        translate(page, "hello")
        expect(page.locator(".translation")).to_have_text("<2FR> HELLO")
        expect(page.locator(".source")).to_have_text("hello")


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phones_and_dark_pages(browser, running, width, scheme):
    opened = Opened(
        browser, running[1], viewport={"width": width, "height": 740}, color_scheme=scheme
    )
    page = opened.page
    page.get_by_label("Alignment", exact=True).check()
    page.get_by_label("Translations per sentence").fill("3")
    translate(page, "A sentence with so many words that its alignment is wider than a phone is.")
    expect(page.locator("figure svg")).to_be_visible()
    for drawing in ("lines", "matrix"):
        page.get_by_label(drawing).check()
        sizes = "() => [document.documentElement.scrollWidth, innerWidth]"
        found, available = page.evaluate(sizes)
        assert found <= available  # only the figure can be scrolled sideways
    colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    channels = [int(number) for number in colour.removeprefix("rgb(").rstrip(")").split(",")]
    assert (max(channels) < 64) == (scheme == "dark")
    assert opened.complaints == []
    opened.context.close()

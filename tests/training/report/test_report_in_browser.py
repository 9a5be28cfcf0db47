"""The pages in a real browser, headless Chromium: as text, searched, filtered, sorted, printed."""

import base64
import pathlib

import pytest

from tests.training.report.chromium import CHROMIUM
from tests.training.report.hostile import HOSTILE, NAME
from training.evaluation.runs import Run
from training.report.compared_texts import ComparedTexts
from training.report.comparison_report import ComparisonSettings, compare
from training.report.recorded_run import RecordedRun
from training.report.recorded_samples import Picture, Sample
from training.report.run_report import runs_report

playwright_api = pytest.importorskip("playwright.sync_api")
expect = playwright_api.expect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


def _compare(systems, references, source=None) -> str:
    texts = ComparedTexts(source=source, references=references, systems=systems)
    return compare(texts, ComparisonSettings()).as_html()


def _numbers(page) -> list[int]:
    """The numbers of the sentences that are shown."""
    headings = page.locator(".sentence h3").evaluate_all("all => all.map(h => h.firstChild.data)")
    return [int(heading.removeprefix("Sentence ")) for heading in headings]


@pytest.fixture(scope="module")
def animals() -> str:
    """The page of two systems, of which each is better in one sentence of thirty."""
    reference = [f"Hund {number} läuft über die Wiese." for number in range(30)]
    first, second = list(reference), list(reference)
    first[4] = "Hund läuft."
    second[7] = "Eine Katze läuft über die Wiese."
    second[8] = "Hund 8 läuft über die grüne Wiese."
    source = [f"Dog {number} runs." for number in range(30)]
    return _compare({"first": first, "second": second}, [reference], source)


def test_hostile_sentences_are_text(open_page):
    shifted = HOSTILE[1:] + HOSTILE[:1]
    content = _compare({NAME: shifted, "other": HOSTILE}, [HOSTILE, shifted], HOSTILE)
    page = open_page(content)
    page.get_by_label("Sort by").select_option("order of the files")
    page.get_by_label("Mark differences from").select_option("nothing")
    page.get_by_label("On a page").select_option("100")
    assert page.title() == "Comparison of translations"
    shown = page.locator(".sentence .source .text").all_text_contents()
    for text, expected in zip(shown, HOSTILE, strict=True):
        if not expected.strip():
            assert text.startswith(("empty", "only spaces"))
        elif len(expected) > 1000:
            assert text == expected[:1000]
        elif "<" in expected or "{" in expected or "$" in expected:
            assert text == expected
    assert {"U+202E", "U+202C", "U+0000", "U+0007", "U+001B", "U+2028", "U+E0041"} <= set(
        page.locator(".hidden-character").all_text_contents()
    )
    assert not page.evaluate(r"/[\u202a-\u202e\u0000]/.test(document.body.innerText)")
    assert page.locator("#sentences script, #sentences img, #sentences b").count() == 0
    assert set(page.locator(".text").evaluate_all("all => all.map(p => p.dir)")) == {"auto"}
    hebrew = page.locator(".source .text").nth(HOSTILE.index("שלום עולם 12 (abc)"))
    assert hebrew.evaluate("p => getComputedStyle(p).direction") == "rtl"
    page.locator(".source .more").first.click()
    assert page.locator(".source .text").nth(4).inner_text() == HOSTILE[4]


def test_sorted_by_gain_and_loss(open_page, animals):
    page = open_page(animals)
    assert _numbers(page)[0] == 5  # the second system gains most
    assert len(_numbers(page)) == 25
    expect(page.locator("#status")).to_have_text(
        "30 of 30 sentences; second is better than first in 1, equal in 27, worse in 2"
    )
    assert page.locator(".gain").first.inner_text().startswith("chrF +")
    page.get_by_label("Sort by").select_option("largest loss")
    assert _numbers(page)[:2] == [8, 9]
    page.get_by_label("Score of").select_option("first")
    page.get_by_label("Compared with").select_option("second")
    assert _numbers(page)[0] == 5
    page.get_by_label("Sort by").select_option("lowest score")
    assert _numbers(page)[0] == 5
    page.get_by_label("Sort by").select_option("order of the files")
    assert _numbers(page) == list(range(1, 26))


def test_pages(open_page, animals):
    page = open_page(animals)
    page.get_by_label("Sort by").select_option("order of the files")
    place = page.locator(".pages").first
    expect(place.locator(".place")).to_have_text("page 1 of 2")
    expect(place.get_by_role("button", name="Previous")).to_be_disabled()
    place.get_by_role("button", name="Next").focus()
    page.keyboard.press("Enter")
    assert _numbers(page) == [26, 27, 28, 29, 30]
    assert page.evaluate("document.activeElement.id") == "sentences-heading"
    expect(place.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_label("On a page").select_option("100")
    expect(place).to_be_hidden()


def test_search_and_errors(open_page, animals):
    page = open_page(animals)
    page.get_by_label("Search").fill("DOG 7 ")
    expect(page.locator("#status")).to_contain_text("1 of 30 sentences")
    assert _numbers(page) == [8]
    page.get_by_label("Search").fill("")
    expect(page.locator("#status")).to_contain_text("30 of 30 sentences")
    page.get_by_role("button", name="show the 1 sentences of second: number lost").click()
    assert _numbers(page) == [8]
    assert page.locator(".error").all_text_contents() == ["number lost: 7"]
    page.get_by_label("Errors of").select_option("first")
    assert _numbers(page) == [5]
    page.get_by_role("combobox", name="Errors", exact=True).select_option("all sentences")
    assert len(_numbers(page)) == 25


def test_differences_by_word(open_page, animals):
    page = open_page(animals)
    page.get_by_label("Search").fill("dog 7 ")
    expect(page.locator(".sentence")).to_have_count(1)
    output = page.locator(".output .text").nth(1)
    assert output.locator("ins").all_text_contents() == ["Eine Katze"]
    assert output.locator("del").all_text_contents() == ["Hund 7"]
    page.get_by_label("show missing words").uncheck()
    assert output.inner_text() == "Eine Katze läuft über die Wiese."
    page.get_by_label("Mark differences from").select_option("second")
    assert page.locator(".output .text").first.locator("ins").all_text_contents() == ["Hund 7"]
    assert page.locator(".reference ins").all_text_contents() == ["Hund 7"]
    page.get_by_label("Mark differences from").select_option("nothing")
    assert page.locator("#sentences ins").count() == 0


def test_one_system(open_page):
    page = open_page(_compare({"only": ["eins", "x"]}, [["eins", "zwei"]]))
    assert _numbers(page) == [2, 1]
    assert page.locator("#sentences .source, .gain").count() == 0
    expect(page.locator("#status")).to_have_text("2 of 2 sentences")
    expect(page.get_by_label("Compared with")).to_be_hidden()


@pytest.mark.parametrize("width", [360, 1280])
def test_fits_the_screen_in_both_colour_schemes(open_page, animals, width):
    colours = set()
    for scheme in ("light", "dark"):
        page = open_page(animals, viewport={"width": width, "height": 800}, color_scheme=scheme)
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) == 0
        style = "getComputedStyle(document.querySelector('.chart text')).fill"
        colours.add(page.evaluate(style))
        colours.add(
            page.evaluate("getComputedStyle(document.querySelector('ins')).backgroundColor")
        )
    assert len(colours) == 4


def test_print_has_no_controls(open_page, animals):
    page = open_page(animals, color_scheme="dark")
    page.emulate_media(media="print")
    expect(page.locator("#controls")).to_be_hidden()
    expect(page.locator(".pages").first).to_be_hidden()
    expect(page.locator(".sentence").first).to_be_visible()
    colour = page.evaluate("getComputedStyle(document.querySelector('.reference')).color")
    assert colour == "rgb(27, 31, 36)"  # that of the light scheme


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_samples_of_runs(open_page):
    samples = [
        Sample(line, line, {100: "nichts", 200: f"{line} mehr"}) for line in HOSTILE if line.strip()
    ]
    runs = [
        RecordedRun(
            Run(pathlib.Path(f"runs/{name}")),
            settings={"a": number, "b": NAME},
            validation={"loss": [(100, 2.0), (200, 1.5 - number)], "perplexity": [(200, 9.0)]},
            samples=samples[number:],
            attention=[Picture("cross", 200, PIXEL)],
        )
        for number, name in enumerate(("one", NAME))
    ]
    page = open_page(runs_report(runs, [[["model", "step"], ["one", 200], [NAME, None]]]))
    assert page.title() == "Training runs"
    expect(page.locator(".chart")).to_have_count(2)
    expect(page.locator("img")).to_have_count(2)
    assert page.locator("img").first.evaluate("img => img.naturalWidth") == 1
    expect(page.locator(".sentence")).to_have_count(len(samples))
    first = page.locator(".sentence").first
    assert first.locator(".output .name").all_text_contents() == ["step 100", "step 200"]
    assert first.locator(".source .text").inner_text() == HOSTILE[0]
    assert first.locator(".output").nth(1).locator("ins").all_text_contents() == ["mehr"]
    page.get_by_label("Mark differences from").select_option("the earlier translation")
    assert first.locator(".output").first.locator("ins").count() == 0
    assert first.locator(".output").nth(1).locator("ins").count() > 0
    page.locator("#run").select_option(NAME)
    expect(page.locator(".sentence")).to_have_count(len(samples) - 1)

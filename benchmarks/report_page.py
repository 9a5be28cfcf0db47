"""Measures the page of `tf-transformer compare`: its size, and how long a browser takes to open it.

    python -m benchmarks.report_page [--sentences 10000] [--systems 3] [--text F] [--opens 5]

Each system has the sentences of the text, or of random words, in which one of ten words is
another. The browser is headless Chromium, a new profile for each opening, with `pip install
playwright`; the time ends when the first sentences are drawn. Without Chromium, prints the size.
"""

import argparse
import itertools
import pathlib
import random
import shutil
import statistics
import string
import tempfile
import time

from tf_transformer.text.text_file import TextFile
from training.report.compared_texts import ComparedTexts
from training.report.comparison_report import ComparisonSettings, compare
from training.report.html_page import write_page


def main() -> None:
    """Prints the size of the page, the time to make it, and the median and longest opening."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sentences", type=int, default=10_000, metavar="N")
    parser.add_argument("--systems", type=int, default=3, metavar="N")
    parser.add_argument("--text", type=TextFile.parse, metavar="F", help="sentences to use")
    parser.add_argument("--opens", type=int, default=5, metavar="N")
    options = parser.parse_args()
    texts = make_texts(options.sentences, options.systems, options.text)
    start = time.perf_counter()
    page = compare(texts, ComparisonSettings()).as_html()
    made = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "report.html")
        write_page(path, page)
        size = path.stat().st_size
        opened = "Chromium is not installed | "
        if chromium := shutil.which("chromium") or shutil.which("google-chrome"):
            seconds = open_times(path, chromium, options.opens)
            opened = f"{statistics.median(seconds):.2f} | {max(seconds):.2f}"
    print(
        "| sentences | systems | MB | made, s | opened, s | longest, s |\n|---|---|---|---|---|---|"
    )
    cells = f"{len(texts):,} | {options.systems} | {size / 1e6:.2f} | {made:.1f} | {opened}"
    print(f"| {cells} |")


def make_texts(sentences: int, systems: int, text: TextFile | None) -> ComparedTexts:
    """Returns a test set of random translations."""
    draw = random.Random(1)
    if text is None:
        words = ["".join(draw.choices(string.ascii_lowercase, k=6)) for _ in range(5000)]
        lines = [" ".join(draw.choices(words, k=draw.randint(4, 30))) for _ in range(sentences)]
    else:
        lines = list(itertools.islice(itertools.cycle(text.lines()), sentences))
        words = " ".join(lines).split()

    def change(line):
        return " ".join(
            draw.choice(words) if draw.random() < 0.1 else word for word in line.split()
        )

    translations = {f"system {n + 1}": list(map(change, lines)) for n in range(systems)}
    return ComparedTexts(source=lines, references=[lines], systems=translations)


def open_times(path: pathlib.Path, chromium: str, opens: int) -> list[float]:
    """Returns the seconds until the first sentences are drawn, for each opening of a page."""
    from playwright.sync_api import sync_playwright

    seconds = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(opens):
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            page = context.new_page()
            start = time.perf_counter()
            page.goto(path.as_uri())
            page.locator(".sentence").first.wait_for()
            seconds.append(time.perf_counter() - start)
            context.close()
        browser.close()
    return seconds


if __name__ == "__main__":
    main()

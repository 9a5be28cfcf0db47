"""Takes the screenshots of docs/reports.md: pages of reports in headless Chromium.

    python docs/images/make_report_screenshots.py REPORT OUTPUT [--from SECTION] [--height 900]
        [--search TEXT] [--token N] [--step N] [--dark] [--width 1000]

REPORT is the page of `compare`, `evaluate --report`, `runs --report` or `attention`, OUTPUT a .png
file. Needs `pip install playwright` and Chromium, from `apt-get install chromium` or `playwright
install chromium`.
"""

import argparse
import pathlib
import shutil

from PIL import Image
from playwright.sync_api import sync_playwright


def main() -> None:
    """Takes the screenshot and reduces it to 128 colours."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--from", dest="section", help="name of the first section")
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--width", type=int, default=1000)
    parser.add_argument("--search", help="text to search for")
    parser.add_argument("--token", type=int, help="index of a token of `attention` to choose")
    parser.add_argument("--step", type=int, help="step of the search of `attention`")
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(
            viewport={"width": options.width, "height": options.height},
            color_scheme="dark" if options.dark else "light",
        )
        page.goto(options.report.absolute().as_uri())
        if options.search:
            page.get_by_label("Search").fill(options.search)
            page.wait_for_timeout(500)  # the search waits for more letters
        if options.token is not None:
            page.locator("#queries .token").nth(options.token).click()
        if options.step is not None:
            page.locator("#step").fill(str(options.step))
        top = 0.0
        if options.section:
            heading = page.get_by_role("heading", name=options.section, exact=True)
            top = heading.bounding_box()["y"] + page.evaluate("scrollY") - 20
        page.screenshot(
            path=options.output,
            full_page=True,
            clip={"x": 0, "y": top, "width": options.width, "height": options.height},
        )
        browser.close()
    image = Image.open(options.output).convert("RGB")
    image.quantize(128, dither=Image.Dither.NONE).save(options.output, optimize=True)
    print(options.output, options.output.stat().st_size)


if __name__ == "__main__":
    main()

"""Takes the screenshot of docs/service.md: the page of `tf-transformer web` in headless Chromium.

    python docs/images/make_web_screenshot.py ADDRESS [--output FILE] [--dark] [--width 1280]

ADDRESS is that of a running page, such as http://localhost:8080/. Needs the extra `screenshots`
and Chromium, from `apt-get install chromium` or `playwright install chromium`. With --first-result,
takes the first sentence's translation alone, as the README shows it.

The sentences are translated twice, since the first request takes the time in which TensorFlow
prepares its graphs.
"""

import argparse
import pathlib
import shutil

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = pathlib.Path(__file__).parent
SENTENCES = """Jan paid $548 for the horse.
My sister was in Cologne three days ago."""


def main() -> None:
    """Translates two sentences and takes the screenshot."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("address")
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "web-page.png")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--drawing", default="lines", choices=("lines", "matrix"))
    parser.add_argument("--first-result", action="store_true")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(
            viewport={"width": options.width, "height": 800},
            color_scheme="dark" if options.dark else "light",
        )
        page.goto(options.address)
        page.get_by_label("Source text").fill(SENTENCES)
        page.get_by_label("Translations per sentence").fill("3")
        page.get_by_label("Alignment", exact=True).check()
        page.get_by_text("Search options").click()
        for _ in range(2):
            with page.expect_response("**/api/translate"):
                page.get_by_role("button", name="Translate").click()
            page.wait_for_function("!document.querySelector('#results').ariaBusy")
        page.get_by_label(options.drawing).check()
        if options.first_result:
            page.locator("li.result").first.screenshot(path=options.output)
        else:
            page.screenshot(path=options.output, full_page=True)
        browser.close()
    image = Image.open(options.output).convert("RGB")
    image.quantize(64, dither=Image.Dither.NONE).save(options.output, optimize=True)
    print(options.output, options.output.stat().st_size)


if __name__ == "__main__":
    main()

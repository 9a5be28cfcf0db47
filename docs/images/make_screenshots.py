"""Takes the screenshots of docs/monitoring.md: TensorBoard's pages in headless Chromium.

    python docs/images/make_screenshots.py LOGDIR

LOGDIR contains the model directories of some runs. Needs `pip install playwright` and Chromium,
from `apt-get install chromium` or `playwright install chromium`.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

from PIL import Image
from playwright.sync_api import Page, sync_playwright

HERE = pathlib.Path(__file__).parent
MAX_BYTES = 300_000
# Settings that are the same in both runs; hidden, so that the one that differs is visible.
_SHARED = (
    *(f"data.{name}" for name in ("batch_sentences", "batch_tokens", "max_length")),
    *("data.shuffle_buffer", "model.d_ff"),
)


def start_tensorboard(logdir: pathlib.Path) -> tuple[subprocess.Popen, str]:
    """Starts TensorBoard on a free port, and returns its address."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir)),
            *("--port", "0", "--load_fast", "false", "--samples_per_plugin", "images=100,text=100"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if match := re.search(r"http://\S+", line):
            return process, match[0].replace("//vm:", "//localhost:")
    raise RuntimeError("TensorBoard did not start")


def wait_for_runs(address: str, seconds: int = 60) -> None:
    """Waits until TensorBoard has read the runs."""
    for _ in range(seconds):
        try:
            with urllib.request.urlopen(f"{address}data/runs") as answer:
                if answer.read().strip() not in (b"", b"[]"):
                    time.sleep(3)  # until TensorBoard has read all of them
                    return
        except urllib.error.URLError:
            pass
        time.sleep(1)
    raise RuntimeError("TensorBoard shows no runs")


def take(page: Page, name: str) -> None:
    """Saves a screenshot of the page with 128 colours."""
    path = HERE / f"{name}.png"
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    if path.stat().st_size > MAX_BYTES:
        raise RuntimeError(
            f"{path}: expected at most {MAX_BYTES} bytes. Received: {path.stat().st_size}"
        )
    print(path)


def take_all(page: Page, address: str) -> None:
    """Takes a screenshot of each page that docs/monitoring.md shows."""
    for name, path, clicks in (
        ("scalars", "?tagFilter=^loss|quality#timeseries", ["Settings"]),  # closes the settings
        ("speed", "?tagFilter=optimizer|speed#timeseries", []),
        ("text", "#text", []),
        ("images", "#images", ["Show actual image size"]),
        ("histograms", "#histograms", []),
        ("graph", "#graphs", []),
        ("hparams", "#hparams", [*_SHARED, "model.dropout_rate"]),
    ):
        page.goto("about:blank")
        page.goto(f"{address}{path}")
        page.wait_for_timeout(5000)
        for text in clicks:
            page.get_by_text(text, exact=True).first.click()
        page.wait_for_timeout(2000)
        take(page, f"tensorboard-{name}")


def main() -> None:
    """Takes all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logdir", type=pathlib.Path)
    options = parser.parse_args()
    process, address = start_tensorboard(options.logdir)
    try:
        wait_for_runs(address)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            take_all(browser.new_page(viewport={"width": 1280, "height": 900}), address)
            browser.close()
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()

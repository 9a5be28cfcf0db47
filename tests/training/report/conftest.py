"""Pages of reports in headless Chromium."""

import os
from collections.abc import Iterator

import pytest

from tests.training.report.chromium import CHROMIUM
from training.report.html_page import write_page


@pytest.fixture(scope="module")
def browser() -> Iterator:
    playwright_api = pytest.importorskip("playwright.sync_api")
    with playwright_api.sync_playwright() as playwright:
        # Chromium refuses to run as root with its sandbox, as in containers.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, tmp_path) -> Iterator:
    """Opens a page; the browser must not complain, and must load nothing else."""
    complaints: list[str] = []
    requested: list[str] = []
    contexts = []

    def open_page(content, **options):
        write_page(tmp_path / "report.html", content)
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))
        page.goto((tmp_path / "report.html").as_uri())
        return page

    yield open_page
    assert complaints == []
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []
    assert len(requested) == len(contexts)
    for context in contexts:
        context.close()

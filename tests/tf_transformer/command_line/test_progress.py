"""Progress bars on a terminal and in a log."""

import contextlib
import io

import pytest
import tqdm

from tf_transformer.command_line.progress import progress_bar


@pytest.fixture
def clock(monkeypatch):
    """The seconds that tqdm measures, which only the test changes."""
    now = [1000.0]
    original = tqdm.tqdm.__init__

    def initialize(self, *arguments, **options):
        original(self, *arguments, **options | {"disable": options.get("disable", False)})
        self._time = lambda: now[0]
        self.last_print_t = self.start_t = now[0]

    monkeypatch.setattr(tqdm.tqdm, "__init__", initialize)
    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 0)
    return now


def run(clock, seconds, **settings):
    """What 10 steps of `seconds` print where standard error is a file."""
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        with progress_bar(total=10, desc="working", **settings) as progress:
            for _ in range(10):
                clock[0] += seconds
                progress.update()
        return errors.getvalue().splitlines()


def test_a_log_gets_a_line_a_minute(clock):
    counts = [line.split("|")[2].split()[0] for line in run(clock, 25.0)]
    # The last line is the end, which a bar leaves behind.
    assert counts == ["3/10", "6/10", "9/10", "10/10"]


def test_a_log_gets_nothing_of_what_takes_less(clock):
    assert run(clock, 5.0) == []
    line, *_ = run(clock, 5.0, delay=0)
    assert line.startswith("working:")


def test_a_log_has_no_control_characters(clock):
    for line in run(clock, 25.0):
        assert line.isprintable() and len(line) <= 100

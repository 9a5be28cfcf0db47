"""What the web application adds to the time of a request.

    python -m benchmarks.web [--requests 1000] [--callers 1 4 16] [--rounds 5]

A stand-in for TF Serving, which answers at once, is asked over gRPC by the client and through
`tf-transformer web`, alternately. Prints the medians of the rounds in Markdown: requests per second
and median latency. All programs share the processors of this machine.
"""

import argparse
import subprocess
import sys

import numpy as np

from benchmarks.load import SENTENCES, Load, open_server, open_web
from tests.export.web.running import run_web

# In a process of its own, as TF Serving is.
_STAND_IN = """
import sys
from tests.export.web.translating import make_behaviour
from tests.serving_stub import serve

with serve("grpc", make_behaviour()) as address:
    print(address, flush=True)
    sys.stdin.read()
"""


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1000, help="for each number of callers")
    parser.add_argument("--callers", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with subprocess.Popen(
        [sys.executable, "-c", _STAND_IN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as stand_in:
        server = stand_in.stdout.readline().strip()
        limit = str(max(options.callers))
        with run_web(server, "--protocol", "grpc", "--max-concurrent", limit) as web:
            address = web.address.removeprefix("http://").rstrip("/")
            measure(options, server, address)
        stand_in.stdin.close()


def measure(options: argparse.Namespace, server: str, web: str) -> None:
    """Measures both ways alternately and prints the table."""
    settings = argparse.Namespace(
        **vars(options), server=server, web=web, model="translator", protocol="grpc", batch=1
    )
    ways = {"client": open_server(settings), "web application": open_web(settings)}
    answers = [([text], ways["client"]([text])) for text in SENTENCES]
    print("| callers | | requests/s | p50 ms |\n|---|---|---|---|")
    for callers in options.callers:
        found: dict[str, list] = {name: [] for name in ways}
        for number in range(options.rounds + 1):  # the first one is the warm-up
            for name, send in ways.items():
                load = Load(send, answers, options.requests, callers)
                if load.wrong:
                    raise RuntimeError(f"{name}: {load.wrong} wrong answers")
                if number:
                    latency = 1000 * np.median(load.latencies)
                    found[name].append((options.requests / load.seconds, latency))
        for name, rows in found.items():
            rate, latency = np.median(rows, axis=0)
            print(f"| {callers} | {name} | {rate:,.0f} | {latency:.1f} |", flush=True)


if __name__ == "__main__":
    main()

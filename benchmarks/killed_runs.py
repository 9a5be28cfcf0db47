"""Running a command that is killed again and again."""

import subprocess
import time
from collections.abc import Iterable


def run_killed(command: list[str], waits: Iterable[float]) -> tuple[float, int]:
    """Runs a command until it ends, killed by SIGKILL and started again before.

    Args:
        command: the command; its standard output is not shown.
        waits: seconds after which each of the first runs is killed.

    Returns:
        The seconds of all runs together, and the number of killed ones.
    """
    start, kills = time.perf_counter(), 0
    for wait in waits:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if not process.wait(wait):
                return time.perf_counter() - start, kills
            break  # it failed, and is run again to show why
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start, kills

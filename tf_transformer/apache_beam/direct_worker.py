"""A worker process of Apache Beam's direct runner: quiet, and ends with its parent."""

import os
import signal
import sys
import threading
import time

from tf_transformer.apache_beam import quiet_logs  # noqa: F401

# Seconds between two looks for the parent.
_INTERVAL = 0.5


def main() -> None:
    """Runs Apache Beam's own worker."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()
    # Apache Beam prints the traceback of every error there; the parent gets the error, too.
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)


def _exit_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_INTERVAL)
    os._exit(1)


if __name__ == "__main__":
    main()

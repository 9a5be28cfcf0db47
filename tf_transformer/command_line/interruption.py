"""SIGTERM and SIGHUP as exceptions, so that a command removes what it has not finished."""

import contextlib
import signal
import threading
from collections.abc import Iterator


class Interrupted(KeyboardInterrupt):
    """A signal has ended the command.

    Args:
        signum: number of the signal.
    """

    def __init__(self, signum: int):
        super().__init__(signum)
        self.signum = signal.Signals(signum)


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP raise `Interrupted`, once; later ones do not disturb the clean-up.

    A signal that is ignored or handled already, as SIGHUP under `nohup`, is left as it is. In a
    thread other than the main thread, where Python allows no signal handlers, this does nothing.

    Raises:
        Interrupted: a signal has arrived.
    """
    handled = []
    if threading.current_thread() is threading.main_thread():
        handled = [
            signum
            for signum in (signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(signum) == signal.SIG_DFL
        ]

    def interrupt(signum, frame):
        for other in handled:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(signum)

    try:
        for signum in handled:
            signal.signal(signum, interrupt)
        yield
    finally:
        for signum in handled:
            signal.signal(signum, signal.SIG_DFL)

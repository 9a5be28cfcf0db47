"""Apache Beam's runner for one machine, without a way in from other machines."""

import contextlib
import shlex
import sys
from collections.abc import Iterator
from concurrent import futures
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

# The class of the runner.
DIRECT = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
_WORKER = "tf_transformer.apache_beam.direct_worker"


def direct_runner() -> "FnApiRunner":
    """Returns a runner with processes of this machine as workers.

    Beam's own name `direct` means a program that it fetches, or a single thread of Python.
    """
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.transforms.environments import SubprocessSDKEnvironment

    # `exec`, so that the worker's parent is this process and not a shell.
    command = f"exec {shlex.quote(sys.executable)} -m {_WORKER}"
    return FnApiRunner(SubprocessSDKEnvironment.from_command_string(command))


@contextlib.contextmanager
def loopback_only() -> Iterator[None]:
    """Lets gRPC servers that are made meanwhile listen on the loopback device only.

    The direct runner's servers for its workers would listen on every interface and ask for no
    password, and whoever is their worker gets the text.
    """
    # Imported only here: each command imports this module, and grpc starts threads.
    import grpc

    with futures.ThreadPoolExecutor(1) as executor:
        server = type(grpc.server(executor))
    listen = server.add_insecure_port

    def listen_locally(self, address: str) -> int:
        return listen(self, address.replace("[::]:", "localhost:"))

    server.add_insecure_port = listen_locally
    try:
        yield
    finally:
        server.add_insecure_port = listen

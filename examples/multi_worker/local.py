"""Runs a command as several workers on one machine, to try out training on several machines.

    python examples/multi_worker/local.py 2 tf-transformer train --source train.en ...

Every worker gets its own TF_CONFIG. Only worker 0, the chief, shows its standard output; all show
their standard error. The exit status is the first that is not 0.
"""

import json
import os
import signal
import socket
import subprocess
import sys


def free_ports(count: int) -> list[int]:
    """Returns ports that are currently unused."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


def start_workers(command: list[str], count: int, **options) -> list[subprocess.Popen]:
    """Starts the command `count` times, each with its own TF_CONFIG.

    Args:
        command: program and arguments.
        count: number of workers.
        **options: further arguments of `subprocess.Popen`.
    """
    addresses = [f"localhost:{port}" for port in free_ports(count)]
    workers = []
    for index in range(count):
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": addresses}, "task": task})
        output = {} if index == 0 else {"stdout": subprocess.DEVNULL}
        environment = os.environ | {"TF_CONFIG": config}
        workers.append(subprocess.Popen(command, env=environment, **(output | options)))
    return workers


def main() -> int:
    """Runs the command given on the command line and returns its exit status."""
    count, *command = sys.argv[1:] or [""]
    if not count.isdigit() or int(count) < 1 or not command:
        print("usage: local.py NUMBER_OF_WORKERS COMMAND ...", file=sys.stderr)
        return 2
    workers = start_workers(command, int(count))
    signal.signal(signal.SIGTERM, lambda *_: [worker.terminate() for worker in workers])
    try:
        statuses = [worker.wait() for worker in workers]
    except KeyboardInterrupt:  # the workers have received it too, and save
        statuses = [worker.wait() for worker in workers]
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main())

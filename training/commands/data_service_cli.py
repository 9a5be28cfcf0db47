"""The command `data-service`."""

import argparse
import time

from tf_transformer.command_line.quiet import import_tensorflow
from tf_transformer.errors import InputError


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parser of `data-service`."""
    parser = commands.add_parser(
        "data-service",
        help="make batches for training processes on other machines",
        description="Runs a tf.data service until it is stopped. `train --prepared ... "
        "--data-service grpc://HOST:PORT` gets its batches from it; the folders must have the "
        "same paths on both machines. Every machine that can reach this one can connect, and every "
        "client can read and write files, and so run code, as the user of the service: use it only "
        "in a network of trusted machines, and say so with --trust-network.",
    )
    parser.add_argument(
        "--port", type=int, default=5050, metavar="N", help="default: 5050; 0 chooses a free port"
    )
    parser.add_argument(
        "--host", default="localhost", metavar="NAME",
        help="name under which the clients find this machine (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--trust-network", action="store_true",
        help="required: let every machine connect that can reach this one; each can then run code "
        "as this user",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(options):
    from training.prepared.ports import bracketed, check_port

    if not options.trust_network:
        raise InputError(
            "a tf.data service listens on every interface, and its clients can run code as this "
            "user; give --trust-network if every machine that can reach this one may"
        )
    check_port(options.port)
    import_tensorflow(on_cpu=True)
    from training.prepared.data_service import start_service

    service = start_service(options.port, options.host)
    port = service.target.rpartition(":")[2]
    print(f"Serving batches: --data-service grpc://{bracketed(options.host)}:{port}")
    print("Every machine of the network can connect, and run code as this user.")
    _wait_for_ctrl_c()


def _wait_for_ctrl_c():
    """Waits until Ctrl-C.

    The service's `join` blocks Ctrl-C, and `signal.pause` misses one that came just before it.
    """
    while True:
        time.sleep(1)

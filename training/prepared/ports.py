"""The address that a server listens on; imports no TensorFlow."""

import socket

from tf_transformer.errors import InputError


def check_port(port: int) -> None:
    """Checks that a server can listen on a port; 0 means any free port.

    TensorFlow does not: it would share a port that another server listens on.

    Raises:
        InputError: the port is out of range.
        OSError: the port is in use.
    """
    if not 0 <= port < 65536:
        raise InputError(f"port {port}: expected 0 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise OSError(f"port {port}: {(error.strerror or str(error)).lower()}") from error


def bracketed(host: str) -> str:
    """Returns a host as it is written before `:PORT`: an IPv6 address gets brackets."""
    return f"[{host}]" if ":" in host else host

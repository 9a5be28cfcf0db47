"""Checks of the host and port that a server listens on; imports no TensorFlow."""

import ipaddress
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


def check_host(host: str, trusts_network: bool) -> None:
    """Checks that the host name is on the loopback interface, unless the network is trusted.

    Args:
        host: name of this machine for the clients.
        trusts_network: whether other machines may connect.

    Raises:
        InputError: the name is not on the loopback interface, and the network is not trusted.
    """
    if not (trusts_network or _is_loopback(host)):
        raise InputError(
            f"host {host}: expected a name of the loopback interface such as localhost, because "
            "clients of a data service can run code as this user; give --trust-network if every "
            "machine that can reach this one may"
        )


def bracketed(host: str) -> str:
    """Returns a host as it is written before `:PORT`: an IPv6 address gets brackets."""
    return f"[{host}]" if ":" in host else host


def _is_loopback(host):
    try:
        found = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(address).is_loopback for *_, (address, *_) in found)

"""The port that a server of this machine is to listen on. Importing this needs no TensorFlow."""

import ipaddress
import socket

from tf_transformer.errors import InputError


def check_port(port: int) -> None:
    """Refuses a port that cannot be listened on; 0 stands for any that is free.

    TensorFlow would share a port that another service listens on.

    Raises:
        ValueError: there is no such port.
        OSError: it is taken.
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
    """Checks that trainers of other machines are told of a service only where it trusts them.

    Args:
        host: the name of this machine for the trainers.
        trusts_network: whether every machine may connect.

    Raises:
        ValueError: the name is not one of the loopback interface, and the network is not trusted.
    """
    if not (trusts_network or _is_loopback(host)):
        raise InputError(
            f"host {host}: expected a name of the loopback interface, as in localhost: whoever "
            "can connect to a data service can run code as this user; give --trust-network where "
            "every machine that can reach this one may"
        )


def bracketed(host: str) -> str:
    """Returns a host as an address has it before its port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _is_loopback(host):
    try:
        found = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(address).is_loopback for *_, (address, *_) in found)

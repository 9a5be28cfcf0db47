"""Keeps a server that can only listen on every interface to connections from its own machine."""

import contextlib
import ctypes
import os
import socket
import stat
import struct
from collections.abc import Iterator

# Of socket(7) on Linux; Python's module does not name it.
_SO_ATTACH_REUSEPORT_CBPF = 51
# A BPF program, "return 0": the first of the sockets that share a port gets every connection.
_TAKE_FIRST = struct.pack("HBBI", 0x06, 0, 0, 0)


@contextlib.contextmanager
def loopback_only(port: int) -> Iterator[int]:
    """Lets only this machine connect to what the block begins to listen on.

    TensorFlow's gRPC servers bind to every interface and take no other address. Linux can bind a
    socket to the loopback device when it listens already. From before the server listens until
    then, sockets that accept nothing take all connections to its port.

    Args:
        port: where the server is going to listen; 0 takes a free one.

    Yields:
        The port to start the server with.

    Raises:
        OSError: the port is taken, or the system cannot do this.
    """
    try:
        guards = _make_guards(port)
        port = guards[0].getsockname()[1]
        yield port
        # Where this fails, the guards stay, and what the block has started gets no connection.
        _bind_to_loopback(port, {guard.fileno() for guard in guards})
    except OSError as error:
        raise OSError(
            f"port {port}: this system cannot keep it to connections from this machine ({error}); "
            "give --trust-network where every machine that can reach this one may connect"
        ) from error
    for guard in guards:
        guard.close()


def _make_guards(port):
    """One for each family of addresses, as the server's own socket may be of either."""
    guards: list[socket.socket] = []
    for family in (socket.AF_INET6, socket.AF_INET):
        try:
            guard = socket.socket(family)
        except OSError:  # a system without IPv6
            continue
        if family == socket.AF_INET6:
            guard.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # as gRPC's
        guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        guard.bind(("", guards[0].getsockname()[1] if guards else port))
        guard.listen(1)
        program = ctypes.create_string_buffer(_TAKE_FIRST)
        description = struct.pack("HP", 1, ctypes.addressof(program))
        guard.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, description)
        guards.append(guard)
    return guards


def _bind_to_loopback(port, guards):
    """Binds every socket of this process that listens on the port, except the guards."""
    servers = [number for number in _listening(port) if number not in guards]
    if not servers:
        raise OSError(f"no socket of this process listens on port {port}")
    for number in servers:
        with socket.fromfd(number, socket.AF_INET6, socket.SOCK_STREAM) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")


def _listening(port):
    """File descriptors of this process that listen on a port."""
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.fromfd(number, socket.AF_INET6, socket.SOCK_STREAM) as found:
                listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if listens and found.getsockname()[1:2] == (port,):
                    yield number
        except OSError:  # closed by now
            continue

"""Restricting servers that listen on every interface to connections from the same machine."""

import contextlib
import ctypes
import os
import socket
import stat
import struct
from collections.abc import Iterator

# From socket(7) on Linux; Python's `socket` does not define it.
_SO_ATTACH_REUSEPORT_CBPF = 51
# A BPF program, "return 0": the first of the sockets that share a port gets every connection.
_SELECT_FIRST = struct.pack("HBBI", 0x06, 0, 0, 0)


@contextlib.contextmanager
def loopback_only(port: int) -> Iterator[int]:
    """Restricts a server that is started in the `with` block to connections from this machine.

    TensorFlow's gRPC servers bind to every interface, and the address cannot be set. On Linux, a
    socket can be bound to the loopback device while it listens. Until that is done, guard sockets
    that never accept receive all connections to the port.

    Args:
        port: port that the server will listen on; 0 chooses a free one.

    Yields:
        The port to start the server with.

    Raises:
        OSError: the port is in use, or the system does not support this.
    """
    try:
        guards = _make_guards(port)
        port = guards[0].getsockname()[1]
        yield port
        # If this fails, the guards stay open, so that the server gets no connections.
        _bind_to_loopback(port, {guard.fileno() for guard in guards})
    except OSError as error:
        raise OSError(
            f"port {port}: cannot restrict it to connections from this machine ({error}); give "
            "--trust-network if every machine that can reach this one may connect"
        ) from error
    for guard in guards:
        guard.close()


def _make_guards(port):
    """Opens a guard socket for each address family, as the server's socket may have either."""
    guards: list[socket.socket] = []
    for family in (socket.AF_INET6, socket.AF_INET):
        try:
            guard = socket.socket(family)
        except OSError:  # a system without IPv6
            continue
        if family == socket.AF_INET6:
            guard.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # as gRPC does
        guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        guard.bind(("", guards[0].getsockname()[1] if guards else port))
        guard.listen(1)
        program = ctypes.create_string_buffer(_SELECT_FIRST)
        description = struct.pack("HP", 1, ctypes.addressof(program))
        guard.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, description)
        guards.append(guard)
    return guards


def _bind_to_loopback(port, guards):
    """Binds every socket of this process that listens on the port, except the guards."""
    servers = [descriptor for descriptor in _listening(port) if descriptor not in guards]
    if not servers:
        raise OSError(f"no socket of this process listens on port {port}")
    for descriptor in servers:
        with socket.fromfd(descriptor, socket.AF_INET6, socket.SOCK_STREAM) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")


def _listening(port):
    """Yields the file descriptors of this process's sockets that listen on a port."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.fromfd(descriptor, socket.AF_INET6, socket.SOCK_STREAM) as found:
                listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if listens and found.getsockname()[1:2] == (port,):
                    yield descriptor
        except OSError:  # closed meanwhile
            continue

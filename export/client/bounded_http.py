"""HTTP requests that end by a deadline and read no more than a limit, whatever the server sends.

Timeouts of sockets, and so of urllib3, start anew with each byte, and a body's size is whatever the
server says. So both limits are kept by the socket, below all that reads status lines, headers,
chunks and bodies from it.
"""

import socket
import time
from typing import Any, cast

import urllib3

from tf_transformer.errors import InputError

_PIECE = 2**16  # bytes of a body to ask for at once: a server's own sizes are not trusted


class ResponseTooLargeError(Exception):
    """A response has more bytes than may be read."""


class BoundedPool:
    """Connections to one server that are kept for the next request.

    Redirects, proxies named in the environment and compressed bodies are not followed, used or
    decoded.

    Args:
        address: `HOST:PORT` of the server.
        num_connections: how many to keep.
        max_response_bytes: most bytes of a response, its headers included.
    """

    def __init__(self, address: str, num_connections: int, max_response_bytes: int):
        url = urllib3.util.parse_url(f"http://{address}")
        if url.host is None:
            raise InputError(f"`address` must be HOST:PORT. Received: {address!r}")
        self._pool = _Pool(
            url.host, url.port, maxsize=num_connections, max_response_bytes=max_response_bytes
        )

    def close(self) -> None:
        """Closes the connections."""
        self._pool.close()

    def request(
        self, method: str, path: str, body: bytes | None, timeout: float
    ) -> tuple[int, str, bytes]:
        """Sends a request that has a body in JSON, or none.

        Args:
            method, path, body: of the request.
            timeout: seconds for all of it but the look-up of the host's name.

        Returns:
            Status, reason and body of the response.

        Raises:
            ResponseTooLargeError: the response has more than `max_response_bytes`.
            urllib3.exceptions.HTTPError: there is none, it did not come in time, or is not HTTP.
        """
        response = self._pool.urlopen(
            method,
            path,
            body=body,
            headers={"Content-Type": "application/json"},
            timeout=urllib3.Timeout(total=timeout),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        data = bytearray()
        try:
            while piece := response.read(_PIECE):
                data += piece
        except ValueError as error:  # of `http.client`, for the size of a chunk
            raise urllib3.exceptions.ProtocolError(f"not HTTP: {error}") from error
        return response.status, response.reason or "", bytes(data)


class _Budget:
    """What is left to one request: time, and bytes of its response."""

    def start(self, seconds: float, num_bytes: int) -> None:
        self._end = time.monotonic() + seconds
        self._bytes_left = num_bytes

    def seconds_left(self) -> float:
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("timed out")
        return seconds

    def count(self, num_bytes: int) -> None:
        self._bytes_left -= num_bytes
        if self._bytes_left < 0:
            raise ResponseTooLargeError


class _BoundedSocket(socket.socket):
    """A socket whose operations keep to a budget."""

    budget: _Budget

    def connect(self, address: Any) -> None:
        self.settimeout(self.budget.seconds_left())
        super().connect(address)

    def sendall(self, *arguments: Any) -> None:
        try:
            self.settimeout(self.budget.seconds_left())
            super().sendall(*arguments)
        except TimeoutError as error:  # for urllib3, a lost connection
            raise urllib3.exceptions.TimeoutError(str(error)) from error

    def recv_into(self, *arguments: Any) -> int:
        self.settimeout(self.budget.seconds_left())
        num_bytes = super().recv_into(*arguments)
        self.budget.count(num_bytes)
        return num_bytes


class _Connection(urllib3.connection.HTTPConnection):
    """A connection over such a socket; each request starts a budget of its own."""

    def __init__(self, *arguments: Any, max_response_bytes: int, **options: Any):
        super().__init__(*arguments, **options)
        self._max_response_bytes = max_response_bytes
        self._budget = _Budget()

    def __str__(self) -> str:
        """As urllib3's errors show it."""
        return f"{self.host}:{self.port}"

    def request(self, *arguments: Any, **options: Any) -> None:
        # `timeout` is what the pool has set for this request.
        self._budget.start(cast(float, self.timeout), self._max_response_bytes)
        super().request(*arguments, **options)

    def _new_conn(self) -> socket.socket:
        """As in urllib3, where each of the host's addresses has the whole timeout."""
        failure: OSError | UnicodeError = OSError("the host has no address")
        try:
            found = socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            failure, found = error, []
        for family, kind, protocol, _, address in found:
            sock = _BoundedSocket(family, kind, protocol)
            sock.budget = self._budget
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.connect(address)
                return sock
            except OSError as error:
                sock.close()
                failure = error
        if isinstance(failure, TimeoutError):
            raise urllib3.exceptions.ConnectTimeoutError(self, str(failure)) from failure
        raise urllib3.exceptions.NewConnectionError(self, str(failure)) from failure


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection

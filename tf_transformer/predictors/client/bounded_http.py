"""HTTP requests with a total deadline and a maximum response size.

The timeout of a socket, and so that of urllib3, restarts with each read, and the server states the
size of a body. Both limits are therefore enforced in the socket, below the code that reads status
lines, headers, chunks and bodies.
"""

import socket
import time
from typing import Any, cast

import urllib3

from tf_transformer.errors import InputError

_READ_BYTES = 2**16  # per read of a body; the sizes that a server states are not trusted


class ResponseTooLargeError(Exception):
    """A response has more bytes than `max_response_bytes`."""


class BoundedPool:
    """A pool of connections to one server.

    Redirects are not followed, proxies of the environment not used, compressed bodies not decoded.

    Args:
        address: `HOST:PORT` of the server.
        num_connections: number of connections to keep open.
        max_response_bytes: maximum size of a response, including its headers.

    Raises:
        InputError: the address has no host.
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
        """Sends a request with an optional JSON body.

        Args:
            method: HTTP method.
            path: path of the URL.
            body: JSON, or None.
            timeout: seconds for the whole request, except for resolving the host's name.

        Returns:
            Status, reason and body of the response.

        Raises:
            ResponseTooLargeError: the response has more than `max_response_bytes`.
            urllib3.exceptions.HTTPError: the connection failed, the deadline passed, or the
                response is not HTTP.
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
            while block := response.read(_READ_BYTES):
                data += block
        except ValueError as error:  # `http.client` raises it for an invalid chunk size
            raise urllib3.exceptions.ProtocolError(f"not HTTP: {error}") from error
        return response.status, response.reason or "", bytes(data)


class _Budget:
    """The remaining time of a request and the remaining bytes of its response."""

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
    """A socket whose operations are limited by a budget."""

    budget: _Budget

    def connect(self, address: Any) -> None:
        self.settimeout(self.budget.seconds_left())
        super().connect(address)

    def sendall(self, *arguments: Any) -> None:
        try:
            self.settimeout(self.budget.seconds_left())
            super().sendall(*arguments)
        except TimeoutError as error:  # urllib3 would report a lost connection
            raise urllib3.exceptions.TimeoutError(str(error)) from error

    def recv_into(self, *arguments: Any) -> int:
        self.settimeout(self.budget.seconds_left())
        num_bytes = super().recv_into(*arguments)
        self.budget.count(num_bytes)
        return num_bytes


class _Connection(urllib3.connection.HTTPConnection):
    """A connection over a `_BoundedSocket`; each request starts a new budget."""

    def __init__(self, *arguments: Any, max_response_bytes: int, **options: Any):
        super().__init__(*arguments, **options)
        self._max_response_bytes = max_response_bytes
        self._budget = _Budget()

    def __str__(self) -> str:
        """Returns the address, as shown in urllib3's errors."""
        return f"{self.host}:{self.port}"

    def request(self, *arguments: Any, **options: Any) -> None:
        # The pool has set `timeout` for this request.
        self._budget.start(cast(float, self.timeout), self._max_response_bytes)
        super().request(*arguments, **options)

    def _new_conn(self) -> socket.socket:
        """Connects to the first reachable address of the host.

        In urllib3, each address of the host gets the whole timeout; here they share the budget.
        """
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

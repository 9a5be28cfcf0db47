"""Runs the web application with uvicorn."""

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from prometheus_client import start_http_server

from export.web.application import create_application
from export.web.metrics import WebMetrics
from export.web.settings import WebSettings
from tf_transformer.errors import InputError
from tf_transformer.predictors.predictor import Predictor
from tf_transformer.printable import shown

# Connections that are open, idle ones included. More get status 503 at once.
_MAX_CONNECTIONS = 256
_MAX_HEADER_BYTES = 2**14
_STOP_SECONDS = 5  # for requests in progress, after a signal


def run_server(
    predictor: Predictor, settings: WebSettings, host: str, port: int, metrics_port: int | None
) -> None:
    """Serves the page until a signal arrives, which is then raised again.

    Args:
        predictor: what computes the model's tasks.
        settings: limits and languages.
        host: name or address of the interface to listen on.
        port: port of the page; 0 for any free one.
        metrics_port: port of the metrics, at the path `/metrics`; None for that of the page.

    Raises:
        OSError: a port is in use, or the address is not of this machine.
    """
    metrics = WebMetrics(settings.max_concurrent)
    application = create_application(
        predictor, settings, metrics, shows_metrics=metrics_port is None
    )
    with _listening(host, port) as listener, contextlib.ExitStack() as stack:
        if metrics_port is not None:
            server, _ = start_http_server(metrics_port, host, metrics.registry)
            stack.callback(server.shutdown)
        config = uvicorn.Config(
            application,
            http="h11",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_MAX_CONNECTIONS,
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        _Server(config).run([listener])


class _Server(uvicorn.Server):
    """A server that prints its address as soon as it handles requests and signals.

    Before, an exception that a signal raises could hit a callback in which Python ignores it.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            host, port, *_ = listener.getsockname()
            name = f"[{host}]" if ":" in host else host
            print(f"Serving the page at http://{name}:{port}/", flush=True)


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """Opens the socket here, so that a failure is an error of one line.

    `socket.create_server` states no protocol. Then asyncio does not turn off Nagle's algorithm for
    the connections, and every response takes 40 ms longer.
    """
    with contextlib.ExitStack() as stack:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except UnicodeError as error:
            raise InputError(f"--host {shown(host)}: no name or address") from error
        except OSError as error:
            error.filename = f"cannot listen at --host {host} --port {port}"
            raise
        yield listener

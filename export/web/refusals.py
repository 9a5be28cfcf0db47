"""Failed requests of the web application: a status and one line, without internals."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from tf_transformer.errors import InputError
from tf_transformer.predictors.client.failures import OverloadError
from tf_transformer.printable import printable

RETRY_SECONDS = 5  # what `Retry-After` asks for
_LOGGER = logging.getLogger(__name__)


class Refusal(Exception):
    """A request that gets no translation.

    Args:
        status: the HTTP status.
        outcome: one of `OUTCOMES`, for the metrics.
        message: one line for the one who sent the request.
    """

    def __init__(self, status: int, outcome: str, message: str):
        super().__init__(message)
        self.status = status
        self.outcome = outcome


def refusal_of(error: InputError | OSError) -> Refusal:
    """Returns the refusal for an error of `Client`, whose message is logged and not shown.

    The message contains the address of the server and text that the server sent.
    """
    _LOGGER.warning("%s", printable(str(error), 1000))
    if isinstance(error, OverloadError):
        return Refusal(
            503, "unavailable", "the translation server has too many requests; try again later"
        )
    if isinstance(error, ConnectionError):
        return Refusal(
            503, "unavailable", "the translation server is not available; try again later"
        )
    if isinstance(error, TimeoutError):
        return Refusal(
            504, "late", "the translation server did not respond in time; try again with less text"
        )
    return Refusal(502, "failed", "the translation server failed; its operator finds the reason")


async def _show_refusal(request: Request, error: Refusal) -> JSONResponse:
    headers = {"Retry-After": str(RETRY_SECONDS)} if error.status == 503 else None
    return _line(str(error), error.status, headers)


async def _show_http_error(request: Request, error: HTTPException) -> JSONResponse:
    """Returns the response for errors that Starlette finds, such as an unknown path."""
    return _line(error.detail, error.status_code, dict(error.headers or {}))


async def _show_internal_error(request: Request, error: Exception) -> JSONResponse:
    """Returns the response for a bug, whose traceback the server logs."""
    return _line("internal error", 500, None)


def _line(message, status, headers):
    return JSONResponse({"error": message}, status, headers)


# The function that makes the response, by the class of the error.
HANDLERS: dict[Any, Callable[..., Awaitable[JSONResponse]]] = {
    Refusal: _show_refusal,
    HTTPException: _show_http_error,
    Exception: _show_internal_error,
}

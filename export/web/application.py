"""The web application: a page, a narrow JSON API that a predictor answers, and metrics."""

import asyncio
import contextlib
import json
import pathlib
import time
from collections.abc import Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from export.web.metrics import WebMetrics
from export.web.offers import SENTENCE_TASKS, Offers
from export.web.refusals import HANDLERS, Refusal, refusal_of
from export.web.security_headers import SecurityHeaders
from export.web.served_model import ServedModel
from export.web.settings import WebSettings
from export.web.translation import translate
from export.web.translation_request import TranslationRequest, largest_value, parse_request
from tf_transformer.errors import InputError
from tf_transformer.predictors.client.daemon_threads import start_in_thread
from tf_transformer.predictors.predictor import Predictor

_PAGE = pathlib.Path(__file__).parent / "page"
_BODY_SECONDS = 10.0  # in which the body of a request has to arrive


def create_application(
    predictor: Predictor, settings: WebSettings, metrics: WebMetrics, *, shows_metrics: bool = True
) -> ASGIApp:
    """Returns the application.

    Its paths are `/`, the page; `/api/model`, what the model offers; `/api/translate`; `/health`,
    which does not ask the predictor; and `/metrics`.

    Args:
        predictor: what computes the model's tasks. The `concurrency` of a client should be at
            least `settings.max_sentences`, so that one deadline covers a request.
        settings: limits and languages.
        metrics: the metrics to update.
        shows_metrics: whether the application has the path `/metrics`.
    """
    api = _Api(predictor, settings, metrics)
    routes = [
        Route("/api/model", api.describe_model),
        Route("/api/translate", api.translate, methods=["POST"]),
        Route("/health", _health),
        *([Route("/metrics", api.show_metrics)] if shows_metrics else []),
        Mount("/", StaticFiles(directory=_PAGE, html=True)),
    ]
    hosts = Middleware(
        TrustedHostMiddleware, allowed_hosts=settings.allowed_hosts, www_redirect=False
    )
    application = Starlette(routes=routes, middleware=[hosts], exception_handlers=HANDLERS)
    return SecurityHeaders(application)


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


class _Api:
    def __init__(self, predictor: Predictor, settings: WebSettings, metrics: WebMetrics):
        self._predictor = predictor
        self._settings = settings
        self._metrics = metrics
        self._served_model = ServedModel(predictor, settings.search)
        self._num_in_flight = 0

    async def show_metrics(self, request: Request) -> Response:
        """Returns the metrics for Prometheus."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def describe_model(self, request: Request) -> Response:
        """Returns what the model offers, and the limits of requests."""
        try:
            offered = await self._served_model.read()
        except (InputError, OSError) as error:
            raise refusal_of(error) from error
        settings = self._settings
        return JSONResponse(
            {
                "model": settings.model,
                "translates": any(map(offered.has, SENTENCE_TASKS)),
                "num_best": offered.num_best,
                "alignment": offered.has("align"),
                "confidence": offered.has("confidence"),
                "options": [_describe_option(option) for option in offered.options],
                "target_languages": settings.target_languages,
                "source_languages": settings.source_languages,
                "max_sentences": settings.max_sentences,
                "max_characters": settings.max_characters,
            }
        )

    async def translate(self, request: Request) -> Response:
        """Returns the translations of the sentences in the body of a request."""
        try:
            answer = await self._answer(request)
        except Refusal as refusal:
            self._metrics.requests.labels(refusal.outcome).inc()
            raise
        except Exception:
            self._metrics.requests.labels("failed").inc()
            raise
        self._metrics.requests.labels("translated").inc()
        return Response(answer, media_type="application/json")

    async def _answer(self, request):
        body = await self._read_body(request)
        try:
            offered = await self._served_model.read()
        except (InputError, OSError) as error:
            raise refusal_of(error) from error
        try:
            parsed = parse_request(body, self._settings, offered)
        except InputError as error:
            raise Refusal(400, "invalid", str(error)) from error
        with self._slot():
            try:
                future = start_in_thread(self._translate, offered, parsed)
                return await asyncio.wrap_future(future)
            except (InputError, OSError) as error:
                self._served_model.expire()
                raise refusal_of(error) from error
            except asyncio.CancelledError as error:  # uvicorn stops
                message = "the page's server is being stopped; try again later"
                raise Refusal(503, "unavailable", message) from error

    async def _read_body(self, request):
        # A page of another site can send other types without being asked whether it may.
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refusal(415, "invalid", "expected the content type application/json")
        largest = self._settings.max_body_bytes
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for block in request.stream():
                    body += block
                    if len(body) > largest:
                        raise Refusal(413, "invalid", f"expected at most {largest} bytes")
                return bytes(body)
        except TimeoutError as error:
            raise Refusal(408, "invalid", "the request did not arrive in time") from error
        except ClientDisconnect as error:
            raise Refusal(400, "invalid", "the connection was lost") from error

    @contextlib.contextmanager
    def _slot(self) -> Iterator[None]:
        """Takes one of the requests that may be in flight, until its thread has ended."""
        if self._num_in_flight >= self._settings.max_concurrent:
            raise Refusal(503, "busy", "too many requests at the same time; try again")
        self._num_in_flight += 1
        self._metrics.in_flight.set(self._num_in_flight)
        start = time.perf_counter()
        try:
            yield
        finally:
            self._num_in_flight -= 1
            self._metrics.in_flight.set(self._num_in_flight)
            self._metrics.seconds.observe(time.perf_counter() - start)

    def _translate(self, offered: Offers, request: TranslationRequest) -> bytes:
        """Returns the body of the response; runs in a thread, since both parts take time."""
        start = time.perf_counter()
        results = translate(self._predictor, offered, request)
        answer = {"translations": results, "seconds": time.perf_counter() - start}
        metrics = self._metrics
        metrics.sentences.inc(len(request.sentences))
        metrics.characters.inc(sum(map(len, request.sentences)))
        metrics.truncated.inc(sum(result["truncated"] for result in results if result))
        return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()


def _describe_option(option) -> dict[str, Any]:
    """Returns what the page needs for an input field."""
    return {
        "name": option.name,
        "is_integer": option.dtype == "int32",
        "largest": largest_value(option),
        "description": option.description,
        "unset_meaning": option.unset_meaning,
    }

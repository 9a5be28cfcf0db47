"""The web application in front of a stand-in for TF Serving."""

from collections.abc import Callable, Iterator

import pytest

from export.web.settings import WebSettings
from tests.export.web.translating import make_behaviour
from tests.serving_stub import Behaviour, serve
from tf_transformer.predictors.client import Client, retries


@pytest.fixture
def behaviour() -> Behaviour:
    return make_behaviour()


@pytest.fixture
def make_web(behaviour, monkeypatch) -> Iterator[Callable]:
    """Makes a `TestClient` of the application and its metrics, from settings."""
    testclient = pytest.importorskip("starlette.testclient")
    pytest.importorskip("prometheus_client")
    from export.web.application import create_application
    from export.web.metrics import WebMetrics

    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.001)
    opened = []

    with serve("rest", behaviour) as address:

        def make_web(address=address, deadline=60.0, shows_metrics=True, **settings):
            client = Client(address, deadline=deadline, retries=1, concurrency=50)
            web_settings = WebSettings(**settings)
            metrics = WebMetrics(web_settings.max_concurrent)
            application = create_application(
                client, web_settings, metrics, shows_metrics=shows_metrics
            )
            web = testclient.TestClient(application, raise_server_exceptions=False)
            web.__enter__()  # one event loop for all requests
            opened.append((web, client))
            return web

        yield make_web
        for web, client in opened:
            web.__exit__(None, None, None)
            client.close()


@pytest.fixture
def web(make_web):
    return make_web()

"""The metrics of the web application, for Prometheus."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

OUTCOMES = ("translated", "invalid", "busy", "unavailable", "late", "failed")
_PREFIX = "tf_transformer_web"
# From one short sentence on an idle machine to the longest deadline that is useful on a page.
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class WebMetrics:
    """Counts requests for translations.

    Attributes:
        registry: what Prometheus reads.
        requests: number of requests by outcome: `translated`; `invalid`, refused because of their
            content; `busy`, refused because of others; `unavailable`, `late` and `failed`, because
            of the server or the model.
        seconds: time that requests took which were translated or failed.
        in_flight: number of requests that are being translated.
        sentences: number of sentences translated.
        characters: number of characters translated, of the sources.
        truncated: number of sentences that exceeded the model's limit.
    """

    def __init__(self, max_concurrent: int):
        self.registry = CollectorRegistry()

        def make(kind, name, description, **options):
            return kind(f"{_PREFIX}_{name}", description, registry=self.registry, **options)

        self.requests = make(
            Counter, "requests", "Requests for translations.", labelnames=["outcome"]
        )
        for outcome in OUTCOMES:  # present from the start, so that increases are seen
            self.requests.labels(outcome)
        self.seconds = make(
            Histogram, "request_seconds", "Time of requests at the model.", buckets=_SECONDS
        )
        self.in_flight = make(Gauge, "requests_in_flight", "Requests at the model now.")
        make(Gauge, "max_requests_in_flight", "Limit of requests at the model.").set(max_concurrent)
        self.sentences = make(Counter, "sentences", "Sentences translated.")
        self.characters = make(Counter, "source_characters", "Source characters translated.")
        self.truncated = make(Counter, "truncated_sentences", "Sentences that were truncated.")
        ProcessCollector(registry=self.registry)

    def text(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

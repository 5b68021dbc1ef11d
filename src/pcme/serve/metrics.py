"""Metrics: counts and times for Prometheus, of one server and in a registry of its own."""

from collections.abc import Sized

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE

__all__ = ["CONTENT_TYPE", "Metrics"]

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


class Metrics:
    """What a server counts: requests by method, route and status, their times, batches and queues."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route")
        self.requests = Counter("pcme_requests", "Requests", (*labels, "status"), registry=self.registry)
        self.seconds = Histogram(
            "pcme_request_seconds", "Time to the end of an answer", labels, registry=self.registry, buckets=SECONDS
        )
        self.batch = Histogram(
            "pcme_batch_size", "Requests that one pass answered", registry=self.registry, buckets=SIZES
        )
        self.waiting = Gauge("pcme_waiting", "Requests that wait", ("queue",), registry=self.registry)
        ProcessCollector(registry=self.registry)

    def watch_queue(self, name: str, queue: Sized) -> None:
        """Report the length of a queue under this name."""
        self.waiting.labels(name).set_function(lambda: len(queue))

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; a route is the pattern of an address, so that clients cannot make new ones."""
        method = method if method in METHODS else "other"
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)

"""Numbers for Prometheus, and health, over HTTP: a server for whoever has some, in a thread of its own.

/metrics    every number of the registry
/health     what `health` says is wrong, with 503; 200 if nothing
/ready      the same of `troubles`
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from runnel.broker.configs.listeners import Listener
from runnel.broker.endpoints import Endpoint
from runnel.broker.sockets import bind

BACKLOG = 16

Wrong = Callable[[], list[str]]


class Scraping:
    """Serves until `close`. If there is no answer at all, `silence` is what is told: TimeoutError or RuntimeError."""

    def __init__(self, endpoint: Endpoint, numbers: Collector, *, health: Wrong, troubles: Wrong, silence: str) -> None:
        self.health = health
        self.troubles = troubles
        self.silence = silence
        self.registry = CollectorRegistry()
        for make in (ProcessCollector, PlatformCollector, GCCollector):
            make(registry=self.registry)
        self.registry.register(numbers)
        bound, sockets = bind(Listener("METRICS", endpoint.host, endpoint.port), BACKLOG)
        self.endpoint = Endpoint(bound.host, bound.port)
        self._http = _HttpServer(self.endpoint, _Handler, bind_and_activate=False)
        self._http.socket.close()
        self._http.socket, *others = sockets
        for other in others:  # one address is enough for a scrape
            other.close()
        self._http.socket.setblocking(True)
        self._http.scraping = self
        self._thread = threading.Thread(target=self._http.serve_forever, name="runnel-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    scraping: Scraping


class _Handler(BaseHTTPRequestHandler):
    server: _HttpServer

    def do_GET(self) -> None:  # the name is the base class's
        scraping = self.server.scraping
        try:
            match self.path.partition("?")[0]:
                case "/metrics":
                    self._answer(200, generate_latest(scraping.registry), CONTENT_TYPE_LATEST)
                case "/health":
                    self._tell(scraping.health(), "healthy")
                case "/ready":
                    self._tell(scraping.troubles(), "ready")
                case _:
                    self._answer(404, b"see /metrics, /health and /ready\n")
        except (TimeoutError, RuntimeError):
            self._answer(503, f"{scraping.silence}\n".encode())

    def _tell(self, wrong: list[str], well: str) -> None:
        self._answer(503 if wrong else 200, ("\n".join(wrong) or well).encode() + b"\n")

    def _answer(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # the name is the base class's
        """Nothing: a line for each scrape helps nobody."""

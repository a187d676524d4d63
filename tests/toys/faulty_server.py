"""A real HTTP server on 127.0.0.1 that serves a function, with faults at stated requests."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np


class Server:
    """What it was asked, row by row; `fault(k)` names what happens to request k."""

    def __init__(self, model: Callable[[np.ndarray], Any], fault: Callable[[int], str]) -> None:
        self.model, self.fault, self.requests, self.times = model, fault, 0, []
        self.sent: Counter[str] = Counter()  # rows of any request
        self.answered: Counter[str] = Counter()  # rows of replies that were whole
        self.headers: list[dict[str, str]] = []
        self.url = ""


@contextmanager
def serving(
    model: Callable[[np.ndarray], Any], fault: Callable[[int], str] = lambda k: ""
) -> Iterator[Server]:
    state, lock = Server(model, fault), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            rows = json.loads(body)["instances"]
            with lock:
                k, state.requests = state.requests, state.requests + 1
                state.sent.update(map(json.dumps, rows))
                state.headers.append(dict(self.headers))
                state.times.append(time.monotonic())
            fault = state.fault(k)
            if fault in ("429", "503", "400"):
                said = json.dumps({"error": f"no, {self.headers.get('Authorization')}"}).encode()
                return self.reply(int(fault), said, said)
            if fault == "slow":
                time.sleep(1.0)
            answers = np.asarray(state.model(np.asarray(rows, dtype=float)))
            if fault == "short":
                answers = answers[:-1]
            said = json.dumps({"predictions": answers.tolist()}).encode()
            if fault == "html":
                said = b"<html>sorry</html>"
            if fault == "dies":
                self.reply(200, said, said[: len(said) // 2])
                return self.connection.close()
            self.reply(200, said, said)
            if not fault:
                with lock:
                    state.answered.update(map(json.dumps, rows))

        def reply(self, status: int, announced: bytes, content: bytes) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(announced)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:  # nobody waits any more
                pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}/predict"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()

"""The server of the viewer: this machine only, with a secret in the address, and read-only.

It listens on 127.0.0.1. Every address begins with a random token, the Host header must be this
server's (no other site's name can be pointed at it), and the pages' policy lets them ask for
nothing outside. Only GET and HEAD are answered.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from urllib.parse import parse_qsl, urlsplit

from durometer.core.errors import DurometerError
from durometer.report.page.section import policy
from durometer.report.view.viewer import Asked, Viewer

HOST = "127.0.0.1"
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Server(ThreadingHTTPServer):
    """The viewer of a folder of runs, on this machine.

    Args:
        root: The folder.
        port: Port to listen on; 0 takes a free one.
    """

    daemon_threads = True

    def __init__(self, root: Path, port: int = 0) -> None:
        self.viewer = Viewer(root)
        self.token = secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise DurometerError(f"port {port}: {error}; choose another with --port") from None

    @property
    def address(self) -> str:
        """What to open in a browser; whoever has it can read the runs."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "durometer", ""
    timeout = 30

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        hosts = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        try:
            where = urlsplit(self.path)
        except ValueError:
            return self._send(400, "this is no address", "text/plain", body)
        token, _, page = where.path.lstrip("/").partition("/")
        mine = secrets.compare_digest(token.encode(errors="replace"), self.server.token.encode())
        if self.headers.get("Host") not in hosts or not mine:
            text = "the address lacks its token: open the one that 'durometer view' printed"
            return self._send(403, text, "text/plain", body)
        try:
            pairs = parse_qsl(
                where.query, keep_blank_values=True, errors="surrogateescape", max_num_fields=40
            )
        except ValueError:
            return self._send(400, "too many parameters", "text/plain", body)
        made = self.server.viewer.answer(page, Asked(tuple(pairs)))
        further = {"Refresh": str(made.refresh)} if made.refresh else {}
        if made.file:
            further["Content-Disposition"] = f'attachment; filename="{made.file}"'
        return self._send(made.status, made.text, made.kind, body, further)

    def _send(
        self, status: int, text: str, kind: str, body: bool, further: Mapping[str, str] = _NOTHING
    ) -> None:
        data = text.encode(errors="backslashreplace")
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(data)),
            "Content-Security-Policy": policy(),
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
            **further,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the token would stand in the log."""

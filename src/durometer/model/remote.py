"""Endpoint: a model behind an HTTP address, asked in batches and never twice for the same row.

Answers, the number of questions and the time of the last one live in one SQLite file, in the folder
of the run where there is one. Every process that plays the run shares it: a row that any of them
asked is known to all, and a limit is a limit of all of them together.

A question is *reserved* in that file before it is sent, so the total is never exceeded; a row sent
again after a failure is a question again, because that is how the other side counts.

What a reader would get wrong: a secret is never a field. Headers and addresses hold the name of an
environment variable, `${TOKEN}`, which is read at the moment of sending and taken out of whatever
is said of the answer.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import math
import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError, Exhausted
from durometer.core.validation import noun

FILE = "answers.sqlite"
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SECRET = ("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key")
_KEYS = ("predictions", "probabilities", "logits", "scores", "outputs", "labels")
_AGAIN = (408, 425, 429, 500, 502, 503, 504)  # states that may pass
_LONGEST = 60.0  # seconds between two tries
_LOOKED_UP = 500  # keys in one look at the file


@dataclass(eq=False)
class Ledger:
    """The file of answers and counts; opened once by each process that uses it."""

    path: Path | None = None
    _open: tuple[int, sqlite3.Connection] | None = None  # the process, its connection

    def __getstate__(self) -> dict[str, Any]:
        self.connection()  # whoever gets a copy shares the file
        return {"path": self.path, "_open": None}

    def move(self, folder: Path, fresh: bool) -> None:
        """From now on the file stands in this folder; `fresh`: what stands there is forgotten."""
        path = folder.resolve() / FILE
        if self.path == path or (self.path is not None and self.path.parent in path.parents):
            return  # a further goal of the same run
        if fresh:
            for old in folder.glob(f"{FILE}*"):
                old.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._open = path, None

    def connection(self) -> sqlite3.Connection:
        if self._open is not None and self._open[0] == os.getpid():
            return self._open[1]
        if self.path is None:
            self.path = Path(tempfile.mkdtemp(prefix="durometer-")) / FILE
        found = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        found.execute("PRAGMA journal_mode=WAL")
        found.execute("CREATE TABLE IF NOT EXISTS answers (row BLOB PRIMARY KEY, answer TEXT)")
        found.execute("CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, value REAL)")
        for name in ("questions", "requests", "seconds", "next"):
            found.execute("INSERT OR IGNORE INTO counts VALUES (?, 0)", (name,))
        self._open = (os.getpid(), found)
        return found

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that nobody else is in."""
        link = self.connection()
        link.execute("BEGIN IMMEDIATE")
        try:
            yield link
        except BaseException:
            link.execute("ROLLBACK")
            raise
        link.execute("COMMIT")

    def known(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """The answers that are there."""
        link = self.connection()
        found: dict[bytes, str] = {}
        for begin in range(0, len(keys), _LOOKED_UP):
            some = keys[begin : begin + _LOOKED_UP]
            marks = ",".join("?" * len(some))
            found.update(
                link.execute(f"SELECT row, answer FROM answers WHERE row IN ({marks})", some)
            )
        return found

    def counts(self) -> dict[str, float]:
        return dict(self.connection().execute("SELECT name, value FROM counts").fetchall())


@noun(eq=False)
class Endpoint:
    """A model behind an HTTP address. `wrap(remote=...)` makes a `Classifier` of it.

    Rows are sent by POST as JSON, `{"instances": [row, ...]}`, and the answer is a list with one
    entry per row, alone or under a key such as `"predictions"` or `"probabilities"`. No row is
    asked twice: answers are kept in the folder of the run (`answers.sqlite`), also for a run that
    is resumed.

    Args:
        url: The address. `${NAME}` stands for an environment variable.
        headers: Headers of every request. `${NAME}` stands for an environment variable; headers
            that carry secrets, such as "Authorization", must use one.
        encode: Makes the body of a request from a list of rows. None: JSON as above.
        decode: Makes the list of answers from the body of a reply. None: JSON as above.
        batch: Rows in one request, at most.
        timeout: Seconds to wait for a reply.
        retries: Further tries of a request that failed: no connection, no reply in time, HTTP
            408, 425, 429 or 5xx, a reply that cannot be read or has another number of rows.
        backoff: Seconds before the first further try; doubled for each one after it, at most 60.
            The server's own `Retry-After` is respected.
        rate: Requests per second, at most, over all processes. None: no limit.
        questions: Rows sent in total, at most, over all processes and resumed runs; rows of
            repeated requests count again. None: no limit.
        seconds: Total time spent in requests, at most. None: no limit.

    >>> import durometer as du
    >>> du.Endpoint("https://models.example/loans", headers={"Authorization": "Bearer ${TOKEN}"},
    ...             rate=5, questions=20_000).place
    'https://models.example/loans'
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    encode: Callable[[list[Any]], bytes] | None = None
    decode: Callable[[bytes], Any] | None = None
    batch: int = 256
    timeout: float = field(default=30.0, metadata={"above": 0})
    retries: int = field(default=5, metadata={"least": 0})
    backoff: float = 0.5
    rate: float | None = field(default=None, metadata={"above": 0})
    questions: int | None = None
    seconds: float | None = field(default=None, metadata={"above": 0})
    _ledger: Ledger = field(default_factory=Ledger, repr=False)

    def __post_init__(self) -> None:
        found = urlsplit(self.url)
        if found.scheme not in ("http", "https") or not found.hostname:
            raise DurometerError(f"url={self.place!r}: expected an address of http:// or https://")
        if found.username or found.password:
            raise DurometerError(
                "url: it holds a user name or a password; give a header that names an environment "
                'variable, headers={"Authorization": "Basic ${LOGIN}"}'
            )
        for name, value in self.headers.items():
            if name.lower() in _SECRET and not _VARIABLE.search(value):
                raise DurometerError(
                    f"headers: {name!r} holds a secret; name an environment variable instead, "
                    f'headers={{"{name}": "${{TOKEN}}"}}, and set it where the run starts'
                )

    @property
    def place(self) -> str:
        """The address as it may be shown: without what follows a question mark."""
        found = urlsplit(self.url)
        return f"{found.scheme}://{found.netloc.rpartition('@')[2]}{found.path}"

    @property
    def asked(self) -> int:
        """Rows sent so far, in all processes that share the answers."""
        return int(self._ledger.counts()["questions"])

    def keep_in(self, folder: Path, fresh: bool = False) -> None:
        """Keeps answers and counts in a folder.

        Args:
            folder: The folder of the run.
            fresh: Whether to forget answers that are there.
        """
        self._ledger.move(folder, fresh)

    def __call__(self, rows: Any) -> NDArray[Any]:
        """The answers for some rows, asked of the server where they are not known.

        Args:
            rows: An array (n, ...), a DataFrame, or a list of texts.

        Raises:
            Exhausted: A limit is reached, or the server does not answer.
            DurometerError: The server refuses a request, or answers in a form that is not known.
        """
        each = _listed(rows)
        keys = [hashlib.blake2b(json.dumps(r).encode(), digest_size=16).digest() for r in each]
        known = self._ledger.known(list(dict.fromkeys(keys)))
        new = {k: i for i, k in enumerate(keys) if k not in known}  # the same row only once
        todo = list(new)
        for begin in range(0, len(todo), self.batch):
            some = todo[begin : begin + self.batch]
            answers = [json.dumps(a) for a in self._ask([each[new[k]] for k in some])]
            with self._ledger.changing() as link:
                link.executemany(
                    "INSERT OR REPLACE INTO answers VALUES (?, ?)", zip(some, answers, strict=True)
                )
            known.update(zip(some, answers, strict=True))
        return np.asarray([json.loads(known[k]) for k in keys])

    def _ask(self, rows: list[Any]) -> list[Any]:
        """Answers of the server, one for each row; tried again where the failure may pass."""
        body = (
            json.dumps({"instances": rows}).encode() if self.encode is None else self.encode(rows)
        )
        pause, failure = self.backoff, ""
        for _ in range(self.retries + 1):
            self._reserve(len(rows), failure)
            began = time.monotonic()
            try:
                status, after, reply = self._send(body)
                failure = "" if status == 200 else f"HTTP {status}: {self._shown(reply)}"
                if status == 200:
                    answers = self._answers(reply, len(rows))
                    if not isinstance(answers, str):
                        return answers
                    failure, after = answers, 0.0
                elif status not in _AGAIN:
                    raise DurometerError(f"{self.place} answers {failure}")
            except (OSError, http.client.HTTPException) as error:
                failure, after = self._clean(f"{type(error).__name__}: {error}"), 0.0
            finally:
                spent = time.monotonic() - began
                with self._ledger.changing() as link:
                    link.execute(
                        "UPDATE counts SET value = value + ? WHERE name = 'seconds'", (spent,)
                    )
            time.sleep(min(max(pause, after), _LONGEST))
            pause *= 2
        raise Exhausted(
            f"{self.place} did not answer after {self.retries + 1} tries; the last: {failure}. "
            "What was answered is kept: resume the run when the server is back"
        )

    def _reserve(self, rows: int, failure: str) -> None:
        """Take `rows` questions and a place in time from what is left, or say that nothing is."""
        after = f" (the last try: {failure})" if failure else ""
        with self._ledger.changing() as link:
            count = self._ledger.counts()
            if self.questions is not None and count["questions"] + rows > self.questions:
                raise Exhausted(
                    f"{self.place}: {int(count['questions'])} of questions={self.questions} are "
                    f"used, and {rows} more are needed{after}; resume with a higher limit"
                )
            if self.seconds is not None and count["seconds"] >= self.seconds:
                raise Exhausted(
                    f"{self.place}: seconds={self.seconds:g} of requests are used{after}; resume "
                    "with a higher limit"
                )
            now = time.time()
            turn = now if self.rate is None else max(now, count["next"])
            new = {"questions": count["questions"] + rows, "requests": count["requests"] + 1}
            if self.rate is not None:
                turn = min(turn, now + 3600)  # a clock that was set back
                new["next"] = turn + 1 / self.rate
            for name, value in new.items():
                link.execute("UPDATE counts SET value = ? WHERE name = ?", (value, name))
        time.sleep(max(0.0, turn - now))

    def _send(self, body: bytes) -> tuple[int, float, bytes]:
        """Status, seconds to wait as the server says, and the body of its reply."""
        target = urlsplit(self._filled(self.url))
        headers = {"Content-Type": "application/json"} | {
            k: self._filled(v) for k, v in self.headers.items()
        }
        path = (target.path or "/") + (f"?{target.query}" if target.query else "")
        link, path = _connect(target.scheme, target.netloc, path, self.timeout)
        try:
            link.request("POST", path, body, headers)
            reply = link.getresponse()
            content = reply.read()
            after = reply.getheader("Retry-After", "")
            return reply.status, float(after) if after.isdigit() else 0.0, content
        finally:
            link.close()

    def _answers(self, reply: bytes, n: int) -> list[Any] | str:
        """One answer for each row; text: why the reply holds none."""
        try:
            found = json.loads(reply) if self.decode is None else self.decode(reply)
        except ValueError as error:
            return f"a reply that cannot be read ({error}): {self._shown(reply)}"
        if isinstance(found, Mapping):
            name = next((k for k in _KEYS if k in found), None)
            if name is None and len(found) == 1:
                name = next(iter(found))
            if name is None:
                raise DurometerError(
                    f"{self.place} answers with {', '.join(map(repr, found))}: which are the "
                    "scores? Give decode=, a function that returns them from the body"
                )
            found = found[name]
        try:
            array = np.asarray(found)
        except ValueError:
            return "a reply whose rows have different lengths"
        if array.ndim == 0 or len(array) != n:
            return f"a reply of shape {array.shape} for {n} rows"
        if array.dtype == object or (array.dtype.kind == "f" and not np.isfinite(array).all()):
            return "a reply with rows of different lengths, or values that are no finite numbers"
        listed: list[Any] = array.tolist()
        return listed

    def _filled(self, text: str) -> str:
        """With the values of the environment variables it names."""

        def value(found: re.Match[str]) -> str:
            held = os.environ.get(found[1])
            if held is None:
                raise DurometerError(
                    f"{self.place}: the environment variable {found[1]} is not set"
                )
            return held

        return _VARIABLE.sub(value, text)

    def _shown(self, reply: bytes) -> str:
        return self._clean(" ".join(reply[:400].decode("utf-8", "replace").split())[:200])

    def _clean(self, text: str) -> str:
        """Without the value of any secret, should the server repeat it."""
        for name in _VARIABLE.findall(" ".join((self.url, *self.headers.values()))):
            held = os.environ.get(name)
            text = text.replace(held, f"${{{name}}}") if held else text
        return text


def _connect(
    scheme: str, host: str, path: str, timeout: float
) -> tuple[http.client.HTTPConnection, str]:
    """A connection, through the environment's proxy where there is one; and the path to ask."""
    kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    proxy = getproxies().get(scheme)
    if not proxy or proxy_bypass(host):
        return kind(host, timeout=timeout), path
    through = kind(urlsplit(proxy).netloc or proxy, timeout=timeout)
    if scheme == "https":
        through.set_tunnel(host)
        return through, path
    return through, f"http://{host}{path}"


def _listed(rows: Any) -> list[Any]:
    """Rows as JSON can hold them: lists of numbers, tables by column, texts; a gap is null."""
    if isinstance(rows, np.ndarray):
        listed: list[Any] = rows.tolist()
        return _gaps(listed) if rows.dtype.kind == "f" and np.isnan(rows).any() else listed
    if isinstance(rows, list):
        return rows
    records = rows.to_dict("records")
    return [{str(k): _plain(v) for k, v in record.items()} for record in records]


def _gaps(value: Any) -> Any:
    if isinstance(value, list):
        return [_gaps(v) for v in value]
    return None if math.isnan(value) else value


def _plain(value: Any) -> Any:
    """A cell of a table as JSON has it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    text = str(value)
    return None if text in ("<NA>", "NaT") else text

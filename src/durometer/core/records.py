"""Records: one row per example, what every game yields; all figures of a report are views of them.

Held as columns, since a run may have 100,000 rows: `Records.columns[name]` is a numpy array, and
`adversarial` holds the inputs handed in, aligned with the rows (clean where no attack succeeded).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

# name -> (dtype, value where a game has nothing to say)
FIELDS: dict[str, tuple[str, Any]] = {
    "id": ("object", None),
    "round": ("int32", 0),
    "run": ("int32", 0),  # which of the referee's runs: a game with random players is played again
    "input": ("int64", 0),  # a digest of the clean input; 0: not known
    "y": ("int64", -1),
    "clean": ("int64", -1),  # class predicted on the clean input
    "target": ("int64", -1),  # the class to be reached, where the goal gives the row just one
    "final": ("int64", -1),  # class predicted on what the attacker hands in
    "success": ("bool", False),  # the goal is reached by a valid input (also without an attack)
    "verdict": ("object", None),  # "broken", "proven", "open"; "" where the question is not asked
    "vacuous": ("bool", False),  # proven by features that nobody can change
    "improving": ("bool", False),  # open, and the search came nearer until its budget ended
    "unproven": ("object", ""),  # open, and why no (further) proof was tried
    "audited": ("int64", 0),  # proven, and so many valid points were tried against it
    "overturned": ("object", ""),  # broken by the auditor, and which proof had called it proven
    "stages": ("object", ""),  # JSON: seconds that each stage spent on the row, in their order
    "valid": ("bool", True),  # the handed-in input lies in the space
    "winner": ("object", ""),  # who settled the row; "clean" where no attack was needed
    "distance": ("float64", np.nan),
    "distance_low": ("float64", np.nan),  # no valid input as near as this reaches the goal
    "violation": ("float64", 0.0),
    "margin": ("float64", np.nan),  # best valid margin seen: > 0 reached, just below 0 almost
    "blocked": ("bool", False),  # the goal was reached, but only by invalid inputs
    "forwards": ("int64", 0),
    "backwards": ("int64", 0),
    "seconds": ("float64", 0.0),
    "score": ("float64", np.nan),  # how promising the attacker's strategy finds the row
    "probability_low": ("float64", np.nan),
    "estimate_low": ("float64", np.nan),  # of the same probability, beside a wide certificate
    "estimate_high": ("float64", np.nan),
    "probability_high": ("float64", np.nan),
    "controlled": ("bool", True),  # the attacker may change this row
    "simulated": ("float64", np.nan),  # the attacker's own estimate of its success
    "adaptations": ("int64", 0),  # times the attacker ran the defender on this row's batch
    "adapting": ("float64", np.nan),  # seconds the defender took to move, per row of the batch
    "answer": ("int64", -1),  # class behind `final`: what is answered if rejecting is not allowed
    "doubt": ("float64", np.nan),  # reject logit minus the best other: > 0 is a rejection
    "clean_doubt": ("float64", np.nan),  # the same, of the clean input under the same model
    "skipped": ("object", ""),  # why a row was left out of the game: "no target", "invalid"
}
TIMES = ("seconds", "stages", "adapting")  # measured, so different each time; all else repeats


@dataclass(frozen=True, eq=False)
class Records:
    """The results of an evaluation: one row per example, as columns, with the adversarial inputs.

    Args:
        columns: Name -> array (n,); the names are those of `FIELDS`.
        adversarial: The adversarial inputs (n, ...), the clean input where no attack succeeded.
            None where a game has none.
        certificates: For each row the bytes of its certificate, or None. None: no row has one.
    """

    columns: dict[str, np.ndarray]
    adversarial: np.ndarray | None = None
    certificates: np.ndarray | None = None  # (n,) bytes of each proof that can be checked, or None

    @classmethod
    def of(
        cls, n: int, adversarial: np.ndarray | None = None,
        certificates: np.ndarray | None = None, **given: Any,
    ) -> Records:  # fmt: skip
        """Makes records of `n` rows; columns that are not given hold their default.

        Args:
            n: Number of rows.
            adversarial: The adversarial inputs (n, ...).
            certificates: The certificates (n,).
            **given: Columns by name: an array (n,), or one value for all rows.

        Raises:
            TypeError: There is no column of that name.
        """
        columns = {}
        for name, (dtype, missing) in FIELDS.items():
            column = np.empty(n, dtype=dtype)
            column[:] = given.pop(name, missing)
            columns[name] = column
        if given:
            raise TypeError(f"no such record field: {', '.join(given)}")
        _derive_verdict(columns)
        return cls(columns, adversarial, certificates)

    @classmethod
    def concat(cls, parts: Iterable[Records]) -> Records:
        """Joins records, in their order.

        Args:
            parts: The records. Adversarial inputs are kept only where all parts have them.
        """
        parts = list(parts)
        columns = {k: np.concatenate([p.columns[k] for p in parts]) for k in FIELDS}
        inputs = [p.adversarial for p in parts if p.adversarial is not None]
        proofs = None
        if any(p.certificates is not None for p in parts):
            blank = [np.full(len(p), None) if p.certificates is None else p.certificates
                     for p in parts]  # fmt: skip
            proofs = np.concatenate(blank)
        return cls(columns, np.concatenate(inputs) if len(inputs) == len(parts) else None, proofs)

    def take(self, rows: np.ndarray | slice) -> Records:
        """Selects rows.

        Args:
            rows: Positions, a mask or a slice.
        """
        inputs = None if self.adversarial is None else self.adversarial[rows]
        proofs = None if self.certificates is None else self.certificates[rows]
        return Records({k: column[rows] for k, column in self.columns.items()}, inputs, proofs)

    def withdrawn(self) -> Records:
        """The records as they may be quoted: one overturned proof withdraws all proofs of a run.

        Rows that were proven are open, and say why. Applied wherever the chunks of a run meet, so
        that it does not matter which chunk the contradiction is in.
        """
        wrong = [str(w) for w in self.columns["overturned"] if w]
        if not wrong:
            return self
        proven = self.columns["verdict"] == "proven"
        why = f"the proofs are withdrawn: the auditor broke a row of {wrong[0]}"
        changed = {"verdict": "open", "vacuous": False, "unproven": why, "winner": ""}
        columns = {
            k: np.where(proven, np.array(changed[k], column.dtype), column)
            if k in changed
            else column
            for k, column in self.columns.items()
        }
        return Records(columns, self.adversarial)

    def __len__(self) -> int:
        return len(self.columns["id"])

    def certificate_arrays(self) -> dict[str, np.ndarray]:
        """The certificates as arrays for a file: "certificates" (all bytes) and
        "certificate_sizes".
        """
        if self.certificates is None:
            return {}
        kept = [c or b"" for c in self.certificates]
        sizes = np.array([len(c) for c in kept], dtype=np.int64)
        return {"certificates": np.frombuffer(b"".join(kept), np.uint8), "certificate_sizes": sizes}


def certificates(file: Any) -> np.ndarray | None:
    """The certificates of each row, from a file that holds `certificate_arrays`."""
    if "certificates" not in file:
        return None
    ends = np.cumsum(file["certificate_sizes"])
    whole = file["certificates"].tobytes()
    out = np.full(len(ends), None)
    for i, (end, size) in enumerate(zip(ends, file["certificate_sizes"], strict=True)):
        out[i] = whole[end - size : end] if size else None
    return out


class Gathered:
    """The records of a run, chunk by chunk into their places: nothing is ever held twice.

    Chunk k of a plan stands at k * `each`; what is not there yet is left out of `records`. A chunk
    of another length (games that are one chunk, pairs) is kept beside.
    """

    def __init__(self, total: int, each: int) -> None:
        self.total, self.each = total, each
        self._whole: Records | None = None
        self._spans: dict[int, slice] = {}
        self._others: dict[int, Records] = {}
        self.overturned = False  # the auditor broke a row that was proven

    def add(self, k: int, part: Records) -> None:
        """One more chunk."""
        self.overturned |= bool((part.columns["overturned"] != "").any())
        span = slice(k * self.each, min((k + 1) * self.each, self.total))
        if self._whole is None and not self._others:
            self._whole = _blank(part, self.total)
        fits = self._whole is not None and len(part) == span.stop - span.start > 0
        if not fits or self._others or not _alike(self._whole, part):
            self._others = {**self._by_chunk(), k: part}
            self._whole = None
            return
        assert self._whole is not None
        self._spans[k] = span
        for name, column in part.columns.items():
            self._whole.columns[name][span] = column
        if self._whole.adversarial is not None:
            self._whole.adversarial[span] = part.adversarial
        if part.certificates is not None:
            if self._whole.certificates is None:
                self._whole = replace(self._whole, certificates=np.full(self.total, None))
            assert self._whole.certificates is not None
            self._whole.certificates[span] = part.certificates

    def _by_chunk(self) -> dict[int, Records]:
        if self._whole is None:
            return self._others
        return {k: self._whole.take(np.r_[span]) for k, span in self._spans.items()}

    def __len__(self) -> int:
        return len(self._spans) or len(self._others)

    @property
    def records(self) -> Records:
        """All that is there, in the order of the plan."""
        return self._joined().withdrawn()

    def _joined(self) -> Records:
        if self._whole is None:
            return Records.concat(self._others[k] for k in sorted(self._others))
        spans = [self._spans[k] for k in sorted(self._spans)]
        if sum(s.stop - s.start for s in spans) == self.total:
            return self._whole
        return self._whole.take(np.concatenate([np.r_[s] for s in spans]))


def _blank(part: Records, n: int) -> Records:
    """Room for `n` rows like these; the system gives the memory as it is written to."""
    columns = {k: np.empty(n, column.dtype) for k, column in part.columns.items()}
    x = part.adversarial
    return Records(columns, None if x is None else np.empty((n, *x.shape[1:]), x.dtype))


def _alike(whole: Records | None, part: Records) -> bool:
    """The same kind of inputs."""
    a, b = None if whole is None else whole.adversarial, part.adversarial
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape[1:] == b.shape[1:]


def _derive_verdict(columns: dict[str, np.ndarray]) -> None:
    """Where nobody gave a verdict (runs of 0.1, other games) success says what is known."""
    verdict = columns["verdict"]
    unknown = np.array([v is None for v in verdict], dtype=bool)
    if not unknown.any():
        return
    asked = (columns["skipped"] == "") & ~np.isfinite(columns["probability_low"])
    said = np.where(asked, np.where(columns["success"], "broken", "open"), "")
    verdict[unknown] = said[unknown]

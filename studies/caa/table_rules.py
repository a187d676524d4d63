"""A second judge for adversarial records: URL, LCLD (47) and CTU-13 written out by hand in numpy.

Nothing of the library is used but the schemas' lists of names, bounds and mutable features: types,
bounds, immutables, every relation and the distance are evaluated again, in float64, one formula per
line as the papers state them. The tests use it, and so does `tables.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

TOLERANCE = 1e-6


class Record(dict):  # type: ignore[type-arg]
    """Columns by name."""


def _positive(value: Any, width: float) -> Any:
    """`value > 0` of a feature of this range below 1: the opposite of `<= 0` with its tolerance.

    The papers state a plain > 0. A ratio of 1e-9 stands for no digit at all, so the library asks
    for more than 1e-6 of the range, and this judge for neither more nor less: with 1e-6 itself it
    refused records that hold by either reading, with 0 it let pass what the library refuses.
    """
    return value > TOLERANCE * width


def _close(a: Any, b: Any, slack: float | None = None) -> Any:
    limit = TOLERANCE * np.maximum(1, np.maximum(np.abs(a), np.abs(b))) if slack is None else slack
    return np.abs(a - b) <= limit


def url(f: Record) -> list[np.ndarray]:
    """The 14 relations as meant."""
    signs = (
        "dots hyphens at qm and or eq underscore tilde percent slash star colon comma semicolumn"
    )
    total = sum(f[f"nb_{s}"] for s in signs.split()) + 3 * f["nb_space"]
    length = f["length_url"]
    digits = _positive(f["ratio_digits_url"], 0.7238805970000001)
    return [
        f["length_hostname"] <= length,
        total <= length,
        (f["nb_com"] <= 0) | (f["nb_dots"] > 0),
        (f["http_in_path"] <= 0) | (f["nb_slash"] > 0),
        3 * f["nb_www"] + 4 * f["nb_com"] + 2 * f["http_in_path"] <= length,
        (f["nb_space"] <= 0) | digits,
        (f["ip"] <= 0) | digits,
        (f["port"] <= 0) | digits,
        (f["abnormal_subdomain"] <= 0) | _positive(f["ratio_digits_host"], 0.8),
        f["nb_external_redirection"] <= f["nb_redirection"],
        3 * f["nb_www"] <= length + 1,
        4 * f["nb_com"] <= length + 1,
        4 * f["ip"] <= length + 1,
        2 * f["http_in_path"] <= length + 1,
    ]


def _quotient(a: np.ndarray, b: np.ndarray, fill: float) -> np.ndarray:
    return np.divide(a, b, out=np.full(len(a), fill), where=b != 0)


def lcld47(f: Record) -> list[np.ndarray]:
    """MOEVA's ten."""
    r, term = f["int_rate"] / 1200, f["term"]
    payment = f["loan_amnt"] * r * (1 + r) ** term / ((1 + r) ** term - 1)
    months = [np.floor(f[d] / 100) * 12 + f[d] % 100 for d in ("issue_d", "earliest_cr_line")]
    age = "diff_issue_d_earliest_cr_line"
    records, failed = f["pub_rec"], f["pub_rec_bankruptcies"]
    return [
        _close(f["installment"], payment, 0.1),
        f["open_acc"] <= f["total_acc"] + TOLERANCE * np.maximum(1, f["total_acc"]),
        failed <= records,
        (term == 36) | (term == 60),
        _close(f["ratio_loan_amnt_annual_inc"], f["loan_amnt"] / f["annual_inc"]),
        _close(f["ratio_open_acc_total_acc"], f["open_acc"] / f["total_acc"]),
        _close(f[age], months[0] - months[1]),
        _close(f[f"ratio_pub_rec_{age}"], records / f[age]),
        _close(f[f"ratio_pub_rec_bankruptcies_{age}"], failed / f[age]),
        _close(f["ratio_pub_rec_bankruptcies_pub_rec"], _quotient(failed, records, -1.0)),
    ]


def ctu13(f: Record) -> list[np.ndarray]:
    """Two sums, 34 packet sizes, 324 orders."""
    ports = [*map(str, (1, 3, 8, 10, 21, 22, 25, 53, 80, 110, 123, 135, 138, 161, 443, 445, 993))]
    ports.append("OTHER")
    rules = []
    for way in "sd":
        left = sum(f[f"{m}_sum_{way}_{p}"] for m in ("icmp", "udp", "tcp") for p in ports)
        right = sum(f[f"{m}_sum_{way}_{p}"] for m in ("bytes_in", "bytes_out") for p in ports)
        rules.append(left == right)  # whole numbers: exactly
        for p in ports[:-1]:
            size = _quotient(f[f"bytes_out_sum_{way}_{p}"], f[f"pkts_out_sum_{way}_{p}"], 0.0)
            rules.append(size <= 1500)
        for m in ("bytes_out", "pkts_out", "duration"):
            for p in ports:
                low, high, total = (f[f"{m}_{o}_{way}_{p}"] for o in ("min", "max", "sum"))
                slack = TOLERANCE * np.maximum(1, np.abs(total)) * (m == "duration")
                rules += [high <= total + slack, low <= total + slack, low <= high + slack]
    return rules


RULES = {"url": url, "lcld47": lcld47, "ctu13": ctu13}


def valid(name: str, features: Any, x0: np.ndarray, x: np.ndarray, eps: float) -> np.ndarray:
    """(n,) bool: may each record be handed in for the clean one? L2 in scaled units."""
    good = np.ones(len(x), dtype=bool)
    squares = np.zeros(len(x))
    for i, f in enumerate(features):
        now, was = x[:, i], x0[:, i]
        if f.kind in ("integer", "boolean"):
            good &= now == np.round(now)
        if f.kind == "boolean":
            good &= (now == 0) | (now == 1)
        slack = 1.2e-7 * np.maximum(1, np.abs(now))
        for bound, sign in ((f.low, 1), (f.high, -1)):
            if bound is not None:
                good &= sign * (now - (was if bound == "original" else bound)) >= -slack
        if not f.mutable:
            good &= now == was
        low, high = f.range
        squares += ((now - was) / (high - low if high > low else 1)) ** 2
    groups: dict[str, Any] = {}
    for i, f in enumerate(features):
        if f.group:
            groups[f.group] = groups.get(f.group, 0) + x[:, i]
    for total in groups.values():
        good &= total == 1
    record = Record({f.name: x[:, i] for i, f in enumerate(features)})
    for rule in RULES[name](record):
        good &= rule
    return good & (np.sqrt(squares) <= eps * (1 + 1e-6))

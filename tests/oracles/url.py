"""URL's relations written down once more by hand, and HiGHS on them."""

from __future__ import annotations

import numpy as np
from tests.oracles.worst_case import milp

SIGNS = "dots hyphens at qm and or eq underscore tilde percent slash star colon comma semicolumn"
IMPLICATIONS = (
    ("nb_com", "nb_dots"),
    ("http_in_path", "nb_slash"),
    ("nb_space", "ratio_digits_url"),
    ("ip", "ratio_digits_url"),
    ("port", "ratio_digits_url"),
    ("abnormal_subdomain", "ratio_digits_host"),
)


def rules(names):
    """Rows (a, b) of a @ x <= b, and pairs "if the first is > 0, so is the second"."""
    place = {n: i for i, n in enumerate(names)}

    def row(bound, **weights):
        a = np.zeros(len(place))
        for name, w in weights.items():
            a[place[name]] = w
        return a, bound

    linear = [
        row(0, length_hostname=1, length_url=-1),
        row(0, **{f"nb_{s}": 1.0 for s in SIGNS.split()}, nb_space=3, length_url=-1),
        row(0, nb_www=3, nb_com=4, http_in_path=2, length_url=-1),
        row(0, nb_external_redirection=1, nb_redirection=-1),
        row(1, nb_www=3, length_url=-1),
        row(1, nb_com=4, length_url=-1),
        row(1, ip=4, length_url=-1),
        row(1, http_in_path=2, length_url=-1),
    ]
    return linear, [(place[a], place[b]) for a, b in IMPLICATIONS]


def compare_with_highs(model, data, eps, found, rows, p=np.inf):
    """(rows decided by both, contradictions, rows HiGHS did not solve), Linf or L2, XGBoost."""
    x, y, schema = data.x.numpy(), data.y.numpy(), data.schema
    width = np.array([f.range[1] - f.range[0] for f in schema.features])
    low, high = (b.numpy() for b in schema.bounds(data.x))
    low, high = np.maximum(low, x - eps * width), np.minimum(high, x + eps * width)
    whole = schema.whole.numpy()
    low = np.where(whole, np.ceil(low - 1e-9), low)
    high = np.where(whole, np.floor(high + 1e-9), high)
    linear, implications = rules(schema.names)
    ball = (eps, width) if p == 2 else None
    both = wrong = unsolved = 0
    for i in range(rows):
        sign = 1.0 if y[i] == 1 else -1.0
        least = milp(model, x[i], low[i], high[i], whole, linear, implications, sign, ball=ball)
        unsolved += least is None
        if least is None or abs(least) < 1e-4 or found.open[i]:
            continue
        both += 1
        wrong += bool(found.broken[i]) != (least < 0)
    return both, wrong, unsolved

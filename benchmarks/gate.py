"""How often a gate decides wrongly at its bound, and how many rows it takes five points from it.

    python benchmarks/gate.py             # 2,000 runs per setting
    python benchmarks/gate.py --smoke

The peer is the usual practice: look at a 95 % Wilson interval after every chunk and stop when it
clears the bound. The yardstick for rows is the two-sided 5 % test of a size fixed beforehand with
power 0.9, which may be looked at once.
"""

import argparse
import math

import numpy as np
from scipy.stats import norm

from assay.gates.evidence import Evidence
from assay.report.stats import wilson

ALPHA = 0.05


def gate_run(x, bound, chunk):
    """(outcome, rows) of one run that looks after every chunk."""
    above, below = Evidence(bound), Evidence(1 - bound)
    for start in range(0, len(x), chunk):
        part = x[start : start + chunk]
        above.add(part)
        below.add(1 - part)
        n = min(start + chunk, len(x))
        if above.log_wealth >= math.log(2 / ALPHA):
            return "pass", n
        if below.log_wealth >= math.log(2 / ALPHA):
            return "fail", n
    return "undecided", len(x)


def wilson_run(x, bound, chunk):
    total = 0.0
    for start in range(0, len(x), chunk):
        total += x[start : start + chunk].sum()
        n = min(start + chunk, len(x))
        e = wilson(total, n)
        if e.low > bound or e.high < bound:
            return ("pass" if e.low > bound else "fail"), n
    return "undecided", len(x)


def fixed_size(bound, mean):
    a, b = norm.ppf(1 - ALPHA / 2), norm.ppf(0.9)
    root = a * math.sqrt(bound * (1 - bound)) + b * math.sqrt(mean * (1 - mean))
    return math.ceil((root / (mean - bound)) ** 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--runs", type=int, default=2000)
    asked = parser.parse_args()
    runs, most = (40, 1000) if asked.smoke else (asked.runs, 10_000)
    rng = np.random.default_rng(0)
    failed = []
    print(f"{runs} runs a setting, at most {most} rows each, seed 0")
    print(
        "bound chunk | wrong at the bound: gate, Wilson | at +5: rows, of fixed size, share passed"
    )
    for bound in (0.5, 0.8, 0.95):
        for chunk in (32, 256):
            at = rng.random((runs, most)) < bound
            wrong = [
                np.mean([play(x.astype(float), bound, chunk)[0] != "undecided" for x in at])
                for play in (gate_run, wilson_run)
            ]
            mean = min(bound + 0.05, 0.9995)
            found = [
                gate_run(x.astype(float), bound, chunk) for x in rng.random((runs, most)) < mean
            ]
            rows, fixed = np.mean([n for _, n in found]), fixed_size(bound, mean)
            whole = math.ceil(fixed / chunk) * chunk  # rows come in whole chunks for both
            ratio, passed = rows / whole, np.mean([o == "pass" for o, _ in found])
            print(
                f"{bound:5.2f} {chunk:5d} | {wrong[0]:.3f}  {wrong[1]:.3f}                       | "
                f"{rows:6.0f}  {fixed} ({whole} in whole chunks): x{ratio:.2f}  {passed:.3f}"
            )
            if wrong[0] > ALPHA or ratio > 1.5:
                failed.append((bound, chunk))
    print("missed:", failed or "nothing (wrong <= 0.05, rows <= 1.5 of the fixed size)")
    return 1 if failed and not asked.smoke else 0


if __name__ == "__main__":
    raise SystemExit(main())

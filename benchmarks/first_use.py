"""First use: what the first evaluation of a process costs beside the second one.

    python benchmarks/first_use.py [--rounds 3] [--smoke]

Noise on a forest and MOEVA on a table, each in a process of its own, after `import durometer`. "No
bytecode" starts from an empty `__pycache__` (an installation that nobody used), "bytecode" from a
filled one. Ends with exit code 1 where, with bytecode, the first use takes over 1 CPU-s more than
the second.

What a reader would get wrong: CPU seconds of one thread; what `import durometer` costs is measured
by benchmarks/import_time.py.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

LIMIT = 1.0
USES = {
    "Nature": """
from sklearn.ensemble import RandomForestClassifier
x = np.random.default_rng(0).normal(size=(200, 4))
forest = RandomForestClassifier(10, max_depth=4, random_state=0).fit(x, x[:, 0] + x[:, 1] > 0)
data = du.Dataset(x[:16], (x[:16, 0] + x[:16, 1] > 0).astype(int))
use = lambda: du.evaluate(du.Nature(forest, du.Normal(sd=0.2)), data, progress=False)
""",
    "MOEVA": """
from sklearn.linear_model import LogisticRegression
split = du.datasets.url()
model = LogisticRegression(max_iter=200).fit(split.train.x.numpy(), split.train.y.numpy())
data = split.test.take(range(8))
search = du.MOEVA(generations=5, population=20, offspring=10)
space = data.schema.space(eps=0.2)
use = lambda: du.evaluate(model, data, space=space, attack=search, progress=False)
""",
}
CLOCK = """
import sys, time
import numpy as np
import durometer as du
exec(sys.stdin.read())
for _ in range(2):
    began = time.process_time()
    use()
    print(time.process_time() - began)
"""


def main() -> None:
    """Print first and second use; judge the difference."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--smoke", action="store_true", help="one round, nothing judged")
    asked = options.parse_args()
    bad = []
    for name, source in USES.items():
        best = {}
        for _ in range(1 if asked.smoke else asked.rounds):
            with tempfile.TemporaryDirectory() as cache:
                for state in ("no bytecode", "bytecode"):
                    found = clocked(source, cache)
                    best[state] = min(best.get(state, found), found)
        for state, (first, second) in best.items():
            print(f"{name:7} {state:12} first {first:5.2f}  second {second:5.2f} CPU-s")
        first, second = best["bytecode"]
        if first - second > LIMIT:
            bad.append(f"{name}: {first - second:.2f} CPU-s more than the second use")
    if bad and not asked.smoke:
        sys.exit("\n".join(bad))


def clocked(source: str, cache: str) -> tuple[float, float]:
    """CPU seconds of the first and the second use in a fresh process."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", CLOCK], input=source, text=True, capture_output=True, check=True,
        env={**os.environ, **threads, "PYTHONPYCACHEPREFIX": cache},
    )  # fmt: skip
    first, second = map(float, done.stdout.split())
    return first, second


if __name__ == "__main__":
    main()

"""How long `import durometer` takes, next to `import torch`, each in fresh processes.

CPU time of the import alone (the interpreter's own start is not counted), the best of several runs:
the machine's noise only ever adds. Exits 1 above the limit of 0.3 s.
"""

import argparse
import subprocess
import sys

LIMIT = 0.3
CLOCK = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"


def seconds(module: str, runs: int) -> float:
    command = [sys.executable, "-c", CLOCK.format(module)]
    times = [
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(runs)
    ]
    return min(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="one run each")
    given = parser.parse_args()
    runs = 1 if given.smoke else given.runs
    ours, torch = seconds("durometer", runs), seconds("torch", runs)
    print(f"import durometer  {ours:7.3f} s CPU (limit {LIMIT} s)")
    print(f"import torch  {torch:7.3f} s CPU")
    print(f"ratio         {ours / torch:7.3f}")
    return int(ours > LIMIT)


if __name__ == "__main__":
    sys.exit(main())

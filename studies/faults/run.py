"""Fault campaign: whatever happens to a run, no record is lost, changed, or made twice.

    python studies/faults/run.py                        every point, in this process
    python studies/faults/run.py --executor processes   every point, with two worker processes
    python studies/faults/run.py --executor ray         every point, on a Ray cluster made here
    python studies/faults/run.py --random 30            SIGKILLs at random moments, real processes
    python studies/faults/run.py --strikes 40           a worker is killed or stopped (or on Ray)
    python studies/faults/run.py --pairs 40             two processes that start at random moments
    python studies/faults/run.py --memory 40            address space limited while a run goes on
    python studies/faults/run.py --hang processes       a worker that hangs (also: ray)
    python studies/faults/run.py --every 7              every seventh point only (CI)

A run (evaluate, save; also in place of another) touches the disk at points that `layer` enumerates.
At each: a kill, a kill in the middle of the write, a power cut, a full disk, a disk error, no
memory; and an error at each read of a resumed run. Then the run is resumed, must end with the
records and inputs of an undisturbed one, and must have played no finished chunk again; what fails
must fail with a sentence. Elsewhere than in this process each point gets one of these (--once).

What a reader would get wrong: for kills nobody is killed. The folder is copied just before each
point of one run, and each copy is resumed; `--random` is the check of that by real SIGKILLs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

from living import at_random, hanging, in_pairs, struck, without_memory
from points import Campaign

from durometer.run import processes


def ready(executor: str) -> None:
    """Workers that start in no time: this process has no threads, and one Ray serves all runs."""
    if executor == "processes":
        processes.START = multiprocessing.get_context("fork")
        multiprocessing.set_start_method("fork", force=True)
    if executor == "ray":
        import ray

        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
        here = str(Path(__file__).parent)
        paths = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
        os.environ["PYTHONPATH"] = paths
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executor", choices=("here", "processes", "ray"), default="here")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--once", action="store_true", help="one fault per point")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--strikes", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--hang", choices=("processes", "ray"))
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng, began = random.Random(args.seed), sum(os.times()[:4])
    if args.random:
        kills, problems = at_random(args.random, args.workers, rng)
        said = f"{args.random} runs with {args.workers} worker(s), {kills} kills"
    elif args.strikes:
        where = args.executor if args.executor == "ray" else "processes"
        said, problems = struck(args.strikes, where, rng)
    elif args.pairs:
        problems = in_pairs(args.pairs, rng)
        said = f"{args.pairs} pairs of processes"
    elif args.memory:
        said, problems = without_memory(args.memory, rng)
    elif args.hang:
        ready(args.hang)
        said, problems = hanging(args.hang)
    else:
        ready(args.executor)
        once = args.once or args.executor != "here"
        campaign = Campaign(args.executor, args.every, args.seed, once)
        for part in campaign.go():
            print(part, flush=True)
        problems = campaign.problems
        faults = sum(campaign.kinds.values())
        said = (
            f"{args.executor}: {faults} faults ({dict(campaign.kinds)}) at {dict(campaign.covered)}"
        )
    for text in problems:
        print(text)
    seconds = sum(os.times()[:4]) - began
    print(f"{said}; {seconds:.0f} CPU-s; {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Fuzz campaign: whatever is in a file or an argument, the answer is a result or a sentence.

    python studies/fuzz/run.py                       20,000 inputs: 4,000 of each of five kinds
    python studies/fuzz/run.py --kind relations --number 500 --seed 7
    python studies/fuzz/run.py --kind files --only 7-123      one input again, with its traceback

Kinds: configurations (TOML), relations, schemas, files (of data and runs; of models), arguments of
the Python API. Each input is a function of (kind, seed, number), so a finding is named by its seed.
A problem is an exception that is no DurometerError, more than ten seconds of processor time, or the
death of the process. What was found once stands in tests/studies/fuzz_corpus.json, which CI plays.

What a reader would get wrong: inputs are played in a forked child, because a damaged model can
crash the library that reads it; the next child goes on after the input at which one died.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import select
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

import files
import saved_models
from arguments import argument, play_argument
from texts import Rng, config, play_config, play_relation, play_schema, relation, schema

import durometer as du

PACKAGE = Path(du.__file__).parent
SECONDS = 10.0  # of processor time per input
SILENCE = 180.0  # seconds on the clock without an answer: the child hangs where no signal reaches
KINDS: dict[str, tuple[Callable[[Rng], Any], Callable[..., None]]] = {
    "configs": (config, play_config),
    "relations": (relation, play_relation),
    "schemas": (schema, play_schema),
    "files": (files.file, files.play_file),
    "models": (saved_models.model, saved_models.play_model),
    "api": (argument, play_argument),
}
NUMBER = {kind: 2000 if kind in ("files", "models") else 4000 for kind in KINDS}
FINE = ("result", "sentence")


class TooLong(Exception):
    """More processor time than anything here may take."""


def tried(play: Callable[..., None], *what: Any) -> str:
    """How an input was answered: "result", "sentence", or what is wrong."""

    def ring(*_: Any) -> None:
        raise TooLong

    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            play(*what)
        return "result"
    except du.DurometerError:
        return "sentence"
    except TooLong:
        return f"took more than {SECONDS:g} s of processor time"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if Path(f.filename).is_relative_to(PACKAGE)]
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"
        return f"{type(error).__name__} at {where}: {str(error)[:120]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def made(kind: str, seed: int, number: int) -> Any:
    """The input of this name."""
    return KINDS[kind][0](random.Random(f"{kind}-{seed}-{number}"))


@contextlib.contextmanager
def extra(kind: str) -> Iterator[tuple[Path, ...]]:
    """What playing needs besides the input: valid files."""
    valid = {"files": files.valid, "models": saved_models.valid}.get(kind)
    if valid is None:
        yield ()
        return
    with tempfile.TemporaryDirectory(prefix="durometer-fuzz-") as folder:
        valid(Path(folder))
        yield (Path(folder),)


def answers(kind: str, inputs: list[Any], *more: Any) -> Iterator[str]:
    """How each input was answered, by children of this process."""
    done = 0
    while done < len(inputs):
        for answer in _child(kind, inputs[done:], *more):
            yield answer
            done += 1


def _child(kind: str, inputs: list[Any], *more: Any) -> Iterator[str]:
    """Answers until all are there or the child is dead, which is the last answer."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(here)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1), os.dup2(quiet, 2)  # C++ libraries write to them
        for what in inputs:
            os.write(there, (json.dumps(tried(KINDS[kind][1], what, *more)) + "\n").encode())
        os._exit(0)
    os.close(there)
    given = 0
    with os.fdopen(here, "rb", buffering=0) as pipe:
        rest = b""
        while given < len(inputs):
            if not select.select([pipe], [], [], SILENCE)[0]:
                os.kill(child, signal.SIGKILL)
                rest = b""
                yield f"no answer in {SILENCE:g} s"
                given = len(inputs)
                break
            content = pipe.read(65536)
            if not content:
                break
            *lines, rest = (rest + content).split(b"\n")
            for line in lines:
                given += 1
                yield json.loads(line)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if given < len(inputs):
        yield f"the process died: {signal.Signals(-code).name if code < 0 else code}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=tuple(KINDS))
    parser.add_argument("--number", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="SEED-NUMBER: one input, with its traceback")
    args = parser.parse_args()
    torch.set_num_threads(1)
    total = bad = 0
    for kind in [args.kind] if args.kind else KINDS:
        counts: Counter[str] = Counter()
        found: dict[str, str] = {}
        began = sum(os.times()[:4])
        number = args.number or NUMBER[kind]
        with extra(kind) as more:
            if args.only:
                what = made(kind, *(int(v) for v in args.only.split("-")))
                print(json.dumps(what, default=repr))
                KINDS[kind][1](what, *more)
                return 0
            inputs = [made(kind, args.seed, k) for k in range(number)]
            for k, answer in enumerate(answers(kind, inputs, *more)):
                counts[answer if answer in FINE else "problem"] += 1
                if answer not in FINE and answer not in found:
                    found[answer] = f"{args.seed}-{k}"
                    print(f"{kind} --only {args.seed}-{k}: {answer}", flush=True)
        seconds = sum(os.times()[:4]) - began
        print(f"{kind}: {number} inputs, {dict(counts)}; {seconds:.0f} CPU-s", flush=True)
        total, bad = total + number, bad + counts["problem"]
    print(f"{total} inputs, {bad} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

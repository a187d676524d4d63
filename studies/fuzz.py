"""Fuzz campaign: whatever is in a file or an argument, the answer is a result or a sentence.

    python studies/fuzz.py                       4,000 inputs of each of five kinds
    python studies/fuzz.py --kind relations --number 500 --seed 7
    python studies/fuzz.py --kind files --only 7-123      one input again, with its traceback

Kinds: configurations (TOML), relations, schemas, data and run files, arguments of the Python API.
Each input is a function of (kind, seed, number), so a finding is named by its seed. A problem is an
exception that is no AssayError, or more than ten seconds of processor time. What was found once
stands in tests/studies/fuzz_corpus.json, which CI plays in full.

What a reader would get wrong: an error that the user's own code raised is passed on as it is, and
is no problem; nothing here has such code.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import assay as ay
from assay.config import sweep as configs
from assay.config.sources import Data
from assay.relations import parse
from assay.tables import files as schemas

EXAMPLES = Path(__file__).parent.parent / "examples"
SECONDS = 10.0
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 10**400, -(10**30), 0.5, -0.0, 1e308, float("nan")),
    *(float("inf"), "", "a", "8/255", "1/0", "original", "\x00", "x" * 5000, "ü", "=1+1"),
    *([], [1, 2], ["a"], [[1], [2, 3]], {}, {"a": 1}, {"type": "PGD"}, (1, 2), [None], b"ab"),
]
Rng = random.Random


# -- texts


def mangled(text: str, rng: Rng) -> str:
    """A text with a few characters, words or lines moved, doubled, lost or replaced."""
    for _ in range(rng.randint(1, 4)):
        kind, at = rng.randrange(7), rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.choice((1, 1, 3, 20)))
        if kind == 0:
            text = text[:at] + text[to:]
        elif kind == 1:
            text = text[:at] + rng.choice("[]{}=\"\n.,0#\\'()<>-\x00é ") + text[at:]
        elif kind == 2:
            text = text[:to] + text[at:to] * rng.choice((1, 2, 60)) + text[to:]
        elif kind == 3:
            words = text.split(" ")
            i, j = rng.randrange(len(words)), rng.randrange(len(words))
            words[i], words[j] = words[j], words[i]
            text = " ".join(words)
        elif kind == 4:
            lines = text.split("\n")
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
            text = "\n".join(lines)
        elif kind == 5:
            odd = rng.choice(('"x"', "9" * rng.choice((3, 400, 5000)), "nan", "-inf", "[]", "{}"))
            text = text[:at] + odd + text[to:]
        else:
            text = text[:at]
    return text


def config(rng: Rng) -> str:
    base = rng.choice(sorted(EXAMPLES.glob("*.toml"))).read_text()
    return base if rng.random() < 0.02 else mangled(base, rng)


def play_config(text: str) -> None:
    configs.parse(text, EXAMPLES / "fuzz.toml")


ATOMS = ("a", "b", "c", "`d e`", "a.original", "1", "0.5", "1e9", "'car'", "36", "-2", "k")
SIGNS = ("+", "-", "*", "/", "%", "**", "<", "<=", "==", "!=", ">=", ">", "and", "or", "in", "not")


def relation(rng: Rng) -> str:
    def some(depth: int) -> str:
        kind = rng.randrange(10) if depth else 0
        if kind < 3:
            return rng.choice(ATOMS)
        if kind < 6:
            return f"{some(depth - 1)} {rng.choice(SIGNS)} {some(depth - 1)}"
        if kind == 6:
            return f"({some(depth - 1)})"
        if kind == 7:
            name = rng.choice(("abs", "floor", "log", "divide", "min", "max", "sum", "count", "f"))
            return f"{name}({', '.join(some(depth - 1) for _ in range(rng.randint(0, 3)))})"
        if kind == 8:
            return f"if {some(depth - 1)} then {some(depth - 1)}"
        return f"{some(depth - 1)} in {{{', '.join(some(0) for _ in range(rng.randint(0, 3)))}}}"

    text = some(rng.randint(1, 5))
    if rng.random() < 0.05:  # long and deep ones
        part = rng.choice(("(", "not ", "-", "a + ", "a ** ", "a < ", "if a > 0 then "))
        text = part * rng.choice((60, 3000)) + text
    return mangled(text, rng) if rng.random() < 0.3 else text


FEATURES = [
    ay.Feature("a", "real", 0, 10),
    ay.Feature("b", "integer", 0, 10),
    ay.Feature("c", "integer", "original", 60),
    ay.Feature("d e", "boolean"),
    ay.Feature("k", "category", values=("car", "bus")),
]


def play_relation(text: str) -> None:
    made = parse.relation(text)
    schema = ay.Schema(FEATURES, [made])
    rows = torch.tensor([[1.0, 2, 36, 0, 0], [0, 0, 0, 1, 1]]).double()
    schema.validate(rows)
    if str(parse.relation(str(made))) != str(made):
        raise AssertionError(f"{made} is read back as {parse.relation(str(made))}")


def schema(rng: Rng) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": "t",
        "relations": ["a <= b", "if a > 0 then b > 0"],
        "features": {
            "a": {"kind": "real", "low": 0, "high": 9.5, "unit": "$"},
            "b": {"kind": "integer", "low": "original", "high": 120, "mutable": False},
            "c": {"kind": "category", "values": ["x", "y"]},
            "d": {"kind": "boolean", "group": "g"},
            "e": {"kind": "boolean", "group": "g", "cost": 2.0},
            "f": {"kind": "real", "scale": [0, 1]},
        },
    }
    fields = ("kind", "low", "high", "mutable", "values", "group", "unit", "cost", "scale")
    fields += ("missing", "fill", "hide_cost", "zzz")
    for _ in range(rng.randint(1, 3)):
        odd = rng.choice([*ODD, *ODD, relation(rng), [relation(rng)]])
        if rng.random() < 0.15:
            made[rng.choice(("name", "relations", "features", "zzz"))] = odd
        elif isinstance(made["features"], dict):
            name = rng.choice([*made["features"], "new"])
            table = made["features"].get(name)
            if rng.random() < 0.15 or not isinstance(table, dict):
                made["features"][name] = odd
            else:
                table[rng.choice(fields)] = odd
    return made


def play_schema(content: dict[str, Any]) -> None:
    made = schemas.from_dict(content)
    again = ay.Schema.read(_written(made.toml()))
    if again.names != made.names:
        raise AssertionError("names are lost on the way through a file")


def _written(text: str) -> Path:
    path = Path(tempfile.gettempdir()) / f"assay-fuzz-{id(text)}.toml"
    path.write_text(text, encoding="utf-8")
    CLEAN.append(path)
    return path


CLEAN: list[Path] = []


# -- files


def valid(folder: Path) -> None:
    """One valid file of each sort."""
    g = torch.Generator().manual_seed(0)
    net = torch.nn.Linear(4, 2)
    net.weight.data = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    net.bias.data.zero_()
    x = torch.rand(12, 4, generator=g)
    np.savez(folder / "d.npz", x=x.numpy(), y=np.arange(12) % 2)
    frame = "\n".join(["p,q,r,s,y", *(",".join(f"{v:.3f}" for v in row) + ",1" for row in x)])
    (folder / "d.csv").write_text(frame)
    import pandas as pd

    pd.read_csv(folder / "d.csv").to_parquet(folder / "d.parquet")
    data = ay.Dataset(x, net(x).argmax(1).detach())
    run = ay.Run(folder / "run")
    report = ay.evaluate(net, data, space=ay.Linf(0.3), attack=ay.FGSM(), batch=6, run=run)
    report.save(folder / "run")


SORTS = (
    *("d.npz", "d.csv", "d.parquet", "run/spec.json", "run/records.parquet", "run/facts.json"),
    *("run/adversarial.npz", "run/examples.npz", "run/index.sqlite", "run/chunks/0.npz"),
    "run/fingerprint.json",
)


def file(rng: Rng) -> dict[str, Any]:
    return {"name": rng.choice(SORTS), "seed": rng.randrange(2**32), "kind": rng.randrange(5)}


def play_file(what: dict[str, Any], folder: Path) -> None:
    from assay.run.repair import repair
    from assay.run.store import Store

    rng = random.Random(what["seed"])
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-") as made:
        copy = Path(made) / "copy"
        shutil.copytree(folder, copy)
        path = copy / what["name"]
        content = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(content)) if content else 0
            if what["kind"] == 0:
                content = content[:at]
            elif what["kind"] == 1 and content:
                content[at] ^= 1 << rng.randrange(8)
            elif what["kind"] == 2:
                content[at:at] = rng.randbytes(rng.choice((1, 8, 500)))
            elif what["kind"] == 3:
                del content[at : at + rng.choice((1, 4, 64))]
            elif content:
                content[at : at + 8] = bytes(8)
        path.write_bytes(content)
        if what["name"].startswith("d."):
            Data(path=what["name"]).load(copy)
            return
        said = 0
        asked: tuple[Callable[[], Any], ...] = (
            lambda: ay.Report.load(copy / "run"),
            lambda: Store(copy / "run").report(),
            lambda: repair(copy / "run"),
        )
        for ask in asked:  # each by itself: a sentence of the first must not hide the others
            try:
                ask()
            except ay.AssayError:
                said += 1
        if said == len(asked):
            raise ay.AssayError("all three were refused")


# -- arguments


def argument(rng: Rng) -> dict[str, Any]:
    return {"seed": rng.randrange(2**32)}


def play_argument(what: dict[str, Any]) -> None:
    rng = random.Random(what["seed"])
    g = torch.Generator().manual_seed(0)
    x = torch.rand(6, 4, generator=g)
    y = torch.arange(6) % 2
    odd = [*ODD, x, y, x.numpy(), x.double(), x.bfloat16(), np.float32(0.5), np.int64(2), ay.Linf]
    odd += [x.to_sparse(), x[:0], x[0], x * np.nan, x.to("meta"), np.ma.masked_less(x.numpy(), 0.5)]
    odd += [ay.Linf(0.1), ay.FGSM(), ay.Untargeted(), lambda z: z, object(), torch.nn.Linear(4, 2)]

    def pick(usual: Any, chance: float = 0.12) -> Any:
        return rng.choice(odd) if rng.random() < chance else usual

    data = ay.Dataset(
        pick(x), pick(y), ids=pick(None), classes=pick(None), name=pick(""), schema=pick(None, 0.03)
    )
    space = rng.choice((ay.Linf, ay.L2, ay.L1, ay.L0))(pick(1 if rng.random() < 0.2 else 0.1))
    attack = rng.choice(
        (
            lambda: ay.FGSM(),
            lambda: ay.PGD(pick(2)),
            lambda: ay.APGD(pick(2), loss=pick("ce")),
            lambda: ay.Square(pick(3)),
            lambda: ay.Restarts(pick(ay.PGD(1)), pick(2)),
        )
    )()
    goal = rng.choice(
        (ay.Untargeted, lambda: ay.Targeted(pick(0)), lambda: ay.Group(pick({0: [1]})))
    )
    report = ay.evaluate(
        pick(torch.nn.Linear(4, 2).to(data.x.dtype), 0.05),
        pick(data, 0.03),
        space=pick(space, 0.05),
        goal=pick(goal(), 0.05),
        attack=pick(attack, 0.05),
        seed=pick(0, 0.05),
        batch=pick(3, 0.05),
        budget=pick(None, 0.05),
        also=pick((), 0.05),
        progress=False,
    )
    str(report)
    report.metric(pick("robust"), by=pick(None))
    data.take(pick([0, 1])).sample(pick(1)).where(y=pick(0))


KINDS: dict[str, tuple[Callable[[Rng], Any], Callable[..., None]]] = {
    "configs": (config, play_config),
    "relations": (relation, play_relation),
    "schemas": (schema, play_schema),
    "files": (file, play_file),
    "api": (argument, play_argument),
}


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
    except ay.AssayError:
        return "sentence"
    except TooLong:
        return f"took more than {SECONDS:g} s of processor time"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if "/assay/" in f.filename]
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"
        return f"{type(error).__name__} at {where}: {str(error)[:120]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        while CLEAN:
            CLEAN.pop().unlink(missing_ok=True)


def made(kind: str, seed: int, number: int) -> Any:
    """The input of this name."""
    return KINDS[kind][0](random.Random(f"{kind}-{seed}-{number}"))


@contextlib.contextmanager
def extra(kind: str) -> Any:
    """What playing needs besides the input."""
    if kind != "files":
        yield ()
        return
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-") as folder:
        valid(Path(folder))
        yield (Path(folder),)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=tuple(KINDS))
    parser.add_argument("--number", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="SEED-NUMBER: one input, with its traceback")
    args = parser.parse_args()
    torch.set_num_threads(1)
    total = bad = 0
    for kind in [args.kind] if args.kind else KINDS:
        answers: Counter[str] = Counter()
        found: dict[str, str] = {}
        began = time.process_time()
        with extra(kind) as more:
            if args.only:
                seed, number = (int(v) for v in args.only.split("-"))
                what = made(kind, seed, number)
                print(json.dumps(what, default=repr))
                KINDS[kind][1](what, *more)
                return 0
            for number in range(args.number):
                answer = tried(KINDS[kind][1], made(kind, args.seed, number), *more)
                answers[answer if answer in ("result", "sentence") else "problem"] += 1
                if answer not in ("result", "sentence"):
                    found.setdefault(answer, f"{args.seed}-{number}")
        for answer, name in found.items():
            print(f"{kind} --only {name}: {answer}")
        seconds = time.process_time() - began
        print(f"{kind}: {args.number} inputs, {dict(answers)}; {seconds:.0f} CPU-s", flush=True)
        total, bad = total + args.number, bad + answers["problem"]
    print(f"{total} inputs, {bad} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

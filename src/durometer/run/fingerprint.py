"""Fingerprint: what a model does and what its data mean, so that no run goes on with another one.

Hashes of weights miss a changed `forward`, a changed global, a lambda; a space's text misses the
relations behind its schema's name. So a run keeps the model's answers on a fixed probe (rows spread
over the data, and as many made of columns of different rows, where attacks go), the schemas with
all their relations, and digests of what is the user's own code in game, space, goal and attack
(`code`). Answers are compared up to the model's own noise, not hashed: a hash of rounded numbers
changes when one of them lies on a rounding boundary.

What a reader would get wrong: each row's logits are kept as four signed sums of them, because a
model may have 5,000 classes. Two different rows of logits agree in all four only by accident.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from durometer.core.capabilities import Answers, HasSchema
from durometer.core.errors import Exhausted
from durometer.games.game import Game
from durometer.run.code_digest import code_of
from durometer.run.job import Job
from durometer.tables.schema import Schema

ROWS = 32  # of the data; as many again are mixed from them
SUMS = 4
SLACK = 1e-4  # of the largest answer: other machines add up in another order
Print = dict[str, Any]


def fingerprint(job: Job) -> Print:
    """Of a prepared job."""
    game = job.target if isinstance(job.target, Game) else None
    schemas = {
        "data": job.data.schema,
        "space": job.space.schema if isinstance(job.space, HasSchema) else None,
    }
    return {
        **_answers(job),
        "python": list(sys.version_info[:2]),
        "code": code_of(game=game, space=job.space, goal=job.goal, attack=job.attack),
        "schema": {who: _lines(schema) for who, schema in schemas.items() if schema is not None},
    }


def _answers(job: Job) -> Print:
    """Four sums of each probe row's logits, and how much they differ when asked twice."""
    game: object = job.game
    if not isinstance(game, Answers):  # somebody else's: its description is all there is
        return {}
    ask = game.answers
    x = job.data.x
    rows = torch.linspace(0, len(x) - 1, min(ROWS, len(x))).long()
    probe = x[rows.to(x.device)]
    try:
        both = torch.cat([probe, _mixed(probe)])
        first, again = _sums(ask(both)), _sums(ask(both))
    except Exhausted:
        raise
    except Exception:  # it may refuse what no row can be
        first, again = _sums(ask(probe)), _sums(ask(probe))
    return {
        "answers": first[: len(probe)].tolist(),
        "mixed": first[len(probe) :].tolist(),
        "noise": float((first - again).abs().max()),
    }


def _mixed(x: Tensor) -> Tensor:
    """Rows whose every second feature is another row's: values that occur, together as never."""
    flat = x.reshape(len(x), -1).clone()
    flat[:, 1::2] = flat[:, 1::2].flip(0)
    return flat.reshape(x.shape)


def _sums(logits: Tensor) -> Tensor:
    """(n, 4) logits summed with signs that are a fixed function of the class."""
    logits = logits.detach().double().cpu()
    logits = logits.nan_to_num(0.0, 1e30, -1e30)
    k = torch.arange(logits.shape[1])
    mixed = (k[:, None] * 2654435761 + torch.arange(SUMS)[None] * 40503 + 12345) % 65521
    signs = torch.where(mixed % 2 == 0, 1.0, -1.0).double() * (1 + mixed.double() / 65521)
    return logits @ signs


def _lines(schema: object) -> list[str]:
    """A schema as text, a line per relation and feature; anything else by its name."""
    if not isinstance(schema, Schema):
        return [repr(schema)]
    return [s.strip() for s in schema.toml().splitlines() if s.strip() not in ("", "]")]


def differences(old: Print, new: Print) -> list[str]:
    """What is not as it was, in words; runs of 0.1 have no fingerprint and are believed."""
    found = []
    for part, where in (("answers", "rows of the data"), ("mixed", "rows mixed from the data")):
        a, b = old.get(part), new.get(part)
        if not a or not b:
            continue
        before, now = torch.tensor(a), torch.tensor(b)
        if before.shape != now.shape:
            found.append(f"the model's answers: on {len(before)} probe rows there, {len(now)} now")
            break
        noise = 4 * max(float(old.get("noise", 0.0)), float(new.get("noise", 0.0)))
        allowed = noise + SLACK * float(before.abs().max().clamp_min(1e-12))
        wrong = int(((before - now).abs().amax(1) > allowed).sum())
        if wrong:
            found.append(f"the model answers otherwise on {wrong} of {len(before)} {where}")
            break
    if old.get("python") == new.get("python") and "code" in old and "code" in new:
        paths = sorted(set(old["code"]) | set(new["code"]))
        changed = [p for p in paths if old["code"].get(p) != new["code"].get(p)]
        found += [f"the code of the {path} has changed" for path in changed]
    was, this = old.get("schema", {}), new.get("schema", {})
    if "schema" in old and "schema" in new:
        for who in sorted(set(was) | set(this)):
            found += _changed(f"the schema of the {who}", was.get(who, []), this.get(who, []))
    return found


def _changed(what: str, old: list[str], new: list[str]) -> list[str]:
    if old == new:
        return []
    gone = [line for line in old if line not in new]
    come = [line for line in new if line not in old]
    parts = [
        f"{len(lines)} lines {where}, e.g. {lines[0].rstrip(',')}"
        for lines, where in ((gone, "only there"), (come, "only now"))
        if lines
    ]
    return [f"{what}: " + ("; ".join(parts) or "the same lines in another order")]

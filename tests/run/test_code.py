"""A run goes on only with the losses, attacks and goals it was begun with, down to their code."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import durometer as du
from durometer.extend import Needs
from durometer.run.code_digest import code_of
from durometer.run.store import Store

FACTOR = 1.0


def by_factor(logits: Any, allowed: Any) -> Any:
    """The sum."""
    return FACTOR * logits.sum(1)


def closed(factor: float) -> Any:
    return lambda logits, allowed: factor * logits.sum(1)


def begun(folder: Path, attack: Any) -> None:
    net, data = du.testing.toy()
    du.evaluate(net, data, space=du.Linf(0.1), attack=attack, batch=4, run=du.Run(folder))
    store = Store(folder)
    store.index.forget(3)
    store.chunk(3).unlink()


def gone_on(folder: Path, attack: Any) -> du.Report:
    net, data = du.testing.toy()
    run = du.Run(folder, resume=True)
    return du.evaluate(net, data, space=du.Linf(0.1), attack=attack, batch=4, run=run)


def test_a_changed_lambda_is_refused(tmp_path: Path) -> None:
    begun(tmp_path, du.PGD(2, loss=lambda logits, allowed: logits.sum(1)))
    with pytest.raises(du.DurometerError, match=r"the code of the attack\.loss has changed"):
        gone_on(tmp_path, du.PGD(2, loss=lambda logits, allowed: -logits.sum(1)))
    again = gone_on(tmp_path, du.PGD(2, loss=lambda logits, allowed: logits.sum(1)))
    assert len(again.records) == 16  # written twice, and the same


def test_a_changed_global_or_what_was_closed_over_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path / "global", du.PGD(2, loss=by_factor))
    begun(tmp_path / "closed", du.PGD(2, loss=closed(1.0)))
    monkeypatch.setattr(f"{__name__}.FACTOR", -1.0)
    for name, loss in (("global", by_factor), ("closed", closed(2.0))):
        with pytest.raises(du.DurometerError, match=r"attack\.loss has changed"):
            gone_on(tmp_path / name, du.PGD(2, loss=loss))
    monkeypatch.setattr(f"{__name__}.FACTOR", 1.0)
    assert len(gone_on(tmp_path / "global", du.PGD(2, loss=by_factor)).records) == 16


def corner(step: float) -> Any:
    """The same class of attack, as if its file had been edited."""

    def play(self: Any, problem: Any) -> None:
        rows = problem.open
        z = problem.region.origin[rows]
        problem.submit(rows, problem.region.project(z + step))

    @dataclass(frozen=True)
    class Corner:
        needs = Needs()
        __call__ = play

    Corner.__qualname__ = "Corner"
    return Corner()


def test_an_edited_attack_of_ones_own_is_refused() -> None:
    first, same, other = corner(0.1), corner(0.1), corner(0.2)
    assert code_of(attack=first) == code_of(attack=same) != code_of(attack=other)
    inside = code_of(attack=du.Then(du.FGSM(), first))
    assert list(inside) == ["attack.attacks.1"]


def test_what_does_not_change_what_is_done_does_not_count() -> None:
    texts = (
        'def f(x):\n    """Some."""\n    return x in {"a", "b"}\n',
        'def f(x):\n    """Other."""\n\n    # why\n    return x in {"b", "a"}\n',
        'def f(x):\n    return x in {"a", "c"}\n',
    )
    made = []
    for text in texts:
        scope: dict[str, Any] = {"__name__": "mine"}
        exec(compile(text, "mine.py", "exec"), scope)
        made.append(code_of(loss=scope["f"])["loss"])
    assert made[0] == made[1] != made[2]


def test_what_is_installed_is_its_versions_affair() -> None:
    assert code_of(attack=du.APGD(5), space=du.Linf(0.1), goal=du.Untargeted()) == {}
    assert code_of(attack=du.PGD(2, loss=torch.nn.functional.relu)) == {}
    part = functools.partial(by_factor, allowed=None)
    assert list(code_of(attack={"loss": part})) == ["attack.loss.0"]

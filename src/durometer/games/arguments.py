"""Each part of an evaluation in its own place: a space as space=, a goal as goal=, and made."""

from __future__ import annotations

from typing import Any

from durometer.attacks.parameters import check_made
from durometer.core.errors import DurometerError, Unsupported
from durometer.goals.goal import Expandable
from durometer.noise.joint import Noise
from durometer.spaces.region import Space


def check_kinds(space: Any, goal: Any, attack: Any = None) -> None:
    """Refuse `PGD` for `PGD()`, a goal in the place of a space, and the like.

    Without an attack there may be no space either.
    """
    refuse_noise(space)
    for name, value, fits, example in (
        ("space", space, space is None or isinstance(space, Space), "du.Linf(8/255)"),
        ("goal", goal, isinstance(goal, Expandable), "du.Untargeted()"),
    ):
        if isinstance(value, type):
            raise DurometerError(f"{name}={value.__name__}: not the class but {value.__name__}()")
        if not fits:
            almost = "targets" if name == "goal" else "around"
            if callable(getattr(value, almost, None)):
                example = f"what du.extend.{name.title()} lists; du.testing.check_{name} tells"
            raise DurometerError(f"{name}={value!r}: this is no {name}; expected e.g. {example}")
    if attack is not None:
        check_made("attack={}", attack)


def refuse_noise(space: Any) -> None:
    """A noise in the place of a space is a question for another game."""
    if isinstance(space, Noise):
        raise Unsupported(
            f"space={type(space).__name__}(...) is a noise, and under noise nobody attacks: "
            "evaluate(du.Nature(model, noise), data)"
        )


def refused_quota(game: Any) -> str:
    """Why a game in which the model moves, or nobody attacks, cannot be played by bands."""
    return (
        f"a Quota counts on a model that stays, and {type(game).__name__} is another game: "
        "evaluate the model itself, or give the game a Group(...)"
    )

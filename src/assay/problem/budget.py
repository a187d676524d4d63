"""Budget: how much an attack may spend on one row."""

from __future__ import annotations

from dataclasses import dataclass

from assay.errors import AssayError


@dataclass(frozen=True)
class Budget:
    """Model evaluations an attack may spend on one example; None: no limit.

    >>> import assay as ay
    >>> net, data = ay.testing.toy()
    >>> report = ay.evaluate(
    ...     net, data, space=ay.Linf(0.1), attack=ay.Square(), budget=ay.Budget(forwards=20)
    ... )
    >>> int(report.table["forwards"].max())
    20
    """

    forwards: int | None = None
    backwards: int | None = None

    def __post_init__(self) -> None:
        for name in ("forwards", "backwards"):
            count = getattr(self, name)
            if count is not None and not (isinstance(count, int) and count >= 1):
                raise AssayError(
                    f"Budget({name}={count!r}): expected a whole number of at least 1, or nothing "
                    "for no limit"
                )


UNLIMITED = Budget()

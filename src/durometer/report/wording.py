"""Sentences about verdicts: pure functions of typed counts, so that none says more than is known.

"Proven" is said of proven rows alone. A row that an attack did not break "resisted" that attack,
and the share of such rows is "at most" the robust accuracy. Rows that were wrong before any attack
are counted apart from those that an attack broke.

What a reader would get wrong: an interval is about other rows of the same kind; "at most" is about
other attacks on these rows. A sentence needs both.
"""

from __future__ import annotations

from dataclasses import dataclass

from durometer.core.errors import DurometerError
from durometer.core.spec import Spec

SIGN_OFF = ("Name", "Role", "Accepted, with conditions, or rejected", "Date", "Signature")


@dataclass(frozen=True)
class Verdicts:
    """Every row that was played, once.

    Args:
        broken: Rows that an attack turned.
        proven: Rows of which it is proven that nothing in the space turns them.
        open: Rows that resisted and are not proven.
        wrong: Rows that were wrong (or had reached the goal) before any attack.
    """

    broken: int
    proven: int
    open: int
    wrong: int

    def __post_init__(self) -> None:
        if min(self.broken, self.proven, self.open, self.wrong) < 0:
            raise DurometerError(f"{self}: expected counts of rows")

    @property
    def rows(self) -> int:
        return self.broken + self.proven + self.open + self.wrong

    @property
    def held(self) -> int:
        """Rows that nothing has broken."""
        return self.proven + self.open


@dataclass(frozen=True)
class Audit:
    """The cross-examination of the proofs of a run on the user's own model.

    Args:
        proofs: Rows that were called proven.
        examined: Those of them on which at least one valid point was tried.
        points: Valid points that were tried, in all.
        overturned: Rows that such a point broke; the proofs of the run are then withdrawn.
    """

    proofs: int
    examined: int
    points: int
    overturned: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.overturned <= self.examined <= self.proofs:
            raise DurometerError(f"{self}: expected 0 <= overturned <= examined <= proofs")


@dataclass(frozen=True)
class Stability:
    """Records under noise: `stable` keep their answer with probability `share` or more.

    Args:
        rows: Records whose probability was bounded.
        stable: Those whose lower bound is `share` or more.
        stable_right: Those of them whose answer is right.
        share: The probability from which a record is called stable.
        certified: Whether all bounds are certain; False: some rest on draws.
    """

    rows: int
    stable: int
    stable_right: int
    share: float = 0.99
    certified: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.stable_right <= self.stable <= self.rows:
            raise DurometerError(f"{self}: expected 0 <= stable_right <= stable <= rows")


@dataclass(frozen=True)
class Setting:
    """What two runs have in common."""

    same_model: bool
    same_attack: bool  # and budget
    same_question: bool  # space or noise, goal and game

    @classmethod
    def of(cls, first: Spec, second: Spec) -> Setting:
        """What these two have in common; a model without a hash is not the same as any."""
        other = set(first.differences(second))
        known = first.model_hash not in ("", "unknown")
        return cls(
            same_model=known and not other & {"model_hash", "model_kind", "game"},
            same_attack=not other & {"attack", "budget"},
            same_question=not other & {"space", "goal", "game", "quota", "noise"},
        )


def whole_percent(share: float) -> str:
    """A share in whole percent; 0 is none and 100 is all, whatever rounding would make of it.

    >>> whole_percent(28 / 30), whole_percent(0.999), whole_percent(0.001)
    ('93', 'over 99', 'under 1')
    """
    text = f"{100 * share:.0f}"
    if text == "100" and share < 1:
        return "over 99"
    return "under 1" if text == "0" and share > 0 else text


def percent(count: int, rows: int) -> str:
    """
    >>> percent(28, 30)
    '28 of 30 (93 %)'
    """
    return f"{count:,} of {rows:,} ({whole_percent(count / rows if rows else 0.0)} %)"


def robustness(v: Verdicts, who: str, upper: str, lower: str, tried: bool) -> str:
    """The headline of an untargeted run.

    Args:
        v: The counts.
        who: The model, as a sentence begins with it.
        upper: The share of rows not broken, with its interval.
        lower: The share of proven rows, with its interval.
        tried: Whether a proof was tried.
    """
    right = v.rows - v.wrong
    text = f"{who} classifies {right:,} of {v.rows:,} inputs correctly before any attack. "
    if not tried:
        return text + (
            f"The attack broke {v.broken:,} of these, {v.open:,} resisted it, so at most {upper} "
            "stay correct when an attacker may change them; a stronger attack may break more."
        )
    if not v.open:
        return text + (
            f"When an attacker may change them, {v.broken:,} of these are broken, and {lower} are "
            "proven to stay correct; no row is open."
        )
    return text + (
        f"When an attacker may change them, at least {lower} are proven to stay correct, and at "
        f"most {upper} do: {v.broken:,} were broken, {v.open:,} are open."
    )


def cross_examination(a: Audit) -> str:
    """What was tried against the proofs; nothing found is no second proof.

    >>> cross_examination(Audit(40, 37, 1036))
    'cross-examined: 37 of 40 proofs at 1,036 valid points of the model itself; none broke'
    """
    if not a.examined:
        return f"cross-examined: none of {a.proofs:,} proofs"
    tried = f"cross-examined: {a.examined:,} of {a.proofs:,} proofs at {a.points:,} valid points"
    end = f"{a.overturned:,} broke, so all are withdrawn" if a.overturned else "none broke"
    return f"{tried} of the model itself; {end}"


def harm(v: Verdicts, who: str, won: str, tried: bool) -> str:
    """The headline of a run with a goal; `won` is the share of cases with its interval."""
    decided = tried and not v.open
    text = f"An attacker gets what it wants from {who} in {'' if decided else 'at least '}{won}"
    early = f": {v.wrong:,} before any attack, {v.broken:,} by attacking" if v.wrong else ""
    left = f"; {v.open:,} resisted and are open" if v.open else ""
    return f"{text}{early}{left}."


def noise(s: Stability, who: str, probability: str, stable: str, untargeted: bool) -> str:
    """The headline under noise; `stable` is the share of stable records with its interval."""
    if not untargeted:
        return (
            f"Under the stated noise {who} does no such harm with probability {probability} on "
            f"average; for {stable} that probability is {s.share:g} or more."
        )
    return (
        f"Under the stated noise {who} keeps its answer with probability {probability} on average; "
        f"{stable} are stable (probability {s.share:g} or more), {s.stable_right:,} of these are "
        "stable and right."
    )


def moving(who: str, right: str, held: str) -> str:
    """The headline of a model that adapts to each batch; both are shares with their intervals."""
    return (
        f"{who} answers {right} correctly after adapting to a clean batch, and at most {held} when "
        "the attacker may change the batch first; a stronger attack may break more."
    )


def unattacked(who: str, right: str) -> str:
    """The headline of a model that adapts to batches nobody has touched."""
    return f"{who} answers {right} correctly after adapting; nobody attacked."


def coalitions(who: str, held: str, k: int) -> str:
    """The headline of a quota; `held` is the share of bands that did not fill it."""
    return (
        f"Of the bands of attackers that want {k:,} false identities from {who}, at most {held} "
        "fail; a stronger attack may let more succeed."
    )


def rungs(held: tuple[str, str, str], strongest: str) -> str:
    """The headline of a ladder. `held`: of static, transfer and the strongest attack."""
    bare, ignored, simulated = held
    return (
        f"Under attack the model is right on at most {bare} before it adapts, at most {ignored} "
        f"when it adapts to an attacker who ignores that, and at most {simulated} when the "
        f"attacker simulates the defence ({strongest})."
    )


def over_runs(runs: int, lowest: tuple[str, str], highest: tuple[str, str]) -> str:
    """The headline of a sweep; each end with the run that it is of."""
    return (
        f"Over {runs:,} runs robust accuracy is at most {lowest[0]} [{lowest[1]}] to at most "
        f"{highest[0]} [{highest[1]}]."
    )


def noise_ranking(
    setting: Setting | None,
    names: tuple[str, str],
    points: tuple[float, float, float],
    p: float,
    what: str = "probability that the answer stays",
) -> str:
    """Two models under noise. `points`: first minus second, low, value, high, in points."""
    low, value, high = points
    if setting is not None and not setting.same_question:
        return (
            "No ranking: the two runs asked different questions (another noise, goal or space). "
            "Run both with the same noise and goal."
        )
    if low <= 0 <= high:
        return f"No difference in {what} between {names[0]} and {names[1]} could be shown."
    better, worse = names if value > 0 else names[::-1]
    low, value, high = sorted((abs(low), abs(value), abs(high)))
    by = f"by {value:.1f} points (between {low:.1f} and {high:.1f}; p = {p:.2g})"
    return f"{better} has a higher {what} than {worse}, {by}."


def same_model(names: tuple[str, str], only: tuple[int, int], held: int, rows: int) -> str:
    """Two attacks on one model. `only`: rows that the first and the second alone broke."""
    upper = f"Robust accuracy is at most {percent(held, rows)}: what resisted both."
    if only == (0, 0):
        return f"Same model: both runs broke the same rows. {upper}"
    more, fewer = (0, 1) if only[0] >= only[1] else (1, 0)
    difference = only[more] - only[fewer]
    counts = f"{names[0]} alone broke {only[0]:,} rows, {names[1]} alone {only[1]:,} of {rows:,}"
    if not difference:
        return f"Same model: {counts}. {upper}"
    return (
        f"Same model: {names[more]}'s attack breaks {difference:,} more rows, so {names[fewer]}'s "
        f"figure is only an upper bound ({counts}). {upper}"
    )


def ranking(
    setting: Setting,
    names: tuple[str, str],
    sides: tuple[Verdicts, Verdicts],
    points: tuple[float, float, float],
    p: float,
) -> str:
    """Two models. `points`: first minus second, low, value and high, in percentage points."""
    low, value, high = points
    figures = " and ".join(
        f"{name} at most {percent(v.held, v.rows)}" for name, v in zip(names, sides, strict=True)
    )
    if not setting.same_question:
        return (
            f"No ranking: the two runs asked different questions (another space, goal or game). "
            f"Robust accuracy: {figures}. Run both with the same space and goal."
        )
    decided = not any(v.open for v in sides)
    if not (setting.same_attack or decided):
        return (
            f"No ranking: the two runs used different attacks or budgets. Robust accuracy: "
            f"{figures}. Run the same attack with the same budget on both models."
        )
    if low <= 0 <= high:
        return f"No difference between {names[0]} and {names[1]} could be shown: {figures}."
    better, worse = names if value > 0 else names[::-1]
    low, value, high = sorted((abs(low), abs(value), abs(high)))
    by = f"by {value:.1f} points (between {low:.1f} and {high:.1f}; p = {p:.2g})"
    if decided:
        return f"{better} has a higher robust accuracy than {worse}, {by}; no row is open."
    return (
        f"Against the same attack more rows of {better} resist than of {worse}, {by}. Robust "
        f"accuracy: {figures}."
    )


def radii(minimised: bool) -> str:
    """What stands above the curve over the radius."""
    if minimised:
        return (
            "From the nearest success of each row and from what is proven about nearer ones: one "
            "run tells robust accuracy at every radius up to its own."
        )
    return (
        "From the distances of the successes. Below the run's own radius the curve is loose, for "
        "nobody looked for nearer successes: Exact(minimise=...) or a sweep does."
    )


def cheapest(flips: int, kept: int, amounts: tuple[str, str], money: bool, minimised: bool) -> str:
    """What a flip costs. `amounts`: the least one, and the median of the `kept` nearest.

    Args:
        flips: Rows that an attack turned.
        kept: Those of them of which the changes are known: the nearest.
        amounts: The least and the median amount.
        money: Whether they are costs; else distances in the space of the run.
        minimised: Whether the attack looked for the cheapest change of each row.
    """
    what, where = ("cost", "in the currency of the features' prices") if money else (
        "distance", "in the scaled units of the space")  # fmt: skip
    few = f" The table is of the {kept:,} nearest." if kept < flips else ""
    bound = "" if minimised else (
        f" Nobody looked for the least {what} of a row: it is at most what is shown.")  # fmt: skip
    return (
        f"{flips:,} rows were flipped; the least {what} is {amounts[0]}, the median {amounts[1]} "
        f"({where}).{bound}{few}"
    )


def addresses(searched: Verdicts, exact: Verdicts, hardened: Verdicts) -> str:
    """The demo's first scene: a search, an exact decision, a hardened model."""
    return (
        f"of {searched.rows:,} phishing addresses {searched.wrong:,} pass unchanged, and a search "
        f"turns {searched.broken:,} more into ones that pass, within all the relations of the "
        f"table. Exact search turns {exact.broken:,}, {exact.proven:,} are proven not to pass and "
        f"{exact.open:,} are open. Refitted three times against its own counterexamples, the model "
        f"lets {hardened.wrong:,} pass unchanged and {hardened.broken:,} once turned; "
        f"{hardened.proven:,} are proven not to pass and {hardened.open:,} are open. The table "
        "above is of the refitted model."
    )


def signs(group: Verdicts, usual: Verdicts, attack: str) -> str:
    """The demo's second scene: harm instead of any error; nothing is proven there."""
    return (
        f"Of {group.rows:,} signs {group.wrong:,} say go from the start and {group.broken:,} more "
        "are made to say go; "
        f"{group.held:,} resisted {attack}. Had any wrong class counted, as is usual, "
        f"{usual.held:,} of {usual.rows:,} would have resisted: what counts as success changes the "
        "answer, so ask for the harm you fear. A stronger attack may turn more."
    )


def measurements(s: Stability) -> str:
    """The demo's third scene."""
    sure = " These are certified bounds, not samples." if s.certified else ""
    return (
        f"{s.stable:,} of {s.rows:,} decisions are stable: they stay with a probability of at "
        f"least {100 * s.share:.12g} % when every measurement errs by 5 % of its spread. "
        f"{s.stable_right:,} of these are stable and right.{sure}"
    )


def defence(held: tuple[str, str, str]) -> str:
    """The demo's fourth scene. `held`: without the defence, with it against an attacker who
    ignores it, and against one who simulates it."""
    bare, ignored, simulated = held
    return (
        f"without it at most {bare} digits hold; with it at most {ignored}, as long as the "
        f"attacker ignores it, and at most {simulated} once the attacker simulates it. Quote "
        "the last."
    )

"""Before and after on one page: the price, the path, the line to beat, and why."""

from __future__ import annotations

from markupsafe import Markup

from durometer.report.page import charts
from durometer.report.page.section import Section, draw, render, table
from durometer.report.stats import Estimate, wilson
from durometer.training.hardening.path import Hardened, Round


def page(hardened: Hardened) -> str:
    """One self-contained HTML page.

    >>> print(page(Hardened(None, 0, (_NOTHING,), 10, 5, 3, 3, None, None))[:15])
    <!doctype html>
    """
    first, last = hardened.path[0], hardened.path[hardened.chosen]
    kind = type(hardened.model).__name__
    verdict = (
        f"Proven robust accuracy {first.proven:.3f} before, {last.proven:.3f} after hardening; "
        f"accuracy {first.accuracy:.3f} before, {last.accuracy:.3f} after."
    )
    about = (
        f"A {kind}, refitted {len(hardened.path) - 1} times. All figures are of {hardened.rows} "
        f"rows held out from fitting, of which {hardened.attacked} rows that an attacker would "
        "start from were proven or broken one by one. The round was chosen on these rows: judge "
        "the model once more on rows of your own."
    )
    sections = (
        _notes(hardened), _sides(hardened), _path(hardened), _line(hardened), _why(hardened),
        _relations(hardened),
    )  # fmt: skip
    return render(f"durometer: {kind}, hardened", verdict, about, sections)


def _notes(hardened: Hardened) -> Section | None:
    notes = hardened.notes()
    body = Markup("").join(draw("sentence", n) for n in notes)
    return Section("notes", "Beware", body) if notes else None


def _shares(r: Round, hardened: Hardened) -> dict[str, Estimate]:
    n = hardened.attacked
    return {
        "accuracy": wilson(r.accuracy * hardened.rows, hardened.rows),
        "proven": wilson(r.proven * n, n),
        "broken": wilson(r.broken * n, n),
        "open": wilson(r.open * n, n),
    }


def _sides(hardened: Hardened) -> Section:
    first, last = hardened.path[0], hardened.path[hardened.chosen]
    both = [_shares(r, hardened) for r in (first, last)]
    rows = [(name, str(both[0][name]), str(both[1][name])) for name in both[0]]
    pairs = enumerate(zip(first.recall, last.recall, strict=True))
    rows += [(f"accuracy within class {i}", f"{a:.3f}", f"{b:.3f}") for i, (a, b) in pairs]
    rows.append(("vacuous, of the proven, at least", f"{first.vacuous:.2f}", f"{last.vacuous:.2f}"))
    marks = {
        f"{name}, {when}": e
        for name in ("accuracy", "proven")
        for when, e in (("before", both[0][name]), ("after", both[1][name]))
    }
    chart = charts.intervals(marks, "Accuracy and proven share before and after")
    return Section("sides", "Before and after", chart + table(("", "before", "after"), rows))


def _path(hardened: Hardened) -> Section:
    rows = [
        (
            f"{r.number}{' (chosen)' if r.number == hardened.chosen else ''}", f"{r.free:g}",
            r.step, r.counterexamples, f"{r.accuracy:.3f}", f"{r.proven:.3f}", f"{r.broken:.3f}",
            f"{r.open:.3f}", f"{r.vacuous:.2f}",
        )
        for r in hardened.path
    ]  # fmt: skip
    head = ("round", "free trees", "step", "counterexamples", "accuracy", "proven", "broken",
            "open", "vacuous")  # fmt: skip
    text = (
        f"{hardened.kept} of {hardened.features} features keep what they tell under attack. "
        "'free trees' is the share of the trees that see the others too. Progress is not monotone: "
        "a new model has new holes."
    )
    return Section("path", "The path", table(head, rows), text)


def _line(hardened: Hardened) -> Section | None:
    u, r = hardened.unmovable, hardened.path[hardened.chosen]
    if u is None:
        return None
    rows = [
        ("the hardened model", f"{r.accuracy:.3f}", f"{r.proven:.3f}"),
        (f"the same estimator on {u.features} features nobody can move", f"{u.accuracy:.3f}",
         f"{u.robust:.3f}"),
        (f"one rule: {u.rule}", f"{u.rule_accuracy:.3f}", "as accurate under attack"),
    ]  # fmt: skip
    text = "Hardening is worth its name where it lies above the lines below the first."
    return Section("line", "The line to beat", table(("", "accuracy", "proven"), rows), text)


def _why(hardened: Hardened) -> Section | None:
    why = hardened.explanation
    if why is None:
        return None
    weak = table(
        ("weak by", "share of counterexamples that change it", "median change, of its range"),
        [(n, f"{s:.2f}", f"{size:.3f}") for n, (s, size) in list(why.weak.items())[:12]],
    )
    names = list(dict.fromkeys([*list(why.after)[:10], *list(why.before)[:10]]))
    leans = table(
        ("accuracy lost when shuffled", "before", "after"),
        [(n, f"{why.before.get(n, 0):.3f}", f"{why.after.get(n, 0):.3f}") for n in names],
    )
    return Section("why", "Why it was weak, and what it leans on now", weak + leans)


def _relations(hardened: Hardened) -> Section | None:
    why = hardened.explanation
    if why is None or not why.protects:
        return None
    rows = [(r, f"{s:.2f}") for r, s in why.protects.items()]
    body = table(("without this relation", "proven rows that break"), rows)
    return Section("relations", "Which relations protect it", body)


_NOTHING = Round(0, 1.0, 0, 1.0, (1.0, 1.0), 1.0, 0.0, 0.0, 0.0, 0)

"""A report as one page: a verdict a manager understands, then everything that backs it up.

A section is a function from the report to a `Section`, or None where the run has nothing to say.
What may spoil the figures comes before them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from durometer.core.number_format import format_number
from durometer.goals.coalition_probability import Pairs
from durometer.report import wording
from durometer.report.examples import SHOWN
from durometer.report.figures.confusion import confusion
from durometer.report.figures.groups import DRAWS, attempts
from durometer.report.figures.noise import SURE, describe_noise
from durometer.report.figures.transductive import curve
from durometer.report.job_file import NAME, call_in_python, job_toml
from durometer.report.metrics import middle
from durometer.report.page import axis_scale, charts
from durometer.report.page import rows as table_of_rows
from durometer.report.page.section import (
    Section,
    beside,
    draw,
    flagged,
    render,
    table,
    titled,
    written,
)
from durometer.report.page.threat import pictures
from durometer.report.radii import is_priced, minimised, radius, sampled, sides
from durometer.report.slices import segments
from durometer.report.stats import Estimate, wilson
from durometer.report.verdicts import headline, threat, verdicts

if TYPE_CHECKING:
    from durometer.report.report import Report

LOG = logging.getLogger("durometer.report")
_CLASSES = 45  # that a chart can hold
_FEATURES, _LEAST_CERTAIN = 12, 12
_POINTS = 24  # of a curve over the budget
_SEGMENTED, _COLUMNS = 200_000, 12  # rows and columns that are cut into segments
_AMOUNTS = (  # figures that are no rates
    "forwards", "backwards", "seconds", "distance", "adaptations", "adapting", "width", "changes",
    "attempts",
)  # fmt: skip
_FILES = ("records.parquet", "spec.json", "evidence.html", "evidence.json")  # beside every page


@dataclass(frozen=True)
class Light:
    """What came of the limits that were fixed beforehand; `evidence.light` makes one."""

    text: str
    outcome: str = ""  # "" where nothing could be decided
    lines: tuple[tuple[str, ...], ...] = ()  # a criterion each


def page(
    report: Report,
    repeat: str = "",
    light: Light | None = None,
    files: Sequence[str] = _FILES,
) -> str:
    """The whole page; a part that fails is a sentence in it, for a page never stops a run.

    Args:
        report: The report.
        repeat: The command, or the call, that repeats the run.
        light: What came of its limits. None: there are none.
        files: Files of the run that stand beside the page.
    """
    name = f"{report.spec.model_name()} on {report.spec.data}, {_today()}"
    said, about = (_said(make, report) for make in (headline, threat))
    shown, picture = (_drawn(make, report) for make in (bar, _pictures))

    def reproduce(report: Report) -> Section:
        return spec(report, repeat, files)

    sections = [_made(make, report) for make in (*SECTIONS, reproduce)]
    if light is not None:
        sections.insert(0, limits(light))
    return render(f"durometer: {name}", said, about, sections, shown, picture, name)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def bar(report: Report) -> Markup:
    """What is known of the rows, as one bar with its legend; empty where no row was played."""
    counts = verdicts(report)
    if not any(n for _, n in counts.values()):
        return Markup("")
    return charts.verdicts(counts, ", ".join(f"{n} {name}" for name, n in counts.values()))


def _pictures(report: Report) -> Markup:
    return pictures(report.spec)


def _drawn(make: Callable[[Report], Markup], report: Report) -> Markup:
    try:
        return make(report)
    except Exception:
        LOG.exception("the page's %s could not be drawn", make.__name__)
        return Markup("")


def _made(make: Callable[[Report], Section | None], report: Report) -> Section | None:
    try:
        return make(report)
    except Exception as error:
        name = make.__name__
        LOG.exception("the section '%s' of the page could not be made", name)
        text = f"This section could not be made ({type(error).__name__}: {error}); the records are"
        return Section(name, name, Markup(""), text + " saved. Please report this as a fault.")


def _said(make: Callable[[Report], str], report: Report) -> str:
    try:
        return make(report)
    except Exception as error:
        LOG.exception("the page's %s could not be made", make.__name__)
        return f"The {make.__name__} could not be made ({type(error).__name__}: {error})."


def namer(report: Report) -> Callable[[Hashable], str]:
    """The name of a class by its index, as text: "class 3" where it has none."""

    def name(c: Hashable) -> str:
        known = c if isinstance(c, str) else report.spec.class_name(int(str(c)))
        return known if isinstance(known, str) else f"class {known}"

    return name


def flags(report: Report) -> Section | None:
    """What may make the figures misleading."""
    if not report.flags:
        return None
    text = "What may make these figures misleading."
    return Section("flags", "Look at this first", flagged(report.flags), text)


def limits(light: Light) -> Section:
    """The limits that were fixed beforehand, as a traffic light."""
    if not light.outcome:
        return Section("limits", "Limits", Markup(""), light.text)
    told = {"pass": "Passed: every limit is met.", "fail": "Failed: a limit is not met.",
            "undecided": "Undecided: the rows do not suffice."}[light.outcome]  # fmt: skip
    drawn = draw("light", light.outcome, told, light.lines)
    return Section("limits", "Limits", drawn, light.text)


def figures(report: Report) -> Section:
    """Every figure, as a chart where it is a rate and in a table."""
    known = {name: (title, e) for name, (title, e) in report.shown.items() if e.n}
    rates = {
        title: e
        for name, (title, e) in known.items()
        if e.low >= 0 and e.high <= 1 and not name.startswith(_AMOUNTS)
    }
    lines = [(title, *written(e, title in rates), f"{e.n:,}") for title, e in known.values()]
    chart = charts.intervals(rates, "Rates with their 95 % intervals") if rates else Markup("")
    return Section("figures", "Figures", beside(draw("figures", lines), chart))


def stages(report: Report) -> Section | None:
    """What each stage settled, and what it cost."""
    if not report.two_sided:
        return None
    lines = [
        (s["stage"], s["rows"], s["proven"], s["broken"], 1e3 * s["seconds"] / max(1, s["rows"]))
        for s in report.stages.to_dict("records")
    ]
    if not lines:
        return None
    head = ("stage", "rows it was given", "proven", "broken", "ms a row")
    text = "In their order; a row that one stage has settled costs the next ones nothing."
    return Section("stages", "Who settled what", table(head, lines), text)


def probabilities(report: Report) -> Section | None:
    """Under noise: the histogram, how the records were bounded, and the least certain ones."""
    t, name = report.table, namer(report)
    low, high = (t[f"probability_{end}"].to_numpy(float) for end in ("low", "high"))
    middle = (low + high) / 2
    if not np.isfinite(middle).any():
        return None
    stays = describe_noise(report)[0]
    axis = f"probability that {stays} (line: {SURE})"
    left = charts.histogram(middle, "Histogram of probabilities", axis, mark=SURE)
    kinds = {str(k): int(v) for k, v in t["winner"].value_counts().items() if k}
    if kinds:
        bounds = charts.bars(kinds, "Records by the kind of their bounds", "records")
        left += titled("How the bounds were found", bounds)
    worst = np.argsort(middle, kind="stable")[: min(_LEAST_CERTAIN, np.isfinite(middle).sum())]
    rows = [
        (str(t["id"].iloc[i]), name(t["y"].iloc[i]), name(t["clean"].iloc[i]), float(low[i]),
         float(high[i]))
        for i in worst
    ]  # fmt: skip
    least = table(("id", "true class", "answer", "at least", "at most"), rows)
    text = f"For each record: how likely {stays} when it is measured again."
    body = beside(left, titled("The least certain records", least))
    return Section("probability", "Under noise", body, text)


def rounds(report: Report) -> Section | None:
    """A model that moves: accuracy by run and round, and the curve of rejection."""
    if report.spec.game_type != "Transductive":
        return None
    parts = []
    played = report.table[report.table["skipped"] == ""]
    for column, title in (("run", "Run by run"), ("round", "Round by round")):
        if played[column].nunique() > 1:
            found = report.metric("robust", by=column).items()
            shares = [(f"{column} {value}", e) for value, e in found if e.n][:40]
            alt = f"{_held(report)} by {column}"
            parts.append(titled(title, charts.intervals(dict(shares), alt)))
    if played["doubt"].notna().any():
        points = curve(report, 25)
        lines = {
            title: [(x, Estimate(y, y, y, len(played))) for x, y in
                    zip(points["rejected"], points[name], strict=True) if y == y]
            for title, name in (("wrong, of all", "error"), ("of accepted", "error_accepted"),
                                ("clean rejected", "rejected_clean"))
        }  # fmt: skip
        axis = "share of inputs rejected"
        chart = charts.curves(lines, "Errors against the share rejected", axis)
        parts.append(titled("If more or less were rejected", chart))
    text = "The model adapts to each batch after the attacker has moved."
    return Section("rounds", "A model that moves", beside(*parts), text) if parts else None


def harm(report: Report) -> Section | None:
    """Of group goals: the map of sources against targets, and for a quota the attempts."""
    spec = report.spec
    if spec.aims is None:
        return None
    body = beside(_harm_map(report), _attempts(report) if spec.quota is not None else Markup(""))
    text = "Share of the inputs of a class (row) that the attacker can pass off as another (column)"
    return Section("harm", "Who passes for whom", body, text + ".", wide=spec.quota is not None)


def _harm_map(report: Report) -> Markup:
    t, name = report.table[report.table["skipped"] == ""], namer(report)
    end = "target" if report.spec.quota is not None else "final"
    sources = sorted(t["y"].unique())[:_CLASSES]
    ends = sorted(report.spec.aims or ())[:_CLASSES]
    share = np.zeros((len(sources), len(ends)))
    for i, s in enumerate(sources):
        mine = t[t["y"] == s]
        for j, e in enumerate(ends):
            aimed = mine[mine["target"] == e] if end == "target" else mine
            hits = int((aimed["success"] & (aimed[end] == e)).sum())
            share[i, j] = hits / max(1, len(aimed))
    named = [name(s) for s in sources], [name(e) for e in ends]
    return charts.heat(share, *named, "Sources against targets", percent=True)


def _attempts(report: Report) -> Markup:
    """The share of bands whose quota is filled after so many attempts, in two orders."""
    rule = report.spec.quota
    assert rule is not None
    pairs = Pairs.of(report.records.columns, len(set(rule.targets)))
    if not len(pairs.ids):
        return draw("sentence", "No input has been tried on all targets yet.")
    asked = pairs, rule, report.spec.seed
    orders = {"campaign": attempts(*asked), "random order": attempts(*asked, shuffled=True)}
    counts = {title: c for title, c in orders.items() if c is not None}
    finite = [c[np.isfinite(c)] for c in counts.values()]
    if not any(len(c) for c in finite):
        return draw("sentence", "No drawn band could fill its quota, in any order.")
    most = max(int(c.max()) for c in finite if len(c))
    steps = np.unique(np.linspace(1, most, min(most, 24)).round())
    lines = {
        title: [(float(a), wilson(int((c <= a).sum()), len(c))) for a in steps]
        for title, c in counts.items()
    }
    note = f"{DRAWS} bands, one input per source, drawn from the table of all pairs."
    chart = charts.curves(lines, "Bands that have filled their quota, by attempts", "attempts")
    return titled("Attempts until the quota is filled", chart, note)


def winners(report: Report) -> Section | None:
    """Rows broken by each attack."""
    won = report.counts("winner", lambda t: t["success"] & (t["skipped"] != "not scored"))
    several = len({*won} - {"clean"}) > 1 or len(report.spec.attacks) > 2
    if not won or not several or report.spec.is_unattacked:
        return None  # the bar of verdicts says it
    text = "Rows broken by each attack; “clean” means that no attack was needed."
    return Section("winners", "Which attack won", charts.bars(won, text, "rows"), text, wide=False)


def price(report: Report) -> Section | None:
    """Robust accuracy against what the attacker had spent, read off the finished rows.

    A solved row costs nothing more, so its forward passes are the price of its success; in a game
    whose model moves afterwards no row is solved before the end.
    """
    if report.spec.game_type == "Transductive":
        return None
    whole = report.table  # columns first: a copy of all of a million rows is half a gigabyte
    t = whole.loc[whole["skipped"] == "", ["run", "forwards", "success"]]
    if report.spec.quota is not None or t["run"].nunique() > 1:
        return None
    spent = t["forwards"].to_numpy(float)
    won = t["success"].to_numpy(bool)
    if not (won & (spent > 1)).any() or spent.max() < 4:
        return None
    budgets = np.unique(np.geomspace(1, spent.max(), _POINTS).round())
    line = [(b, wilson(int((~won | (spent > b)).sum()), len(t))) for b in budgets.tolist()]
    text = "Had the attacker been allowed only so many forward passes per row."
    alt, axis = "Robust accuracy against forward passes", "forward passes per row"
    chart = charts.curves({"robust": line}, alt, axis, log=True)
    return Section("price", "What it cost", chart, text, wide=False)


def radii(report: Report) -> Section | None:
    """Robust accuracy at every radius, where the distances of one run tell something about it."""
    near = minimised(report)
    if not near and not _spread(report):
        return None
    found = [(eps, *sides(report, eps)) for eps in sampled(report)]
    line = {"at most": [(eps, most) for eps, _, most in found]}
    if near or report.two_sided:
        line["at least"] = [(eps, least) for eps, least, _ in found]
    axis = "cost" if is_priced(report.spec) else "eps"
    chart = charts.curves(line, f"Robust accuracy against {axis}", axis,
                          per=axis_scale.units(report.spec))  # fmt: skip
    return Section("radii", "At every radius", chart, wording.radii(near), wide=False)


def _spread(report: Report) -> bool:
    """Whether the successes of an attack lie at distances worth a curve."""
    spec, most = report.spec, radius(report)
    if most is None or spec.game_type != "Static" or spec.quota is not None or spec.is_unattacked:
        return False
    t = report.table
    won = t.loc[t["success"] & (t["winner"] != "clean"), "distance"].to_numpy(float)
    won = won[np.isfinite(won)]
    return len(won) > 1 and bool(np.ptp(won) > 0.02 * most) and bool(won.max() <= 1.01 * most)


def spread(report: Report) -> Section | None:
    """How near, how far: histograms of distance and margin."""
    t, parts, text = report.table, [], ""
    won = t.loc[t["success"] & (t["winner"] != "clean"), "distance"].to_numpy(float)
    won = won[np.isfinite(won)]
    if len(won):
        text = _same_distance(report, won)
        if not text:
            parts.append(titled("Distance of the successes", _distances(report, won)))
    held = t.loc[~t["success"] & (t["skipped"] == ""), "margin"].to_numpy(float)
    if np.isfinite(held).any():
        axis = "best margin the attacker reached (0: success)"
        chart = charts.histogram(held, "Histogram of margins", axis, mark=0.0)
        parts.append(titled("How close the others came", chart))
    if not parts and not text:
        return None
    return Section("spread", "How near, how far", beside(*parts), text, wide=len(parts) > 1)


def _same_distance(report: Report, won: np.ndarray) -> str:
    """A sentence where all are the same, as on the surface of a cube."""
    if np.ptp(won) > 1e-4 * abs(won).max():
        return ""
    eps = axis_scale.budget(report.spec)
    at = axis_scale.shown(float(f"{won.mean():.4g}"))
    at = format_number(eps) if eps and abs(won.mean() - eps) < 1e-4 * eps else at
    edge = ", as far as was allowed" if eps and at == format_number(eps) else ""
    return f"All {len(won):,} successes lie at distance {at}{edge}."


def _distances(report: Report, won: np.ndarray) -> Markup:
    """The histogram."""
    per, eps = axis_scale.units(report.spec), axis_scale.budget(report.spec)
    axis = "distance from the clean input"
    if eps is not None and won.max() <= eps * 1.01:
        return charts.histogram(won, "Histogram of distances", f"{axis} (line: allowed)", eps, per)
    return charts.histogram(won, "Histogram of distances", axis, per=per)


def _held(report: Report) -> str:
    """What a share of rows that held is called: nobody is robust where nobody attacked."""
    return "Goal not reached" if report.spec.is_unattacked else "Robust accuracy"


def classes(report: Report) -> Section | None:
    """Robust accuracy by true class, and the confusions that attacks made."""
    t, name = report.table, namer(report)
    if t["y"].nunique() < 2 or report.spec.quota is not None or report.spec.game_type == "Nature":
        return None
    found = {c: e for c, e in report.metric("robust", by="y").items() if e.n}
    weakest = sorted(found, key=lambda c: found[c].value)[:_CLASSES]
    by_class = {name(c): e for c, e in found.items() if c in weakest}
    text = "" if len(found) <= _CLASSES else f"The {_CLASSES} weakest of {len(found)} classes."
    parts = [charts.intervals(by_class, f"{_held(report)} by true class")]
    made = confusion(report, _CLASSES)
    if made is not None and report.spec.aims is None:  # a group goal has its own map
        named = [name(s) for s in made.sources], [name(e) for e in made.ends]
        alt = "True class against the class after the attack"
        heat = charts.heat(made.counts, *named, alt)
        parts.append(titled("What was taken for what", heat))
    return Section("classes", "Class by class", beside(*parts), text, wide=len(parts) > 1)


def features(report: Report) -> Section | None:
    """For tables: the features attacks change most, and the rules that held them back."""
    e = report.examples
    if e is None or not e.names:
        return None
    order = np.argsort(-e.shift, kind="stable")[:_FEATURES]
    abused = {e.names[i]: round(100 * float(e.shift[i]), 2) for i in order if e.changed[i]}
    often = np.argsort(-e.changed, kind="stable")[:_FEATURES]
    counts = {e.names[i]: float(e.changed[i]) for i in often if e.changed[i]}
    parts = [
        titled(
            "Features that were changed most",
            charts.bars(abused, "Mean change of each feature", "% of its range"),
            "Mean change over all successes, in percent of the feature's range in these rows.",
        ),
        titled(
            "Features that were changed most often",
            charts.bars(counts, "Successes in which each feature was changed", "successes"),
            "In how many successes.",
        ),
    ]
    if e.rules:
        text = (
            f"Of the {e.asked} nearest successes, those in which a changed feature could not have "
            "gone further without breaking the rule."
        )
        bound = charts.bars({r: float(n) for r, n in e.rules}, "Rules that bind", "successes")
        parts.append(titled("Rules that held the attacker back", bound, text))
    return Section("features", "Features", beside(*parts))


def words(report: Report) -> Section | None:
    """For texts: the replacements that stand in most successes."""
    e = report.examples
    if e is None or not e.replaced:
        return None
    counts = {f"{a} → {b}": float(n) for a, b, n in e.replaced[:_FEATURES]}
    text = (
        "What was replaced by what, in how many successes (all changes of a sentence count, also "
        "where one would have sufficed)."
    )
    body = charts.bars(counts, "Replacements in most successes", "successes")
    return Section("words", "Words", body, text, wide=False)


def cheapest(report: Report) -> Section | None:
    """For tables: what a flip costs at least, and by which changes."""
    e, t = report.examples, report.table
    if e is None or not e.names:
        return None
    money = is_priced(report.spec)
    far = t["distance"].to_numpy(float)[e.places]
    kinds: dict[tuple[str, ...], list[int]] = {}
    for k in range(len(e.places)):
        kinds.setdefault(tuple(sorted(e.name(i) for i in e.moved(k))), []).append(k)
    often = sorted(kinds.items(), key=lambda kind: (-len(kind[1]), far[kind[1][0]]))[:_FEATURES]
    lines = []
    for names, at in often:
        first = min(at, key=lambda k: far[k])
        steps = [f"{f + ': ' if len(names) > 1 else ''}{a} → {b} {unit}".strip()
                 for f, a, b, unit, _ in table_of_rows.changed_cells(e, first, 4)]  # fmt: skip
        least, usual = (axis_scale.amount(v) for v in (far[first], float(np.median(far[at]))))
        lines.append((", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4
                      else ""), len(at), least, usual, "; ".join(steps)))  # fmt: skip
    what = "cost" if money else "distance"
    head = ("what was changed", "flips", f"least {what}", f"median {what}", "the nearest one")
    flips = int((t["success"] & (t["winner"] != "clean")).sum())
    amounts = [axis_scale.amount(v) for v in (float(far.min()), float(np.median(far)))]
    text = wording.cheapest(flips, len(far), (amounts[0], amounts[1]), money, minimised(report))
    return Section("cheapest", "Cheapest flips", table(head, lines), text)


def examples(report: Report) -> Section | None:
    """The nearest successes, before and after."""
    e = report.examples
    if e is None:
        return None
    shown = [
        (_headline(report, int(at)), table_of_rows.cards(e, k))
        for k, at in enumerate(e.places[:SHOWN])
    ]
    body = draw("cards", shown, "wide" if e.is_image else "" if e.text else "records")
    return Section("examples", "Examples", body, "The successes that had to change least.")


def _headline(report: Report, at: int) -> str:
    row, name = report.table.iloc[at], namer(report)
    far = axis_scale.amount(float(row["distance"]), axis_scale.units(report.spec), 3)
    what = "cost" if is_priced(report.spec) else "distance"
    return f"{row['id']}: {name(row['y'])} → {name(row['final'])} ({what} {far}, {row['winner']})"


def segmented(report: Report) -> Section | None:
    """Robustness by the columns of the data's own table."""
    data, t = report.rows, report.table
    if data is None or report.spec.quota is not None or len(t) > _SEGMENTED:
        return None
    played = (t["skipped"] == "").to_numpy(bool)
    noisy = report.spec.game_type == "Nature"
    held = middle(t) if noisy else (~t["success"]).to_numpy(float)
    at = played & np.isfinite(held)
    ids, runs = (t[column].to_numpy()[at] for column in ("id", "run"))
    lined = data.reindex(t["id"])
    parts = {}
    for column in list(data.columns)[:_COLUMNS]:
        found = segments(lined[column].to_numpy()[at], held[at], ids, runs)
        if len(found) > 1:
            parts[str(column)] = found
    if not parts:
        return None
    worst = sorted(parts, key=lambda c: parts[c][0].robust.high)
    what = "Probability that the answer stays" if noisy else "Share of rows not broken"
    body = Markup("").join(
        draw("folded", column,
             charts.intervals({s.value: s.robust for s in parts[column]}, f"{what} by {column}"),
             column == worst[0])
        for column in worst
    )  # fmt: skip
    bound = "" if noisy else " (an upper bound wherever rows are open)"
    text = (
        f"{what}{bound}, by columns of the data; the column with the surely worst segment first. "
        "The intervals of a column hold all at once. Numbers are cut at their quartiles."
    )
    left = len(data.columns) - _COLUMNS
    text += f" {left} further columns: durometer view." if left > 0 else ""
    return Section("segments", "Segments", body, text)


def rows(report: Report) -> Section:
    """All rows, to sort, filter and open."""
    return table_of_rows.rows(report, namer(report))


def spec(report: Report, repeat: str = "", files: Sequence[str] = _FILES) -> Section:
    """What was asked, with versions and hashes."""
    said = report.spec
    how = "file" if "config.toml" in repeat else "script" if "&& python " in repeat else "call"
    call = call_in_python(said) if how == "script" else ""
    if not repeat:
        repeat = said.command or call_in_python(said)
    if files and how == "file":
        files = (*files, "config.toml")
    elif files and not said.command.startswith("durometer") and job_toml(said):
        files = (*files, NAME)
    body = draw("reproduce", how, repeat, call, _today(), files, said.in_words())
    return Section("spec", "To reproduce", body, "What was asked, with versions and hashes.")


SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    flags, figures, stages, probabilities, rounds, harm, winners, price, radii, spread,
    classes, segmented, cheapest, features, words, examples, rows,
)  # fmt: skip

"""Claims about a whole model on one page: the verdict, the pair, who does it, what was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from durometer.report.page.section import Section, draw, render, table

if TYPE_CHECKING:
    from durometer.gates.properties import Property, PropertyReport
    from durometer.proofs.globally.answer import GlobalAnswer

_VERDICT = {
    "pass": "All {n} claims are proven.",
    "fail": "{k} of {n} claims are refuted.",
    "undecided": "{k} of {n} claims are neither proven nor refuted.",
}


def page(report: PropertyReport) -> str:
    """One self-contained HTML page."""
    n, k = len(report.answers), report.outcomes.count(report.outcome)
    about = (
        f"Claims about a {report.model or 'model'} and every valid record there may be, not only "
        "those in the data. A claim is proven when no valid record can break it; it is refuted by "
        "the records shown, which the model itself was asked about."
    )
    sections: list[Section | None] = [_summary(report)]
    sections += [
        _claim(i, p, a)
        for i, (p, a) in enumerate(zip(report.properties, report.answers, strict=True))
    ]
    sections.append(_valid(report))
    verdict = _VERDICT[report.outcome].format(n=n, k=k)
    return render("durometer: properties", verdict, about, sections)


def _summary(report: PropertyReport) -> Section:
    rows = [
        (str(p), o, a.value, "–" if a.share is None else f"{a.share:.2%} of {a.records:,}")
        for p, o, a in zip(report.properties, report.outcomes, report.answers, strict=True)
    ]
    head = ("claim", "decision", "largest value", "records that do it")
    return Section("claims", "Claims", table(head, rows))


def _claim(i: int, claim: Property, answer: GlobalAnswer) -> Section:
    lines = [f"{answer.question} {answer.verdict}.", f"Largest value: {answer.value}."]
    if answer.on_records:
        lines.append(f"{answer.on_records[0].upper()}{answer.on_records[1:]}.")
    lines += [f"{str(b)[0].upper()}{str(b)[1:]} ({answer.unit})." for b in answer.beside]
    if answer.left_out:
        lines.append(f"Relations that the bound could not use: {'; '.join(answer.left_out)}.")
    lines += [f"{note[0].upper()}{note[1:]}." for note in answer.notes]
    if answer.audited:
        lines.append(
            f"Audited: the proof was tried to be refuted by {answer.audited:,} drawn records, "
            "without its own search."
        )
    lines.append(
        f"{answer.nodes:,} boxes in {answer.seconds:.2f} s; the model's own rounding may add "
        f"{answer.rounding:.2g}, which the bound includes."
    )
    body = draw("lines", lines)
    if answer.pair is not None:
        records = answer.pair.to_dict("records")
        rows = [
            (str(name), *(str(r[name]) for r in records),
             "differs" if len({str(r[name]) for r in records}) > 1 else "")
            for name in answer.pair.columns
        ]  # fmt: skip
        rows.append(("the model says", *answer.labels, ""))
        head = ("feature", *(f"record {k + 1}" for k in range(len(records))), "")
        body = Markup("").join([body, table(head, rows)])
    return Section(f"claim{i}", str(claim), body)


def _valid(report: PropertyReport) -> Section | None:
    if not report.relations:
        return None
    body = draw("lines", report.relations)
    text = "Besides its types, bounds and categories, a valid record satisfies:"
    return Section("valid", "Valid records", body, text)

"""A sheet to print and sign: limit, result, figures, what was not tested, how to repeat it.

Drawn by matplotlib as PDF, A4 upright; the same evidence gives the same bytes: it has no date of
printing.

What a reader would get wrong: names in the evidence come from whoever wrote it. They are drawn as
text, letter by letter: never as a formula, never as markup, and what the font lacks is a mark.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from durometer.core.errors import Unsupported
from durometer.report.interchange.facts import Facts, Figure
from durometer.report.wording import SIGN_OFF

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

NEEDS = "a PDF needs matplotlib: pip install 'durometer[plot]'"
IN_WORDS = {"pass": "passed", "fail": "failed", "undecided": "undecided"}
NOTE = "States what was measured and how. It is no certificate and shows no conformity."
WIDTH, HEIGHT = 8.27, 11.69  # inches
LEFT, TOP, BOTTOM = 0.09, 0.94, 0.06  # of the page
LINE = 0.0165  # of the page, at the usual size
LONGEST = 2000  # letters of one value
BOLDER = 1.15  # how much wider bold letters are


@dataclass
class _Pages:
    """Lines put below each other, on as many pages as they need."""

    drawings: list[Drawing] = field(default_factory=list)
    height: float = 0.0

    def line(self, text: str, size: float = 9, bold: bool = False, indent: float = 0.0) -> None:
        """One paragraph, broken where the page ends."""
        text = _drawable(" ".join(text.split())[:LONGEST])
        room = (1 - 2 * LEFT - indent) * WIDTH * 72 / size / (BOLDER if bold else 1)
        for part in _wrapped(text, room):
            step = LINE * size / 9
            if not self.drawings or self.height - step < BOTTOM:
                self._turn()
            self.height -= step
            self.drawings[-1].text(
                LEFT + indent, self.height, part, size=size, weight="bold" if bold else "normal",
                family="DejaVu Sans", parse_math=False,
            )  # fmt: skip

    def heading(self, text: str, lines: float = 4) -> None:
        """A heading, with room above it, on a page that has room for so many lines more."""
        if self.drawings and self.height < BOTTOM + (lines + 2) * LINE:
            self._turn()
        self.height -= 0.7 * LINE
        self.line(text, 11, bold=True)

    def blank(self, name: str) -> None:
        """A line to be filled in by hand."""
        if self.height - 2 * LINE < BOTTOM:
            self._turn()
        self.height -= 1.1 * LINE
        self.line(name)
        from matplotlib.lines import Line2D

        at = self.height - 0.003
        self.drawings[-1].add_artist(Line2D([0.45, 1 - LEFT], [at, at], lw=0.6, color="black"))

    def _turn(self) -> None:
        from matplotlib.figure import Figure as Drawing

        self.drawings.append(Drawing(figsize=(WIDTH, HEIGHT)))
        self.height = TOP


def pdf(facts: Facts) -> bytes:
    """The sheet of a run.

    Raises:
        Unsupported: matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_pdf import PdfPages
    except ImportError:
        raise Unsupported(NEEDS) from None
    pages = _Pages()
    _filled(pages, facts)
    made, file = len(pages.drawings), io.BytesIO()
    known = {"Title": _drawable(f"Robustness of {facts.model}"), "CreationDate": None}
    with (  # text that can be copied and searched
        matplotlib.rc_context({"pdf.fonttype": 42, "pdf.compression": 6}),
        PdfPages(file, metadata=known) as out,
    ):
        for number, drawing in enumerate(pages.drawings, 1):
            foot = f"{NOTE}   Evidence {facts.digest[:16]}, page {number} of {made}"
            drawing.text(LEFT, 0.03, foot, size=7, family="DejaVu Sans", parse_math=False)
            out.savefig(drawing)
    return file.getvalue()


def _filled(pages: _Pages, facts: Facts) -> None:
    pages.line(f"Robustness of {facts.model}", 15, bold=True)
    pages.line(f"on {facts.data}, {facts.rows:,} rows, {facts.scope['date']}")
    for name in ("purpose", "version", "owner", "evaluator", "period", "notes"):
        if facts.scope[name]:
            pages.line(f"{name}: {facts.scope[name]}")
    _decided(pages, facts)
    pages.heading("Threat")
    for name, text in facts.threat.items():
        pages.line(f"{name}: {text}")
    pages.heading("Figures, with 95 % intervals")
    for f in facts.figures:
        pages.line(f"{f.title}: {_interval(f)}; {f.method}")
    if facts.flags:
        pages.heading("Flags of the run")
    for flag in facts.flags:
        pages.line(f"{flag.level} {flag.id}: {flag.text}")
    pages.heading("Not tested")
    for threat in facts.untested:
        pages.line(f"- {threat}")
    pages.heading("How to repeat it")
    pages.line(facts.repeat or "no command is known")
    for what, digest in (("model", facts.model_hash), ("data", facts.data_hash),
                         ("evidence.json, SHA-256", facts.sha256)):  # fmt: skip
        pages.line(f"{what}: {digest or 'unknown'}", 7.5)
    pages.heading("Sign-off", 2.1 * len(SIGN_OFF))
    for name in SIGN_OFF:
        pages.blank(name)


def _decided(pages: _Pages, facts: Facts) -> None:
    """The limits that were fixed before anything was played, and what came of them."""
    pages.heading("Limit fixed beforehand, and result")
    if not facts.decided:
        pages.line("No limit was fixed beforehand: this run decides nothing.")
    for d in facts.decided:
        pages.line(f"{d.criterion}: {IN_WORDS.get(d.outcome, d.outcome)}", 11, bold=True)
        if d.figure is not None:
            pages.line(f"found {_interval(d.figure)}", indent=0.03)
    if facts.decided:
        pages.line(f"As a whole: {IN_WORDS.get(facts.decision, facts.decision)}.", bold=True)
        if facts.alpha is not None:
            pages.line(f"Wrong in at most {facts.alpha:.3g} of such decisions.")
    if facts.warnings:
        pages.line("This run has warnings that make it doubtful: see its flags.", bold=True)


def _interval(f: Figure) -> str:
    if f.value is None or f.low is None or f.high is None:
        return f"nothing was counted, n = {f.n}"
    return f"{f.value:.4g} [{f.low:.4g}, {f.high:.4g}], n = {f.n:,}"


def _wrapped(text: str, room: float) -> list[str]:
    """The text in lines of at most so many heights of its letters; longer words are cut."""
    width, lines = _widths(), [""]
    used = 0.0
    for word in text.split(" "):
        for k, letters in enumerate(_cut(word, room)):
            takes = sum(width[ord(c)] for c in letters)
            if k or (used and used + width[ord(" ")] + takes > room):
                lines.append("")
                used = 0.0
            gap = " " if used else ""
            lines[-1] += gap + letters
            used += takes + (width[ord(" ")] if gap else 0.0)
    return lines


def _cut(word: str, room: float) -> list[str]:
    """A word in pieces that fit into a line."""
    width, pieces, used = _widths(), [""], 0.0
    for letter in word:
        if used + width[ord(letter)] > room:
            pieces.append("")
            used = 0.0
        pieces[-1] += letter
        used += width[ord(letter)]
    return pieces


@cache
def _widths() -> dict[int, float]:
    """Widths of the font's signs, in heights of its letters."""
    from matplotlib import font_manager
    from matplotlib.ft2font import LoadFlags

    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    return {
        code: font.load_char(code, flags=LoadFlags.NO_SCALE).horiAdvance / font.units_per_EM
        for code in font.get_charmap()
    }


def _drawable(text: str) -> str:
    """The text with a mark in place of what the font has no sign for."""
    known = _widths()
    return "".join(c if ord(c) in known else "\N{REPLACEMENT CHARACTER}" for c in text)

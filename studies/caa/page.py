"""Tables and figures of the CAA study as Markdown and as one HTML page with its SVGs."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from durometer.report.stats import Estimate


def percent(e: Estimate | None, paper: float | None = None) -> str:
    """Ours with its interval, and the paper's figure where it has one."""
    if e is None:
        return "-"
    ours = f"{100 * e.value:.1f} [{100 * e.low:.1f}, {100 * e.high:.1f}]"
    return ours if paper is None else f"{ours} ({paper:.1f})"


@dataclass(frozen=True)
class Table:
    """One table: a title, a sentence or two, a header and rows of text."""

    title: str
    words: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def markdown(self) -> str:
        """As in docs/benchmarks/index.md."""
        lines = [f"### {self.title}", "", self.words, ""]
        lines += ["| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"

    @property
    def html(self) -> str:
        """The same for a browser."""
        cells = [self.header, *self.rows]
        body = ""
        for i, row in enumerate(cells):
            tag = "th" if i == 0 else "td"
            body += "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in row) + "</tr>"
        title, words = html.escape(self.title), html.escape(self.words)
        return (
            f'<section><h2>{title}</h2><p>{words}</p><div class="scroll">'
            f"<table>{body}</table></div></section>"
        )


@dataclass
class Page:
    """What a study writes: `caa.md`, `caa.html` and a file for each figure."""

    folder: Path
    about: str
    parts: list[str] = field(default_factory=list)  # HTML
    text: list[str] = field(default_factory=list)  # Markdown

    def table(self, table: Table) -> None:
        self.parts.append(table.html)
        self.text.append(table.markdown)

    def figure(self, name: str, title: str, drawing: Markup) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        style = f"<style>{_css()} text {{ font-family: sans-serif }}</style>"
        whole = str(drawing)
        alone = whole[whole.index("<svg ") : whole.rindex("</svg>") + 6].replace(
            "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" width="800" ', 1
        )
        opening, rest = alone.split(">", 1)
        (self.folder / f"{name}.svg").write_text(f"{opening}>{style}{rest}", encoding="utf-8")
        self.parts.append(f"<section><h2>{html.escape(title)}</h2>{drawing}</section>")
        self.text.append(f"### {title}\n\n![{title}]({name}.svg)\n")

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "caa.md").write_text(
            "\n".join([f"{self.about}\n", *self.text]), encoding="utf-8"
        )
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>CAA re-run</title>'
            f"<style>{_css()}</style><main><h1>The CAA paper's tables, re-run</h1>"
            f"<p>{html.escape(self.about)}</p>{''.join(self.parts)}</main></html>"
        )
        (self.folder / "caa.html").write_text(page, encoding="utf-8")


def _css() -> str:
    return (files("durometer.report") / "templates" / "report.css").read_text(encoding="utf-8")

"""Look over the built site: links, anchors, headings, alt texts, and nothing asked of other hosts.

python docs/site/check.py build/site
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
}
MAY_POINT = {"canonical", "alternate", "prev", "next"}  # a link element that is not fetched


class Page(HTMLParser):
    """What is checked of one page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file, self.anchors, self.links = file, set[str](), list[str]()
        self.headings, self.no_alt, self.fetched = 0, list[str](), list[str]()
        self.language = ""
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, pairs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in pairs}
        self.anchors |= {given[key] for key in ("id", "name") if key in given}
        self.headings += tag == "h1"
        if tag == "html":
            self.language = given.get("lang", "")
        if tag == "img" and not given.get("alt"):
            self.no_alt.append(given.get("src", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        for name, value in given.items():
            if (tag, name) in FETCHED and given.get("rel") not in MAY_POINT:
                self.fetched.append(value)


def problems(site: Path) -> list[str]:
    """Every broken promise of the site, as a sentence."""
    # A report page is a page of its own kind with its own tests: only its links count here.
    pages = {file.resolve(): Page(file) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        where = file.relative_to(site.resolve())
        ours = where.parts[0] not in {"live", "404.html"}
        if ours and page.headings != 1:
            found.append(f"{where}: {page.headings} h1")
        if ours and not page.language:
            found.append(f"{where}: no language")
        found += [f"{where}: no alt text: {source[:80]}" for source in page.no_alt if ours]
        found += [f"{where}: fetches {u}" for u in page.fetched if urlsplit(u).netloc]
        if where.name != "404.html":
            found += [
                f"{where}: {link}: {why}"
                for link in page.links
                if (why := _dead(link, file, pages))
            ]
    return found


OF_A_RUN = (
    "job.toml",
    "records.parquet",
    "spec.json",
    "evidence.html",
    "evidence.json",
    "config.toml",
)


def _dead(link: str, file: Path, pages: dict[Path, Page]) -> str:
    """Why a link leads nowhere; empty where it leads somewhere or outside."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or not link:
        return ""
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        # A report links to the files of its run; the site shows the page alone.
        return "" if file.name == "report.html" and link in OF_A_RUN else "no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors and anchor != "__top":
        return "no such anchor"
    return ""


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print(
        "\n".join(wrong)
        or "no broken link, one h1 a page, every image described, nothing fetched from elsewhere"
    )
    sys.exit(bool(wrong))

"""Build the site into build/site, offline: gallery, reference, pages, then look it all over.

python docs/site/build.py [--fresh] [--stale] [--only NAME] [--no-check] [--shelf FOLDER]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import check
import commands
import gallery
import leaderboard
import live
import machine
import reference
import stage
import versions
import yaml

import durometer as du

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


def configure(file: Path, pages: dict[str, dict[str, Any]], shelved: bool) -> None:
    """`mkdocs.yml` with the navigation of what is written; on a shelf, a selector of versions."""
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    config |= {"docs_dir": "docs", "site_dir": "site"}
    if shelved:
        config["extra"]["version"] = {"provider": "mike"}  # the format of versions.json
    for section in config["nav"]:
        ((title, entries),) = section.items()
        if title == "Reference":
            entries += reference.navigation()
        if title == "Gallery":
            entries += gallery.navigation(pages)
    file.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")


def main() -> None:
    """Everything in its order; exit code 1 where the site breaks a promise."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--fresh", action="store_true", help="play every gallery page again")
    options.add_argument("--stale", action="store_true", help="keep pages of an older package")
    options.add_argument("--only", default="", help="gallery pages whose name contains this")
    options.add_argument("--no-check", action="store_true", help="build, do not look it over")
    options.add_argument(
        "--shelf", type=Path, help="also put the site among those of other versions"
    )
    asked = options.parse_args()
    began = time.monotonic()
    pages = gallery.played(BUILD / "gallery", asked.fresh, asked.only, asked.stale)
    stage.lay_out(BUILD / "docs")
    gallery.write(pages, BUILD / "gallery", BUILD / "docs" / "gallery")
    live.write(BUILD / "live", BUILD / "docs" / "live")
    print(f"leaderboard: {leaderboard.pages(BUILD / 'docs' / 'live' / 'leaderboard')} rows")
    print(f"reference: {reference.write(BUILD / 'docs' / 'api')} public names")
    print(f"reference: {commands.write(BUILD / 'docs' / 'reference')} commands")
    configure(BUILD / "mkdocs.yml", pages, asked.shelf is not None)
    tool = shutil.which("zensical", path=str(Path(sys.executable).parent)) or "zensical"
    subprocess.run([tool, "build", "--clean", "-f", "build/mkdocs.yml"], cwd=ROOT, check=True)
    machine.write(BUILD / "docs", BUILD / "site")
    count = len(list((BUILD / "site").rglob("*.html")))
    print(f"build/site: {count} pages in {time.monotonic() - began:.0f} s")
    if not asked.no_check:
        wrong = check.problems(BUILD / "site")
        print(
            "\n".join(wrong) or "0 broken links, one h1 a page, alt texts, nothing from elsewhere"
        )
        if wrong:
            sys.exit(1)
    if asked.shelf is not None:
        standing = versions.shelve(BUILD / "site", asked.shelf, du.__version__)
        print(f"{asked.shelf}: {', '.join(standing)}")


if __name__ == "__main__":
    main()

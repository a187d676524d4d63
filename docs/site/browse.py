"""Look at the built site in a real browser: what it asks for, and whether its text can be read.

    python docs/site/browse.py build/site [--pictures FOLDER]

Every page is opened from a server of our own, light and dark. Found fault with: a request to any
other place, an error in the console, text whose contrast with its background is below what WCAG 2
asks for at level AA (4.5, large text 3), computed from the colours as they are drawn.

What a reader would get wrong: a link that leads elsewhere is no request; only what a page fetches
by itself counts. Pages under `live/` are reports with tests of their own: only requests count.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
PICTURED = ("index.html", "leaderboard.html", "api/attacks.html", "gallery/index.html")
CONTRAST = """
() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = text => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    const d = canvas.getImageData(0, 0, 1, 1).data;
    return [d[0], d[1], d[2], d[3] / 255];
  };
  const over = (top, below) => {
    const mix = [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
    return [...mix, 1];
  };
  const light = c => {
    const [r, g, b] = [0, 1, 2].map(i => c[i] / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const s = getComputedStyle(e);
      if (s.backgroundImage !== 'none') return null;
      const c = rgba(s.backgroundColor);
      layers.push(c);
      if (c[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = {};
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !e.checkVisibility({opacityProperty: true})) continue;
    if (e.closest('svg, script, style, noscript, .headerlink, [aria-hidden=true]')) continue;
    const box = e.getBoundingClientRect(), s = getComputedStyle(e);
    if (!box.width || !box.height || s.visibility !== 'visible') continue;
    const back = behind(e);
    if (!back) continue;
    const text = over(rgba(s.color), back), size = parseFloat(s.fontSize);
    const [a, b] = [light(text), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = size >= 24 || (size >= 18.66 && parseInt(s.fontWeight) >= 700);
    if (ratio >= (large ? 3 : 4.5)) continue;
    const name = e.tagName.toLowerCase() + (e.className ? '.' + e.className : '');
    found[name] = `${name} ${s.color} on rgb(${back.slice(0, 3).map(Math.round)}): ` +
      `${ratio.toFixed(2)} "${walker.currentNode.data.trim().slice(0, 30)}"`;
  }
  return Object.values(found);
}
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def problems(site: Path, pictures: Path | None = None) -> tuple[list[str], int]:
    """Every fault as a sentence, and how many pages were opened."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not path:
        return ["no chromium: apt-get install chromium, or set CHROMIUM to a browser"], 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    found: list[str] = []
    pages = sorted(site.rglob("*.html"))
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=FLAGS)
        for scheme in ("light", "dark"):
            found += _looked_at(browser, scheme, home, site, pages, pictures)
        browser.close()
    server.shutdown()
    return sorted(set(found)), len(pages)


def _looked_at(
    browser: Any, scheme: str, home: str, site: Path, pages: list[Path], pictures: Path | None
) -> list[str]:
    found: list[str] = []
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    where = ""
    page.on(
        "request",
        lambda r: None if r.url.startswith((home, "data:", "blob:")) else found.append(
            f"{where}: asks for {r.url}"
        ),
    )  # fmt: skip
    page.on("pageerror", lambda e: found.append(f"{where}: {e}"))
    for file in pages:
        where = file.relative_to(site).as_posix()
        live = where.startswith("live/")
        if live and scheme == "dark":
            continue
        page.goto(home + where, wait_until="load")
        if not live:
            found += [f"{where}, {scheme}: {low}" for low in page.evaluate(CONTRAST)]
        if pictures is not None and where in PICTURED:
            name = f"{where.replace('/', '-').removesuffix('.html')}-{scheme}.png"
            page.screenshot(path=pictures / name)
    context.close()
    return found


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("site", type=Path)
    options.add_argument("--pictures", type=Path)
    asked = options.parse_args()
    if asked.pictures:
        asked.pictures.mkdir(parents=True, exist_ok=True)
    wrong, opened = problems(asked.site.resolve(), asked.pictures)
    print("\n".join(wrong) or f"{opened} pages, light and dark: 0 requests elsewhere, WCAG AA")
    sys.exit(bool(wrong))

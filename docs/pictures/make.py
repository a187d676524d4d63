"""Screenshots of report pages for the docs: desktop, phone and dark.

    assay run examples/sweep.toml; assay run examples/table.toml; assay run examples/vault.toml
    python docs/pictures/make.py runs

Needs Debian's chromium and Playwright (requirements/heavy.txt). Pictures are kept small: 256
colours, at most 900 pixels high.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
WIDE, PHONE = {"width": 900, "height": 900}, {"width": 390, "height": 800}
SHOTS = {
    "sweep-desktop": ("sweep", WIDE, "light", None),
    "table-desktop": ("table", WIDE, "light", "#features"),
    "vault-dark": ("vault", WIDE, "dark", "#harm"),
    "signs-phone": ("signs", PHONE, "light", None),
}

runs, here = Path(sys.argv[1]).resolve(), Path(__file__).parent
with sync_playwright() as play:
    browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
    for name, (run, size, scheme, section) in SHOTS.items():
        page = browser.new_page(viewport=size, color_scheme=scheme)
        page.goto((runs / run / "report.html").as_uri() + (section or ""))
        page.wait_for_timeout(300)
        file = here / f"{name}.png"
        page.screenshot(path=file)
        Image.open(file).quantize(64).save(file, optimize=True)
    browser.close()

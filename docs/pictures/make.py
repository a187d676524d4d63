"""Screenshots of report pages and evidence for the docs: desktop, phone and dark.

    cd docs/pictures/evidence
    for run in mnist table noise signs adapting; do durometer gate $run.toml --out /tmp/runs/$run;
    done durometer run vault.toml --out /tmp/runs/vault
    durometer run ../../../examples/sweep.toml --out /tmp/runs/sweep
    (the block of README.md, its report saved in /tmp/runs/first)
    python ../make.py /tmp/runs
    durometer view /tmp/runs --export SITE, whose index.html is viewer.png (1280 x 620)

The criteria of these runs stand in their files, fixed before anything is played.

Needs Debian's chromium and Playwright (requirements/heavy.txt). Pictures are kept small: 64
colours, at most 900 pixels high but for the evidence, which is shown whole. A run that is not there
leaves its picture as it is.
"""

import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}
SHOTS = {
    "page": ("first/report.html", WIDE, "light"),
    "sweep-desktop": ("sweep/report.html", WIDE, "light"),
    "mnist-desktop": ("mnist/report.html", WIDE, "light"),
    "table-desktop": ("table/report.html#features", WIDE, "light"),
    "vault-dark": ("vault/report.html", WIDE, "dark"),
    "signs-phone": ("signs/report.html", PHONE, "light"),
} | {
    f"evidence-{run}": (f"{run}/evidence.html", WIDE, "light")
    for run in ("mnist", "table", "noise", "adapting", "vault", "signs")
}

runs, here = Path(sys.argv[1]).resolve(), Path(__file__).parent
with sync_playwright() as play:
    browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
    for name, (address, size, scheme) in SHOTS.items():
        path, _, section = address.partition("#")
        if not (runs / path).exists():
            continue
        page = browser.new_page(viewport=size, color_scheme=scheme)
        page.goto((runs / path).as_uri() + (f"#{section}" if section else ""))
        page.wait_for_timeout(300)
        file = here / f"{name}.png"
        page.screenshot(path=file, full_page=name.startswith("evidence-"))
        Image.open(file).quantize(64).save(file, optimize=True)
    browser.close()

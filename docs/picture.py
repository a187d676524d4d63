"""Draws docs/report.svg, the picture of a report in the README, from a saved run.

assay demo && python docs/picture.py runs/demo/signs
"""

import re
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console

from assay.report.report import Report
from assay.report.text import notes, rich_table

screen = Console(record=True, width=88, file=StringIO(), force_terminal=True, highlight=False)
report = Report.load(sys.argv[1])
screen.print(f"$ assay show {sys.argv[1]}", style="bold")
screen.print(rich_table(report))
for line in notes(report):
    screen.print(line, markup=False)
svg = re.sub(r"@font-face \{.*?\}", "", screen.export_svg(title="assay"), flags=re.S)  # no network
Path(__file__).with_name("report.svg").write_text(svg)

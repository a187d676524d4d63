"""The loss a group goal steers by unless told otherwise is the one the measurements chose."""

import re
from pathlib import Path

from durometer.goals.group import Group


def test_the_default_is_what_the_page_says():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "groups.md").read_text()
    said = re.search(r"\*\*The default loss\*\* of `Group` goals is (\w+)", page)
    assert said is not None and said.group(1).lower() == Group.loss == "mdmul"

"""The threat as three small pictures, one for each axis: what may change, what counts, who moves.

Drawn from the spec alone. A noun of somebody else gets a plain picture and its own name.
"""

from __future__ import annotations

from markupsafe import Markup

from durometer.core.spec import Spec
from durometer.report.page.section import joined
from durometer.report.page.threat import game, goal, space

WIDTH, HEIGHT = 300, 150


def pictures(spec: Spec) -> Markup:
    """Three figures beside each other, each with a caption."""
    figure = Markup(
        '<figure><figcaption><b>{}</b></figcaption><svg viewBox="0 0 {} {}" role="img" '
        'aria-label="{}">{}</svg><figcaption>{}</figcaption></figure>'
    )
    panels = (
        ("What may change", *space.picture(spec)),
        ("What counts", *goal.picture(spec)),
        ("Who moves when", *game.picture(spec)),
    )
    drawn = joined(
        figure.format(title, WIDTH, HEIGHT, said, joined(body), said)
        for title, body, said in panels
    )
    return Markup('<div class="threats">{}</div>').format(drawn)

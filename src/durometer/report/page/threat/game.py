"""Who moves when, as a picture: the steps of the game from left to right, the attacker's marked."""

from __future__ import annotations

from markupsafe import Markup

from durometer.core.spec import Spec
from durometer.report.page.svg_marks import bar, label, line, path

Picture = tuple[list[Markup], str]
_KNOWN = {
    "start": "the defence as it was before the first batch",
    "state": "the defence as it is before each batch",
    "seed": "the defence and its random numbers",
}


def picture(spec: Spec) -> Picture:
    """The marks and a caption."""
    moves = not spec.is_unattacked
    change = ("attacker", "changes", "the input") if moves else ("input", "as it is", "")
    if spec.game_type == "Nature":
        steps = [("model", "is", "fixed"), ("reading", "is off", "by noise"), _ANSWER]
        if spec.space:
            steps.insert(1, ("somebody", "shifts", "the input"))
        return _steps(steps, {1} if spec.space else set()), "Nobody chooses the noise."
    if spec.game_type == "Transductive":
        batch = ("attacker", "changes", "batch") if moves else ("batch", "as it is", "")
        steps = [("model", "is", "trained"), batch, ("defender", "adapts", "to it"), _ANSWER]
        known = _KNOWN.get(spec.information, "the defence")
        said = f"The model moves last; the attacker knows {known}."
        return _steps(steps, {1} if moves else set()), said if moves else "The model moves last."
    said = "The model is fixed, and the attacker moves last."
    steps = [("model", "is", "fixed"), change, _ANSWER]
    return _steps(steps, {1} if moves else set()), said if moves else "The model is fixed."


_ANSWER = ("model", "answers", "")


def _steps(steps: list[tuple[str, str, str]], attackers: set[int]) -> list[Markup]:
    wide = {3: 84.0, 4: 64.0}[len(steps)]
    gap = (300 - wide * len(steps)) / (len(steps) - 1)
    body = []
    for k, words in enumerate(steps):
        x = k * (wide + gap)
        kind = "attacker" if k in attackers else "shape"
        inset = 1.5
        body += [bar(x + inset, 40, wide - 2 * inset, 70, kind, " ".join(words).strip())]
        for i, word in enumerate(w for w in words if w):
            rows = sum(map(bool, words))
            y = 79 + 17 * (i - (rows - 1) / 2)
            tone = ("warned " if k in attackers else "") + ("said" if len(steps) < 4 else "small")
            body += [label(x + wide / 2, y, word, "middle", tone)]
        if k + 1 < len(steps):
            end = x + wide + gap
            body += [line(x + wide + 1, 75, end - 4, 75, "arrow")]
            body += [path(f"M {end - 1:.1f} 75 l -6 -4 v 8 Z", "head")]
    return body

"""What may change, as a picture: the set of inputs allowed around one, and where the answer turns.

A ball by its norm; a table's lattice with the rule that cuts it; a patch on a picture; a word in a
sentence; under noise a cloud. The orange line is where the model's answer changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from durometer.core.number_format import flatten, format_number, format_sizes
from durometer.core.spec import Spec
from durometer.report.page.svg_marks import bar, dot, label, line, path

Picture = tuple[list[Markup], str]
_X, _Y, _R = 115.0, 78.0, 46.0  # the input, and how far it may go
_TURNS = "M 160 8 C 120 50, 170 90, 128 144"  # where the answer turns


def picture(spec: Spec) -> Picture:
    """The marks and a caption."""
    space = spec.space
    while isinstance(space, Mapping) and isinstance(space.get("inner"), Mapping):
        space = space["inner"]
    if not isinstance(space, Mapping):
        return _noise(spec) if spec.game_type == "Nature" else _nothing()
    draw = _DRAWN.get(str(space.get("type")), _unknown)
    return draw(space, spec)


def _ball(
    outline: Callable[[float], str],
) -> Callable[[Mapping[str, Any], Spec], Picture]:
    def draw(space: Mapping[str, Any], spec: Spec) -> Picture:
        eps, norm = space["eps"], str(space["type"])
        several = isinstance(eps, list | tuple)
        flatter = max(0.35, min(flatten(eps)) / max(flatten(eps)))
        at = (160.0, _Y) if norm == "L0" else (151.0, _Y - 16 * flatter)
        body = [path(outline(flatter), "allowed"), *_border(*at), *_input()]
        said = (_EACH if several else _LP)[norm]
        return body, said.format(format_sizes(eps))

    return draw


_LP = {
    "Linf": "Every feature, by at most {}.",
    "L2": "All features together, by at most {} in Euclidean distance.",
    "L1": "All features together, by at most {} in sum.",
    "L0": "At most {} features, to any value.",
}
_EACH = {
    "Linf": "Every feature, by at most its own eps: {}.",
    "L2": "All features, each in units of its eps, by at most 1 in Euclidean distance: {}.",
    "L1": "All features, each in units of its eps, by at most 1 in sum: {}.",
}


def _border(x: float, y: float) -> list[Markup]:
    return [
        path(_TURNS, "edge"),
        label(174, 18, "another answer", "start", "warned said"),
        line(_X, _Y, x, y, "arrow"),
        dot(x, y, 5, "bad", "a changed input that is answered otherwise"),
    ]


def _input() -> list[Markup]:
    return [
        dot(_X, _Y, 5, "dot", "the input as it is"),
        label(_X - 8, _Y + 20, "input", "middle", "said"),
    ]


def _table(space: Mapping[str, Any], spec: Spec) -> Picture:
    """Whole numbers within a ball, cut by a rule between the features."""
    inside = [
        dot(x, y, 1.6, "lattice", "a record that can exist")
        for x in range(70, 190, 15)
        for y in range(18, 150, 15)
        if x < 100 + (y - 33.5) / 1.387 and not (95 < x < 150 and 84 < y < 102)
    ]
    rule = [line(85.2, 8, 184.7, 146, "shape"), label(150, 62, "forbidden by a rule", kind="said")]
    ball = path(f"M {_X - _R} {_Y} A {_R} {_R} 0 0 0 153 102 L 103.6 33.5 "
                f"A {_R} {_R} 0 0 0 {_X - _R} {_Y} Z", "allowed")  # fmt: skip
    turns = [
        path("M 60 8 C 96 40, 44 84, 98 144", "edge"),
        label(12, 18, "another", "start", "warned said"),
        label(12, 32, "answer", "start", "warned said"),
        line(_X, _Y, 83, 71, "arrow"),
        dot(80, 70, 5, "bad", "a changed record that is answered otherwise"),
    ]
    start = [
        dot(_X, _Y, 5, "dot", "the record"),
        label(_X + 4, _Y + 20, "record", "middle", "said"),
    ]
    far = (
        f"within {format_number(float(space['eps']))}"
        if space.get("eps") is not None
        else "at a price"
    )
    said = f"A record into another one that can exist, {far}: types, bounds and relations hold."
    return [ball, *inside, *rule, *turns, *start], said


def _patch(space: Mapping[str, Any], spec: Spec) -> Picture:
    body = [bar(80, 10, 140, 130, "fill", "a picture")]
    if space.get("mask", "eyeglasses") == "eyeglasses":
        face = "M 150 24 C 112 24 104 60 106 84 C 108 116 130 132 150 132 "
        body += [path(face + "C 170 132 192 116 194 84 C 196 60 188 24 150 24 Z", "shape")]
        body += [path("M 116 66 h 28 v 18 h -28 Z M 156 66 h 28 v 18 h -28 Z M 144 72 h 12 "
                      "M 116 70 l -10 -4 M 184 70 l 10 -4", "attacker")]  # fmt: skip
        return body, "Only the frame of a pair of eyeglasses, to any colours."
    body += [bar(160, 70, 44, 48, "allowed", "what may be changed")]
    said = "Only what lies under a mask, to any values."
    if space.get("type") == "Rectangle":
        said = "Only one rectangle, placed by the attacker, to any values."
    return body, said


def _text(space: Mapping[str, Any], spec: Spec) -> Picture:
    body = [
        label(40, 62, "a"),
        label(56, 62, "good"),
        line(54, 58, 90, 58, "attacker"),
        label(58, 40, "decent", "start", "warned"),
        label(98, 62, "film, I would watch it again"),
        line(40, 80, 268, 80, "grid"),
        label(40, 104, "meaning and grammar should stay", "start", "tick"),
    ]
    return body, "Words, to others that the space allows."


def _noise(spec: Spec) -> Picture:
    """A cloud around the record: a golden-angle spiral, the same in every page."""
    points = []
    for k in range(1, 90):
        r, a = 5.6 * k**0.5, 2.39996 * k
        x, y = _X + 10 + r * math.cos(a), _Y - 4 + r * math.sin(a)
        wrong = x > 165 - 0.16 * (y - 75)
        tip = "a reading that is answered otherwise" if wrong else "a reading"
        points.append(dot(x, y, 1.8, "bad" if wrong else "lattice", tip))
    body = [*points, line(180, 6, 152, 146, "edge"), label(188, 18, "another answer", "start",
            "warned said"), dot(_X + 10, _Y - 4, 5, "dot", "the record")]  # fmt: skip
    return body, f"Nobody's choice: readings are off by {spec.under or 'noise'}."


def _nothing() -> Picture:
    return [*_input()], "Nothing: the inputs are played as they were given."


def _unknown(space: Mapping[str, Any], spec: Spec) -> Picture:
    outline = "M 70 80 C 60 40 110 22 140 34 C 186 48 172 112 136 122 C 100 130 76 120 70 80 Z"
    return [
        path(outline, "allowed"),
        *_border(151, 62),
        *_input(),
    ], f"{spec.text('space')[:140]}."


def _square(flatter: float) -> str:
    """`flatter`: how far the second feature may go, where the first goes 1."""
    r = _R * flatter
    return f"M {_X - _R} {_Y - r:g} h {2 * _R} v {2 * r:g} h {-2 * _R} Z"


def _circle(flatter: float) -> str:
    r = f"{_R} {_R * flatter:g}"
    return f"M {_X - _R} {_Y} a {r} 0 1 0 {2 * _R} 0 a {r} 0 1 0 {-2 * _R} 0 Z"


def _diamond(flatter: float) -> str:
    a, b = _R + 8, f"{(_R + 8) * flatter:g}"
    return f"M {_X} {_Y - (_R + 8) * flatter:g} l {a} {b} l {-a} {b} l {-a} -{b} Z"


def _cross(flatter: float) -> str:
    return f"M {_X - 4} {_Y - 70} h 8 v 66 h 66 v 8 h -66 v 60 h -8 v -60 h -66 v -8 h 66 Z"


_DRAWN: dict[str, Callable[[Mapping[str, Any], Spec], Picture]] = {
    "Linf": _ball(_square),
    "L2": _ball(_circle),
    "L1": _ball(_diamond),
    "L0": _ball(_cross),
    "TableSpace": _table,
    "Patch": _patch,
    "Rectangle": _patch,
    "Text": _text,
}

"""The threat as three pictures: what may change, what counts as success, who moves when.

What may change: a ball by its norm; a table's lattice with the rule that cuts it; a patch on a
picture; a word in a sentence; under noise a cloud. The orange line is where the model's answer
changes. They are drawn from the spec alone: a space or a goal of one's own is named, not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from durometer.core.number_format import flatten, format_number, format_sizes
from durometer.core.spec import QuotaRule, Spec
from durometer.goals.group import Group
from durometer.report.page.charts import bar, dot, label, line, path, short
from durometer.report.page.section import draw

Picture = tuple[list[Markup], str]  # the marks and a caption


def pictures(spec: Spec) -> Markup:
    """Three figures beside each other, each with a caption."""
    panels = {
        "What may change": space_picture(spec),
        "What counts": goal_picture(spec),
        "Who moves when": game_picture(spec),
    }
    return draw("threats", panels=panels)


_X, _Y, _R = 115.0, 78.0, 46.0  # the input, and how far it may go
_TURNS = "M 160 8 C 120 50, 170 90, 128 144"  # where the answer turns


def space_picture(spec: Spec) -> Picture:
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


_LEFT, _RIGHT, _MOST = 118.0, 186.0, 5


def goal_picture(spec: Spec) -> Picture:
    """The marks and a caption."""
    goal = spec.goal or {}
    names = spec.classes or ()
    noise = spec.game_type == "Nature"
    if spec.quota is not None:
        return _quota(spec.quota, names)
    if spec.is_untargeted:
        said = "Any other answer than the one given now." if noise else "Any wrong answer counts."
        return _arrows(
            ["its answer" if noise else "true class"],
            ["another", "any other", "yet another"],
            "all",
        ), said
    what = goal.get("type")
    if what == "Group" and isinstance(goal.get("relation"), Mapping):
        return _group(goal["relation"], names)
    if what == "Group" and goal.get("cost") is not None:
        return _group(Group(cost=goal["cost"], least=goal.get("least")).wanted, names)
    if what == "Targeted":
        end = _named(goal.get("target"), names)
        return _arrows(["other classes"], [end], "all"), f"Only one answer counts: {end}."
    if what in ("RandomTarget", "LeastLikely"):
        way = "drawn at random" if what == "RandomTarget" else "the least likely one"
        end = f"{way} for each input"
        return _arrows(["true class"], ["its target"], "all"), f"One answer counts, {end}."
    return _arrows(["true class"], ["what it wants"], "all"), f"{spec.text('goal')[:140]}."


def _named(c: Any, names: Sequence[str]) -> str:
    if isinstance(c, int) and 0 <= c < len(names):
        return str(names[c])
    return str(c) if isinstance(c, str) else f"class {c}"


def _group(relation: Mapping[str, Any], names: Sequence[str]) -> Picture:
    ends = list(dict.fromkeys(_named(t, names) for ts in relation.values() for t in ts))
    sources = [_named(s, names) for s in relation]
    pairs = {(_named(s, names), _named(t, names)) for s, ts in relation.items() for t in ts}
    said = f"Only certain mistakes count: {len(pairs)} of them, from {len(sources)} "
    return _arrows(sources, ends, pairs), f"{said}class{'es' * (len(sources) != 1)}."


def _quota(rule: QuotaRule, names: Sequence[str]) -> Picture:
    sources, ends = (
        [_named(c, names) for c in classes] for classes in (rule.sources, rule.targets)
    )
    told = f"A band of {len(sources)} wins when it passes for {rule.k} of {len(ends)} people"
    if rule.filled:
        told = f"A band of {len(sources)} wins when who passes for whom fills {rule.wish}"
    free = "" if rule.reuse else ", each attacker for one at most"
    return _arrows(sources, ends, "all"), f"{told}{free}."


def _arrows(
    sources: Sequence[str], ends: Sequence[str], pairs: set[tuple[str, str]] | str
) -> list[Markup]:
    """Names on both sides, and a line for each pair that counts."""
    left, right = _places(sources), _places(ends)
    body = [
        line(_LEFT + 6, y, _RIGHT - 6, z, "attacker")
        for s, y in left
        for t, z in right
        if pairs == "all" or (s, t) in pairs
    ]
    for s, y in left:
        body += [dot(_LEFT, y, 5, "dot", s), label(_LEFT - 10, y + 4, short(s, 14), "end", "said")]
    for t, z in right:
        body += [dot(_RIGHT, z, 5, "bad", t), label(_RIGHT + 10, z + 4, short(t, 14), kind="said")]
    for x, anchor, names in ((_LEFT, "end", sources), (_RIGHT, "start", ends)):
        if len(names) > _MOST:
            more = f"and {len(names) - _MOST} more"
            body += [label(x, 147, more, anchor, "tick")]
    return body


def _places(names: Sequence[str]) -> list[tuple[str, float]]:
    shown = list(names)[:_MOST]
    return [(n, 75 + 27 * (k - (len(shown) - 1) / 2)) for k, n in enumerate(shown)]


_KNOWN = {
    "start": "the defence as it was before the first batch",
    "state": "the defence as it is before each batch",
    "seed": "the defence and its random numbers",
}


def game_picture(spec: Spec) -> Picture:
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

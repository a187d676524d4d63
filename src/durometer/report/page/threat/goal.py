"""What counts as success, as a picture: which class may be passed off as which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from durometer.core.spec import QuotaRule, Spec
from durometer.report.page.svg_marks import dot, label, line, short

Picture = tuple[list[Markup], str]
_LEFT, _RIGHT, _MOST = 118.0, 186.0, 5


def picture(spec: Spec) -> Picture:
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

"""Every public parameter has its line: the reference is read from docstrings, so they are complete.

The public names are those of the stub `__init__.pyi` and of the vocabularies it names. A class
documents its fields in its own docstring. A method that implements a protocol of `extend` is
documented there, once, and one that a foreign base class declares (`forward` of torch) is not ours
to explain.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import durometer as du

PACKAGE = du.__name__
VOCABULARIES = (
    *("architectures", "attacks.orders", "datasets", "datasets.corruptions", "defenses", "extend"),
    *("gates", "losses", "noise", "probability", "relations", "spaces.masks", "testing"),
    *("training", "trees"),
)
RESULTS = (  # what public functions return, and users hold
    *("_group_sampling.GroupSamples", "_ladder.Ladder", "datasets.gtsrb.Signs"),
    *("datasets.orl.Faces", "data.splits.TestOnly", "datasets.sst5.Reviews"),
    *("probability.methods.Probability", "report.checks.Flag", "report.comparison.Comparison"),
    *("report.sweep.Sweep", "spaces.lp.Lp", "tables.discovery.suggest.Suggestion"),
    *("verification.verify.Finding", "verification.verify.Verification"),
)
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Example):$")
LINE = re.compile(r"((?:\*{0,2}\w+, )*\*{0,2}\w+): \S")


def members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """What a vocabulary offers: its `__all__`, or what it defines itself without an underscore."""
    listed = getattr(module, "__all__", None)
    for name in listed or sorted(vars(module)):
        thing = getattr(module, name)
        if listed or (name[0] != "_" and getattr(thing, "__module__", "") == module.__name__):
            yield name, thing


def public() -> dict[str, Any]:
    """Every public class and function, each once, by the shortest name a user has for it."""
    found = {name: getattr(du, name) for name in dir(du) if not name.startswith("_")}
    for room in VOCABULARIES:
        short = room.rpartition(".")[2]
        for name, thing in members(import_module(f"{PACKAGE}.{room}")):
            found.setdefault(f"{short}.{name}", thing)
    for path in RESULTS:
        module, _, name = path.rpartition(".")
        found[name] = getattr(import_module(f"{PACKAGE}.{module}"), name)
    named: dict[str, Any] = {}
    seen: set[int] = set()
    for name, thing in found.items():
        ours = str(getattr(thing, "__module__", "")).startswith(PACKAGE)
        if ours and (inspect.isclass(thing) or inspect.isfunction(thing)) and id(thing) not in seen:
            seen.add(id(thing))
            named[name] = thing
    return named


PUBLIC = public()
PROTOCOLS = [t for t in PUBLIC.values() if getattr(t, "_is_protocol", False)]


def methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods and properties of a class, by name, with the function behind each."""
    for name in dir(cls):
        owner = next((c for c in cls.__mro__ if name in vars(c)), None)
        if name.startswith("_") or owner is None or not owner.__module__.startswith(PACKAGE):
            continue
        if any(name in vars(c) for c in cls.__mro__ if not c.__module__.startswith(PACKAGE)):
            continue  # declared, and documented, by the library that it comes from
        thing = unwrapped(vars(owner)[name])
        if inspect.isfunction(thing):
            yield name, thing


def unwrapped(member: Any) -> Any:
    """The function behind a method or a property; anything else as it is."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    return member.__func__ if isinstance(member, staticmethod | classmethod) else member


def inherited_doc(cls: type, method: str) -> str:
    """The docstring of a method, or of the one that it overrides."""
    for owner in cls.__mro__:
        function = unwrapped(vars(owner).get(method))
        if inspect.isfunction(function) and function.__doc__:
            return inspect.cleandoc(function.__doc__)
    return ""


def explained(text: str) -> list[str]:
    """The names that have a line in `Args:`, in their order."""
    names: list[str] = []
    inside = False
    margin = 0
    for line in text.splitlines():
        stripped, indent = line.strip(), len(line) - len(line.lstrip())
        if SECTION.match(stripped):
            inside, margin = stripped == "Args:", indent + 4
        elif inside and stripped and indent < margin:
            inside = False
        elif inside and indent == margin and (found := LINE.match(stripped)):
            names += [name.strip("* ") for name in found[1].split(",")]
    return names


def parameters(thing: Callable[..., Any]) -> list[str]:
    """What a caller may pass, by name."""
    names = [n for n in inspect.signature(thing).parameters if not n.startswith("_")]
    return [n for n in names if n not in ("self", "cls")]


def made_by_callers(cls: type) -> bool:
    """Whether a class has parameters at all: protocols, enums and errors are not called."""
    if getattr(cls, "_is_protocol", False) or issubclass(cls, enum.Enum | BaseException):
        return False
    return cls.__init__ is not object.__init__ or hasattr(cls, "_fields")


def protocol_docs(name: str) -> str:
    """What the protocols of `extend` say of a method, together."""
    found = (vars(p)[name] for p in PROTOCOLS if name in vars(p))
    return "\n".join(inspect.getdoc(f) or "" for f in found)


def complaints(name: str, thing: Any) -> Iterator[str]:
    """What the docstrings of a public name and of its methods leave out or make up."""
    text = inspect.cleandoc(thing.__doc__ or "")
    if not text:
        yield f"{name}: no docstring"
    called = inspect.isfunction(thing) or made_by_callers(thing)
    wanted, lines = parameters(thing) if called else [], explained(text)
    yield from (f"{name}({p}): no line in Args" for p in wanted if p not in lines)
    yield from (f"{name}: Args explains '{p}', no parameter" for p in lines if p not in wanted)
    for method, function in methods(thing) if inspect.isclass(thing) else ():
        own = inherited_doc(thing, method)
        shared = protocol_docs(method)
        if not own and not shared:
            yield f"{name}.{method}: no docstring"
        taken, lines = parameters(function), explained(own)
        told = {*lines, *explained(shared)}
        yield from (f"{name}.{method}({p}): no line in Args" for p in taken if p not in told)
        yield from (
            f"{name}.{method}: Args explains '{p}', no parameter" for p in lines if p not in taken
        )


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_parameter_has_its_line(name):
    assert list(complaints(name, PUBLIC[name])) == []


def test_an_undocumented_parameter_is_seen():
    def documented(first, second=1, *, third=None):
        """Adds.

        Args:
            first, second: What is added,
                and more of it.
            fourth: Not there.

        Returns:
            third: This line belongs to another section.
        """

    assert explained(inspect.getdoc(documented)) == ["first", "second", "fourth"]
    assert list(complaints("f", documented)) == [
        "f(third): no line in Args",
        "f: Args explains 'fourth', no parameter",
    ]

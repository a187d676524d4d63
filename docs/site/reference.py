"""The reference, written from signatures and docstrings: a page per public name, an index by noun.

A page has the sentence, the signature, a table of parameters (type, default, meaning), what comes
back, what is raised, an example, the methods and where the name is used in the guides. What a
reader would get wrong: nothing is written here by hand; a page says what the docstring says.
"""

from __future__ import annotations

import ast
import enum
import inspect
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import durometer as du

STUB = Path(du.__file__).with_suffix(".pyi")

# Group -> (what it is for, prefixes of the modules whose names belong there, first one wins).
GROUPS = {
    "Verbs": ("What you call: an evaluation, a sweep, a ladder, a gate, a check.",
              ("durometer._", "durometer.verification", "durometer.plugins", "durometer.testing")),
    "Data and models": ("What is evaluated: rows with labels, and who answers.",
                        ("durometer.data", "durometer.model")),
    "Spaces": ("What may change: balls, patches, tables, words.",
               ("durometer.spaces", "durometer.tables", "durometer.relations")),
    "Goals": ("What counts as success.", ("durometer.goals",)),
    "Games and noise": ("Who moves when: a fixed model, noise, a defence that adapts.",
                        ("durometer.games", "durometer.noise", "durometer.defenses")),
    "Attacks": ("How hard is tried.", ("durometer.attacks", "durometer.standard")),
    "Proofs": ("What decides a row, or a whole model, for good.", ("durometer.proofs",)),
    "Training": ("Networks, robust training, hardening.",
                 ("durometer.training", "durometer.architectures", "durometer.losses")),
    "Runs, reports, gates": ("How it is run, and what comes out.", ("durometer",)),
}  # fmt: skip
# Public modules whose names are reached through them: du.noise.exponential.
SKIPPED = ("report",)  # the class `Report` has its page; its module offers nothing else by name
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Example):$")
ENTRY = re.compile(r"((?:\*{0,2}\w+, )*\*{0,2}[\w.]+): ?(.*)$")


@dataclass
class Doc:
    """A docstring in its parts."""

    lead: str = ""
    body: str = ""
    sections: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    example: str = ""


def parsed(text: str) -> Doc:
    """The parts of a docstring."""
    prose, example, doc, here = [], [], Doc(), ""
    for line in inspect.cleandoc(text).splitlines():
        stripped, indent = line.strip(), len(line) - len(line.lstrip())
        if found := SECTION.match(stripped):
            here = found[1]
            doc.sections[here] = []
        elif example or stripped.startswith(">>> "):
            here = ""
            example.append(line)
        elif here and stripped and indent:
            entries = doc.sections[here]
            if (
                indent == 4
                and (entry := ENTRY.match(stripped))
                and here not in ("Returns", "Yields")
            ):
                entries += [(name.strip(), entry[2]) for name in entry[1].split(",")]
            elif entries and (indent > 4 or here in ("Returns", "Yields")):
                same = [k for k, e in enumerate(entries) if e[1] == entries[-1][1]]
                for k in same:
                    entries[k] = (entries[k][0], f"{entries[k][1]} {stripped}".strip())
            else:
                entries.append(("", stripped))
        elif stripped or not here:
            here = "" if stripped else here
            prose.append(line)
    whole = "\n".join(prose).strip()
    doc.lead, _, doc.body = (part.strip() for part in whole.partition("\n\n"))
    doc.lead = " ".join(doc.lead.split())
    doc.example = "\n".join(example).strip()
    return doc


def public() -> dict[str, str]:
    """Public name -> the module it comes from."""
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    nodes = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in nodes for alias in node.names}


def members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """What a public module offers: its `__all__`, or what it defines itself."""
    listed = getattr(module, "__all__", None)
    for name in listed or vars(module):
        thing = getattr(module, name)
        own = getattr(thing, "__module__", "") == module.__name__
        if (listed or (name[0] != "_" and own)) and not inspect.ismodule(thing):
            yield name, thing


class Site:
    """Every public name with its page, so that names in docstrings become links."""

    def __init__(self) -> None:
        self.groups: dict[str, list[str]] = {group: [] for group in GROUPS}
        self.things: dict[str, Any] = {}
        self.pages: dict[str, str] = {}
        for name, module in public().items():
            thing = getattr(du, name)
            if name in SKIPPED:
                continue
            full = f"{module}.{name}" if inspect.ismodule(thing) else module
            group = next(g for g, (_, p) in GROUPS.items() if full.startswith(tuple(p)))
            self.groups[group].append(name)
            self.things[name] = thing
            self.pages[name] = f"{name}.md"
            if inspect.ismodule(thing):
                for inner, _ in members(thing):
                    self.pages.setdefault(inner, f"{name}.md#{inner}")
        self.used = _used_in_guides(self.things)

    def linked(self, text: str, here: str) -> str:
        """The text with public names that stand in backticks as links to their pages."""

        def link(found: re.Match[str]) -> str:
            page = self.pages.get(found[1].removeprefix("du."))
            own = page is None or page.split("#")[0] == f"{here}.md"
            return found[0] if own else f"[`{found[1]}`]({page})"

        return re.sub(r"(?<!\[)`((?:du\.)?\w+)`(?!\])", link, text)


def write(folder: Path) -> int:
    """The pages and the index; how many names have one."""
    folder.mkdir(parents=True, exist_ok=True)
    site = Site()
    for name, thing in site.things.items():
        page = _module_page if inspect.ismodule(thing) else _page
        (folder / f"{name}.md").write_text(page(site, name, thing), encoding="utf-8")
    lines = [
        "# Every public name",
        "",
        "All of them are reached as `du.NAME` after `import durometer as du`.",
        "",
    ]
    for group, names in site.groups.items():
        lines += [f"## {group}", "", GROUPS[group][0], "", "| name | |", "|---|---|"]
        for name in sorted(names, key=str.lower):
            lead = parsed(site.things[name].__doc__ or "").lead
            lines.append(f"| [`{name}`]({name}.md) | {cell(site.linked(lead, 'index'))} |")
        lines.append("")
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")
    return len(site.things)


def navigation() -> list[Any]:
    """The names for the site's navigation, by group."""
    site = Site()
    return [
        {group: [{name: f"api/{name}.md"} for name in sorted(names, key=str.lower)]}
        for group, names in site.groups.items()
    ]


def _page(site: Site, name: str, thing: Any) -> str:
    lines = [f"# {name}", ""]
    lines += _described(site, name, f"du.{name}", thing, 2)
    if uses := site.used.get(name):
        lines += ["## Used in", "", " · ".join(f"[{title}](../{page})" for title, page in uses), ""]
    lines += [f"*Defined in `{getattr(thing, '__module__', '')}`.*", ""]
    return "\n".join(lines)


def _module_page(site: Site, name: str, module: ModuleType) -> str:
    doc = parsed(module.__doc__ or "")
    lines = [f"# {name}", "", site.linked(doc.lead, name), ""]
    kept = [p for p in doc.body.split("\n\n") if p and not p.startswith("What a reader would")]
    lines += [site.linked(p, name) + "\n" for p in kept]
    found = dict(members(module))
    lines += ["| name | |", "|---|---|"]
    for inner, thing in found.items():
        lead = parsed(getattr(thing, "__doc__", "") or "").lead if callable(thing) else ""
        lines.append(f"| [`{name}.{inner}`](#{inner}) | {cell(lead)} |")
    lines.append("")
    for inner, thing in found.items():
        lines += [f"## {inner} {{ #{inner} }}", ""]
        if callable(thing):
            lines += _described(site, name, f"du.{name}.{inner}", thing, 3)
        else:
            lines += [f"`du.{name}.{inner}` is a constant.", ""]
    return "\n".join(lines)


def _described(site: Site, here: str, path: str, thing: Any, level: int) -> list[str]:
    """A class or function: its sentence, signature, parameters, example and methods."""
    doc = parsed(thing.__doc__ or "")
    lines = [site.linked(doc.lead, here), ""]
    called = inspect.isfunction(thing) or _made_by_callers(thing)
    if called:
        lines += ["```python", _signature(path, thing), "```", ""]
    if doc.body:
        lines += [site.linked(doc.body, here), ""]
    lines += _tables(site, here, doc, thing if called else None, "#" * level)
    if doc.example:
        lines += [
            f"{'#' * level} Example",
            "",
            "```pycon",
            doc.example.replace("<BLANKLINE>", ""),
            "```",
            "",
        ]
    if inspect.isclass(thing):
        shown = [(m, f) for m, f in _methods(thing) if m != "__call__"]
        if shown:
            lines += [f"{'#' * level} Methods", ""]
        for method, (kind, function) in shown:
            lines += _method(site, here, thing, method, kind, function, "#" * (level + 1))
    return lines


def _method(
    site: Site, here: str, cls: type, name: str, kind: str, function: Callable[..., Any], mark: str
) -> list[str]:
    doc = parsed(_inherited_doc(cls, name))
    lines = [f"{mark} {cls.__name__}.{name} {{ #{cls.__name__}.{name} }}", ""]
    if kind == "property":
        lines += [f"*Property.* {site.linked(doc.lead, here)}", ""]
    else:
        lines += [site.linked(doc.lead, here), ""] if doc.lead else []
        lines += ["```python", _signature(name, function), "```", ""]
    if doc.body:
        lines += [site.linked(doc.body, here), ""]
    lines += _tables(site, here, doc, function if kind != "property" else None, "")
    if doc.example:
        lines += ["```pycon", doc.example.replace("<BLANKLINE>", ""), "```", ""]
    return lines


def _tables(site: Site, here: str, doc: Doc, called: Any, mark: str) -> list[str]:
    """Parameters as a table; what comes back and what is raised as sentences."""
    lines: list[str] = []
    if entries := doc.sections.get("Args"):
        taken = inspect.signature(called).parameters if called is not None else {}
        lines += [f"{mark} Parameters", ""] if mark else []
        lines += ["| parameter | type | default | meaning |", "|---|---|---|---|"]
        for name, meaning in entries:
            parameter = taken.get(name.strip("*"))
            kind, default = typed(parameter)
            lines.append(f"| `{name}` | {kind} | {default} | {cell(site.linked(meaning, here))} |")
        lines.append("")
    for title in ("Returns", "Yields", "Raises"):
        if entries := doc.sections.get(title):
            said = " ".join(
                f"`{n}`: {site.linked(t, here)}" if n else site.linked(t, here) for n, t in entries
            )
            lines += [f"**{title}.** {said}", ""]
    return lines


def typed(parameter: inspect.Parameter | None) -> tuple[str, str]:
    """Type and default of a parameter, as cells."""
    if parameter is None:
        return "", ""
    note = parameter.annotation
    kind = note if isinstance(note, str) else inspect.formatannotation(note)
    kind = "" if note is parameter.empty else "ArrayLike" if "numpy._typing" in kind else kind
    default = parameter.default
    if default is parameter.empty:
        given = (
            "*required*"
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            else ""
        )
    else:
        given = _code(_shown(default))
    return _code(kind) if kind else "", given


def _shown(default: Any) -> str:
    """A default as one would write it; objects without a readable text by their type."""
    if inspect.isfunction(default) or inspect.isclass(default):
        return str(default.__name__)
    text = repr(default)
    if "DEFAULT_FACTORY" in text:  # made afresh for each object
        return "{}"
    if "DEFAULT_FACTORY" in text:  # a mapping or a list made afresh for each object
        return "{}"
    return type(default).__name__ + "()" if text.startswith("<") or len(text) > 60 else text


def _code(text: str) -> str:
    safe = (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "&#124;")
    )
    return f"<code>{safe}</code>"


def cell(text: str) -> str:
    """A text as the cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _signature(path: str, thing: Any) -> str:
    """The call, on one line where it fits, else a parameter a line."""
    parts = []
    for name, p in inspect.signature(thing).parameters.items():
        if name in ("self", "cls") or name.startswith("_"):
            continue
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        given = "" if p.default is p.empty else f"={_shown(p.default)}"
        parts.append(f"{stars}{name}{given}")
    line = f"{path}({', '.join(parts)})"
    return line if len(line) < 88 else f"{path}(\n    " + ",\n    ".join(parts) + ",\n)"


def _made_by_callers(cls: Any) -> bool:
    """Whether a class has parameters at all: protocols, enums and errors are not called."""
    if not inspect.isclass(cls) or getattr(cls, "_is_protocol", False):
        return False
    if issubclass(cls, enum.Enum | BaseException):
        return False
    return cls.__init__ is not object.__init__ or hasattr(cls, "_fields")


def _methods(cls: type) -> Iterator[tuple[str, tuple[str, Callable[..., Any]]]]:
    """The public methods and properties that ours define, in the order of the source."""
    seen = set()
    for owner in cls.__mro__:
        if not owner.__module__.startswith("durometer"):
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") or name in seen:
                continue
            kind, function = _unwrapped(member)
            if inspect.isfunction(function) and _inherited_doc(cls, name):
                seen.add(name)
                yield name, (kind, function)


def _unwrapped(member: Any) -> tuple[str, Any]:
    if isinstance(member, property):
        return "property", member.fget
    if isinstance(member, cached_property):
        return "property", member.func
    if isinstance(member, staticmethod | classmethod):
        return "method", member.__func__
    return "method", member


def _inherited_doc(cls: type, method: str) -> str:
    for owner in cls.__mro__:
        _, function = _unwrapped(vars(owner).get(method))
        if inspect.isfunction(function) and function.__doc__:
            return inspect.cleandoc(function.__doc__)
    return ""


def _used_in_guides(things: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Name -> the guides whose code calls it, with their titles."""
    import stage

    found: dict[str, list[tuple[str, str]]] = {}
    for page in stage.pages():
        if page.parts[0] not in ("start", "how-to", "understand"):
            continue
        text = (stage.PAGES / page).read_text(encoding="utf-8")
        title = re.search(r"^# (.+)$", text, re.M)
        code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
        for name in set(re.findall(r"\bdu\.(\w+)", code)) & things.keys():
            found.setdefault(name, []).append((title[1] if title else page.stem, os.fspath(page)))
    return {name: uses[:6] for name, uses in found.items()}

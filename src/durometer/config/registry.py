"""Names: what a configuration file or `durometer list` may call by name, and with which parameters.

Nothing is registered by hand. The names are the package's public ones, sorted by the module they
live in and by what they can do: an attack is called with a problem, a space makes regions, a goal
gives targets. So a new attack is in here as soon as `import durometer` knows it. Other packages
register theirs by entry points, or are named in full: "mypackage.module:Corner", "file.py:Corner".

What a reader would get wrong: a noun need not be a class. `Linf` is a function that returns an
`Lp`, called by name like any class.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, get_args, get_type_hints

from durometer.core.errors import DurometerError, nearest

# kind -> (where its modules live, the methods by which one of them is known)
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "attacks": ("durometer.attacks durometer.proofs durometer.standard", ("needs", "__call__")),
    "spaces": ("durometer.spaces durometer.tables", ("around",)),
    "goals": ("durometer.goals", ("targets",)),
    "candidates": ("durometer.spaces.candidates", ("described",)),
    "measures": ("durometer.spaces.similarity", ("measures",)),
    "orders": ("durometer.attacks.orders", ("scores",)),
    "noises": ("durometer.noise", ("sample", "mass")),
    "marginals": ("durometer.noise", ("quantile",)),
    "losses": ("durometer.losses", ()),
    "defenses": ("durometer.defenses", ("start", "adapt")),
    "games": ("durometer.games", ("prepare", "play")),
    "datasets": ("durometer.datasets", ()),
}
# Modules whose names are public by themselves, not through the package.
VOCABULARIES = frozenset(
    {"durometer.attacks.orders", "durometer.defenses", "durometer.losses", "durometer.noise"}
)
# Required parameters of these names are the run's own: not written.
IMPLIED = frozenset({"defender", "model", "schema", "space"})
REQUIRED = inspect.Parameter.empty
# kind -> the entry-point group through which other packages register theirs
GROUPS = {
    "attacks": "durometer.attacks",
    "spaces": "durometer.spaces",
    "goals": "durometer.goals",
    "noises": "durometer.noise",
    "defenses": "durometer.defenses",
    "games": "durometer.games",
    "datasets": "durometer.datasets",
}
FOLDER: ContextVar[Path] = ContextVar("FOLDER", default=Path())  # of the file being read
_UNTRUSTED: ContextVar[Path | None] = ContextVar("_UNTRUSTED", default=None)


@contextmanager
def without_code(file: Path) -> Iterator[None]:
    """Whatever is looked up from inside is one of the known names: no code that this file names."""
    before = _UNTRUSTED.set(file)
    try:
        yield
    finally:
        _UNTRUSTED.reset(before)


def refuse_code(named: str) -> None:
    """An error where the file being read belongs to a run folder, from which nothing is run."""
    file = _UNTRUSTED.get()
    if file is not None:
        raise DurometerError(
            f"'{file}' names Python code, {named}: nothing in a run folder is executed. Give the "
            f"rows with --data; or, if you trust the file and its code, name it: --config {file}"
        )


@dataclass(frozen=True)
class Parameter:
    """One parameter of a noun: its name, type and default (`REQUIRED` where it has none)."""

    name: str
    hint: Any
    default: Any = REQUIRED
    many: bool = False  # `*attacks`: written as a list

    def __str__(self) -> str:
        if self.many:
            return f"{self.name}=[...]"
        return self.name if self.default is REQUIRED else f"{self.name}={self.default!r}"


@cache
def names(kind: str) -> dict[str, Callable[..., Any]]:
    """Everything of a kind, by its public name.

    >>> sorted(names("losses"))[:3]
    ['ce', 'dlr', 'lse']
    """
    if kind not in KINDS:
        raise DurometerError(f"nothing is called '{kind}'{nearest(kind, KINDS)}")
    return _registered(kind) | _own(kind)


def _registered(kind: str) -> dict[str, Callable[..., Any]]:
    """What installed packages register under the entry-point group of this kind."""
    found: dict[str, Callable[..., Any]] = {}
    for point in sorted(entry_points(group=GROUPS.get(kind, "")), key=lambda p: p.name):
        try:
            found[point.name] = point.load()
        except Exception as error:
            raise DurometerError(
                f"{point.group}: '{point.name}' = '{point.value}' cannot be loaded "
                f"({type(error).__name__}: {error}); mend or remove the package that registers it"
            ) from error
        _check_kind(kind, point.value, found[point.name])
    return found


def _own(kind: str) -> dict[str, Callable[..., Any]]:
    """What the package itself has; nobody can take one of its names."""
    home, methods = KINDS[kind]
    if kind == "datasets":
        module = import_module(home)
        found = {n: getattr(module, n) for n in module.__all__}
        return {n: f for n, f in sorted(found.items()) if inspect.isfunction(f)}
    found = {}
    for place in home.split():
        module = import_module(place)
        if place in VOCABULARIES:
            found |= {n: getattr(module, n) for n in module.__all__}
    import durometer

    for name in dir(durometer):
        noun = getattr(durometer, name)
        if _inside(getattr(noun, "__module__", ""), home):
            found[name] = noun
    found = {n: f for n, f in found.items() if getattr(f, "__module__", "").startswith("durometer")}
    return {n: f for n, f in sorted(found.items()) if _makes(f, methods) and not _abstract(f)}


def _abstract(noun: Any) -> bool:
    """Nothing to be made from a file: a protocol, a class to inherit from, a function of data."""
    if inspect.isclass(noun):
        protocol = getattr(noun, "_is_protocol", False)
        return bool(protocol) or inspect.isabstract(noun) or noun.__name__ == "Joint"
    signature, hints = inspect.signature(noun).parameters, _hints(noun)
    return any(
        p.default is REQUIRED and p.kind is p.POSITIONAL_OR_KEYWORD and hints.get(n, Any) is Any
        for n, p in signature.items()
        if n not in IMPLIED
    )


def origin(noun: Callable[..., Any]) -> str:
    """The package a noun comes from."""
    return noun.__module__.partition(".")[0]


def _check_kind(kind: str, name: str, noun: Any) -> None:
    methods = KINDS[kind][1]
    if not (callable(noun) if kind in ("datasets", "losses") else _makes(noun, methods)):
        raise DurometerError(
            f"'{name}' is no {kind.removesuffix('s')}: it lacks {', '.join(methods) or '()'}; "
            "see du.extend"
        )


def _imported(kind: str, name: str) -> Callable[..., Any]:
    """The noun at "package.module:Name", or at "file.py:Name" next to the configuration file."""
    refuse_code(f"type = '{name}'")
    place, _, member = name.rpartition(":")
    try:
        module = _file(FOLDER.get() / place) if place.endswith(".py") else import_module(place)
    except Exception as error:
        raise DurometerError(
            f"type = '{name}': '{place}' cannot be imported ({type(error).__name__}: {error})"
        ) from error
    if not hasattr(module, member):
        raise DurometerError(f"'{place}' has no '{member}'{nearest(member, vars(module))}")
    noun: Callable[..., Any] = getattr(module, member)
    _check_kind(kind, name, noun)
    return noun


@cache
def _file(path: Path) -> types.ModuleType:
    spec = spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


def _inside(module: str, home: str) -> bool:
    return any(module == h or module.startswith(h + ".") for h in home.split())


def _makes(noun: Any, methods: tuple[str, ...]) -> bool:
    """Does calling the noun give something with these methods? A function's return type says so."""
    if not (inspect.isclass(noun) or inspect.isfunction(noun)):
        return False
    made = noun if inspect.isclass(noun) else _hints(noun).get("return", noun)
    kinds = get_args(made) if isinstance(made, types.UnionType) else (made,)
    return all(hasattr(kind, m) for kind in kinds for m in methods)


def find(kind: str, name: str) -> Callable[..., Any]:
    """The noun of that name, or an error with the nearest one."""
    known = names(kind)
    if ":" in name:
        return _imported(kind, name)
    if name not in known:
        raise DurometerError(f"no {kind.removesuffix('s')} '{name}'{nearest(name, known)}")
    return known[name]


@cache
def parameters(noun: Callable[..., Any]) -> dict[str, Parameter]:
    """What the noun takes, in order; the implied ones left out.

    >>> from durometer.attacks.combine import Restarts
    >>> [str(p) for p in parameters(Restarts).values()]
    ['attack', 'times=5']
    """
    hints = _hints(noun)
    found = {}
    for name, p in inspect.signature(noun).parameters.items():
        if name not in implied(noun) and p.kind is not inspect.Parameter.VAR_KEYWORD:
            many = p.kind is inspect.Parameter.VAR_POSITIONAL
            found[name] = Parameter(name, hints.get(name, Any), p.default, many)
    return found


def implied(noun: Callable[..., Any]) -> frozenset[str]:
    """The parameters that the run itself fills in."""
    signature = inspect.signature(noun).parameters
    return frozenset(k for k in IMPLIED & set(signature) if signature[k].default is REQUIRED)


def _hints(noun: Any) -> dict[str, Any]:
    try:
        return get_type_hints(noun.__init__ if inspect.isclass(noun) else noun)
    except NameError:  # a type that is imported for the type checker only
        return {}


def summary(noun: Callable[..., Any]) -> str:
    """What it is, in a sentence: of its file where it has one to itself, else of its docstring.

    >>> summary(find("attacks", "FGSM"))[:29]
    'The fast gradient sign method'
    """
    file = noun.__module__.rpartition(".")[2]
    own = noun.__module__.startswith("durometer.attacks.") and file == noun.__name__.lower()
    text = inspect.getdoc(sys.modules[noun.__module__] if own else noun) or ""
    return " ".join(text.split("\n\n")[0].split())

"""Compile the kernels of `src/durometer/kernels/native` into one library beside them.

Run as a script it builds what is out of date (`make native`); hatchling runs it for every wheel and
editable install. The compiler: $CXX, else c++, g++ or clang++, else the one in the package ziglang,
which an isolated build asks for by itself where no other is found.
"""

from __future__ import annotations

import hashlib
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
# No -ffast-math and no contraction: sums must round the same on every machine. No -march: a wheel
# runs on every processor of its platform.
FLAGS = ["-O3", "-std=c++17", "-ffp-contract=off", "-fvisibility=hidden", "-Wall", "-Wextra"]


def compiler() -> list[str] | None:
    """The command that compiles C++, or None."""
    if os.environ.get("CXX"):
        return shlex.split(os.environ["CXX"])
    for name in ("c++", "g++", "clang++"):
        if path := shutil.which(name):
            return [path]
    return [sys.executable, "-m", "ziglang", "c++"] if find_spec("ziglang") else None


def repository() -> str | None:
    """The address of the repository that builds, where the build knows it."""
    if named := os.environ.get("DUROMETER_REPOSITORY"):
        return named.rstrip("/")
    if on_github := os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{on_github}"
    return None


def build(root: Path = ROOT) -> Path:
    """The library of this checkout, compiled if its sources have changed."""
    kernels = root / "src" / "durometer" / "kernels"
    rules = runpy.run_path(str(kernels / "stamp.py"))
    library, mark = rules["library"](sys.platform), rules["stamp"]()
    if rules["carries"](library, mark):
        return Path(library)
    command = compiler()
    if command is None:
        raise SystemExit(
            "durometer: no C++ compiler. Install one (apt-get install g++), name it in $CXX, or "
            "`pip install ziglang`, which carries one"
        )
    posix = [] if sys.platform == "win32" else ["-fPIC", "-pthread"]
    objects = root / "build" / "native"
    objects.mkdir(parents=True, exist_ok=True)
    sources = kernels / "native"
    files = sorted(sources.rglob("*.cpp"))
    headers = b"".join(p.read_bytes() for p in sorted(sources.rglob("*.h")))

    def compile_one(source: Path) -> str:
        line = [*command, *FLAGS, *posix, f"-I{sources}"]
        if source.name == "stamp.cpp":
            line.append(f'-DDUROMETER_STAMP="{mark}"')
        key = hashlib.sha256("\0".join(line).encode() + headers + source.read_bytes()).hexdigest()
        name = "-".join(source.relative_to(sources).with_suffix("").parts)
        made = objects / f"{name}-{key[:16]}.o"
        if not made.exists():
            for old in objects.glob(f"{name}-{'?' * 16}.o"):
                old.unlink(missing_ok=True)
            _atomically([*line, "-c", str(source)], made)
        return str(made)

    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = list(pool.map(compile_one, files))
        _atomically([*command, *posix, "-shared", *made], library)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"durometer: {shlex.join(command)} failed, see above") from error
    return Path(library)


def _atomically(line: list[str], target: Path) -> None:
    # whole or not at all: another process may be loading or building it
    unfinished = target.with_name(f"{target.stem}.{os.getpid()}.tmp{target.suffix}")
    try:
        subprocess.run([*line, "-o", str(unfinished)], check=True)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # run as a script by a Python without hatchling
    pass
else:

    class NativeBuildHook(BuildHookInterface[Any]):
        """One wheel per platform, for every Python version."""

        PLUGIN_NAME = "custom"

        def dependencies(self) -> list[str]:
            return [] if compiler() else ["ziglang"]

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            from packaging.tags import platform_tags

            build(Path(self.root))
            if version != "editable":  # from a clone the page reads it where it stands
                there = "durometer/report/templates/checks.md"
                build_data["force_include"][
                    str(Path(self.root) / "docs" / "reference" / "warnings.md")
                ] = there
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{next(platform_tags())}"

    class AddressHook(MetadataHookInterface):
        """Where the project lives, as the package index shows it.

        The address is the repository that builds: an index has no files beside the README, so its
        links and its picture become absolute. Outside a known repository, both stay as they are.
        """

        PLUGIN_NAME = "custom"

        def update(self, metadata: dict[str, Any]) -> None:
            text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
            if home := repository():
                metadata["urls"] = {
                    "Repository": home,
                    "Documentation": f"{home}/tree/main/docs",
                    "Changelog": f"{home}/blob/main/CHANGELOG.md",
                    "Issues": f"{home}/issues",
                }
                text = re.sub(r"!\[([^]]*)\]\((?!https?:)", rf"![\1]({home}/raw/main/", text)
                text = re.sub(r"(?<!!)\[([^]]*)\]\((?!https?:|#)", rf"[\1]({home}/blob/main/", text)
            metadata["readme"] = {"content-type": "text/markdown", "text": text}


if __name__ == "__main__":
    if "--compiler" in sys.argv:
        sys.exit(compiler() is None)
    sys.stdout.write(f"{build()}\n")

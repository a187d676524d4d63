"""magika: how many bytes behind the end of a program or script make it pass for a document?

    pip install 'durometer[magika]'
    python studies/magika/run.py --out runs/magika       some CPU-minutes; finished cells are kept
    python studies/magika/run.py --smoke

Files of this machine, 24 of each kind; behind the end of each come k bytes that cannot change what
it does: an ELF program ends before them, `exit`, `__END__` or `#` comes before them in a script.
Gradients (APGD, HotFlip) and searches; the goal is any type of magika's groups "document" and
"image" (but Fortran, which it counts among documents), above the type's own threshold. Each success
is written to disk and counts only if `magika.identify_path` says so; where the program can be run
safely its output is compared with the original's.

What a reader would get wrong: the bytes are chosen with the model's gradient in hand. What an
attacker does who can only ask for answers is the row of the search.
"""

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import durometer as du
from durometer.report.stats import wilson

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import file_types as ft

GUARDS = {"elf": b"", "shell": b"\nexit\n", "perl": b"\n__END__\n", "python": b"\n#"}
# Which programs answer --version and do nothing else: those of these packages.
SAFE = ("coreutils", "diffutils", "findutils", "grep", "sed", "tar", "gzip", "xz-utils", "bzip2")
KS = {"elf": (8, 16, 32, 64, 128, 256), "shell": (32, 128, 512), "perl": (32, 128, 512),
      "python": (32, 128, 512)}  # fmt: skip


def plan(given: argparse.Namespace) -> list[tuple[str, int, int, object]]:
    """(kind, k bytes appended, how many of them may be used, attack)."""
    steps = given.steps
    cells = [(kind, k, k, du.APGD(steps)) for kind, ks in KS.items() for k in ks]
    for most in (8, 16, 32, 64):
        cells += [("elf", 256, most, attack) for attack in (du.APGD(steps), du.HotFlip(10))]
    search = du.MOEVA(generations=20, population=20, offspring=20)
    cells += [("elf", 128, 128, search)]
    return [cells[i] for i in (5, 8, -2)] if given.smoke else cells


def kind_of(content: bytes) -> str:
    first = content[:80].split(b"\n")[0]
    if content[:4] == b"\x7fELF":
        return "elf"
    for kind, words in {"shell": (b"sh",), "perl": (b"perl",), "python": (b"python",)}.items():
        if first.startswith(b"#!") and any(w in first for w in words):
            return kind
    return ""


def files(kind: str, count: int) -> dict[str, bytes]:
    """Files of this machine, spread over their names; those that are long enough to have an end."""
    places = sorted(Path("/usr/bin").iterdir())
    if kind == "python":
        places = sorted(Path(ast.__file__).parent.glob("*.py"))
    found = {}
    for path in places:
        if path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        is_kind = kind == "python" or kind_of(content) == kind
        fits = len(content.lstrip()) >= 1100 and not (kind == "perl" and b"__DATA__" in content)
        if is_kind and fits:
            found[path.name] = content
    names = sorted(found)
    spread = np.linspace(0, len(names) - 1, min(count, len(names))).astype(int)
    return {names[i]: found[names[i]] for i in spread}


def same(kind: str, name: str, before: bytes, path: Path) -> bool | None:
    """Does the changed file do what the original did? None: not tried."""
    if kind == "python":
        return ast.dump(ast.parse(before)) == ast.dump(ast.parse(path.read_bytes()))
    original = Path("/usr/bin") / name
    if kind == "perl":
        argv = [["perl", "-c", str(p)] for p in (original, path)]
        first, second = (_run(a) for a in argv)
        return first[0] == second[0]
    owner = _run(["dpkg", "-S", f"*/bin/{name}"])[1].split(":")[0]
    if owner not in SAFE:
        return None
    path.chmod(0o755)
    first, second = (_run([str(p), "--version"]) for p in (original, path))
    return first == second if first[0] == 0 else None  # some know no --version


def _run(argv: list[str]) -> tuple[int, str]:
    done = subprocess.run(argv, capture_output=True, timeout=10, stdin=subprocess.DEVNULL,
                          check=False)  # fmt: skip
    return done.returncode, done.stdout.decode(errors="replace")


def cell(kind: str, k: int, most: int, attack: object, count: int) -> dict[str, object]:
    contents = {n: c + GUARDS[kind] + b"#" * k for n, c in files(kind, count).items()}
    data = ft.rows(contents, label=kind)
    without = ft.BLANKS if kind != "python" else tuple(b for b in range(256) if not 32 < b < 127)
    space = du.Symbols(most=most, last=k, without=without)
    began = time.process_time()
    report = du.evaluate(
        ft.model(), data, space=space, goal=du.Group({kind: ft.WANTED}), attack=attack,
        progress=False,
    )  # fmt: skip
    t = report.table
    judged, ran = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, row, broken in zip(contents, report.adversarial, t["success"], strict=True):
            if not broken:
                continue
            path = ft.written(contents[name], row, folder, name)
            answer = ft.identify.identify_path(path).prediction
            judged.append([name, ft.said(answer), answer.output.group, round(answer.score, 3),
                           _run(["file", "-b", str(path)])[1].split(",")[0].strip()])  # fmt: skip
            ran.append(same(kind, name, contents[name][: -k - len(GUARDS[kind])], path))
    attacked = t["skipped"] == ""
    return {
        "kind": kind, "k": k, "most": most, "attack": repr(attack), "files": len(t),
        "clean": int((t["clean"] == t["y"]).sum()), "attacked": int(attacked.sum()),
        "broken": int(t["success"].sum()), "judged": judged, "ran": ran,
        "gradients": float(t["backwards"][attacked].mean()),
        "queries": float(t["forwards"][attacked].mean()),
        "seconds": time.process_time() - began,
    }  # fmt: skip


def table(found: list[dict]) -> str:
    """Everything as Markdown."""
    lines = [
        "| files | k bytes behind the end | of them used | attack | clean right | pass for a "
        "document or picture, by magika itself | agree with durometer | gradients, queries per "
        "file "
        "| same behaviour |",
        "|---" * 9 + "|",
    ]
    for c in found:
        passed = sum(j[2] in ("document", "image") and j[1] in ft.WANTED for j in c["judged"])
        n = c["attacked"]
        rate = wilson(passed, n)
        tried = [r for r in c["ran"] if r is not None]
        lines.append(
            f"| {c['kind']} | {c['k']} | at most {c['most']} | {c['attack'].split('(')[0]} | "
            f"{c['clean']} of {c['files']} | {passed} of {n} [{rate.low:.2f}, {rate.high:.2f}] | "
            f"{passed} of {c['broken']} | {c['gradients']:.0f}, {c['queries']:.0f} | "
            f"{sum(tried)} of {len(tried)} tried |"
        )
    taken: dict[str, int] = {}
    for c in found:
        for _, label, *_ in c["judged"]:
            taken[label] = taken.get(label, 0) + 1
    most = sorted(taken.items(), key=lambda p: -p[1])
    lines += ["", "Taken for: " + ", ".join(f"{t} {n}" for t, n in most) + "."]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/magika"))
    parser.add_argument("--files", type=int, default=24, help="of each kind")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args(argv)
    if given.smoke:
        given.files, given.steps = 2, 3
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    found = []
    for kind, k, most, attack in plan(given):
        name = f"{kind}-{k}-{most}-{type(attack).__name__}-{given.files}.json"
        if not (given.out / name).exists():
            made = cell(kind, k, most, attack, given.files)
            (given.out / name).write_text(json.dumps(made, indent=1))
            print(name, f"{made['broken']} of {made['attacked']}", f"{made['seconds']:.0f} CPU-s",
                  flush=True)  # fmt: skip
        found.append(json.loads((given.out / name).read_text()))
    (given.out / "table.md").write_text(table(found))
    print(table(found))


if __name__ == "__main__":
    main()

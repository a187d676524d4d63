"""From a fresh clone of a sample project to a red build, and to a green one with a robust model.

    python benchmarks/red_green.py             # examples/gate_project, everything really trained
    python benchmarks/red_green.py --smoke     # few rows: the steps and the files, not the verdicts

What is timed is what happens after durometer is installed: clone, train, gate. The build is the
gate as `action.yml` runs it, in a process of its own: exit code, summary, SARIF, JUnit.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
WORD = {0: "green", 1: "red", 2: "undecided", 3: "broken"}


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def called(command, folder, env, allowed=(0,)):
    made = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if made.returncode not in allowed:
        raise SystemExit(f"{command}: exit code {made.returncode}\n{made.stdout}{made.stderr}")
    return made.returncode


def built(project, env):
    """The action's own step; its exit code."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    script = next(s for s in steps if s.get("id") == "gate")["run"]
    return called(["bash", "-e", "-c", script], project, env, allowed=(0, 1, 2))


def said(project, env):
    """What the build left behind, checked: the summary, the SARIF, the JUnit file."""
    out = project / "runs/gate"
    sarif = json.loads((out / "gate.sarif").read_text())
    assert sarif["version"] == "2.1.0"
    cases = list(ET.parse(out / "gate.xml").getroot().iter("testcase"))
    summary = Path(env["GITHUB_STEP_SUMMARY"]).read_text()
    assert summary and (out / "report.html").exists() and (out / "evidence.html").exists()
    wrong = [r["message"]["text"] for r in sarif["runs"][0]["results"] if r.get("kind") != "pass"]
    return (
        f"{len(wrong)} SARIF results, {len(cases)} JUnit cases, summary of {len(summary)} letters"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    smoke = parser.parse_args().smoke
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        (place / "bin").mkdir()
        launcher = place / "bin/durometer"
        launcher.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m durometer \"$@\"\n")
        launcher.chmod(0o755)
        env = os.environ | {
            "PATH": f"{place / 'bin'}:{os.environ['PATH']}", "FILE": "gate.toml",
            "OUT": "runs/gate", "GITHUB_OUTPUT": str(place / "output"),
            "GITHUB_STEP_SUMMARY": str(place / "summary"),
        }  # fmt: skip
        origin = shutil.copytree(ROOT / "examples/gate_project", place / "origin")
        if smoke:
            text = (origin / "train.py").read_text().replace("mnist().train", "mnist().train[:64]")
            (origin / "train.py").write_text(text)
            gate = (origin / "gate.toml").read_text()
            (origin / "gate.toml").write_text(
                gate.replace('name = "mnist"', 'name = "mnist"\nrows = 64')
            )
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        called(["git", "init", "-q"], origin, env)
        called(["git", "add", "-A"], origin, env)
        called(["git", *who, "commit", "-qm", "a project"], origin, env)
        began, used, found = time.perf_counter(), cpu(), []
        called(["git", "clone", "-q", str(origin), "project"], place, env)
        for words in ([], ["--robust"]):
            called([sys.executable, "train.py", *words], place / "project", env)
            code = built(place / "project", env)
            found.append(WORD[code])
            seconds, spent = time.perf_counter() - began, cpu() - used
            print(f"{WORD[code]} (exit code {code}) after {seconds:.0f} s, {spent:.0f} CPU-s: "
                  f"{said(place / 'project', env)}")  # fmt: skip
            print((place / "project/runs/gate/summary.md").read_text().partition("\n\n")[0])
            began, used = time.perf_counter(), cpu()
    if not smoke and found != ["red", "green"]:
        raise SystemExit(f"expected red, then green; got {found}")


if __name__ == "__main__":
    main()

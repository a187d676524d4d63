"""A misspelt public name is an error, for type checkers too; the right one is named."""

import subprocess
import sys

import pytest


def test_when_it_runs():
    import durometer as du

    with pytest.raises(AttributeError, match="did you mean 'PGD'"):
        du.PDG  # noqa: B018


def test_for_a_type_checker(tmp_path):
    file = tmp_path / "typo.py"
    file.write_text("import durometer as du\nfrom durometer import PDG\n\ndu.PDG\ndu.Escalaton\n")
    command = [sys.executable, "-m", "mypy", "--follow-imports=skip", "--no-incremental", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert said.returncode == 1
    assert 'typo.py:2: error: Module "durometer" has no attribute "PDG"' in said.stdout
    assert 'typo.py:4: error: Module has no attribute "PDG"' in said.stdout
    # mypy names a neighbour above a likeness of 0.75; PDG and PGD have 0.67.
    assert (
        'typo.py:5: error: Module has no attribute "Escalaton"; maybe "Escalation"?' in said.stdout
    )

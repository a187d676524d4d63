"""A gate's outcome for the places where people work: markdown, JUnit XML, SARIF."""

from pathlib import Path

from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.gates.decide import Outcome
from durometer.gates.writers.junit import broken as junit_broken
from durometer.gates.writers.junit import junit
from durometer.gates.writers.markdown import broken as markdown_broken
from durometer.gates.writers.markdown import markdown
from durometer.gates.writers.sarif import broken as sarif_broken
from durometer.gates.writers.sarif import sarif

__all__ = ["KINDS", "junit", "markdown", "sarif", "text", "write"]

# kind -> the text of an outcome, the text of a run that broke
KINDS = {
    "summary": (markdown, markdown_broken),
    "junit": (junit, junit_broken),
    "sarif": (sarif, sarif_broken),
}


def text(kind: str, said: Outcome | str, source: str) -> str:
    """An outcome, or why a run broke, as one of them."""
    decided, broken = KINDS[kind]
    return broken(said, source) if isinstance(said, str) else decided(said, source)


def write(file: Path, text: str) -> None:
    """One of them to a file."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        durable_files.write(file, text)
    except OSError as error:
        raise DurometerError(f"cannot write '{file}': {error}") from None

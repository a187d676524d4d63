"""A gate's outcome for the places where people work: markdown, JUnit XML, SARIF."""

from pathlib import Path

from assay import durable
from assay.errors import AssayError
from assay.gates.decide import Outcome
from assay.gates.writers.junit import broken as junit_broken
from assay.gates.writers.junit import junit
from assay.gates.writers.markdown import broken as markdown_broken
from assay.gates.writers.markdown import markdown
from assay.gates.writers.sarif import broken as sarif_broken
from assay.gates.writers.sarif import sarif

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
        durable.write(file, text)
    except OSError as error:
        raise AssayError(f"cannot write '{file}': {error}") from None

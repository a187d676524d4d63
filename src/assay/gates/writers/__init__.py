"""A gate's outcome for the places where people work: markdown, JUnit XML, SARIF."""

from pathlib import Path

from assay import durable
from assay.errors import AssayError
from assay.gates.writers.junit import junit
from assay.gates.writers.markdown import markdown
from assay.gates.writers.sarif import sarif

__all__ = ["junit", "markdown", "sarif", "write"]


def write(file: Path, text: str) -> None:
    """One of them to a file."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        durable.write(file, text)
    except OSError as error:
        raise AssayError(f"cannot write '{file}': {error}") from None

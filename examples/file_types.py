"""Somebody else's model: can bytes appended to a program make magika take it for a picture?

    pip install 'durometer[magika]'
    python examples/file_types.py          # a minute or two; or: durometer run
    examples/file_types.toml

magika (Google) tells file types from the first and the last 1,024 bytes, without the white space at
either end; its ONNX file comes in the wheel. What it answers is the likeliest of 214 types, or "low
confidence" where that one stays below its threshold: one more class. Bytes behind the end of an ELF
program are never loaded, so the changed file runs as before. Each success is written to disk, and
the package itself has the last word.

What a reader would get wrong: magika strips white space, so none may be appended, or the rest of
the file would move.
"""

import io
import json
import tempfile
from pathlib import Path

import magika
import numpy as np
import torch
from magika.types import OverwriteReason
from magika.types.seekable import Seekable

import durometer as du

HOME = Path(magika.__file__).parent
GRAPH = next(HOME.glob("models/*/model.onnx"))
SETTINGS = json.loads(GRAPH.with_name("config.min.json").read_text())
TYPES = tuple(SETTINGS["target_labels_space"])
UNSURE = "low confidence"
KINDS = json.loads((HOME / "config" / "content_types_kb.min.json").read_text())
WANTED = [t for t in TYPES if KINDS[t]["group"] in ("document", "image") and t != "fortran"]
BLANKS = tuple(b for b in range(256) if bytes([b]).isspace())
APPENDED = 256
identify = magika.Magika()


class FileType(torch.nn.Module):
    """The package's rule on the graph's answers: below a type's threshold it is not sure."""

    reads_symbols = True

    def __init__(self):
        super().__init__()
        self.graph = du.wrap(GRAPH, answers="probabilities", gradients=True)
        usual = SETTINGS["medium_confidence_threshold"]
        floors = [SETTINGS["thresholds"].get(t, usual) for t in TYPES]
        self.register_buffer("floors", torch.tensor(floors).log())

    def forward(self, x):
        scores = self.graph.logits(x)
        return torch.cat([scores, self.floors[scores.argmax(1), None]], dim=1)


def features(content):
    """The package's own pre-processing: 2,048 numbers."""
    seen = identify._extract_features_from_seekable(  # noqa: SLF001
        Seekable(io.BytesIO(content)), SETTINGS["beg_size"], SETTINGS["mid_size"],
        SETTINGS["end_size"], SETTINGS["padding_token"], SETTINGS["block_size"],
        SETTINGS["use_inputs_at_offsets"],
    )  # fmt: skip
    return seen.beg + seen.end


def said(prediction):
    """What the package answers, in the model's classes."""
    unsure = prediction.overwrite_reason == OverwriteReason.LOW_CONFIDENCE
    return UNSURE if unsure else str(prediction.dl.label)


def own_answers(rows):
    """The package asked for itself, with files that have these beginnings and ends."""
    ends = SETTINGS["beg_size"]
    contents = (bytes(r[:ends]) + b"." * 8192 + bytes(r[ends:]) for r in rows.astype(np.uint8))
    return [said(identify.identify_bytes(c).prediction) for c in contents]


def model():
    return du.wrap(FileType().eval(), name=f"magika {magika.__version__}", predict=own_answers)


def programs(count=12, appended=APPENDED):
    """Programs of this machine by name, with `appended` bytes behind their ends."""
    paths = [p for p in sorted(Path("/usr/bin").iterdir()) if p.is_file() and not p.is_symlink()]
    found = {p.name: p.read_bytes() for p in paths if p.open("rb").read(4) == b"\x7fELF"}
    names = sorted(found)[:: max(1, len(found) // count)][:count]
    return {name: found[name] + b"#" * appended for name in names}


def rows(contents, label="elf"):
    x = np.array([features(content) for content in contents.values()], dtype=float)
    y = np.full(len(x), TYPES.index(label))
    return du.Dataset(x, y, classes=(*TYPES, UNSURE), ids=list(contents), name="programs")


def data():
    return rows(programs())


def goal():
    return du.Group({"elf": WANTED})


def written(content, row, folder, name):
    """A changed file on disk: its last bytes are the row's."""
    path = Path(folder) / name
    path.write_bytes(content[:-1024] + bytes(row[1024:].astype(np.uint8)))
    return path


if __name__ == "__main__":
    contents = programs()
    space = du.Symbols(most=APPENDED, last=APPENDED, without=BLANKS)
    report = du.evaluate(model(), rows(contents), space=space, goal=goal(), attack=du.APGD(30))
    print(report)
    with tempfile.TemporaryDirectory() as folder:
        for name, row, broken in zip(
            contents, report.adversarial, report.table["success"], strict=True
        ):
            path = written(contents[name], row, folder, name)
            answer = identify.identify_path(path).prediction
            if broken:
                print(f"{name:24} is a {said(answer)} ({answer.output.group}), {answer.score:.2f}")

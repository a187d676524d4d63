"""repair: a run folder that was damaged (a bad disk, a careless copy), made whole again.

Chunks whose bytes are not those the index remembers, or that cannot be read, are set aside in
`damaged/` and forgotten, so that the next --resume plays them again. A damaged index is rebuilt
from the chunks, a damaged spec or fingerprint is taken from the index. Nothing is deleted.

What a reader would get wrong: a chunk that the index does not name is not damage but a run that was
killed between the two; it is only used where the index itself is lost.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.run.store import Store, in_a_sentence


def repair(folder: str | Path) -> list[str]:
    """What was wrong with a run's folder and is now mended, in sentences.

    >>> repair("runs/night")                                            # doctest: +SKIP
    ["chunk 3 is damaged (its bytes are not those that were written): set aside ..."]
    """
    folder = Path(folder)
    if not any((folder / name).exists() for name in ("spec.json", "index.sqlite", "replaced")):
        raise DurometerError(f"'{folder}' is not the folder of a run")
    store = Store(folder)
    with store.locked(), in_a_sentence(folder):
        return mend(store, put_back=True)


def mend(store: Store, put_back: bool = False) -> list[str]:
    """The same under a lock that is already held."""
    found = []
    if put_back and store.replacement.put_back():
        found.append("the run that was to be replaced is back: the new one had no chunk")
    found += _mend_index(store)
    found += _mend_copies(store)
    for k, entry in store.index.done().items():
        wrong = store.wrong(k, entry)
        if wrong:
            _set_aside(store, store.chunk(k))
            store.index.forget(k)
            found.append(f"chunk {k} is damaged ({wrong}): set aside, --resume plays it again")
    return found


def _mend_index(store: Store) -> list[str]:
    path = store.index.path
    try:
        if path.exists():
            store.index.done()
            store.index.make()
            return []
        said = "is missing"
    except DurometerError:
        said = "is damaged"
        for part in store.folder.glob("index.sqlite*"):
            _set_aside(store, part)
    store.index.make()
    counted = 0
    for chunk in sorted((store.folder / "chunks").glob("*.npz")):
        if not (chunk.stem.isdigit() and chunk.is_file()):
            continue
        try:
            with (
                durable_files.reading(chunk, ""),
                durable_files.arrays(content := chunk.read_bytes()) as file,
            ):
                for name in file.files:
                    file[name]
                facts = durable_files.parsed(str(file["facts"])) if "facts" in file.files else {}
                rows = len(file["id"])
        except DurometerError:  # it stays where it is, and is played again
            continue
        store.index.add(int(chunk.stem), rows, facts, durable_files.digest(content))
        counted += 1
    return [f"index.sqlite {said}: rebuilt from {counted} chunks"]


def _mend_copies(store: Store) -> list[str]:
    """The spec and the fingerprint exist twice: what is left of them makes up for the other."""
    found = []
    for name in ("spec", "fingerprint"):
        path = store.folder / f"{name}.json"
        kept = store.index.kept(name)
        there: Any = None
        try:
            if path.exists() and not path.is_file():
                raise ValueError("it is no regular file")
            there = durable_files.parsed(path.read_text(encoding="utf-8"))
            if not isinstance(there, dict) or not set(kept or ()) <= set(there):
                there = None
                raise ValueError("it is something else")
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            if kept is None:
                raise DurometerError(
                    f"'{path}' is damaged ({error}), and there is no copy: start anew with --force"
                ) from None
            _set_aside(store, path)
        if there is None and kept is not None:
            durable_files.write(path, json.dumps(kept, indent=2))
            found.append(f"{path.name} is damaged or missing: brought back from the index")
        elif kept is None and there is not None:
            own = {k: v for k, v in there.items() if k not in ("flags", "also", "saved")}
            store.index.keep(name, own)
    return found


def _set_aside(store: Store, path: Path) -> None:
    if path.exists():
        aside = store.folder / "damaged"
        aside.mkdir(exist_ok=True)
        count = len(list(aside.iterdir()))
        os.rename(path, aside / f"{count}-{path.name}")

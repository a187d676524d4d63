"""merge: the shards of a run joined to exactly the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.core.spec import Spec
from durometer.report.examples import merged
from durometer.report.report import Report
from durometer.run.fingerprint import differences
from durometer.run.store import Store, compare, in_a_sentence


def merge(parts: Sequence[Path], out: Path, accept_version: bool = False) -> Store:
    """Join the shards of a run to exactly the whole; refuses a gap or shards of different runs."""
    whole, owner = _join(parts, accept_version)
    for name in _further(parts):  # before anything is written
        _join([Path(p) / "also" / name for p in parts], accept_version)
    store, first = Store(Path(out)), Store(Path(parts[0]))
    with store.held(whole, resume=False, print=first.print), in_a_sentence(store.folder):
        if (first.folder / "facts.json").exists():
            content = (first.folder / "facts.json").read_bytes()
            durable_files.write(store.folder / "facts.json", content)
        known = {id(s): s.index.done() for s in owner.values()}
        for k, shard in sorted(owner.items()):
            entry = known[id(shard)][k]
            rows = len(shard.read(k, entry))  # refuses a damaged one by its name
            content = shard.chunk(k).read_bytes()
            if entry.digest not in (None, durable_files.digest(content)):
                raise DurometerError(
                    f"'{shard.chunk(k)}' was changed while it was read: merge again"
                )
            durable_files.write(store.chunk(k), content)
            store.index.add(k, rows, entry.facts, durable_files.digest(content))
        versions: list[Any] = []
        for folder in parts:
            versions += [v for v in Store(Path(folder)).versions if v not in versions]
        store.index.keep("versions", versions)
    return store


def _join(parts: Sequence[Path], accept_version: bool) -> tuple[Spec, dict[int, Store]]:
    """The spec of the whole, and which shard has each chunk."""
    if not parts:
        raise DurometerError("merge: no folders given")
    shards = [Store(Path(p)) for p in parts]
    whole = shards[0].spec
    for shard in shards[1:]:
        compare(whole, shard.spec, shard.folder, accept_version)
        found = differences(shards[0].print, shard.print)
        if found:
            raise DurometerError(f"'{shard.folder}' belongs to another run: {'; '.join(found)}")
    owner: dict[int, Store] = {}
    left_out: dict[int, str] = {}
    for shard in shards:
        wrong = shard.damaged()
        left_out |= {k: f"'{shard.chunk(k)}' is damaged ({why})" for k, why in wrong.items()}
        for k in shard.done():
            if k not in wrong:
                owner.setdefault(k, shard)  # the same chunk twice is the same records twice
    missing = sorted(set(range(whole.chunks)) - set(owner))
    if missing:
        named = "; ".join(left_out[k] for k in missing[:3] if k in left_out)
        raise DurometerError(
            f"merge: {len(missing)} of {whole.chunks} chunks are in none of the folders, the "
            f"first is chunk {missing[0]}{'; ' if named else ''}{named}; finish that shard with "
            "--resume"
        )
    return replace(whole, shard=None), owner


def _further(parts: Sequence[Path]) -> list[str]:
    """Names of the further goals that any of the shards has."""
    found = (p.parent.name for part in parts for p in Path(part).glob("also/*/spec.json"))
    return sorted(set(found))


def report_of(parts: Sequence[Path], whole: Store) -> Report:
    """The report on a merged run, with what the shards' own reports know besides the records."""
    report = whole.report()
    known = [Report.load(p) for p in parts if (Path(p) / "records.parquet").exists()]
    examples = [(k.records.columns["id"], k.examples) for k in known if k.examples is not None]
    also = {}
    for name in _further(parts):
        inside = [Path(p) / "also" / name for p in parts]
        also[name] = report_of(inside, merge(inside, whole.folder / "also" / name, True))
    shown = merged(examples, report.records)
    return replace(report, also=also, examples=shown, rows=_rows(known))


def _rows(known: Sequence[Report]) -> Any:
    """The rows of the user's table, by id, as far as the shards have saved them."""
    import pandas as pd

    tables = [k.rows for k in known if k.rows is not None]
    if not tables:
        return None
    whole = pd.concat(tables)
    return whole[~whole.index.duplicated()]

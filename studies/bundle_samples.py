"""Make the samples that ship in the package from the full files, byte for byte the same each time.

    python studies/bundle_samples.py --mnist mnist.npz --cifar10 cifar10.npz --gtsrb GTSRB/ \
        --orl orl_faces/ --url dataset_B_05_2020.csv --pima diabetes.csv --ctu13 botnet/ \
        --lcld loans.csv --adult adult.csv --bank bank.csv --german german.csv --heart heart.csv

Each argument takes what the loader's `path=` takes (see its docstring), and each may be left out:
that sample then stays as it is. `--ctu13` is different: a folder with features.csv and
x_candidates_common.npy (or an .npz that holds it) of the MOEVA repository's data/botnet; `--lcld`
takes the 2,000 loans drawn by JGFuentesC/didactic-octo-telegram.

What must not change without a new version: which rows are taken, since reports are compared by row
id.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from durometer.core.errors import DurometerError
from durometer.datasets import lending, source
from durometer.datasets.cifar10 import read as read_cifar10
from durometer.datasets.ctu13 import FEATURES as CTU13_FEATURES
from durometer.datasets.ctu13 import read as read_ctu13
from durometer.datasets.gtsrb import CLASSES as SIGNS
from durometer.datasets.gtsrb import held_out
from durometer.datasets.gtsrb import read as read_gtsrb
from durometer.datasets.mnist import read as read_mnist
from durometer.datasets.orl import read as read_orl
from durometer.datasets.pima import FEATURES as PIMA_FEATURES
from durometer.datasets.pima import ROWS as PIMA_ROWS
from durometer.datasets.source import pack
from durometer.datasets.url import ROWS as URL_ROWS
from durometer.datasets.url import read as read_url

SAMPLES = Path(__file__).parents[1] / "src" / "durometer" / "datasets" / "samples"

# The 24 columns of the CSV that describe the page behind the address.
PAGE = {
    *("nb_hyperlinks", "ratio_intHyperlinks", "ratio_extHyperlinks", "ratio_nullHyperlinks"),
    *("nb_extCSS", "ratio_intRedirection", "ratio_extRedirection", "ratio_intErrors"),
    *("ratio_extErrors", "login_form", "external_favicon", "links_in_tags", "submit_email"),
    *("ratio_intMedia", "ratio_extMedia", "sfh", "iframe", "popup_window", "safe_anchor"),
    *("onmouseover", "right_clic", "empty_title", "domain_in_title", "domain_with_copyright"),
}


def stratified(y: NDArray[np.integer], n: int, seed: int) -> NDArray[np.int64]:
    """`n` rows with the class shares of `y`, remainders going to the largest fractions."""
    counts = np.bincount(y)
    exact = counts * n / len(y)
    take = np.floor(exact).astype(int)
    take[np.argsort(take - exact, kind="stable")[: n - take.sum()]] += 1
    rng = np.random.default_rng(seed)
    rows = [rng.choice(np.flatnonzero(y == c), k, replace=False) for c, k in enumerate(take)]
    return np.sort(np.concatenate(rows))


def spread(rows: NDArray[np.integer], track: NDArray[np.integer], n: int) -> NDArray[np.integer]:
    """`n` of these rows, taken from the tracks in turn; within a track evenly over its frames."""
    place = np.empty(len(rows))
    for t in np.unique(track):
        frames = np.flatnonzero(track == t)
        # Bit-reversed order visits a track's frames first, middle, quarters ... : far apart first.
        order = np.argsort([int(f"{i:05b}"[::-1], 2) for i in range(len(frames))])
        place[frames[order]] = np.arange(len(frames))
    return np.sort(rows[np.lexsort((track, place))[:n]])


def bundle_mnist(path: Path) -> source.Arrays:
    full = read_mnist(path)
    sample: source.Arrays = {}
    for part, n in (("train", 4000), ("test", 1000)):
        rows = stratified(full[f"y_{part}"], n, seed=0)
        sample |= {f"{key}_{part}": full[f"{key}_{part}"][rows].astype(np.uint8) for key in "xy"}
        sample[f"idx_{part}"] = rows.astype(np.int32)
    return sample


def bundle_cifar10(path: Path) -> source.Arrays:
    full = read_cifar10(path)
    sample: source.Arrays = {}
    for part, n in (("train", 1200), ("test", 300)):
        y = full[f"y_{part}"]
        rows = np.sort(np.concatenate([np.flatnonzero(y == c)[: n // 10] for c in range(10)]))
        sample[f"x_{part}"] = full[f"x_{part}"][rows]
        sample[f"y_{part}"] = y[rows].astype(np.uint8)
        sample[f"idx_{part}"] = rows.astype(np.int32)
    return sample


def packed(sample: source.Arrays) -> source.Arrays:
    """The same with colour pictures in little room (`datasets/source.py`)."""
    small: source.Arrays = {}
    for key, value in sample.items():
        if value.ndim == 4 and value.dtype == np.uint8:
            small |= {f"{key}:{part}": array for part, array in pack(value).items()}
        else:
            small[key] = value
    return small


def bundle_mixed(name: str, path: Path, out: Path) -> None:
    """A table with text as it is: rows drawn by class, with their places in the source's file."""
    import gzip

    from durometer.datasets.mixed import TABLES

    known = TABLES[name]
    frame = pd.read_csv(path)
    target = frame[known.target]
    codes = np.unique(target.to_numpy(str), return_inverse=True)[1]
    rows = stratified(codes, min(2000, len(frame)), seed=0)
    text = frame.iloc[rows].assign(row=rows).to_csv(index=False)
    file = out / f"{name}.csv.gz"
    file.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{file.name}: {len(rows)} of {len(frame)} rows, {file.stat().st_size:,} bytes")


def bundle_gtsrb(path: Path) -> source.Arrays:
    full = read_gtsrb(path)
    if "track_train" not in full:
        raise DurometerError(f"{path} has no track_train: frames cannot be spread over tracks")
    y, track, held = full["y_train"], full["track_train"], held_out(full["track_train"])
    rng, train, test = np.random.default_rng(0), [], []
    for c in range(len(SIGNS)):
        for part, n in ((~held, 44), (held, 8)):
            rows = np.flatnonzero((y == c) & part)
            train.append(spread(rows, track[rows], n))
        test.append(np.sort(rng.choice(np.flatnonzero(full["y_test"] == c), 20, replace=False)))
    first, last = np.sort(np.concatenate(train)), np.concatenate(test)
    # A file that is itself a part of the official set says which rows it has.
    row_train = full.get("idx_train", np.arange(len(y)))
    row_test = full.get("idx_test", np.arange(len(full["y_test"])))
    return {
        "x_train": full["x_train"][first],
        "y_train": y[first].astype(np.uint8),
        "track_train": track[first].astype(np.int16),
        "idx_train": row_train[first].astype(np.int32),
        "x_test": full["x_test"][last],
        "y_test": full["y_test"][last].astype(np.uint8),
        "idx_test": row_test[last].astype(np.int32),
    }


def bundle_url(path: Path) -> source.Arrays:
    frame = source.table(path, ("url", "status", *PAGE), URL_ROWS)
    names = tuple(c for c in frame.columns if c not in PAGE | {"url", "status"})
    x, y = read_url(path, names)
    real = np.array([bool((x[:, j] != np.rint(x[:, j])).any()) for j in range(len(names))])
    rest, test = halves(y)
    train, val = halves(y[rest])
    return {
        "features": np.array(names),
        "is_real": real,
        "counts": x[:, ~real].astype(np.int32),
        "ratios": x[:, real],
        "y": y.astype(np.uint8),
        "train": rest[train].astype(np.int16),
        "val": rest[val].astype(np.int16),
        "test": test.astype(np.int16),
    }


def bundle_ctu13(folder: Path) -> source.Arrays:
    import pandas as pd

    described = pd.read_csv(folder / "features.csv")
    if tuple(described["feature"]) != CTU13_FEATURES:
        raise DurometerError(f"{folder / 'features.csv'}: not the 756 features of CTU-13 in order")
    arrays = sorted([*folder.glob("x_candidates_common.npy"), *folder.glob("*samples.npz")])
    if not arrays:
        raise DurometerError(f"{folder}: no x_candidates_common.npy and no *samples.npz")
    x, _ = read_ctu13(arrays[0])
    real = (described["type"] == "real").to_numpy()
    return {
        "is_real": real,
        "high": described["max"].to_numpy(np.float64),
        "counts": np.ascontiguousarray(x[:, ~real].T.astype(np.int32)),
        "durations": np.ascontiguousarray(x[:, real].T),
    }


def bundle_lcld(path: Path) -> source.Arrays:
    raw = lending.read(path)
    kept = raw.loc[lending.prepare(raw).index.sort_values()]
    columns = {c: kept[c].astype(float).to_numpy() for c in lending.NUMBERS}
    columns |= {c: kept[c].str.strip().to_numpy().astype(str) for c in lending.TEXTS}
    status = kept["loan_status"].to_numpy().astype(str)
    return {**columns, "loan_status": status, "row": kept.index.to_numpy(np.int32)}


def bundle_pima(path: Path) -> source.Arrays:
    frame = source.table(path, (*PIMA_FEATURES, "Outcome"), PIMA_ROWS)
    y = frame["Outcome"].to_numpy(np.uint8)
    train, test = halves(y)
    x = frame[list(PIMA_FEATURES)].to_numpy(np.float64)
    return {"x": x, "y": y, "train": train.astype(np.int16), "test": test.astype(np.int16)}


def bundle_orl(path: Path) -> source.Arrays:
    full = read_orl(path)
    if "x64" in full:
        small = full["x64"]
    else:
        from PIL import Image

        square = full["x"][:, 10:102]
        faces = [Image.fromarray(f).resize((64, 64), Image.Resampling.LANCZOS) for f in square]
        small = np.stack([np.asarray(face) for face in faces])
    return {"x": small, "y": full["y"].astype(np.uint8), "shot": full["shot"].astype(np.uint8)}


def halves(y: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the 80 % and the 20 %, stratified, in the order of `train_test_split`."""
    from sklearn.model_selection import train_test_split

    four, one = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=42)
    return four, one


BUNDLES: dict[str, Callable[[Path], source.Arrays]] = {
    "mnist": bundle_mnist,
    "cifar10": bundle_cifar10,
    "gtsrb": bundle_gtsrb,
    "url": bundle_url,
    "pima": bundle_pima,
    "ctu13": bundle_ctu13,
    "lcld": bundle_lcld,
    "orl": bundle_orl,
}


MIXED = ("adult", "bank", "german", "heart")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in (*BUNDLES, *MIXED):
        parser.add_argument(f"--{name}", type=Path, help="as the loader's path=")
    parser.add_argument("--out", type=Path, default=SAMPLES)
    given = vars(parser.parse_args())
    for name, bundle in BUNDLES.items():
        if given[name] is not None:
            target = given["out"] / f"{name}.npz"
            np.savez_compressed(target, allow_pickle=False, **packed(bundle(given[name])))
            print(f"{target}: {target.stat().st_size / 1e6:.2f} MB, sha256 {source.sha256(target)}")
    for name in MIXED:
        if given[name] is not None:
            bundle_mixed(name, given[name], given["out"])


if __name__ == "__main__":
    main()

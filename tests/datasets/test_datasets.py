"""The bundled data sets: what they hold, where their rows come from, and how loading fails."""

import gzip
import hashlib
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

import durometer
from durometer import datasets
from durometer.core.errors import DurometerError
from durometer.datasets import mnist as load_mnist
from durometer.datasets import netpbm, source
from durometer.datasets.gtsrb import CLASSES as SIGNS
from durometer.datasets.gtsrb import held_out, shrink
from durometer.datasets.mnist import FILES
from durometer.datasets.url import features

SHAPES = {
    "mnist": {"train": (4000, 1, 28, 28), "test": (1000, 1, 28, 28)},
    "gtsrb": {"train": (1892, 3, 32, 32), "val": (337, 3, 32, 32), "test": (860, 3, 32, 32)},
    "cifar10": {"train": (1200, 3, 32, 32), "test": (300, 3, 32, 32)},
    "url": {"train": (7315, 63), "val": (1829, 63), "test": (2286, 63)},
    "pima": {"train": (614, 8), "test": (154, 8)},
    "orl": {"train": (280, 1, 64, 64), "test": (120, 1, 64, 64)},
}
# Which rows a sample holds may change only with a new version: reports are compared by row id.
SHA256 = {
    "mnist": "f71e3ecb585fed9310cdb696ea3543111eb2a72496fe86e867abcdefa0acabeb",
    "gtsrb": "3afa19afe7913399865ed85fbc3c66c56cf76c18988b2ce45e98c9cb5af63b5f",
    "cifar10": "82e983085debb46c772dec8c56a66f75b69e6da12885cb6d4345faa85e3c537b",
    "url": "cc2291be224f3fa976c5bb10347264271deaaed5546bd04f0e42af0e8e6ec1c7",
    "pima": "900d67c24e9e5250589840bd2786df37050f404d667da32a0cbee68049d767c9",
    "orl": "710ebfd17d942288f022cb7854f1d88087c4d0c27e2043183be87205db6fa0b2",
}
CLASS_COUNT = {"mnist": 10, "cifar10": 10, "gtsrb": 43, "url": 2, "pima": 2, "orl": 40}
PACKAGE = Path(durometer.__file__).parent


def parts(name):
    splits = getattr(datasets, name)()
    return {part: getattr(splits, part) for part in ("train", "val", "test")}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_classes(name):
    for part, data in parts(name).items():
        if part not in SHAPES[name]:
            assert data is None
            continue
        assert tuple(data.x.shape) == SHAPES[name][part]
        assert data.name == f"{name}/{part}"
        assert len(data.classes) == len(set(data.classes)) == CLASS_COUNT[name]
        assert data.y.unique().tolist() == list(range(CLASS_COUNT[name]))


@pytest.mark.parametrize("name", SHAPES)
def test_no_row_is_in_two_parts(name):
    seen = set()
    for part, data in parts(name).items():
        if data is None:
            continue
        # MNIST numbers its training and test files separately.
        ids = {(part, i) if name == "mnist" else i for i in data.ids.tolist()}
        assert len(ids) == len(data)
        assert not ids & seen
        seen |= ids


@pytest.mark.parametrize("name", ["mnist", "cifar10", "gtsrb", "orl"])
def test_images_are_unit_floats_that_use_the_range(name):
    x = parts(name)["train"].x
    assert x.dtype == torch.float32
    assert float(x.min()) == 0 and float(x.max()) == 1
    assert torch.equal((x * 255).round() / 255, x)


@pytest.mark.parametrize("name", ["url", "pima"])
def test_tables_are_in_raw_units(name):
    x = parts(name)["train"].x
    assert x.dtype == torch.float64
    assert bool(x.isfinite().all())
    assert float(x.max()) > 100


@pytest.mark.parametrize("name", SHAPES)
def test_stored_bytes_are_the_released_ones(name):
    assert source.sha256(PACKAGE / "datasets" / "samples" / f"{name}.npz") == SHA256[name]


def test_package_fits_into_a_small_wheel():
    shipped = (f for f in PACKAGE.rglob("*") if "__pycache__" not in f.parts and f.is_file())
    size = sum(len(zlib.compress(file.read_bytes())) for file in shipped)  # as a wheel holds them
    assert size < 15e6


def test_every_sample_is_attributed():
    notice = Path(__file__).parents[2].joinpath("NOTICE").read_text()
    for file in (PACKAGE / "datasets" / "samples").glob("*.npz"):
        assert f"({file.name}:" in notice


# What the samples are about


def test_mnist_keeps_the_class_shares():
    shares = np.bincount(datasets.mnist().test.y)
    assert shares.tolist() == [98, 114, 103, 101, 98, 89, 96, 103, 97, 101]


def test_gtsrb_validation_tracks_are_unseen_in_training():
    splits = datasets.gtsrb()
    train = {tuple(i.split("/")[:2]) for i in splits.train.ids}
    val = {tuple(i.split("/")[:2]) for i in splits.val.ids}
    assert train and val and not train & val
    assert {int(c) for c, _ in val} == set(range(43))


def test_gtsrb_names_the_signs_of_the_speed_limit_example():
    for number, name in {0: "20", 8: "120", 14: "stop", 17: "no entry", 38: "keep right"}.items():
        assert SIGNS[number] == name


def test_url_has_the_published_features_and_balance():
    names = features()
    assert len(names) == len(set(names)) == 63
    assert (names[0], names[25], names[62]) == ("length_url", "ratio_digits_url", "page_rank")
    test = datasets.url().test
    assert int(test.y.sum()) == len(test) // 2
    x = test.x[:, [names.index("length_hostname"), names.index("length_url")]]
    assert bool((x[:, 0] <= x[:, 1]).all())


def test_url_split_is_train_test_split_with_seed_42():
    from sklearn.model_selection import train_test_split

    splits = datasets.url()
    y = np.empty(11_430, int)
    for data in (splits.train, splits.val, splits.test):
        y[data.ids] = data.y
    rest, test = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=42)
    train, val = train_test_split(rest, test_size=0.2, stratify=y[rest], random_state=42)
    for data, rows in ((splits.train, train), (splits.val, val), (splits.test, test)):
        assert np.array_equal(data.ids, rows)


def test_pima_keeps_the_unmeasured_zeros():
    splits = datasets.pima()
    x = torch.cat([splits.train.x, splits.test.x])
    assert (x == 0).sum(0).tolist() == [111, 5, 35, 227, 374, 11, 0, 0]


# Full sets from the user's files


def write_idx(path, array, compress):
    header = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    data = header + array.tobytes()
    path.write_bytes(gzip.compress(data) if compress else data)


@pytest.fixture
def digits():
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.integers(0, 256, (5, 28, 28), np.uint8),
        "y_train": np.arange(5, dtype=np.uint8),
        "x_test": rng.integers(0, 256, (3, 28, 28), np.uint8),
        "y_test": np.arange(3, dtype=np.uint8),
    }


@pytest.mark.parametrize("compress", [True, False])
def test_mnist_reads_idx_files(tmp_path, digits, compress):
    for key, name in FILES.items():
        write_idx(tmp_path / (name if compress else name[:-3]), digits[key], compress)
    splits = datasets.mnist(tmp_path)
    assert np.array_equal(splits.train.x[:, 0].numpy(), np.float32(digits["x_train"]) / 255)
    assert splits.test.y.tolist() == [0, 1, 2]


def test_mnist_reads_npz(tmp_path, digits):
    np.savez(tmp_path / "mine.npz", **digits)
    assert len(datasets.mnist(tmp_path / "mine.npz").train) == 5


def test_a_cut_idx_file_is_refused(tmp_path, digits):
    for key, name in FILES.items():
        write_idx(tmp_path / name[:-3], digits[key], False)
    file = tmp_path / FILES["x_test"][:-3]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DurometerError, match="t10k-images.*not whole.*3, 28, 28"):
        datasets.mnist(tmp_path)


def test_url_from_csv_equals_the_bundled_set(tmp_path):
    import pandas as pd

    splits = datasets.url()
    frame = pd.DataFrame(index=range(11_430), columns=features(), dtype=float)
    for data in (splits.train, splits.val, splits.test):
        frame.loc[data.ids, list(features())] = data.x.numpy()
        frame.loc[data.ids, "status"] = np.array(data.classes)[data.y]
    # Another column order, and a column that is no feature, as in the public file.
    frame = frame.assign(url="x")[["url", *reversed(frame.columns)]]
    frame.to_csv(tmp_path / "dataset.csv", index=False, float_format="%.17g")
    again = datasets.url(tmp_path / "dataset.csv")
    assert again.test.hash == splits.test.hash
    frame.head(100).to_csv(tmp_path / "short.csv", index=False)
    with pytest.raises(DurometerError, match=r"short.csv has 100 rows.*11430"):
        datasets.url(tmp_path / "short.csv")


def test_the_eyes_of_orl_are_behind_the_eyeglasses():
    """Eyes are dark: where the columns of the lenses are darkest, by no landmark of ours."""
    frame = np.flatnonzero(durometer.masks.eyeglasses(64, 64).any(1))
    middle, share = {}, {}
    for aligned in (False, True):
        faces = datasets.orl(aligned=aligned).test.x[:, 0].numpy()
        lenses = np.concatenate([faces[:, :, 17:25], faces[:, :, 39:47]], axis=2).mean(2)
        lenses = (lenses[:, :-2] + lenses[:, 1:-1] + lenses[:, 2:])[:, 10:41]  # rows 11..41
        darkest = 11 + lenses.argmin(1)
        middle[aligned] = 11 + int(lenses.mean(0).argmin())
        share[aligned] = np.mean((darkest >= frame[0]) & (darkest <= frame[-1]))
    assert abs(middle[True] - 24) <= 2 < abs(middle[False] - 24)
    assert share[True] > 0.9 and share[False] < 0.8


def test_faces_are_moved_by_whole_pixels_and_as_their_own_eyes_ask():
    raw, moved = (datasets.orl(aligned=a).train for a in (False, True))
    assert np.array_equal(raw.ids, moved.ids) and raw.x.shape == moved.x.shape
    # s1/1 has its eyes at row 29, column 31: five rows up, no column.
    assert torch.equal(moved.x[0, :, :-5], raw.x[0, :, 5:])
    assert torch.equal(moved.x[0, :, -5:], raw.x[0, :, -1:].expand(1, 5, 64))


def test_orl_reads_the_archive(tmp_path):
    rng = np.random.default_rng(0)
    faces = rng.integers(0, 256, (40, 10, 112, 92), np.uint8)
    for person in range(40):
        (tmp_path / f"s{person + 1}").mkdir()
        for shot in range(10):
            header = b"P5\n# made by hand\n92 112\n255\n"
            file = tmp_path / f"s{person + 1}" / f"{shot + 1}.pgm"
            file.write_bytes(header + faces[person, shot].tobytes())
    splits = datasets.orl(tmp_path, aligned=False)
    assert splits.train.x.shape == (280, 1, 112, 92)
    assert np.array_equal(splits.test.x[0, 0].numpy() * 255, faces[0, 7])
    (tmp_path / "s3" / "4.pgm").unlink()
    with pytest.raises(DurometerError, match=r"s3/4.pgm"):
        datasets.orl(tmp_path)


def test_gtsrb_reads_the_official_folder(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["Filename;Width;Height;ClassId"]
    for c in (0, 14):
        folder = tmp_path / "GTSRB" / "Final_Training" / "Images" / f"{c:05d}"
        folder.mkdir(parents=True)
        for track in range(4):
            picture = rng.integers(0, 256, (40, 36, 3), np.uint8)
            file = folder / f"{track:05d}_00000.ppm"
            file.write_bytes(b"P6 36 40 255\n" + picture.tobytes())
    test = tmp_path / "GTSRB" / "Final_Test" / "Images"
    test.mkdir(parents=True)
    for i, c in enumerate((14, 0)):
        (test / f"{i:05d}.ppm").write_bytes(b"P6 32 32 255\n" + bytes([i]) * 3072)
        lines.append(f"{i:05d}.ppm;32;32;{c}")
    (tmp_path / "GT-final_test.csv").write_text("\n".join(lines))
    splits = datasets.gtsrb(tmp_path)
    assert splits.train.ids.tolist() == ["0/0/0", "0/1/1", "0/2/2", "14/0/4", "14/1/5", "14/2/6"]
    assert splits.val.ids.tolist() == ["0/3/3", "14/3/7"]
    assert splits.test.y.tolist() == [14, 0]
    assert splits.test.x[1].unique().tolist() == [np.float32(1) / np.float32(255)]


def test_shrink_equals_torch_bilinear():
    picture = np.random.default_rng(0).integers(0, 256, (57, 20, 3), np.uint8)
    planes = torch.as_tensor(picture).permute(2, 0, 1)[None].double()
    oracle = torch.nn.functional.interpolate(planes, (32, 32), mode="bilinear")
    assert np.array_equal(shrink(picture), oracle[0].round().permute(1, 2, 0).numpy())


def test_held_out_tracks_do_not_depend_on_the_sample():
    assert held_out(np.arange(10)).nonzero()[0].tolist() == [3, 9]


# What goes wrong


@pytest.mark.parametrize("name", SHAPES)
def test_a_wrong_path_is_named(name, tmp_path):
    with pytest.raises(DurometerError, match=r"no file or folder '.*nowhere'"):
        getattr(datasets, name)(tmp_path / "nowhere")


@pytest.mark.parametrize("name", SHAPES)
def test_a_file_of_another_kind_is_refused(name, tmp_path):
    junk = tmp_path / "junk.bin"
    junk.write_bytes(b"\x93not a data set\x00\xff")
    with pytest.raises(DurometerError, match="junk.bin"):
        getattr(datasets, name)(junk)


def test_missing_arrays_are_listed(tmp_path):
    np.savez(tmp_path / "half.npz", x_train=np.zeros(3))
    with pytest.raises(DurometerError, match=r"half.npz has the arrays \['x_train'\].*'y_test'"):
        datasets.mnist(tmp_path / "half.npz")


def test_float_images_are_refused(tmp_path, digits):
    np.savez(tmp_path / "float.npz", **(digits | {"x_train": digits["x_train"] / 255.0}))
    with pytest.raises(DurometerError, match="dtype float64.*expected uint8"):
        datasets.mnist(tmp_path / "float.npz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"P2 1 1 255 7", "not a binary"),
        (b"P5 1 1 65535\n00", "65535"),
        (b"P6 2 2 255\nabc", "3 of 12"),
    ],
)
def test_bad_pictures_are_refused(tmp_path, content, message):
    (tmp_path / "a.pgm").write_bytes(content)
    with pytest.raises(DurometerError, match=message):
        netpbm.read(tmp_path / "a.pgm")


# Downloads


@pytest.fixture
def served(tmp_path):
    file = tmp_path / "server" / "data.bin"
    file.parent.mkdir()
    file.write_bytes(b"some bytes")
    return file


def test_a_download_is_checked_and_cached(served):
    digest = hashlib.sha256(b"some bytes").hexdigest()
    gone = (served.parent / "gone" / "data.bin").as_uri()
    found = source.fetch([gone, served.as_uri()], digest, "t")
    assert found.read_bytes() == b"some bytes"
    served.unlink()
    assert source.fetch([served.as_uri()], digest, "t") == found


def test_other_bytes_than_announced_are_refused(served):
    with pytest.raises(DurometerError, match="SHA-256 is .*, expected 0000"):
        source.fetch([served.as_uri()], "0" * 64, "t")
    assert list((source.cache() / "t").iterdir()) == []


def test_a_spoilt_cache_is_fetched_anew(served):
    digest = hashlib.sha256(b"some bytes").hexdigest()
    source.fetch([served.as_uri()], digest, "t").write_bytes(b"spoilt")
    assert source.fetch([served.as_uri()], digest, "t").read_bytes() == b"some bytes"


def test_no_network_is_said_plainly(monkeypatch):
    def offline(*_args, **_kwargs):
        raise OSError("Name or service not known")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    with pytest.raises(DurometerError, match=r"(?s)Offline\?.*path=.*Name or service not known"):
        datasets.mnist(full=True)


def test_the_full_set_is_put_together_from_downloads(tmp_path, digits, monkeypatch):
    digests = {}
    for key, name in FILES.items():
        write_idx(tmp_path / name, digits[key], True)
        digests[key] = source.sha256(tmp_path / name)
    monkeypatch.setitem(load_mnist.__globals__, "MIRRORS", (tmp_path.as_uri() + "/",))
    monkeypatch.setitem(load_mnist.__globals__, "SHA256", digests)
    assert len(datasets.mnist(full=True).train) == 5

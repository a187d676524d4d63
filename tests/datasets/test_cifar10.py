"""CIFAR-10: its own files, pictures in little room, corruptions and the orders they come in."""

import pickle

import numpy as np
import pytest
import torch

import durometer as du
from durometer import datasets
from durometer.datasets.corruptions import CORRUPTIONS, corrupted, stream
from durometer.datasets.source import pack, unpack


@pytest.mark.parametrize("kind", ["noise", "flat", "steps"])
def test_pictures_come_back_to_the_last_bit(kind):
    rng = np.random.default_rng(0)
    x = {
        "noise": rng.integers(0, 256, (3, 9, 7, 3), np.uint8),
        "flat": np.full((2, 5, 5, 3), 200, np.uint8),
        "steps": np.tile(np.arange(0, 256, 16, np.uint8)[None, :, None, None], (2, 1, 12, 3)),
    }[kind]
    again = unpack(**pack(x))
    assert again.dtype == np.uint8 and np.array_equal(again, x)


def test_the_original_folder_is_read(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    planes = rng.integers(0, 256, (6, 20, 3072), np.uint8)
    for k, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        batch = {"data": planes[k], "labels": list(range(10)) * 2, "batch_label": name}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    splits = datasets.cifar10(folder)
    assert splits.train.x.shape == (100, 3, 32, 32) and len(splits.test) == 20
    seen = (splits.train.x[21] * 255).round().numpy().astype(np.uint8)
    assert np.array_equal(seen.reshape(-1), planes[1, 1])  # red plane, green plane, blue plane
    assert splits.train.ids[21] == "train/21"
    (folder / "data_batch_3").write_bytes(pickle.dumps({"data": datasets.Splits}))
    with pytest.raises(du.DurometerError, match="not a batch of CIFAR-10"):
        datasets.cifar10(folder)
    (folder / "data_batch_2").unlink()
    with pytest.raises(du.DurometerError, match="lacks data_batch_2"):
        datasets.cifar10(folder)


@pytest.mark.parametrize("kind", list(CORRUPTIONS))
def test_corruptions_grow_with_severity_and_depend_on_the_seed_alone(kind):
    x = datasets.cifar10().test.x[:16]
    changed = [float((corrupted(x, kind, s) - x).square().mean()) for s in range(1, 6)]
    assert changed == sorted(changed) and changed[0] > 0
    bad = corrupted(x, kind, 3)
    assert bad.shape == x.shape and float(bad.min()) >= 0 and float(bad.max()) <= 1
    torch.rand(5)
    assert torch.equal(bad, corrupted(x, kind, 3))
    assert torch.equal(bad[:4], corrupted(x[:4], kind, 3))  # a row does not depend on the others


def test_the_orders_of_a_stream():
    data = datasets.cifar10().test.sample(60)
    one = stream(data, ["noise", "contrast"])
    assert len(one) == 120 and one.ids[60].endswith("/contrast") and len(set(one.ids)) == 120
    assert torch.equal(one.x[60:], corrupted(data.x, "contrast", 3))
    mixed = stream(data, ["brightness", "contrast"], order="mixed")
    kinds = [corrupted(data.x, k, 3) for k in ("brightness", "contrast")]
    own = torch.stack([(mixed.x == k).flatten(1).all(1) for k in kinds])
    assert bool(own.any(0).all()) and bool(own.any(1).all())
    runs = {}
    for mixing in (0.05, 100.0):
        order = stream(data, order="correlated", mixing=mixing)
        assert sorted(order.ids) == sorted(data.ids)
        runs[mixing] = int((order.y[1:] != order.y[:-1]).sum())
    assert runs[0.05] < runs[100.0] < int((data.y[1:] != data.y[:-1]).sum()) + 40
    for wrong, said in (({"order": "sorted"}, "order='sorted'"), ({"severity": 6}, "severity=6")):
        with pytest.raises(du.DurometerError, match=said):
            stream(data, ["noise"], **wrong)
    with pytest.raises(du.DurometerError, match="no corruption 'nois'"):
        corrupted(data.x, "nois")

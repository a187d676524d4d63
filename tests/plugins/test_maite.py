"""Models and data sets of the MAITE protocols, also held against the real package's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import durometer as du
from durometer.core.errors import DurometerError
from durometer.plugins.maite import classifier, dataset

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(12, 3))


class Linear:
    def __init__(self) -> None:
        self.metadata = {"id": "linear"}

    def __call__(self, batch):
        x = np.stack([np.asarray(image).ravel() for image in batch])
        odds = np.exp(x @ WEIGHTS)
        return list(odds / odds.sum(1, keepdims=True))


class Images:
    def __init__(self, n=30, shape=(3, 2, 2)) -> None:
        self.metadata = {"id": "tiles", "index2label": {0: "sea", 1: "sand", 2: "wood"}}
        self.x = np.random.default_rng(1).random((n, *shape))
        self.y = np.stack(Linear()(self.x)).argmax(1) if n else []

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], np.eye(3)[self.y[index]], {"id": f"tile-{index}"}


def test_a_model_and_its_images_are_evaluated_as_they_are():
    data = dataset(Images())
    assert data.classes == ("sea", "sand", "wood") and list(data.ids)[:2] == ["tile-0", "tile-1"]
    report = du.evaluate(classifier(Linear()), data, space=du.Linf(0.2), progress=False)
    assert report.spec.model == "linear" and float(report.metric("clean")) == 1.0
    # The nearest other class of a linear model: eps * |w_a - w_b|_1 against the gap of the scores.
    z = torch.as_tensor(np.stack([i.ravel() for i in Images().x]) @ WEIGHTS)
    best = z.argmax(1)
    gaps = z.gather(1, best[:, None]) - z
    norms = torch.as_tensor(np.abs(WEIGHTS[:, :, None] - WEIGHTS[:, None, :]).sum(0))[best]
    could = (gaps - 0.2 * norms <= 0).double().scatter(1, best[:, None], 0.0).bool().any(1)
    broken = torch.as_tensor((report.table["verdict"] == "broken").to_numpy())
    assert not (broken & ~could).any() and broken.any()


def test_a_sample_keeps_its_ids():
    data = dataset(Images(), rows=5, seed=3)
    assert len(data) == 5 and set(data.ids) <= {f"tile-{i}" for i in range(30)}
    assert list(data.ids) == list(dataset(Images(), rows=5, seed=3).ids)


def test_what_does_not_follow_the_protocol_is_a_sentence():
    with pytest.raises(DurometerError, match="is empty"):
        dataset(Images(0))
    mixed = Images()
    mixed.x = [*mixed.x[:3], np.zeros((3, 4, 4))]
    with pytest.raises(DurometerError, match="have shapes"):
        dataset(mixed)

    class Short(Linear):
        def __call__(self, batch):
            return super().__call__(batch)[:1]

    with pytest.raises(DurometerError, match="gave 1 answers"):
        classifier(Short()).logits(torch.zeros(2, 3, 2, 2))


@pytest.mark.heavy
def test_the_protocols_of_the_real_package():
    import maite.protocols.image_classification as ic

    assert isinstance(Linear(), ic.Model) and isinstance(Images(), ic.Dataset)

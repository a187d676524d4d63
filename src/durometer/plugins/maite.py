"""Models and data sets that follow the MAITE protocols of image classification.

    from durometer.plugins.maite import classifier, dataset

    report = du.evaluate(classifier(model), dataset(images, rows=200), space=du.Linf(8 / 255))

A model there is a callable that takes a sequence of images (C, H, W) and gives a sequence of scores
(classes,); a data set gives (image, scores of the true class, metadata). Nothing of the package
`maite` is needed to read them: a protocol is kept by whoever has its methods.

What a reader would get wrong: such a model is a black box. It is asked for scores and gives no
gradients, so figures are those of a search; hand in the torch module itself where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from durometer.core.errors import DurometerError
from durometer.data.dataset import Dataset
from durometer.model.classifier import Classifier, wrap


class Model(Protocol):
    """`maite.protocols.image_classification.Model`, as far as it is asked."""

    metadata: Mapping[str, Any]

    def __call__(self, batch: Sequence[Any]) -> Sequence[Any]: ...


class Images(Protocol):
    """`maite.protocols.image_classification.Dataset`, as far as it is asked."""

    metadata: Mapping[str, Any]

    def __getitem__(self, index: int) -> tuple[Any, Any, Mapping[str, Any]]: ...

    def __len__(self) -> int: ...


def classifier(
    model: Model, answers: Literal["logits", "probabilities"] = "probabilities"
) -> Classifier:
    """The model as durometer asks it.

    Args:
        model: A model of the MAITE protocol.
        answers: What its scores are; the protocol leaves it open.

    Raises:
        DurometerError: It answers in another shape.
    """

    def scores(x: np.ndarray) -> np.ndarray:
        given = [np.asarray(row, dtype=np.float64) for row in model(list(x))]
        if len(given) != len(x) or any(row.ndim != 1 for row in given):
            shapes = sorted({row.shape for row in given})
            raise DurometerError(
                f"the model {_name(model)} gave {len(given)} answers of shapes {shapes} for "
                f"{len(x)} images; expected one of shape (classes,) each"
            )
        return np.stack(given)

    return wrap(scores, answers=answers, inputs="array", name=_name(model))


def dataset(images: Images, rows: int | None = None, seed: int = 0) -> Dataset:
    """The data set as durometer reads it, with the ids of its metadata.

    Args:
        images: A data set of the MAITE protocol.
        rows: Read a random sample of so many images. None reads all of them into memory.
        seed: Seed of the sample.

    Raises:
        DurometerError: Its images differ in shape, or a target is no row of scores.
    """
    if not len(images):
        raise DurometerError(f"the data set {_name(images)} is empty")
    picked = np.arange(len(images))
    if rows is not None and rows < len(images):
        picked = np.sort(np.random.default_rng(seed).permutation(len(images))[:rows])
    read = [images[int(i)] for i in picked]
    x = [np.asarray(image) for image, _, _ in read]
    targets = [np.asarray(target, dtype=np.float64) for _, target, _ in read]
    if len({image.shape for image in x}) > 1:
        raise DurometerError(
            f"the images of {_name(images)} have shapes {sorted({i.shape for i in x})[:4]}; "
            "bring them to one shape first"
        )
    if len({target.shape for target in targets}) > 1 or targets[0].ndim != 1:
        raise DurometerError(
            f"the targets of {_name(images)} have shapes {sorted({t.shape for t in targets})[:4]}; "
            "expected scores of shape (classes,), 1 for the true class"
        )
    names = images.metadata.get("index2label") or {}
    count = len(targets[0])
    classes = tuple(str(names.get(k, k)) for k in range(count)) if names else None
    ids = [str(about.get("id", int(i))) for i, (_, _, about) in zip(picked, read, strict=True)]
    y = np.array([int(target.argmax()) for target in targets])
    return Dataset(np.stack(x), y, classes=classes, ids=ids, name=_name(images))


def _name(of: Model | Images) -> str:
    return str(of.metadata.get("id", type(of).__name__))

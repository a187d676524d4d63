"""The models of the CAA study: five architectures, an MLP and two of trees, standard and Madry.

Trained once and kept in the study's folder. Standard training stops early on the validation part.
Madry training (Table 4) has CAPGD in the table's own space inside, with the relations as meant: 5
steps from a random point on every row of every batch, clean rows weighing half; the authors' script
replaces half of each batch by CPGD at eps 0.3, without relations. It takes the last epoch: an epoch
chosen by clean accuracy would be the least robust one.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import durometer as du
from durometer.architectures import MLP, RLN, STG, VIME, TableNet, TabNet, TabTransformer
from durometer.training import Adversarial, CraftBy

NETS = {
    "TabTr.": TabTransformer, "RLN": RLN, "VIME": VIME, "STG": STG, "TabNet": TabNet, "MLP": MLP,
}  # fmt: skip
FIVE = ("TabTr.", "RLN", "VIME", "STG", "TabNet")
TREES = ("RF", "XGBoost")
SMALL = {
    "TabNet": {"n_d": 4, "n_a": 4, "n_steps": 2},
    "VIME": {"width": 32, "depth": 1, "first": 2},
}


@dataclass(frozen=True)
class Zoo:
    """Where models are kept, and how large they are; `epochs` None: each architecture's own."""

    folder: Path
    epochs: int | None = None
    madry_epochs: int = 15
    rows: int | None = None  # of the training set; None: all
    small: bool = False

    def file(self, name: str, seed: int = 0, madry: bool = False) -> Path:
        """Where it is kept, once it is trained."""
        return self.folder / f"{name.strip('.')}-{'madry' if madry else 'standard'}-{seed}.pt"

    def get(self, name: str, seed: int = 0, madry: bool = False) -> Any:
        """The model, trained if it is not there yet."""
        splits = du.datasets.url()
        train = splits.train if self.rows is None else splits.train.sample(self.rows)

        def make() -> Any:
            if name in TREES:
                return _trees(name, seed).fit(train.x.numpy(), train.y.numpy())
            net = NETS[name](train.schema, seed=seed, **self.shape(name))
            if not madry:
                held = splits.val.x, splits.val.y
                return net.fit(train.x, train.y, validation=held, epochs=self.epochs)
            inside = du.CAPGD(5, clean=False)
            recipe = Adversarial(CraftBy(inside, train.schema.space(eps=0.5)), 0.5, "balanced")
            return net.fit(
                train.x, train.y, recipe=recipe, validation=None, epochs=self.madry_epochs,
                batch=512, rate=max(3e-3, net.training_.rate),
            )  # fmt: skip

        return kept(self.file(name, seed, madry), make)

    def shape(self, name: str) -> dict[str, Any]:
        """Sizes other than the architecture's own, for the quick study."""
        return SMALL.get(name, {}) if self.small else {}


def kept(file: Path, make: Callable[[], Any]) -> Any:
    """The model in the file; made and kept if there is none."""
    if file.exists():
        trees = file.name.startswith(TREES)
        return pickle.loads(file.read_bytes()) if trees else TableNet.load(file)
    began = time.process_time()
    file.parent.mkdir(parents=True, exist_ok=True)
    model = make()
    if isinstance(model, TableNet):
        model.save(file)
    else:
        file.write_bytes(pickle.dumps(model))
    print(f"trained {file.stem}: {time.process_time() - began:.0f} CPU-s", flush=True)
    return model


def _trees(name: str, seed: int) -> Any:
    """100 trees each, as elsewhere in this repository."""
    if name == "RF":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(100, random_state=seed, n_jobs=1)
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=100, random_state=seed, n_jobs=1)

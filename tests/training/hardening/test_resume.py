"""A folder of rounds: what makes it the same hardening, and what another."""

import copy
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from tests.training.hardening.cases import MODELS, rows

import durometer as du

KILLED = """
import sys
sys.path.insert(0, sys.argv[2])
from cases import MODELS, rows
import durometer as du
data = rows(200)
model = MODELS[0].fit(data.x.numpy(), data.y.numpy())
du.training.harden(model, data, du.Linf(0.05), rounds=5, folder=sys.argv[1], progress=False)
"""


def test_a_hardening_that_was_killed_goes_on_and_ends_the_same(tmp_path):
    folder = tmp_path / "rounds"
    here = os.path.dirname(__file__)
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder), here])
    until = time.monotonic() + 120
    while not (folder / "round-002.joblib").exists() and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = len(list(folder.glob("round-*.joblib")))
    assert kept >= 3
    data = rows(200)
    model = MODELS[0].fit(data.x.numpy(), data.y.numpy())
    how = {"rounds": 5, "progress": False}
    resumed = du.training.harden(model, data, du.Linf(0.05), folder=folder, **how)
    straight = du.training.harden(model, data, du.Linf(0.05), **how)
    assert resumed.path == straight.path and resumed.chosen == straight.chosen
    x = data.x.numpy()
    assert (resumed.model.predict_proba(x) == straight.model.predict_proba(x)).all()
    with pytest.raises(du.DurometerError, match="another hardening"):
        du.training.harden(model, data, du.Linf(0.04), folder=folder, **how)


def test_a_pipeline_with_a_column_selector_goes_on_in_another_process(tmp_path):
    """Its selector has no repr but an address, which is another one every time."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    frame = pd.DataFrame({"a": 0.4 * y + rng.random(120), "kind": rng.choice(["u", "v"], 120)})

    def again():
        text = make_column_selector(dtype_exclude="number")
        columns = make_column_transformer((OneHotEncoder(), text), remainder="passthrough")
        pipe = make_pipeline(columns, RandomForestClassifier(4, max_depth=3, random_state=0))
        pipe.fit(frame, y)
        schema = du.Schema.suggest(frame)
        data = du.Dataset(frame, y, schema=schema)
        return du.training.harden(
            pipe, data, schema.space(eps=0.05), rounds=2, folder=tmp_path / "rounds",
            progress=False,
        )  # fmt: skip

    assert again().path == again().path


def test_another_price_in_the_same_folder_is_another_hardening(tmp_path):
    """`min_proven` decides which starts are climbed from: round 4 would be another model's."""
    data = rows(200)
    model = MODELS[0].fit(data.x.numpy(), data.y.numpy())
    how = {"rounds": 4, "progress": False, "folder": tmp_path / "rounds"}
    du.training.harden(model, data, du.Linf(0.05), **how)
    with pytest.raises(du.DurometerError, match="another hardening"):
        du.training.harden(model, data, du.Linf(0.05), min_proven=0.3, **how)


def test_another_network_of_the_same_shape_is_another_hardening(tmp_path):
    data = rows(60)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    net, how = net.double(), {"rounds": 1, "most": 3, "judged": 3, "progress": False}
    du.training.harden(net, data, du.Linf(0.01), folder=tmp_path / "rounds", **how)
    other = copy.deepcopy(net)
    with torch.no_grad():
        other[0].weight += 1.0
    with pytest.raises(du.DurometerError, match="another hardening"):
        du.training.harden(other, data, du.Linf(0.01), folder=tmp_path / "rounds", **how)

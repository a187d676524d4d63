"""On Windows there is no fcntl: importing the package and keeping a run must not need it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_run_is_kept_without_fcntl(tmp_path: Path) -> None:
    code = """
import sys, warnings
sys.modules["fcntl"] = None
warnings.simplefilter("ignore")  # filelock says that it locks by the file's existence
import torch, durometer as du
from durometer.run.store import Store
torch.manual_seed(0)
net = torch.nn.Linear(4, 2)
data = du.Dataset(torch.rand(8, 4), torch.zeros(8, dtype=torch.long))
how = dict(space=du.Linf(0.1), attack=du.FGSM(), batch=4)
du.evaluate(net, data, **how, run=du.Run(sys.argv[1]))
with Store(__import__("pathlib").Path(sys.argv[1])).locked():
    try:
        du.evaluate(net, data, **how, run=du.Run(sys.argv[1], resume=True))
    except du.DurometerError as error:
        print(error)
"""
    words = [sys.executable, "-c", code, str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "another process is writing" in done.stdout

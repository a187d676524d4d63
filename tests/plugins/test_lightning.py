"""The Lightning callback in a real training run, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch, durometer as du
try:
    import lightning.pytorch as L
except ImportError:
    import pytorch_lightning as L
from durometer.plugins.lightning import RobustAccuracy

torch.manual_seed(0)
x = torch.rand(96, 4); y = (x[:, 0] > 0.5).long()

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Dropout(0.3),
                                       torch.nn.ReLU(), torch.nn.Linear(16, 2))
    def on_train_epoch_start(self): self.net[2].eval()  # frozen: its mode is its own
    def forward(self, x): return self.net(x)
    def training_step(self, batch, _):
        return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])
    def configure_optimizers(self): return torch.optim.Adam(self.parameters(), 0.05)

seen = []
class Record(RobustAccuracy):
    def on_train_epoch_end(self, trainer, module):
        modes = [m.training for m in module.modules()]
        super().on_train_epoch_end(trainer, module)
        assert modes == [m.training for m in module.modules()]
        found = {k: float(v) for k, v in trainer.callback_metrics.items()}
        if found: seen.append((trainer.current_epoch, found))

def run(callbacks):
    torch.manual_seed(0); net = Net()
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 32)
    trainer = L.Trainer(max_epochs=6, callbacks=callbacks, logger=False, accelerator="cpu",
                        enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False)
    trainer.fit(net, batches)
    return net
data = du.Dataset(x, y)
watched = run([Record(data, du.Linf(0.05), every=3, rows=40)])
plain = run([])
same = all(torch.equal(a, b) for a, b in zip(watched.parameters(), plain.parameters()))
watched.eval()
report = du.evaluate(watched, data.sample(40, 0), space=du.Linf(0.05), attack=du.APGD(20),
                     progress=False)
print(json.dumps({"seen": seen, "same": same, "clean": float(report.metric("clean")),
                  "robust": float(report.metric("robust"))}))
"""


@pytest.mark.heavy
def test_a_training_run_logs_both_figures_and_ends_in_the_same_weights(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert [epoch for epoch, _ in found["seen"]] == [2, 3, 4, 5]  # logged after 2, anew after 5
    last = found["seen"][-1][1]
    assert last["clean_accuracy"] == pytest.approx(found["clean"])
    assert last["robust_accuracy_at_most"] == pytest.approx(found["robust"])
    assert found["robust"] < found["clean"]
    assert found["same"]  # random numbers and modes of the training are left alone

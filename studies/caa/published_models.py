"""The networks that MOEVA's authors published, as torch modules: raw features in, logits out.

They are relu networks with a softmax at the end, behind a min-max scaler (x * scale_ + min_):
lcld 47-64-32-16-2 and botnet 756-64-64-32-2. The file is an .npz with the arrays `NAME/nn/W0`,
`NAME/nn/b0`, ... and `NAME/scaler/scale_`, `NAME/scaler/min_`, converted from the checkpoints in
serval-uni-lu/moeva2-ijcai22-replication (models/; MIT).

    python studies/caa/published_models.py moeva_published_models.npz

prints how they do on the bundled samples. The softmax is left off: attacks need logits.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from durometer import datasets
from durometer.core.errors import DurometerError, nearest


class Published(nn.Module):
    """Scaler and layers in float64, which the raw byte counts of CTU-13 need."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.register_buffer("scale", torch.from_numpy(arrays["scaler/scale_"]))
        self.register_buffer("shift", torch.from_numpy(arrays["scaler/min_"]))
        layers: list[nn.Module] = []
        depth = sum(key.startswith("nn/W") for key in arrays)
        for i in range(depth):
            weight, bias = arrays[f"nn/W{i}"], arrays[f"nn/b{i}"]
            layer = nn.Linear(*weight.shape, dtype=torch.float64)
            layer.load_state_dict(
                {
                    "weight": torch.from_numpy(weight.T.astype(np.float64)),
                    "bias": torch.from_numpy(bias.astype(np.float64)),
                }
            )
            layers += [layer, nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.double() * self.scale + self.shift)


def load(path: str | Path, name: str) -> Published:
    """The network `name` ("lcld" or "botnet") of the file, ready for evaluation."""
    with np.load(path, allow_pickle=False) as archive:
        names = sorted({key.split("/")[0] for key in archive.files})
        if name not in names:
            raise DurometerError(f"{path} has no network '{name}'{nearest(name, names)}")
        arrays = {k.split("/", 1)[1]: archive[k] for k in archive.files if k.startswith(f"{name}/")}
    return Published(arrays).eval()


def main() -> None:
    from sklearn.metrics import roc_auc_score

    loans, flows = datasets.lcld(47).test, datasets.ctu13().test
    with torch.no_grad():
        risk = load(sys.argv[1], "lcld")(loans.x).softmax(1)[:, 1].numpy()
        botnet = load(sys.argv[1], "botnet")(flows.x).argmax(1)
    auc = roc_auc_score(loans.y.numpy(), risk)
    rate = float(loans.y.double().mean())
    print(
        f"lcld: AUC {auc:.3f}, mean risk {risk.mean():.3f} for a rate of {rate:.3f} ({len(loans)})"
    )
    print(f"botnet: {int((botnet == 1).sum())} of {len(flows)} botnet rows are called botnet")


if __name__ == "__main__":
    main()

"""Test-time modules in the manner they are published in: forward(x) adapts in place and answers."""

import copy

import torch
from torch import nn

from assay.streams import seeded


def batch_net(data=None, width=8, features=2, classes=2, seed=0):
    """A small network with BatchNorm; trained on `data` where given."""
    with seeded(seed):
        net = nn.Sequential(
            nn.Linear(features, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, classes)
        )
        if data is not None:
            steps = torch.optim.Adam(net.parameters(), 0.02)
            for _ in range(80):
                steps.zero_grad()
                nn.functional.cross_entropy(net(data.x), data.y).backward()
                steps.step()
    return net.eval()


def configure(model):
    """As Tent does: batch statistics always, only the affine parameters learn."""
    model.train()
    model.requires_grad_(False)
    for m in model.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.requires_grad_(True)
            m.track_running_stats = False
            m.running_mean = m.running_var = None
    return model


def entropy(logits):
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)


class BatchTent(nn.Module):
    """Tent (Wang et al. 2021) as a module: one entropy step, answers from before it."""

    def __init__(self, model, rate=1e-3):
        super().__init__()
        self.model = configure(copy.deepcopy(model))
        self.optimizer = torch.optim.Adam([p for p in self.parameters() if p.requires_grad], rate)

    @torch.enable_grad()
    def forward(self, x):
        logits = self.model(x)
        entropy(logits).mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return logits


class SAM(torch.optim.Optimizer):
    """Sharpness-aware minimisation in the published shape: an optimiser that holds another."""

    def __init__(self, params, base, rho=0.05, **how):
        super().__init__(params, {"rho": rho, **how})
        self.base_optimizer = base(self.param_groups, **how)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self):
        norms = [p.grad.norm() for g in self.param_groups for p in g["params"]]
        scale = torch.stack(norms).norm() + 1e-12
        for g in self.param_groups:
            for p in g["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * g["rho"] / scale)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for g in self.param_groups:
            for p in g["params"]:
                p.data = self.state[p]["old"]
        self.base_optimizer.step()
        self.zero_grad()

    def step(self, closure=None):
        raise NotImplementedError


class SharpTent(nn.Module):
    """SAR (Niu et al. 2023): reliable rows only, sharpness-aware steps, an average that resets."""

    def __init__(self, model, margin=0.277, reset_below=0.0):
        super().__init__()
        self.model = configure(copy.deepcopy(model))
        params = [p for p in self.parameters() if p.requires_grad]
        self.optimizer = SAM(params, torch.optim.SGD, lr=1e-2, momentum=0.9)
        self.margin, self.reset_below, self.ema = margin, reset_below, None
        self.saved = copy.deepcopy(self.model.state_dict())

    @torch.enable_grad()
    def forward(self, x):
        self.optimizer.zero_grad()
        logits = self.model(x)
        sure = entropy(logits) < self.margin
        if not bool(sure.any()):
            return logits
        entropy(logits)[sure].mean().backward()
        self.optimizer.first_step()
        again = entropy(self.model(x))[sure]
        still = again < self.margin
        if bool(still.any()):
            loss = again[still].mean()
            self.ema = float(loss) if self.ema is None else 0.9 * self.ema + 0.1 * float(loss)
            loss.backward()
        self.optimizer.second_step()
        if self.ema is not None and self.ema < self.reset_below:
            self.model.load_state_dict(self.saved)
            self.ema = None
        return logits

"""Test-time modules in the manner they are published in: forward(x) adapts in place and answers."""

import copy

import torch
from torch import nn

from durometer.core.streams import seeded


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


class EATA(nn.Module):
    """Niu et al. 2022: sure and not redundant rows only, weights kept near by a Fisher penalty."""

    def __init__(self, model, fishers, margin=0.4, near=0.05, strength=1.0):
        super().__init__()
        self.model = configure(copy.deepcopy(model))
        self.optimizer = torch.optim.SGD(
            [p for p in self.parameters() if p.requires_grad], lr=0.01, momentum=0.9
        )
        self.fishers, self.margin, self.near, self.strength = fishers, margin, near, strength
        self.start = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        self.mean_answer, self.used = None, 0

    @torch.enable_grad()
    def forward(self, x):
        logits = self.model(x)
        keep = entropy(logits) < self.margin
        p = logits.softmax(1).detach()
        if self.mean_answer is not None:
            same = nn.functional.cosine_similarity(self.mean_answer[None], p, dim=1)
            keep = keep & (same.abs() < 1 - self.near)
        self.used += int(keep.sum())
        if bool(keep.any()):
            mean = p[keep].mean(0)
            old = self.mean_answer
            self.mean_answer = mean if old is None else 0.9 * old + 0.1 * mean
            e = entropy(logits)[keep]
            loss = (e * (self.margin - e.detach()).exp()).mean()
            for name, value in self.model.named_parameters():
                if value.requires_grad and name in self.fishers:
                    loss = (
                        loss
                        + self.strength
                        * (self.fishers[name] * (value - self.start[name]).square()).sum()
                    )
            loss.backward()
            self.optimizer.step()
        self.optimizer.zero_grad()
        return logits


class CoTTA(nn.Module):
    """Wang et al. 2022: a teacher averaged over noisy views; weights at times restored."""

    def __init__(self, model, views=4, restore=0.05):
        super().__init__()
        self.model = copy.deepcopy(model).train().requires_grad_(True)
        self.teacher = copy.deepcopy(self.model).requires_grad_(False)
        self.anchor = copy.deepcopy(model).eval().requires_grad_(False)
        self.source = copy.deepcopy(self.model.state_dict())
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-2)
        self.views, self.restore = views, restore

    @torch.enable_grad()
    def forward(self, x):
        logits = self.model(x)
        with torch.no_grad():
            sure = self.anchor(x).softmax(1).amax(1).mean()
            answer = self.teacher(x)
            if sure < 0.92:
                noisy = [self.teacher(x + 0.02 * torch.randn_like(x)) for _ in range(self.views)]
                answer = torch.stack(noisy).mean(0)
        loss = -(answer.softmax(1) * logits.log_softmax(1)).sum(1).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            for t, s in zip(self.teacher.parameters(), self.model.parameters(), strict=True):
                t.mul_(0.99).add_(0.01 * s)
            for name, p in self.model.named_parameters():
                back = torch.rand_like(p) < self.restore
                p.copy_(torch.where(back, self.source[name], p))
        return answer


class MEMO(nn.Module):
    """Zhang et al. 2022: each row alone, one step on the entropy of its mean over views."""

    def __init__(self, model, views=8):
        super().__init__()
        self.model = copy.deepcopy(model).eval()
        self.saved = copy.deepcopy(self.model.state_dict())
        self.views = views

    @torch.enable_grad()
    def forward(self, x):
        answers = []
        for row in x:
            self.model.load_state_dict(self.saved)
            steps = torch.optim.SGD(self.model.parameters(), lr=0.01)
            steps.zero_grad()
            views = row[None] + 0.02 * torch.randn(self.views, *row.shape)
            mean = self.model(views).log_softmax(1).logsumexp(0)
            mean = mean - mean.logsumexp(0)
            (-(mean.exp() * mean).sum()).backward()
            steps.step()
            answers.append(self.model(row[None]).detach())
        return torch.cat(answers)


class LAME(nn.Module):
    """Boudiaf et al. 2022: answers smoothed over neighbours in feature space; no weight moves."""

    def __init__(self, model, k=3, rounds=20):
        super().__init__()
        self.model, self.k, self.rounds = copy.deepcopy(model).eval(), k, rounds

    @torch.no_grad()
    def forward(self, x):
        features = nn.functional.normalize(self.model[:-1](x), dim=1)
        unary = -self.model(x).log_softmax(1)
        distance = torch.cdist(features, features)
        near = distance.topk(min(self.k + 1, len(x)), largest=False).indices[:, 1:]
        kernel = torch.zeros(len(x), len(x)).scatter_(1, near, 1.0)
        y = (-unary).softmax(1)
        for _ in range(self.rounds):
            y = (-unary + kernel @ y).softmax(1)
        return y.clamp_min(1e-20).log()


class T3A(nn.Module):
    """Iwasawa & Matsuo 2021: the last layer's classes re-centred on sure features seen so far."""

    def __init__(self, model, keep=20):
        super().__init__()
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.supports = self.model[-1].weight.detach().clone()
        self.labels = torch.eye(len(self.supports))
        self.doubts = torch.zeros(len(self.supports))
        self.keep = keep

    @torch.no_grad()
    def forward(self, x):
        z, logits = self.model[:-1](x), self.model(x)
        self.supports = torch.cat([self.supports, z])
        self.labels = torch.cat([self.labels, torch.eye(logits.shape[1])[logits.argmax(1)]])
        self.doubts = torch.cat([self.doubts, entropy(logits)])
        rows = []
        for c in range(logits.shape[1]):
            mine = (self.labels.argmax(1) == c).nonzero()[:, 0]
            rows.append(mine[self.doubts[mine].argsort(stable=True)[: self.keep]])
        rows = torch.cat(rows)
        self.supports, self.labels, self.doubts = (
            t[rows] for t in (self.supports, self.labels, self.doubts)
        )
        centres = nn.functional.normalize(self.supports, dim=1).T @ self.labels
        return z @ nn.functional.normalize(centres, dim=0)


class RoTTA(nn.Module):
    """Yuan et al. 2023: a balanced memory of test rows; the teacher learns from it, and answers."""

    def __init__(self, model, capacity=16, every=8):
        super().__init__()
        self.model = copy.deepcopy(model).eval()
        self.teacher = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 5e-3)
        self.memory, self.capacity, self.every, self.seen = [], capacity, every, 0

    @torch.enable_grad()
    def forward(self, x):
        with torch.no_grad():
            answer = self.teacher(x)
        for row, guess, doubt in zip(
            x, answer.argmax(1).tolist(), entropy(answer).tolist(), strict=True
        ):
            if len(self.memory) >= self.capacity:
                counts = [sum(m[1] == c for m in self.memory) for c in range(answer.shape[1])]
                fullest = counts.index(max(counts))
                mine = [k for k, m in enumerate(self.memory) if m[1] == fullest]
                del self.memory[max(mine, key=lambda k: self.memory[k][2])]
            self.memory.append((row.clone(), guess, doubt))
            self.seen += 1
            if self.seen % self.every == 0:
                self._learn()
        return answer

    def _learn(self):
        rows = torch.stack([m[0] for m in self.memory])
        target = self.teacher(rows).softmax(1)
        noisy = self.model(rows + 0.02 * torch.randn_like(rows))
        (-(target * noisy.log_softmax(1)).sum(1).mean()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            for t, s in zip(self.teacher.parameters(), self.model.parameters(), strict=True):
                t.mul_(0.9).add_(0.1 * s)

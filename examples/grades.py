"""Loans and the grade a model would give them, for grades.toml: a group goal on a table.

Half of the bundled loans trains a small network that guesses the bank's grade (A best, G worst)
from what the applicant says and owns; the bank's own decisions (sub-grade, rate, instalment) are
hidden from it. The other half is written to grades.csv, its schema to grades_schema.toml.
"""

from pathlib import Path

import torch

import durometer as du

HIDDEN = ("sub_grade", "int_rate", "installment")


def loans():
    data = du.datasets.lcld().test
    grade = (data.x[:, data.schema.names.index("sub_grade")] // 5).long()
    data = du.Dataset(data.x, grade, ids=data.ids, schema=data.schema, classes=tuple("ABCDEFG"))
    odd = torch.arange(len(data)) % 2 == 1
    return data.take(~odd), data.take(odd)


class Grader(torch.nn.Module):
    def __init__(self, train):
        super().__init__()
        shown = [n not in HIDDEN for n in train.schema.names]
        self.register_buffer("mean", train.x.mean(0))
        self.register_buffer("scale", torch.tensor(shown) / train.x.std(0).clamp_min(1e-6))
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(len(shown), 32), torch.nn.ReLU(), torch.nn.Linear(32, 7)
        ).double()

    def forward(self, x):
        return self.layers((x - self.mean) * self.scale)


def load():
    train, _ = loans()
    net = du.training.fresh(lambda: Grader(train), seed=0)
    du.training.fit(net, train, du.training.Standard(), epochs=30, batch=64, rate=3e-3)
    return net


def write(folder):
    _, rest = loans()
    table = rest.schema.frame(rest.x)
    table["grade"] = [rest.classes[c] for c in rest.y.tolist()]
    table.to_csv(folder / "grades.csv", index=False)
    (folder / "grades_schema.toml").write_text(rest.schema.toml())


if __name__ == "__main__":
    write(Path(__file__).parent)

"""A foundation model for tables, and somebody who writes into its context

TabPFN and TabICL are trained once, on synthetic tables; the labelled rows of your own table are part of every question.
Whoever may write some of these rows can harm the answers about all others. The model here is a small one with the same
interface, so that the page needs no weights: it votes by distance.
"""

# %%
import matplotlib.pyplot as plt
import torch

import durometer as du

pima = du.datasets.pima()
low, high = pima.train.x.amin(0), pima.train.x.amax(0)


def scaled(rows: du.Dataset) -> du.Dataset:
    return du.Dataset(((rows.x - low) / (high - low)).clamp(0, 1), rows.y)


class Nearest(torch.nn.Module):
    """Any module that is called with (context, labels, rows) will do."""

    def __init__(self, classes: int):
        super().__init__()
        self.classes = classes
        self.sharp = torch.nn.Parameter(torch.tensor(8.0, dtype=torch.float64))

    def forward(
        self, context: torch.Tensor, labels: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        near = (-self.sharp * (rows[:, None] - context[None]).square().sum(2)).exp()
        votes = [near[:, labels == c].sum(1) for c in range(self.classes)]
        return torch.stack(votes, 1).add(1e-9).log()


context, queries = scaled(pima.train.sample(150)), scaled(pima.test.sample(80))
defender = du.defenses.InContext(Nearest(int(pima.train.y.max()) + 1), context)

# %%
# The attacker moves a few context rows, anywhere in the table's ranges; their labels stay as they are, and nobody
# touches the rows that are asked.
shares = {}
for k in (1, 3, 6, 12):
    game, rows = defender.game(queries, controlled=k)
    attack = du.Poison(du.APGD(30))
    report = du.evaluate(game, rows, space=du.Linf(1.0), attack=attack, progress=False)
    shares[k] = report.metric("benign")
    print(f"{k:2} of {len(context)} rows written by the attacker: {shares[k]} answers right")
print(f"none: {report.metric('benign_unpoisoned')}")

# %%
plt.figure("Accuracy on the queries against the number of poisoned context rows", figsize=(6, 3))
plt.axhline(report.metric("benign_unpoisoned").value, linestyle="--", label="nobody attacks")
plt.plot(list(shares), [share.value for share in shares.values()], "o-", label="poisoned")
plt.xlabel(f"rows of {len(context)} that the attacker writes")
plt.ylabel("answers right")
plt.legend()

"""A defence that only hides its gradients

A network whose answers are rounded has no gradient to follow, so a gradient attack fails and the
model looks robust. The report says so, and a search without gradients shows what is left.
"""

# %%
import torch

import durometer as du
from durometer.demo import models

net = models.mnist()


class Rounded(torch.nn.Module):
    """Answers in steps: the gradient is zero almost everywhere."""

    def forward(self, x):
        return torch.round(net(x) * 4) / 4


data = du.datasets.mnist().test.sample(40)
space = du.Linf(0.15)
gradient = du.evaluate(Rounded(), data, space=space, attack=du.PGD(20), progress=False)
print(gradient)

# %%
# The warning names the cause. Square asks for answers alone.
search = du.evaluate(Rounded(), data, space=space, attack=du.Square(400), progress=False)
print("gradients:", gradient.metric("robust"))
print("search:   ", search.metric("robust"))

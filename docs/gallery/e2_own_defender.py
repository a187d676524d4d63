"""A defence of your own

Three methods make a defender: where it starts, the model before it adapts, and how it adapts to a
batch. This one shifts every batch to the brightness it was trained on.
"""

# %%
import durometer as du
from durometer.demo import models

net = models.mnist()
usual = float(du.datasets.mnist().train.x.mean())


class Brightness:
    """Moves the batch to the usual brightness before the network looks."""

    stateful = False

    def start(self):
        return None

    def base(self, state):
        return net

    def adapt(self, state, x, seed):
        shift = usual - float(x.mean())
        return (lambda inputs: net((inputs + shift).clamp(0, 1))), state


data = du.datasets.mnist().test.sample(32)
game = du.Transductive(Brightness(), batch=32)
for attack in (du.Transfer(du.PGD(10)), du.GMSA(du.PGD(10), "avg", 2)):
    report = du.evaluate(game, data, space=du.Linf(0.1), attack=attack, progress=False)
    print(type(attack).__name__, report.metric("robust"))

"""A defence that adapts at test time

TENT changes the network with every batch it sees. A static attack asks the wrong model; the ladder
gives the attacker more and more, and shows what is left.
"""

# %%
import durometer as du
from durometer.demo import models

net = models.mnist()
data = du.datasets.mnist().test.sample(32)
game = du.Transductive(du.defenses.TENT(net), batch=32)
steps = du.ladder(game, data, space=du.Linf(0.1), attacks=[du.FPA(du.PGD(5), 2)])
print(steps)

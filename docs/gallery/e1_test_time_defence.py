"""A defence that adapts at test time

TENT changes the network with every batch it sees. A static attack asks the wrong model; the ladder
gives the attacker more and more, and shows what is left.
"""

# %%
import assay as ay
from assay.demo import models

net = models.mnist()
data = ay.datasets.mnist().test.sample(32)
game = ay.Transductive(ay.defenses.TENT(net), batch=32)
steps = ay.ladder(game, data, space=ay.Linf(0.1), attacks=[ay.FPA(ay.PGD(5), 2)])
print(steps)

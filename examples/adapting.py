"""What is test-time adaptation worth? TENT on digits, rung by rung.

    python examples/adapting.py               # half a minute; writes runs/adapting/report.html

TENT normalises by the batch's own statistics and takes a gradient step on each batch. The network
is trained here, as usual and for a short time; any module with BatchNorm layers will do instead.
"""

import durometer as du
from durometer.architectures import SmallCNN
from durometer.training.loop import fit, fresh
from durometer.training.standard import Standard

data = du.datasets.mnist()
train, test = data.train.sample(1000), data.test.sample(64)


def build() -> SmallCNN:
    return SmallCNN(10, channels=1, width=8)


net = fresh(build)
fit(net, train, Standard(), epochs=4)

defender = du.defenses.TENT(net)
du.testing.check_defender(defender, test.x[:8])  # for a defence of your own: is it a pure function?

steps = du.ladder(
    du.Transductive(defender, batch=32),
    test,
    space=du.Linf(0.1),
    attacks=[du.FPA(du.PGD(10), 2), du.GMSA(du.PGD(10), "avg", 2)],
    control=du.defenses.Control(build, train, epochs=4),  # retrains, does not look at the batch
)
print(steps)
steps.save("runs/adapting")

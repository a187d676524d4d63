"""What is test-time adaptation worth? TENT on digits, rung by rung.

    python examples/adapting.py               # half a minute; writes runs/adapting/report.html

TENT normalises by the batch's own statistics and takes a gradient step on each batch. The network
is trained here, as usual and for a short time; any module with BatchNorm layers will do instead.
"""

import assay as ay
from assay.architectures import SmallCNN
from assay.training.loop import fit, fresh
from assay.training.standard import Standard

data = ay.datasets.mnist()
train, test = data.train.sample(1000), data.test.sample(64)


def build() -> SmallCNN:
    return SmallCNN(10, channels=1, width=8)


net = fresh(build)
fit(net, train, Standard(), epochs=4)

defender = ay.defenses.TENT(net)
ay.testing.check_defender(defender, test.x[:8])  # for a defence of your own: is it a pure function?

steps = ay.ladder(
    ay.Transductive(defender, batch=32),
    test,
    space=ay.Linf(0.1),
    attacks=[ay.FPA(ay.PGD(10), 2), ay.GMSA(ay.PGD(10), "avg", 2)],
    control=ay.defenses.Control(build, train, epochs=4),  # retrains, does not look at the batch
)
print(steps)
steps.save("runs/adapting")

"""The package's own networks, one by one: read and bounded, or refused by name."""

import pytest
import torch

import durometer as du
from durometer import architectures as arch
from durometer.tables.feature import Feature
from durometer.tables.schema import Schema

IMAGES = {
    "resnet18": (lambda: arch.resnet18(3, width=4), 3),
    "resnet20": (lambda: arch.resnet20(3, width=4), 3),
    "vgg": (lambda: arch.VGG(3, width=4), 3),
    "squeezenet": (lambda: arch.SqueezeNet(3, width=16), 3),
    "shufflenet": (lambda: arch.ShuffleNet(3, width=8, blocks=(1, 1, 1)), 3),
    "mobilenet": (lambda: arch.MobileNet(3, width=4, times=1), 3),
    "lenet": (arch.LeNet, 1),
    "normlenet": (arch.NormLeNet, 1),
}
SCHEMA = Schema([
    Feature("a", "real", 0, 9), Feature("b", "category", values=("x", "y", "z")),
    Feature("c", "integer", 0, 5),
])  # fmt: skip
QUICK = du.Bounds(alpha=0, splits=0, seconds=0.0)


def answers_stay(net, data, space, proven, draws=40):
    """No random point near a proven row has another answer."""
    region = space.around(data.x[proven])
    for k in range(draws):
        move = torch.rand(region.origin.shape, generator=torch.Generator().manual_seed(k))
        z = region.project(region.origin + (2 * move - 1).round() * space.eps)
        x = region.decode(z)
        assert bool(region.contains(x).all())
        assert bool((net(x.float()).argmax(1) == data.y[proven]).all())


@pytest.mark.parametrize("name", IMAGES)
def test_networks_for_images_are_proven(name):
    torch.manual_seed(0)
    make, channels = IMAGES[name]
    net = make().train()
    side = 28 if channels == 1 else 16
    for _ in range(3):
        net(torch.rand(16, channels, side, side))  # statistics of its normalisations
    net.eval()
    x = torch.rand(3, channels, side, side)
    data = du.Dataset(x, net(x).argmax(1))
    space = du.Linf(1e-5)
    report = du.evaluate(net, data, space=space, attack=QUICK, progress=False)
    proven = torch.tensor((report.table["verdict"] == "proven").to_numpy())
    assert proven.any()
    answers_stay(net, data, space, proven)


@pytest.mark.parametrize("name", ["MLP", "RLN", "STG", "VIME", "TabTransformer"])
def test_networks_for_tables_are_proven(name):
    more = {"width": 8, "depth": 1, "heads": 2, "head": 4} if name == "TabTransformer" else {}
    net = getattr(arch, name)(SCHEMA, **more).eval()
    x = torch.tensor([[a, b, c] for a in (1.0, 4.0, 8.0) for b in (0, 1, 2) for c in (0, 3)])
    data = du.Dataset(x.double(), net(x).argmax(1), schema=SCHEMA)
    space = SCHEMA.space(eps=0.01)
    report = du.evaluate(net, data, space=space, attack=QUICK, progress=False)
    proven = torch.tensor((report.table["verdict"] == "proven").to_numpy())
    assert proven.any()
    answers_stay(net, data, space, proven)


@pytest.mark.parametrize(("make", "x", "words"), [
    (lambda: arch.TabNet(SCHEMA), torch.zeros(4, 3).double(), "does not know the operation"),
])  # fmt: skip
def test_the_others_are_refused_by_name(make, x, words):
    net = make().eval()
    data = du.Dataset(x, net(x.float()).argmax(1), schema=SCHEMA)
    with pytest.raises(du.Unsupported, match=words):
        du.evaluate(net, data, space=SCHEMA.space(eps=0.01), attack=QUICK, progress=False)

"""Networks for small images: shapes, gradients, and that batch size does not change an answer."""

import pytest
import torch

from durometer import architectures as arch
from durometer.architectures.images.shufflenet import shuffle

NETS = {
    "resnet18": lambda: arch.resnet18(5, width=4),
    "resnet20": lambda: arch.resnet20(5, width=4),
    "resnet32": lambda: arch.resnet32(5, width=4),
    "vgg": lambda: arch.VGG(5, width=4),
    "squeezenet": lambda: arch.SqueezeNet(5, width=16),
    "shufflenet": lambda: arch.ShuffleNet(5, width=8, blocks=(2, 2, 2)),
    "mobilenet": lambda: arch.MobileNet(5, width=4, times=2),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("side", [28, 32])
def test_logits_and_gradients(name, side):
    torch.manual_seed(0)
    net = NETS[name]().train()
    for _ in range(20):
        net(torch.rand(8, 3, side, side))  # batch normalisation needs statistics to be sensible
    net.eval()
    x = torch.rand(3, 3, side, side, requires_grad=True)
    logits = net(x)
    assert logits.shape == (3, 5)
    logits.sum().backward()
    assert bool((x.grad != 0).any())
    assert torch.allclose(net(x[:1]), logits[:1], atol=1e-5)


@pytest.mark.parametrize("name", NETS)
def test_it_can_fit_a_handful(name):
    torch.manual_seed(0)
    net = NETS[name]().train()
    x, y = torch.rand(10, 3, 16, 16), torch.arange(10) % 5
    steps = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(25):
        steps.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        steps.step()
    assert loss.item() < 0.7


def test_layer_counts():
    def depth(net):
        kinds = (torch.nn.Conv2d, torch.nn.Linear)
        wide = [m for m in net.modules() if isinstance(m, kinds)]
        return len([m for m in wide if getattr(m, "kernel_size", (3, 3)) != (1, 1)])

    assert depth(arch.resnet18(width=2)) == 18
    assert depth(arch.resnet20(width=2)) == 20
    assert depth(arch.resnet32(width=2)) == 32


def test_shuffle_takes_the_halves_in_turn():
    x = torch.arange(6.0).view(1, 6, 1, 1)
    assert shuffle(x).flatten().tolist() == [0, 3, 1, 4, 2, 5]

"""Masks, stickers and quantised images keep every promise of a region, and attacks stay inside."""

import numpy as np
import pytest
import torch

import durometer as du
from durometer.core.errors import DurometerError, Unsupported
from durometer.core.streams import Stream
from durometer.spaces.quantised import snap
from durometer.testing import check_space


def pictures(n=6, channels=3, side=16):
    x = torch.rand(n, channels, side, side, generator=torch.Generator().manual_seed(1))
    return (x * 255).round() / 255


def net(channels=3, side=16, classes=4):
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * side**2, classes))
    with torch.no_grad():
        g = torch.Generator().manual_seed(2)
        model[1].weight.copy_(torch.randn(model[1].weight.shape, generator=g) / 10)
        model[1].bias.zero_()
    return model


def data(**sizes):
    x = pictures(**sizes)
    with torch.no_grad():
        return du.Dataset(x, net(x.shape[1], x.shape[2])(x).argmax(1))


SPACES = [
    du.Patch("eyeglasses"),
    du.Patch(np.eye(16, dtype=bool)),
    du.Patch(lambda h, w: np.tri(h, w), low=-1.0, high=2.0),
    du.Quantised(du.Linf(8 / 255)),
    du.Quantised(du.Linf(2.5 / 255)),
    du.Quantised(du.L2(0.5)),
    du.Quantised(du.Patch("eyeglasses")),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_space_keeps_its_promises(space):
    check_space(space, pictures())


def test_rectangle_projects_to_one_window():
    x = pictures()
    region = du.Rectangle(5, 3).around(x)
    stream = Stream(0, torch.arange(len(x)))
    z = region.random(stream, torch.arange(len(x)))
    assert region.contains(region.decode(z)).all()
    assert torch.equal(region.project(z), z)
    moved = region.project(torch.rand(z.shape, generator=torch.Generator().manual_seed(3)))
    assert region.contains(region.decode(moved)).all()
    wide = x.clone()
    wide[:, :, 2, 2:6] = 1 - wide[:, :, 2, 2:6]
    assert not region.contains(wide).any()  # four columns, three allowed
    assert region.contains(x).all()


def test_window_energy_is_the_sum_of_squares():
    x = pictures(2)
    region = du.Rectangle(4, 6).around(x)
    energy = region.energy(region.origin)
    assert energy.shape == (2, 13, 11)
    by_hand = x[1, :, 3:7, 5:11].square().sum()
    assert energy[1, 3, 5].item() == pytest.approx(by_hand.item(), rel=1e-5)
    corner = torch.tensor([0, 3 * 11 + 5])
    window = region.window(corner).reshape(2, 3, 16, 16)
    assert window[1, :, 3:7, 5:11].all() and int(window[1].sum()) == 3 * 24


@pytest.mark.parametrize(
    ("space", "attack"),
    [
        (du.Patch("eyeglasses"), du.APGD(10)),
        (du.Patch("eyeglasses"), du.Eyeglasses(100)),
        (du.Rectangle(6, 6), du.PGD(10, step=0.1)),
        (du.Rectangle(6, 6), du.DOA(10, step=0.1, stride=2, candidates=5)),
        (du.Quantised(du.Linf(8 / 255)), du.APGD(10)),
        (du.Quantised(du.L2(0.5)), du.APGD(10)),
        (du.Quantised(du.Linf(8 / 255)), du.Square(50)),
        (du.Quantised(du.L2(0.5)), du.CW(30, 3)),
        (du.Quantised(du.Patch("eyeglasses")), du.Eyeglasses(100)),
    ],
    ids=str,
)
def test_what_attacks_hand_in_is_in_the_space(space, attack):
    images = data(n=24)
    report = du.evaluate(net(), images, space=space, attack=attack)
    assert report.metric("success").value > 0
    handed = torch.as_tensor(report.adversarial)
    inside = handed == images.x
    if isinstance(space, du.Patch):
        frame = torch.as_tensor(du.masks.eyeglasses(16, 16))
        assert inside[:, :, ~frame].all()
    if isinstance(space, du.Quantised):
        assert torch.equal(handed, (handed * 255).round() / 255)
    if isinstance(space, du.Rectangle):
        rows, columns = (~inside).any(1).any(2), (~inside).any(1).any(1)
        assert (rows.sum(1) <= 6).all() and (columns.sum(1) <= 6).all()


def test_the_sticker_goes_where_the_model_looks():
    model = net()
    with torch.no_grad():
        weight = model[1].weight.reshape(4, 3, 16, 16)
        weight *= 0.01
        weight[0, :, 8:12, 10:14] = 1.0
        weight[1:, :, 8:12, 10:14] = -1.0
        model[1].bias[0] = -20.0  # class 0 lives by these pixels alone
    x = torch.full((4, 3, 16, 16), 0.6)
    images = du.Dataset(x, torch.zeros(4))
    attack = du.DOA(5, step=0.2, stride=1, candidates=9)
    report = du.evaluate(model, images, space=du.Rectangle(4, 4), attack=attack)
    changed = torch.as_tensor(report.adversarial) != x
    assert report.metric("success").value == 1
    assert not changed[:, :, :8].any() and not changed[:, :, :, :10].any()


def test_quantised_rounds_to_the_nearest_level_and_gradients_pass():
    x = pictures(2)
    region = du.Quantised(du.Linf(8 / 255)).around(x)
    z = (region.origin + 2.3 / 255).clamp(0, 1).requires_grad_()
    decoded = region.decode(z)
    near = snap((region.origin + 2 / 255).clamp(0, 1), 0.0, 1.0, 256)
    assert torch.equal(decoded.detach().flatten(1), near)
    (grad,) = torch.autograd.grad(decoded.sum(), z)
    assert (grad == 1).all()


def test_quantised_says_when_the_data_is_not():
    images = du.Dataset(pictures() * 0.999, torch.zeros(6))
    with pytest.raises(DurometerError, match="not on the grid"):
        du.evaluate(net(), images, space=du.Quantised(du.Linf(0.1)), attack=du.PGD(2))


def test_what_does_not_fit_is_refused():
    for space, word in (
        (du.Patch("monocle"), "eyeglasses"),
        (du.Patch(np.ones((3, 3))), "shape"),
        (du.Patch(np.zeros((16, 16))), "empty"),
        (du.Rectangle(17, 2), "does not fit"),
    ):
        with pytest.raises(DurometerError, match=word):
            du.evaluate(net(), data(), space=space, attack=du.PGD(2))
    with pytest.raises(Unsupported, match="Rectangle"):
        du.evaluate(net(), data(), space=du.Linf(0.1), attack=du.DOA(2))
    with pytest.raises(Unsupported, match="APGD"):
        du.evaluate(net(), data(), space=du.Patch("eyeglasses"), attack=du.Square(5))


@pytest.mark.parametrize("size", [(224, 224), (64, 64), (112, 92), (32, 48)])
def test_eyeglasses_scale_with_the_face(size):
    frame = du.masks.eyeglasses(*size)
    rows, columns = np.flatnonzero(frame.any(1)), np.flatnonzero(frame.any(0))
    assert 0.055 < frame.mean() < 0.08
    assert rows[0] / size[0] == pytest.approx(0.25, abs=0.03)
    assert rows[-1] / size[0] == pytest.approx(0.5, abs=0.04)
    assert columns[0] / size[1] == pytest.approx(0.13, abs=0.03)
    assert (frame == frame[:, ::-1]).mean() > 0.97  # as wide to the left as to the right


def test_published_frame():
    frame = du.masks.eyeglasses(224, 224)
    rows, columns = np.flatnonzero(frame.any(1)), np.flatnonzero(frame.any(0))
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (56, 111, 30, 193)
    assert int(frame.sum()) == pytest.approx(3370, rel=0.02)

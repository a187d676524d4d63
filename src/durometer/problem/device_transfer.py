"""Device transfer: a problem on one device, its model on another, with few journeys between them.

A gradient asked for across two devices would travel four times: the inputs up, the logits down, the
gradient of the loss up, that of the inputs down. Here the loss is taken where the model is: inputs
and targets go up in one piece, logits, losses and gradients come down in another.

What a reader would get wrong: a function of one's own as a loss may hold tensors of the host, so it
is asked there, at the price of the second journey.
"""

from __future__ import annotations

import torch
from torch import Tensor

from durometer.losses import Loss
from durometer.model.classifier import Classifier


def must_transfer(model: Classifier, device: torch.device | None, x: Tensor, loss: Loss) -> bool:
    """Whether a gradient is asked for whose model is elsewhere, by a loss that may go there."""
    if device in (None, x.device) or not (x.requires_grad and torch.is_grad_enabled()):
        return False
    return _is_movable(loss) and not (model.bound or model.together)


def _is_movable(loss: Loss) -> bool:
    """Ours, and holding nothing."""
    ours = getattr(loss, "__module__", "").startswith("durometer.")
    return ours and getattr(loss, "__closure__", ()) is None


def loss_on_device(
    model: Classifier, x: Tensor, loss: Loss, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Logits (n, C) and losses (n,); the gradient hangs on the losses as a linear term."""
    assert model.device is not None
    flat = x.detach().flatten(1).to(model.dtype)
    there = torch.cat([flat, targets.to(flat.dtype)], dim=1).to(model.device)
    at = there[:, : flat.shape[1]].reshape(x.shape).detach().requires_grad_()
    logits = model.logits(at)
    value = loss(logits, there[:, flat.shape[1] :] > 0.5)
    (grad,) = torch.autograd.grad(value.sum(), at)
    parts = (logits, value[:, None], grad.flatten(1).to(logits.dtype))
    back = torch.cat([part.detach() for part in parts], dim=1).to(x.device)
    logits, value, grad = back.tensor_split([logits.shape[1], logits.shape[1] + 1], dim=1)
    slope = (x.flatten(1) * grad.to(x.dtype)).sum(1)
    return logits, value[:, 0] + (slope - slope.detach())

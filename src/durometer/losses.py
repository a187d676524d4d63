"""Losses: how near a row is to success, from (logits, targets); higher is nearer.

`targets` is the goal's mask (n, C), so one definition serves untargeted, targeted and group goals:
with t inside the mask T and i outside,

    ce      -log P(outside)                     Goodfellow et al.; Croce & Hein
    margin  max_t z_t - max_i z_i               Carlini & Wagner
    pm      log(1 + max_t P(t) - max_i P(i))    the probability margin, Gong et al. 2024
    dlr     margin / (z_1 - z_3), or / (z_1 - (z_3 + z_4)/2) for a single target    Croce & Hein
    md      -sum_j relu(z_j - z_t)              Lin et al.; one target
    mdmax   -sum_i relu(z_i - max_t z_t)
    mdmul   -sum_t log sum_i relu(z_i - z_t)
    lse     log sum_t exp z_t - max_i z_i
    odds    log P(T) - log P(outside)
    confidence  max_t P(t)                      to choose among candidates; a poor guide for steps

Things a reader would get wrong. `ce` is computed from the log odds, not from 1 - p: at p = 1
the usual form has a gradient of exactly 0 in float32, this one has not. And for one target `dlr`
compares with the best class *outside* the mask; the published z_y is the same thing for as long as
the row is still classified correctly, and wrong afterwards. `pm` is written as a logarithm because
that is the same ascent, and the difference itself is flat in float32 wherever the model is sure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import softplus

from durometer.core.devices import is_cpu
from durometer.core.errors import DurometerError, Unsupported, nearest
from durometer.goals.goal import gap

__all__ = ["ce", "dlr", "lse", "margin", "md", "mdmax", "mdmul", "odds", "pm"]

Loss = Callable[[Tensor, Tensor], Tensor]
LossName = Literal["ce", "confidence", "dlr", "lse", "margin", "md", "mdmax", "mdmul", "odds", "pm"]


def odds(logits: Tensor, targets: Tensor) -> Tensor:
    """The log odds of the targets: log P(targets) - log P(other classes).

    Args:
        logits: Logits (n, C).
        targets: The classes that the attacker wants (n, C), bool.

    Returns:
        (n,); higher is nearer to success.

    >>> import torch
    >>> from durometer import losses
    >>> logits, targets = (
    ...     torch.tensor([[2.0, 1.0, 0.0, -1.0]]),
    ...     torch.tensor([[False, True, False, False]]),
    ... )
    >>> round(losses.odds(logits, targets).item(), 4)
    -1.1698
    """
    inside = logits.masked_fill(~targets, -torch.inf).logsumexp(1)
    return inside - logits.masked_fill(targets, -torch.inf).logsumexp(1)


def ce(logits: Tensor, targets: Tensor) -> Tensor:
    """The cross entropy of the classes outside the targets; -log p_y for an untargeted goal.

    Args:
        logits: Logits (n, C).
        targets: The classes that the attacker wants (n, C), bool.

    Returns:
        (n,); higher is nearer to success.

    >>> import torch
    >>> from durometer import losses
    >>> logits, targets = (
    ...     torch.tensor([[2.0, 1.0, 0.0, -1.0]]),
    ...     torch.tensor([[False, True, False, False]]),
    ... )
    >>> round(losses.ce(logits, targets).item(), 4)
    0.2703
    """
    return softplus(odds(logits, targets))


def margin(logits: Tensor, targets: Tensor) -> Tensor:
    """The margin of Carlini & Wagner: best logit inside the targets minus best outside; positive
    where the goal is reached.

    Args:
        logits: Logits (n, C).
        targets: The classes that the attacker wants (n, C), bool.

    Returns:
        (n,); higher is nearer to success.

    >>> import torch
    >>> from durometer import losses
    >>> logits, targets = (
    ...     torch.tensor([[2.0, 1.0, 0.0, -1.0]]),
    ...     torch.tensor([[False, True, False, False]]),
    ... )
    >>> round(losses.margin(logits, targets).item(), 4)
    -1.0
    """
    return gap(logits, targets)


def pm(logits: Tensor, targets: Tensor) -> Tensor:
    """The probability margin, as log(1 + P(best target) - P(best other class)) (Gong et al., 2024).

    Args:
        logits: Logits (n, C).
        targets: The classes that the attacker wants (n, C), bool.

    Returns:
        (n,); higher is nearer to success.

    >>> import torch
    >>> from durometer import losses
    >>> logits, targets = (
    ...     torch.tensor([[2.0, 1.0, 0.0, -1.0]]),
    ...     torch.tensor([[False, True, False, False]]),
    ... )
    >>> round(losses.pm(logits, targets).item(), 4)
    -0.5226
    """
    low = torch.finfo(logits.dtype).min
    t = logits.masked_fill(~targets, low).amax(1, keepdim=True)
    other = logits.detach().masked_fill(targets, low).argmax(1, keepdim=True)
    others = logits.scatter(1, other, -torch.inf)
    return torch.cat([others, t], dim=1).logsumexp(1) - logits.logsumexp(1)


def dlr(logits: Tensor, targets: Tensor) -> Tensor:
    """The difference of logits ratio: the margin divided by a spread of the largest logits (Croce &
    Hein, 2020).

    Args:
        logits: Logits (n, C).
        targets: The classes that the attacker wants (n, C), bool.

    Returns:
        (n,); higher is nearer to success.

    Raises:
        Unsupported: There are fewer than four classes.

    >>> import torch
    >>> from durometer import losses
    >>> logits, targets = (
    ...     torch.tensor([[2.0, 1.0, 0.0, -1.0]]),
    ...     torch.tensor([[False, True, False, False]]),
    ... )
    >>> round(losses.dlr(logits, targets).item(), 4)
    -0.4
    """
    top = logits.topk(min(4, logits.shape[1]), dim=1).values
    if top.shape[1] < 4:
        raise Unsupported(
            f"loss 'dlr' with {top.shape[1]} classes: its denominator is the numerator there, so "
            "the gradient is 0; use 'ce' or 'margin'"
        )
    single = targets.sum(1) == 1
    third = torch.where(single, (top[:, 2] + top[:, 3]) / 2, top[:, 2])
    return gap(logits, targets) / (top[:, 0] - third + 1e-12)


def md(logits: Tensor, targets: Tensor) -> Tensor:
    """The minimal difference to one target: minus the sum of what all classes lead it by; 0 where
    it is on top (Lin et al., NDSS 2024).

    Args:
        logits: Logits (n, C).
        targets: The classes that the attacker wants (n, C), bool.

    Returns:
        (n,); higher is nearer to success.

    Raises:
        Unsupported: A row has several targets.

    >>> import torch
    >>> from durometer import losses
    >>> logits, targets = (
    ...     torch.tensor([[2.0, 1.0, 0.0, -1.0]]),
    ...     torch.tensor([[False, True, False, False]]),
    ... )
    >>> round(losses.md(logits, targets).item(), 4)
    -1.0
    """
    if is_cpu(targets.device) and bool((targets.sum(1) > 1).any()):
        raise Unsupported("loss 'md' takes one target per row; use 'mdmax' or 'mdmul' for groups")
    t = (logits * targets).sum(1, keepdim=True)
    return -(logits - t).relu().sum(1)


def mdmax(logits: Tensor, targets: Tensor) -> Tensor:
    """The minimal difference to the currently best target (Lin et al., NDSS 2024).

    Args:
        logits: Logits (n, C).
        targets: The classes that the attacker wants (n, C), bool.

    Returns:
        (n,); higher is nearer to success.

    >>> import torch
    >>> from durometer import losses
    >>> logits, targets = (
    ...     torch.tensor([[2.0, 1.0, 0.0, -1.0]]),
    ...     torch.tensor([[False, True, False, False]]),
    ... )
    >>> round(losses.mdmax(logits, targets).item(), 4)
    -1.0
    """
    best = logits.masked_fill(~targets, torch.finfo(logits.dtype).min).amax(1, keepdim=True)
    return -((logits - best).relu() * ~targets).sum(1)


def mdmul(logits: Tensor, targets: Tensor) -> Tensor:
    """The product, as a sum of logarithms, of the minimal differences to all targets (Lin et al.,
    NDSS 2024).

    Args:
        logits: Logits (n, C).
        targets: The classes that the attacker wants (n, C), bool.

    Returns:
        (n,); higher is nearer to success.

    >>> import torch
    >>> from durometer import losses
    >>> logits, targets = (
    ...     torch.tensor([[2.0, 1.0, 3.0]]),
    ...     torch.tensor([[True, True, False]]),
    ... )
    >>> round(losses.mdmul(logits, targets).item(), 4)
    -0.6931
    """
    # With k classes above t, sum_i relu(z_i - z_t) is their sum less k z_t: sorted once there is
    # no (n, C, C) table. Counted from the highest of them, so that nothing cancels near success;
    # that one drops out of the sum, so it is a constant. A class level with t is not above it.
    z = logits.detach()
    lower = z - torch.finfo(z.dtype).eps * z.abs().clamp_min(1e-30)
    places = torch.where(targets, z, lower).argsort(dim=1, descending=True)
    wanted, ordered = targets.gather(1, places), logits.gather(1, places)
    other = (~wanted).to(z.dtype)
    below = ordered.detach().gather(1, other.argmax(1, keepdim=True)) - ordered
    short = other.cumsum(1) * below - (other * below).cumsum(1)
    # The paper lets log(0) be -inf; the clamp keeps values and gradients finite there.
    return -short.masked_fill(~wanted, 1.0).clamp_min(1e-12).log().sum(1)


def lse(logits: Tensor, targets: Tensor) -> Tensor:
    """A soft margin with all targets in play: log-sum-exp inside the targets minus the best logit
    outside.

    Args:
        logits: Logits (n, C).
        targets: The classes that the attacker wants (n, C), bool.

    Returns:
        (n,); higher is nearer to success.

    >>> import torch
    >>> from durometer import losses
    >>> logits, targets = (
    ...     torch.tensor([[2.0, 1.0, 0.0, -1.0]]),
    ...     torch.tensor([[False, True, False, False]]),
    ... )
    >>> round(losses.lse(logits, targets).item(), 4)
    -1.0
    """
    inside = logits.masked_fill(~targets, -torch.inf).logsumexp(1)
    return inside - logits.masked_fill(targets, torch.finfo(logits.dtype).min).amax(1)


def confidence(logits: Tensor, targets: Tensor) -> Tensor:
    """How sure the model is of its likeliest target: what survives a model that moves."""
    return logits.softmax(1).masked_fill(~targets, 0.0).amax(1)


LOSSES: dict[str, Loss] = {name: globals()[name] for name in get_args(LossName)}


def check(loss: str | Loss, logits: Tensor, targets: Tensor) -> None:
    """Whether it can be asked of such logits, before an attack does."""
    try:
        said = find(loss)(logits, targets)
    except DurometerError:
        raise
    except Exception as error:
        raise DurometerError(
            f"loss={loss!r} cannot be asked: {type(error).__name__}: {error}; expected a function "
            "of logits (n, classes) and targets (n, classes) that gives (n,)"
        ) from error
    if not isinstance(said, Tensor) or said.shape != (len(logits),):
        what = tuple(said.shape) if isinstance(said, Tensor) else type(said).__name__
        raise DurometerError(
            f"loss={loss!r} gives {what}; expected a tensor (n,), one value per row"
        )


def find(name: str | Loss) -> Loss:
    """The loss of that name; a callable is taken as it is."""
    if callable(name):
        return name
    if not isinstance(name, str):
        raise DurometerError(f"loss={name!r}: expected a name, e.g. 'ce', or a function")
    if name not in LOSSES:
        raise DurometerError(f"no loss '{name}'{nearest(name, LOSSES)}")
    return LOSSES[name]

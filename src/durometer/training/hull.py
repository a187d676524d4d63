"""Training over all sentences that may be written: the loss is that of a bound, not of an attack.

For each sentence the network's own bound (`proofs/sentences/hull.py`) says by how much every wrong
class can at most lead the true one, whatever words are chosen within the budget. The loss is the
cross entropy of those leads (interval bound propagation, Jia et al. 2019 and Huang et al. 2019 for
words; the budget is new here), beside the usual one:

    (1 - weight) * CE(clean) + weight * log(1 + sum_t exp(lead_t))

The options are moved from the word itself outwards during the first `ramp` updates. With a `goal`
only classes that the attacker wants are led by (the group defence in the hull).

What a reader would get wrong: no attack is run. A network trained so is not only harder to break,
it is *easier to prove* about, which is what the bounds were for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.goals.goal import Goal
from durometer.proofs.text.hull import Bounded
from durometer.proofs.text.search import read
from durometer.spaces.discrete import SubstitutionRegion
from durometer.spaces.region import Space
from durometer.training.loop import Batch


@noun
class InHull:
    """Certified training for texts: minimises a bound on the loss over all allowed sentences (Jia
    et al., 2019; Huang et al., 2019).

    Args:
        space: The `Text` space.
        weight: Weight of the bounded loss, above 0 and at most 1.
        ramp: Updates until the candidates have their full distance from the original words.
        goal: The classes that the attacker wants. None: all.

    Raises:
        DurometerError: A parameter has an impossible value.
        Unsupported: The network has no such bounds (TextCNN and TextLSTM do); raised while
            training.

    >>> import durometer as du
    >>> from durometer.architectures.text import TextCNN
    >>> data = du.Dataset(["a good film", "a dull film"] * 4, [1, 0] * 4)
    >>> space = du.Text(du.Synonyms({"good": ("fine",)}), most=0.5)
    >>> net = du.training.fresh(lambda: TextCNN(classes=2, filters=4))
    >>> recipe = du.training.InHull(space, ramp=2)
    >>> history = du.training.fit(net, data, recipe, epochs=20, rate=0.01)
    >>> history[-1].loss < history[0].loss
    True
    """

    space: Space
    weight: float = field(default=0.5, metadata={"above": 0, "most": 1})
    ramp: int = field(default=200, metadata={"least": 0})
    goal: Goal | None = None

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        if not isinstance(net, Bounded):
            raise Unsupported(
                f"InHull trains networks whose answers can be bounded over sentences (TextCNN, "
                f"TextLSTM), and {type(net).__name__} has no such bounds; use "
                "Adversarial(CraftBy(PGD(5), space))"
            )
        memory = batch.memory
        grown = min(1.0, memory.get("updates", 0) / max(1, self.ramp))
        memory["updates"] = memory.get("updates", 0) + 1
        region = self.space.around(batch.x)
        if not isinstance(region, SubstitutionRegion):
            raise Unsupported(f"InHull wants a space of words, du.Text; {self.space!r} is none")
        leads = self._leads(net, region, batch, grown)
        clean = cross_entropy(net(batch.x), batch.y)
        zero = leads.new_zeros(len(leads), 1)  # the true class leads itself by nothing
        bounded = torch.cat([zero, leads], dim=1).logsumexp(1).mean()
        yield (1 - self.weight) * clean + self.weight * bounded

    def _leads(
        self, net: Bounded, region: SubstitutionRegion, batch: Batch, grown: float
    ) -> Tensor:
        """(n, C): the most each class can lead the true one by; -inf where nobody wants it."""
        hull = read(net, region).whole(grown)
        n, parts = len(batch.y), hull.parts
        classes = len(batch.data.classes) if batch.data.classes else int(batch.data.y.max()) + 1
        every = torch.eye(classes, dtype=parts.dtype)
        spec = every[None] - one_hot(batch.y, classes).to(parts.dtype)[:, None]
        wanted = torch.ones(n, classes, dtype=torch.bool)
        if self.goal is not None:
            blank = torch.zeros(n, classes)
            wanted = self.goal.targets(batch.y, blank, batch.rows, batch.data.classes)
        wanted = wanted & ~one_hot(batch.y, classes).bool()
        return net.highest(hull, spec).lead.masked_fill(~wanted, -torch.inf)

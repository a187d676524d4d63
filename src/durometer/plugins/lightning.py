"""A callback of Lightning that logs robust accuracy while a network is trained.

    from durometer.plugins.lightning import RobustAccuracy

    watch = RobustAccuracy(data, du.Linf(8 / 255), every=5, rows=128)
    Trainer(callbacks=[watch]).fit(net, batches)      # logs clean_accuracy, robust_accuracy_at_most

What a reader would get wrong: the figure is what one attack left on some rows, so it is an upper
bound, and it ranks epochs only as far as that attack is equally strong on all of them.
"""

from __future__ import annotations

from typing import Any

from durometer._evaluate import evaluate
from durometer.attacks.apgd import APGD
from durometer.attacks.base import Attack
from durometer.core.errors import DurometerError
from durometer.data.dataset import Dataset
from durometer.goals.goal import Expandable
from durometer.spaces.region import Space

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError:  # said when somebody makes one
        Callback = None

CLEAN, ROBUST = "clean_accuracy", "robust_accuracy_at_most"


class RobustAccuracy(Callback or object):  # type: ignore[misc, unused-ignore]
    """Logs clean accuracy and at most how much of it survives an attack, every few epochs.

    Args:
        data: The rows to attack: held out, never those it is trained on.
        space: What the attacker may change.
        every: Epochs between two evaluations; the last epoch of each such stretch is evaluated.
        attack: The attack. None: `APGD(20)`, which costs 20 gradients a row.
        goal: What counts as a success. None: untargeted.
        rows: Attack a random sample of at most so many rows, the same ones every time.
        seed: Seed of the sample and of the attack.
    """

    def __init__(
        self, data: Dataset, space: Space, every: int = 5, attack: Attack | None = None,
        goal: Expandable | None = None, rows: int = 128, seed: int = 0,
    ) -> None:  # fmt: skip
        if Callback is None:
            raise DurometerError("this callback is Lightning's: pip install lightning")
        for name, value in (("every", every), ("rows", rows)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise DurometerError(f"RobustAccuracy({name}={value!r}): expected a number >= 1")
        super().__init__()
        self.data = data.sample(rows, seed) if rows < len(data) else data
        self.space, self.every, self.goal, self.seed = space, every, goal, seed
        self.attack = APGD(20) if attack is None else attack

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Evaluate where an epoch of the stretch ends; the module is left as it was found."""
        if (trainer.current_epoch + 1) % self.every:
            return
        modes = [(module, module.training) for module in pl_module.modules()]
        pl_module.eval()
        try:
            report = evaluate(
                pl_module, self.data, space=self.space, goal=self.goal, attack=self.attack,
                seed=self.seed, progress=False,
            )  # fmt: skip
        finally:
            for module, training in modes:  # one by one: some may be frozen
                module.training = training
        for name, metric in ((CLEAN, "clean"), (ROBUST, "robust")):
            pl_module.log(name, float(report.metric(metric)))

"""Independent noise: one marginal per feature, any mixture of distributions, categories
included."""

from collections.abc import Sequence

from durometer.core.validation import noun
from durometer.kernels.arrays import Floats
from durometer.noise.joint import Joint, Part, align_columns, as_list, check_count, keys, widths


@noun
class Independent(Joint):
    """Noise that is independent from feature to feature, with any mixture of distributions.

    Args:
        parts: One marginal per feature, a list or a mapping from names.
        names: Names of the features. None: taken from `parts`, where these have names.

    >>> import numpy as np
    >>> from durometer.noise.marginal import normal, no_noise
    >>> noise = Independent((normal(sd=12), no_noise()))
    >>> noise.sample([[100.0, 3.0]], 2, np.random.default_rng(0)).round(1)
    array([[[101.5,   3. ],
            [107.7,   3. ]]])
    """

    parts: Sequence[Part]  # or a mapping from features
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", self.names or keys(self.parts))
        object.__setattr__(self, "parts", as_list(align_columns("parts", self.parts, self.names)))

    def taken(self, at: list[int]) -> "Independent":
        return Independent(tuple(self.parts[i] for i in at))

    @property
    def description(self) -> str:
        """The noise in a few words, for reports."""
        return f"independent noise ({check_count(self.parts)})"

    def marginals(self, features: int) -> tuple[Part, ...]:
        return widths(self.parts, features)

    def correlation(self, features: int) -> Floats | None:
        return None

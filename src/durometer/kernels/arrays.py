"""What kinds of numpy arrays the package names in its types, written down once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = np.ndarray[Any, Any]  # of any kind: what a compiled loop is given
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

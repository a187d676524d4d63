"""Random numbers as a function of (seed, purpose, example id, draw): no global state.

Each row of a batch has its own key, made from the seed and the example's id, and its own count of
draws made so far. A draw hashes (key, count, position) with the SplitMix64 finaliser, so what a row
is tried with cannot depend on the batch it sits in, on its neighbours, or on the number of workers.

What a reader would get wrong: the count belongs to the *row*, not to the stream. A row that was
solved early, or joined late, keeps its own count, which is what makes sharding and resuming exact.

Networks know only the global generators (first weights, dropout): for them there is `seeded`.
"""

from __future__ import annotations

import copy
import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from durometer.core.devices import is_cpu, widest
from durometer.kernels.native import Kernel, built

GOLDEN = 0x9E3779B97F4A7C15  # the step of the counter: 2^64 divided by the golden ratio
MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # the two factors of the finaliser


ATTACK = "attack"
_uniforms = Kernel("uniforms", n="size", draws="size", threads="int64", word="int64[n]",
                   out="out float64[n, draws]")  # fmt: skip


def _signed(value: int) -> int:
    """The same 64 bits as a signed integer, which is what torch has."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _shift(z: Tensor, bits: int) -> Tensor:
    """Logical right shift: torch's own is arithmetic."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def _mix(z: Tensor) -> Tensor:
    z = (z ^ _shift(z, 30)) * _signed(MIX[0])
    z = (z ^ _shift(z, 27)) * _signed(MIX[1])
    return z ^ _shift(z, 31)


def keys(ids: Sequence[int] | Sequence[str] | np.ndarray | Tensor) -> Tensor:
    """Example ids as 64-bit integers: integers as they are, anything else by a hash of its text."""
    array = ids.cpu().numpy() if isinstance(ids, Tensor) else np.asarray(ids)
    if np.issubdtype(array.dtype, np.integer):
        return torch.from_numpy(array.astype(np.int64))
    digests = [hashlib.blake2b(str(i).encode(), digest_size=8).digest() for i in array.tolist()]
    return torch.tensor([int.from_bytes(d, "little", signed=True) for d in digests])


def derive(seed: int, *labels: str | int) -> int:
    """A seed for one purpose, made from the run's seed: 40 bits, so that it may be multiplied.

    >>> derive(0, "referee", 1) == derive(0, "attacker", 1)
    False
    """
    text = "/".join(str(part) for part in (seed, *labels))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=5).digest(), "little")


class Stream:
    """Random numbers per row of a batch, which depend on seed, purpose and id only.

    What a row is tried with does not depend on its batch, its neighbours or the number of workers.

    Args:
        seed: The seed of the run.
        ids: The ids of the rows as integers (n,); see `keys`.
        device: Where the numbers are drawn.
        purpose: Name of the purpose; different purposes never share a draw.

    >>> a = Stream(0, torch.tensor([5, 9])).uniform(torch.tensor([0, 1]), 3)
    >>> b = Stream(0, torch.tensor([9])).uniform(torch.tensor([0]), 3)
    >>> bool((a[1] == b[0]).all())
    True
    """

    def __init__(
        self, seed: int, ids: Tensor, device: torch.device | str = "cpu", purpose: str = ATTACK
    ) -> None:
        self.seed = int(seed) if purpose == ATTACK else derive(seed, purpose)
        start = _mix(torch.tensor(_signed(self.seed * GOLDEN + 1)))
        self._keys = _mix(start + ids.to(torch.int64) * _signed(GOLDEN)).to(device)
        self._draws = torch.zeros(len(ids), dtype=torch.int64, device=device)
        self._parts: dict[str, Stream] = {}

    def part(self, purpose: str) -> Stream:
        """The stream of one purpose within this one: what others draw does not move it on.

        Args:
            purpose: Name of the purpose, such as that of an attack which is to try the same by
                itself and after others.

        >>> alone, after = (Stream(0, torch.tensor([5])) for _ in range(2))
        >>> row = torch.tensor([0])
        >>> moved_on = after.uniform(row, 3)
        >>> bool((alone.part("a").bits(row, 2) == after.part("a").bits(row, 2)).all())
        True
        """
        if purpose not in self._parts:
            own = copy.copy(self)
            keys = _mix(self._keys + derive(0, purpose))
            vars(own).update(_keys=keys, _draws=torch.zeros_like(self._draws), _parts={})
            self._parts[purpose] = own
        return self._parts[purpose]

    def to(self, device: torch.device) -> Stream:
        """The same stream on another device, continuing where the rows are.

        Args:
            device: The device.
        """
        other = copy.copy(self)
        parts = {purpose: part.to(device) for purpose, part in self._parts.items()}
        vars(other).update(_keys=self._keys.to(device), _draws=self._draws.to(device), _parts=parts)
        return other

    def learn(self, other: Stream) -> None:
        """Continues from where another stream is.

        Args:
            other: A stream of the same rows.
        """
        self._draws.copy_(other._draws)
        for purpose, part in other._parts.items():
            self.part(purpose).learn(part)

    def bits(self, rows: Tensor, size: int) -> Tensor:
        """Words of 64 random bits (m, size); each row moves on by one draw.

        Args:
            rows: Positions of the rows in the batch (m,).
            size: Numbers per row.
        """
        key = self._words(rows)
        place = torch.arange(1, size + 1, device=key.device) * _signed(GOLDEN)
        return _mix(key[:, None] + place)

    def _words(self, rows: Tensor) -> Tensor:
        """(len(rows),): what the next draw of each row begins with."""
        draws = self._draws[rows] + 1
        self._draws[rows] = draws
        return _mix(self._keys[rows] + draws * _signed(GOLDEN))

    def uniform(self, rows: Tensor, size: int, dtype: torch.dtype | None = None) -> Tensor:
        """Numbers in the open interval (0, 1), (m, size).

        Args:
            rows: Positions of the rows in the batch (m,).
            size: Numbers per row.
            dtype: Floating-point type. None: the widest of the device.
        """
        device = self._keys.device
        dtype = dtype or widest(device)
        if is_cpu(device) and built():
            drawn = torch.empty(len(rows), size, dtype=torch.float64)
            _uniforms(1, self._words(rows), drawn)
            drawn = drawn.to(dtype)
        elif is_cpu(device):
            drawn = ((_shift(self.bits(rows, size), 12).double() + 0.5) * 2.0**-52).to(dtype)
        else:
            drawn = ((_shift(self.bits(rows, size), 40).float() + 0.5) * 2.0**-24).to(dtype)
        if dtype == torch.float64:
            return drawn
        # A coarser type rounds the last few to 1, once in 2^25: as a place, one past the end.
        return drawn.clamp_max(1 - torch.finfo(dtype).eps / 2)

    def sign(self, rows: Tensor, size: int, dtype: torch.dtype | None = None) -> Tensor:
        """Numbers -1 or 1, (m, size).

        Args:
            rows: Positions of the rows in the batch (m,).
            size: Numbers per row.
            dtype: Floating-point type. None: the widest of the device.
        """
        drawn = 1 - 2 * _shift(self.bits(rows, size), 63)
        return drawn.to(dtype or widest(drawn.device))

    def normal(self, rows: Tensor, size: int, dtype: torch.dtype | None = None) -> Tensor:
        """Standard normal numbers (m, size).

        Args:
            rows: Positions of the rows in the batch (m,).
            size: Numbers per row.
            dtype: Floating-point type. None: the widest of the device.
        """
        drawn: Tensor = torch.special.ndtri(self.uniform(rows, size))
        return drawn.to(dtype or drawn.dtype)

    def exponential(self, rows: Tensor, size: int, dtype: torch.dtype | None = None) -> Tensor:
        """Standard exponential numbers (m, size).

        Args:
            rows: Positions of the rows in the batch (m,).
            size: Numbers per row.
            dtype: Floating-point type. None: the widest of the device.
        """
        drawn = -torch.log(self.uniform(rows, size))
        return drawn.to(dtype or drawn.dtype)

    def integers(self, rows: Tensor, size: int, high: int | Tensor) -> Tensor:
        """Integers in 0..high-1, (m, size).

        Args:
            rows: Positions of the rows in the batch (m,).
            size: Numbers per row.
            high: The bound: one number, or one per row as (m, 1).
        """
        return (self.uniform(rows, size) * high).floor().long()

    def order(self, rows: Tensor, size: int) -> Tensor:
        """A random permutation of 0..size-1 for each row, (m, size).

        Args:
            rows: Positions of the rows in the batch (m,).
            size: Numbers per row.
        """
        return self.bits(rows, size).argsort(dim=1, stable=True)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Global random numbers as a function of `seed` inside the block; outside, as if it never was.

    Dropout, weight initialisation and other people's modules know only the global generators.
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002

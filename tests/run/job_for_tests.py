"""A small evaluation that can be slowed down; also imported by killed child processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import torch

import durometer as du


class Slow(torch.nn.Module):
    pause = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.pause)
        return x


class Witness(torch.nn.Module):
    """Leaves a mark for the parent of its process: on Ray, the node that it runs on."""

    def __init__(self, folder: Path, kills: bool = False) -> None:
        super().__init__()
        self.folder, self.kills = str(folder), kills

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        folder = Path(self.folder)
        (folder / f"node-{os.getppid()}").touch()
        if self.kills and not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x


class Notes(torch.nn.Module):
    """Writes down, by process, how many rows it is asked about at once."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.net = str(folder), job()[0][0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with (Path(self.folder) / f"asked-{os.getpid()}").open("a") as file:
            file.write(f"{len(x)}\n")
        out: torch.Tensor = self.net(x)
        return out


class TwoThings(Exception):
    """Pickled by what it says, which its own __init__ does not take."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")


class Breaks(torch.nn.Module):
    """Works in the process that made it, and nowhere else; `odd`: not while it is looked at."""

    def __init__(self, home: int, odd: bool = False) -> None:
        super().__init__()
        self.home, self.odd = home, odd

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.odd and os.getpid() != self.home and len(x) == 12:
            raise TwoThings("not where", "it was made")
        if os.getpid() != self.home and not self.odd:
            raise ZeroDivisionError("not where it was made")
        return x


class HangsOnce(torch.nn.Module):
    """Hangs the first time it is asked in a worker, and never again."""

    def __init__(self, net: torch.nn.Module, flag: str, home: int) -> None:
        super().__init__()
        self.net, self.flag, self.home = net, flag, home
        self.mark: Any = None  # the first value of the chunk at which it hangs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) == 12 and os.getpid() != self.home and x[0, 0] == self.mark:
            try:
                os.close(os.open(self.flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                time.sleep(600)
        out: torch.Tensor = self.net(x)
        return out


class Doubts(torch.nn.Module):
    """Answers by what kind of number torch makes by default."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :3].double() * torch.full((1,), 1 / 3)


class Counted(du.Parquet):
    """Notes who reads which row groups."""

    def part(self, k: int) -> du.Dataset:
        part = self.parts[k]
        with (Path(self.path).parent / f"read-by-{os.getpid()}").open("a") as file:
            file.write(f"{part.file.name}:{part.group} {part.stop - part.start}\n")
        return super().part(k)


def job(pause: float = 0.0) -> tuple[torch.nn.Module, du.Dataset, dict[str, Any]]:
    g = torch.Generator().manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 3), Slow())
    net[0].weight.data = torch.randn(3, 8, generator=g)
    net[0].bias.data.zero_()
    net[1].pause = pause
    x = torch.rand(120, 8, generator=g)
    data = du.Dataset(x, net[0](x).argmax(1).detach())
    return net, data, {"space": du.Linf(0.08), "attack": du.APGD(8), "batch": 12}


net = job()[0]

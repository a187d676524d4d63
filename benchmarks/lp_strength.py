"""Lp attacks next to foolbox, torchattacks, adv-lib, pyautoattack: robust accuracy, time, one run.

Five networks (`lp_networks.py`): a small CNN on MNIST as usual and against PGD, a ResNet and a
MobileNet on CIFAR-10's sample and an MLP on digits, all three trained against PGD. `Cascade` was
tuned on "adversarial" and "digits"; the other three are what it has to be judged by.

All contenders get the same images, seeds, steps and queries, one batch,
one thread, and the same frozen network: nobody computes gradients of weights. pyautoattack drops
broken images between its stages, as we do; foolbox, torchattacks and adv-lib take every image to
the last step.
Seconds are CPU seconds of this process.

    python benchmarks/lp_strength.py [--rows 200] [--seeds 1] [--only standard] [--quick] [--smoke]
    python benchmarks/lp_strength.py --only standard --networks resnet --keep cells.jsonl

With `--keep` each contender's figure is written to a file as soon as it is there, and read from it
the next time: a run of an hour can be made in parts, and ends with the table of all of them.

"standard" is `Standard(proofs=False)`: a `Cascade` with its own steps and queries; "AutoAttack"
is ours at the given ones. Ends with exit code 1 if a bound is broken: robust accuracy more than
0.5 points above a peer's (on average over the cells of a row, and 1.5 points in a single one; for
`Standard(proofs=False)` 0.0 on average and 0.5 in a single one), or more time than the faster
peer for APGD, or more than 0.2 of pyautoattack's for `Standard(proofs=False)`.
"""

import argparse
import json
import logging
import math
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import foolbox
import numpy as np
import pyautoattack
import torch
import torchattacks
from lp_networks import SUBJECTS, UNTUNED, Subject, network, splits
from peers import adv_lib_attacks
from pyautoattack.autopgd_base import APGDAttack
from pyautoattack.square import SquareAttack
from torch import Tensor, nn

import durometer as du

TIME = {"APGD": 1.0, "standard": 0.2}
ALL: dict[str, Subject] = SUBJECTS | UNTUNED
POINTS = {"standard": (1e-6, 0.5 + 1e-6)}  # above a peer: on average, in a single cell
USUAL_POINTS = (0.5, 1.5)


class Runs:
    """Robust share and CPU seconds of every contender on one network and threat."""

    def __init__(self, net: nn.Module, data: du.Dataset, space: object, given: argparse.Namespace):
        self.net, self.data, self.space, self.given = net, data, space, given
        self.norm = {math.inf: "Linf", 2.0: "L2", 1.0: "L1"}[float(space.p)]  # type: ignore[attr-defined]

    def ours(self, attack: object, seed: int) -> Tensor:
        report = du.evaluate(self.net, self.data, space=self.space, attack=attack, seed=seed,
                             batch=len(self.data), progress=False)  # fmt: skip
        return torch.from_numpy(report.table["success"].to_numpy().copy())

    def broken(self, found: Tensor) -> Tensor:
        """(n,) bool: which rows a peer's points break; a point outside the ball breaks none."""
        region = self.space.around(self.data.x)  # type: ignore[attr-defined]
        with torch.no_grad():
            wrong = self.net(found).argmax(1) != self.data.y
        already = self.net(self.data.x).argmax(1) != self.data.y
        return already | (wrong & region.contains(found))

    def foolbox(self, seed: int) -> Tensor:
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - foolbox draws from the global state
        attack = getattr(foolbox.attacks, f"{self.norm}PGD")(steps=self.given.steps)
        model = foolbox.PyTorchModel(self.net, bounds=(0, 1), device="cpu")
        _, found, _ = attack(model, self.data.x, self.data.y, epsilons=self.space.eps)
        return self.broken(found)

    def torchattacks(self, name: str, seed: int) -> Tensor:
        torch.manual_seed(seed)
        eps, steps, linf = self.space.eps, self.given.steps, self.norm == "Linf"
        attack = {
            "PGD": lambda: (
                torchattacks.PGD(self.net, eps, eps * 0.01 / 0.3, steps)
                if linf
                else torchattacks.PGDL2(self.net, eps, eps * 0.025, steps)
            ),
            "APGD": lambda: torchattacks.APGD(self.net, self.norm, eps, steps, seed=seed),
            "Square": lambda: torchattacks.Square(
                self.net, self.norm, eps, self.given.queries, seed=seed
            ),
        }[name]()
        return self.broken(attack(self.data.x, self.data.y))

    def adv_lib(self, seed: int) -> Tensor:
        torch.manual_seed(seed)
        found = adv_lib_attacks().apgd(
            self.net, self.data.x, self.data.y, eps=self.space.eps, norm=self.space.p,
            n_iter=self.given.steps, loss_function="ce",
        )  # fmt: skip
        return self.broken(found)

    def apgd(self, seed: int) -> Tensor:
        attack = APGDAttack(
            self.net, n_iter=self.given.steps, norm=self.norm, eps=self.space.eps, seed=seed,
            n_restarts=1, loss="ce", rho=0.75, device="cpu", verbose=False,
        )  # fmt: skip
        return self.broken(attack.perturb(self.data.x, self.data.y))

    def square(self, seed: int) -> Tensor:
        attack = SquareAttack(
            self.net, norm=self.norm, eps=self.space.eps, n_queries=self.given.queries, p_init=0.8,
            n_restarts=1, seed=seed, device="cpu", resc_schedule=self.given.queries != 5000,
        )  # fmt: skip
        return self.broken(attack.perturb(self.data.x, self.data.y))

    def autoattack(self, seed: int) -> Tensor:
        peer = pyautoattack.AutoAttack(
            self.net, norm=self.norm, eps=self.space.eps, seed=seed, device="cpu"
        )
        with torch.no_grad():
            classes = self.net(self.data.x[:1]).shape[1]
        if classes < 4:  # its targeted stages divide by the fourth largest logit
            peer.attacks_to_run = ["apgd-ce", "fab", "square"]
        peer.apgd.n_iter = peer.apgd_targeted.n_iter = peer.fab.n_iter = self.given.steps
        peer.square.n_queries = self.given.queries
        peer.square.rescale_schedule = self.given.queries != 5000
        found, _ = peer.run_standard_evaluation(self.data.x, self.data.y, batch_size=len(self.data))
        return self.broken(found)

    def rows(self) -> dict[str, dict[str, Callable[[int], Tensor]]]:
        steps, queries = self.given.steps, self.given.queries
        if self.norm == "L1":  # of the others only pyautoattack's ensemble knows it
            return {"standard": self._standard(steps, queries)}
        # foolbox' own step lengths, so that both take the same steps
        pgd = du.PGD(steps, step=0.01 / 0.3 if self.norm == "Linf" else 0.025)
        return {
            "PGD": {
                "durometer": lambda s: self.ours(pgd, s),
                "foolbox": self.foolbox,
                "torchattacks": lambda s: self.torchattacks("PGD", s),
            },
            "APGD": {
                "durometer": lambda s: self.ours(du.APGD(steps, loss="ce"), s),
                "adv-lib": self.adv_lib,
                "torchattacks": lambda s: self.torchattacks("APGD", s),
                "pyautoattack": self.apgd,
            },
            "Square": {
                "durometer": lambda s: self.ours(du.Square(queries), s),
                "pyautoattack": self.square,
                "torchattacks": lambda s: self.torchattacks("Square", s),
            },
            "standard": self._standard(steps, queries),
        }

    def _standard(self, steps: int, queries: int) -> dict[str, Callable[[int], Tensor]]:
        return {
            "durometer": lambda s: self.ours(du.Standard(proofs=False), s),
            "pyautoattack": self.autoattack,
            "AutoAttack": lambda s: self.ours(du.AutoAttack(steps, queries=queries), s),
        }


class Kept:
    """Figures by what was asked, in a file of one line each; without a file nothing is kept."""

    def __init__(self, file: Path | None, given: argparse.Namespace) -> None:
        self.file = file
        self.asked = [given.rows, given.steps, given.queries, given.seeds]
        self.network = [given.trained] if given.trained else []
        lines = file.read_text().splitlines() if file and file.exists() else []
        self.known = {json.dumps(d["asked"]): (d["broken"], d["seconds"])
                      for d in map(json.loads, lines) if "broken" in d}  # fmt: skip

    def figure(
        self, cell: list[str], run: Callable[[int], Tensor]
    ) -> tuple[list[list[int]], float]:
        """The rows that are broken at each seed, and CPU seconds."""
        asked = cell + self.network + self.asked
        if (known := self.known.get(json.dumps(asked))) is not None:
            return known
        seeds, began = self.asked[-1], time.process_time()
        broken = [run(s).nonzero()[:, 0].tolist() for s in range(seeds)]
        spent = time.process_time() - began
        if self.file:
            with self.file.open("a") as out:
                line = {"asked": asked, "broken": broken, "seconds": round(spent, 3)}
                out.write(json.dumps(line) + "\n")
        return broken, spent


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rows", type=int, default=200, help="test images")
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--queries", type=int, default=5000)
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--only", nargs="*", help="PGD, APGD, Square, standard")
    options.add_argument("--networks", nargs="*", default=list(SUBJECTS), choices=[*ALL, "untuned"])
    options.add_argument("--trained", type=int, default=0, help="training seed of the networks")
    options.add_argument("--cache", type=Path, help="folder for the trained networks")
    options.add_argument("--keep", type=Path, help="file of figures, read and added to")
    options.add_argument("--quick", action="store_true", help="under a minute, times not judged")
    options.add_argument("--smoke", action="store_true", help="to see that it runs: nothing judged")
    options.add_argument("--leave-out", nargs="*", default=[], help="contenders, to save time")
    given = options.parse_args()
    if "untuned" in given.networks:
        given.networks = list(UNTUNED)
    if given.quick:
        given.rows, given.steps, given.queries = 60, 20, 200
    if given.smoke:
        given.rows, given.steps, given.queries = 10, 3, 10
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    home = Path(os.environ.get("DUROMETER_CACHE") or Path.home() / ".cache" / "durometer")
    print(f"{given.rows} test images, {given.steps} steps, {given.queries} queries, "
          f"{given.seeds} seed(s), torch {torch.__version__}, one thread, CPU seconds")  # fmt: skip
    with tempfile.TemporaryDirectory() as fresh_folder:  # a smoke run must not depend on old ones
        kept = given.cache or (Path(fresh_folder) if given.smoke else home / "lp_strength")
        nets = {name: network(name, kept, given.smoke, given.trained) for name in given.networks}
    broken = compare(nets, given)
    print("\nbounds: " + ("; ".join(broken) if broken else "all kept"))
    sys.exit(1 if broken and not given.smoke else 0)


def compare(nets: dict[str, nn.Module], given: argparse.Namespace) -> list[str]:
    """Print a line per network, threat and attack, then the totals; what broke its bound."""
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    above: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    broken = []
    brief = argparse.Namespace(steps=2, queries=5)
    kept = Kept(given.keep, given)
    print(f"{'network':12s} {'threat':10s} {'attack':9s} robust accuracy % (CPU s)")
    for name, net in nets.items():
        _, test = splits(ALL[name].data)
        data = test.sample(min(given.rows, len(test)))
        for run in (r for row in Runs(net, data.take(slice(2)), ALL[name].threats[0], brief)
                    .rows().values() for r in row.values()):  # fmt: skip
            run(0)  # nobody's first call is timed: imports and such
        for space in ALL[name].threats:
            for row, contenders in Runs(net, data, space, given).rows().items():
                if given.only and row not in given.only:
                    continue
                robust, spent, rows = {}, {}, {}
                for who, run in contenders.items():
                    if who in given.leave_out:
                        continue
                    rows[who], spent[who] = kept.figure([name, str(space), row, who], run)
                    count = sum(map(len, rows[who])) / given.seeds
                    robust[who] = 100 * (1 - count / len(data))
                    seconds[row][who] += spent[who]
                cells = "   ".join(f"{w} {robust[w]:5.1f} ({spent[w]:.1f})" for w in robust)
                if "pyautoattack" in rows:
                    both = list(zip(rows["durometer"], rows["pyautoattack"], strict=True))
                    mine = sum(len({*a} - {*b}) for a, b in both)
                    theirs = sum(len({*b} - {*a}) for a, b in both)
                    cells += f"   rows only ours {mine}, only pyautoattack {theirs}"
                print(f"{name:12s} {space!s:10.10s} {row:9s} {cells}", flush=True)
                for who in list(robust)[1:]:
                    points = robust["durometer"] - robust[who]
                    above[row][who].append(points)
                    if points > POINTS.get(row, (0, max(USUAL_POINTS[1], 150.0 / len(data))))[1]:
                        broken.append(f"{row} in {space}, {name}: {points:.1f} points above {who}")
    print(f"\n{'attack':9s} time / peer's, points above the peer (mean)")
    for row, times in seconds.items():
        for who in list(times)[1:]:
            ratio, points = (
                times["durometer"] / times[who],
                sum(above[row][who]) / len(above[row][who]),
            )
            print(f"{row:9s} {ratio:5.2f}  {points:+5.2f}   {who}")
            if points > POINTS.get(row, USUAL_POINTS)[0]:
                broken.append(f"{row}: {points:.2f} points above {who}")
        fastest = min((w for w in list(times)[1:] if w != "AutoAttack"), key=lambda w: times[w])
        ratio = times["durometer"] / times[fastest]
        if ratio > TIME.get(row, math.inf) and not given.quick:
            broken.append(f"{row}: {ratio:.2f} of {fastest}'s time, at most {TIME[row]} allowed")
    return broken


if __name__ == "__main__":
    main()

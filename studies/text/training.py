"""What robust training brings on SST-5: the same start, then each recipe for as many epochs.

    python studies/text/training.py --out runs/text-training      every (recipe, seed) is kept
    python studies/text/training.py --smoke

TextCNN, synonyms for at most a quarter of the words. All begin with the same plainly trained
network; each recipe then trains on for `--epochs`, and so does plain training, so that no recipe
is ahead by what it has read. Of `--sentences` test sentences: accuracy; the share still right under
attack (Greedy, then APGD: at most); the share proven (Bounds: at least). For the group defence the
same with its goal, beside plain training under that goal.

What a reader would get wrong: shares are of all sentences, not of those the network gets right. A
network that says one class for everything is proven for as many sentences as have that class.
"""

import argparse
import json
import time
from pathlib import Path

import torch

import durometer as du
from durometer.architectures.text import TextCNN
from durometer.training import Adversarial, CraftBy, Group, InHull, Standard, fit, fresh

GOAL = "less positive"


def recipes(ramp: int) -> dict[str, object]:
    space, goal = du.Text(), du.datasets.sst5().goal(GOAL)
    return {
        "plain": Standard(),
        "InHull(0.2)": InHull(space, weight=0.2, ramp=ramp),
        "InHull(0.5)": InHull(space, weight=0.5, ramp=ramp),
        "InHull(0.8)": InHull(space, weight=0.8, ramp=ramp),
        "PGD(5)": Adversarial(CraftBy(du.PGD(5), space), clean=0.5),
        "group": Group(goal, space, kappa=4.0, attack=du.PGD(5, loss="mdmul")),
    }


def measured(net: torch.nn.Module, given: argparse.Namespace) -> dict[str, float]:
    reviews, found = du.datasets.sst5(), {}
    test = reviews.test.sample(given.sentences)
    for name, goal in (("", du.Untargeted()), (GOAL, reviews.goal(GOAL))):
        report = du.evaluate(
            net, test, space=du.Text(), goal=goal, progress=False,
            attack=du.Then(du.Bounds(splits=0), du.Greedy(), du.APGD(20), du.Bounds(splits=100)),
        )  # fmt: skip
        t = report.table
        if name:
            mine = (t["y"] >= 3) & (t["clean"] >= 3)  # what the goal is about
            found |= {
                "positive": int(mine.sum()),
                "positive, robust": int((~t["success"] & mine).sum()),
            }
        else:
            right = t["clean"] == t["y"]
            found |= {"right": int(right.sum()), "robust": int((right & ~t["success"]).sum()),
                      "proven": int((right & (t["verdict"] == "proven")).sum())}  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/text-training"))
    parser.add_argument("--train", type=int, default=None, help="training sentences; all of them")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--recipes", nargs="+", default=list(recipes(1)))
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    if given.smoke:
        given.train, given.sentences, given.epochs, given.recipes = 200, 40, 1, ["InHull(0.5)"]
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    whole = du.datasets.sst5().train
    train = whole if given.train is None else whole.sample(given.train)
    print("| recipe | seed | n | right | robust | proven | positive on their side | robust |")
    print("|---" * 8 + "|")
    for seed in given.seeds:
        start = given.out / f"start-{seed}-{len(train)}.pt"
        for name in given.recipes:
            file = given.out / f"{name}-{seed}-{len(train)}-{given.epochs}.json"
            if not file.exists():
                began = time.process_time()
                net = fresh(lambda: TextCNN(classes=5), seed)
                if start.exists():
                    net.load_state_dict(torch.load(start))
                else:
                    fit(net, train, Standard(), epochs=4, batch=64, rate=2e-3, seed=seed,
                        progress=False)  # fmt: skip
                    torch.save(net.state_dict(), start)
                fit(net, train, recipes(len(train) // 64)[name], epochs=given.epochs, batch=64,
                    rate=1e-3, seed=seed + 100, progress=False)  # fmt: skip
                found = measured(net.eval(), given)
                found["seconds"] = time.process_time() - began
                file.write_text(json.dumps(found))
            f = json.loads(file.read_text())
            print(f"| {name} | {seed} | {given.sentences} | {f['right']} | {f['robust']} | "
                  f"{f['proven']} | {f['positive']} | {f['positive, robust']} |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

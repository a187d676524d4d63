"""Words one sentence at a time, as TextAttack goes, against all sentences at once.

    python benchmarks/text.py [--sentences 200] [--smoke]

The peer here is a loop of our own that follows TextAttack's plan for its TextFooler and PWWS
recipes: a sentence at a time, one call for the order of its words (each deleted, or each marked
unknown, times the best gain), then one call per place with all its candidates, strings in. It is
given the same candidate words, budget and goal. It is *not* TextAttack, whose recipes need
downloads (USE, NLTK data), and has none of its overhead (constraints, hooks, logging).
"""

import argparse
import math
import time

import numpy as np
import torch

import assay as ay
from assay.architectures.text import TextCNN
from assay.spaces.words import encode, sentences
from assay.training import Standard, fit, fresh


def candidates(words: list[str]) -> list[tuple[str, ...]]:
    """The words of `ay.Text()`'s space, place by place, so that both search the same sentences."""
    region = ay.Text().around(encode([" ".join(words)]))
    found = []
    for ids in region.options[0]:
        own = sentences(ids[~ids.isnan()][1:, None])
        found.append(tuple(own))
    return found


def one(ask, text: str, label: int, order: str) -> bool:
    """TextFooler's or PWWS's plan for a single sentence; was it broken?"""
    words = text.split(" ")
    found = candidates(words)
    places = [i for i, c in enumerate(found) if c]
    budget = max(1, math.floor(0.25 * len(words)))
    start = ask([text])[0, label]
    if not places:
        return False
    if order == "textfooler":
        deleted = ask([" ".join(words[:i] + words[i + 1 :]) for i in places])
        importance = start - deleted[:, label]
    else:
        unknown = ask([" ".join([*words[:i], "[UNK]", *words[i + 1 :]]) for i in places])
        saliency = np.exp(start - unknown[:, label])
        gains = []
        for i in places:
            said = ask([" ".join([*words[:i], c, *words[i + 1 :]]) for c in found[i]])
            gains.append(float((start - said[:, label]).max()))
        importance = np.array(gains) * saliency / saliency.sum()
    now, best, changed = list(words), start, 0
    for k in np.argsort(-importance, kind="stable"):
        i = places[k]
        if changed == budget:
            break
        said = ask([" ".join([*now[:i], c, *now[i + 1 :]]) for c in found[i]])
        if bool((said.argmax(1) != label).any()):
            return True
        low = int(said[:, label].argmin())
        if said[low, label] < best:
            now[i], best, changed = found[i][low], said[low, label], changed + 1
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    reviews = ay.datasets.sst5()
    train = reviews.train.sample(1000) if given.smoke else reviews.train
    net = fresh(lambda: TextCNN(classes=5), 0)
    fit(net, train, Standard(), epochs=1 if given.smoke else 4, batch=64, rate=2e-3, progress=False)
    net.eval()
    test = reviews.test.sample(20 if given.smoke else given.sentences)
    with torch.no_grad():
        right = test.take(net(test.x).argmax(1) == test.y)
    texts, labels = sentences(right.x), right.y.tolist()

    def ask(some: list[str]) -> np.ndarray:
        with torch.no_grad():
            return net(encode(some)).softmax(1).numpy()

    ay.Text().around(right.x)  # both find the synonyms in the cache
    print(f"{len(right)} sentences that the network gets right")
    for recipe, order in (("textfooler", "importance"), ("pwws", "gain")):
        began = time.process_time()
        theirs = np.array([one(ask, t, y, recipe) for t, y in zip(texts, labels, strict=True)])
        loop = time.process_time() - began
        began = time.process_time()
        report = ay.evaluate(net, right, space=ay.Text(), attack=ay.Greedy(order), progress=False)
        ours = time.process_time() - began
        print(
            f"{recipe}: loop {theirs.mean():.3f} success, {len(right) / loop:.1f} sentences per "
            f"CPU-s; Greedy({order!r}) {report.table['success'].mean():.3f}, "
            f"{len(right) / ours:.1f} per CPU-s: {loop / ours:.1f} times as many"
        )


if __name__ == "__main__":
    main()

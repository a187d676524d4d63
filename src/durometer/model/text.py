"""Text models behind the one face: rows of word ids (`spaces/words.py`) in, logits (n, C) out.

    strings      any function of a list of sentences; scikit-learn pipelines that begin with a
                 vectoriser are asked so too: the model gets the very strings
    words        a torch module with an embedding and a `vocabulary`: one place per word, gradients
                 through the embedding
    hugging face a sequence classifier and its tokeniser: the tokeniser cuts the strings, gradients
                 through the input embedding of the pieces of each word

Gradients: a `RelaxedTokens` input knows what each word was chosen from and with which weights. The
embedding's output stays what it is, and gets the gradient of the weighted mean of the options'
vectors added, straight through. So the answer is the model's own to the last bit.

Sentences of one length are asked together, without padding, because what is judged is the model on
the very string and not every network masks padding; the networks here do, and are asked in pieces
of like length.

What a reader would get wrong: a word of several pieces has one vector here, the mean of its
pieces', and only to steer; what is judged is the model on the string.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from durometer.core.capabilities import HasVocabulary, reads_symbols
from durometer.core.errors import DurometerError, Unsupported
from durometer.model.answers import AnswerKind
from durometer.model.classifier import Classifier
from durometer.model.exact_types import changed_inside, predicts_highest_score
from durometer.model.vocabulary import Places, straight_through
from durometer.spaces.chunking import limit
from durometer.spaces.discrete import RelaxedTokens
from durometer.spaces.token_ids import PAD, sentences, word_of

PIECE = 512  # sentences at a time: what a network makes of them stays in the processor's cache


def strings(
    model: Callable[[list[str]], Any],
    kind: str,
    answers: AnswerKind = "logits",
    names: tuple[str, ...] | None = None,
    source: Any = None,
) -> Classifier:
    """A function of sentences. The same sentence is asked once per call."""

    def call(x: Tensor) -> Any:
        texts = sentences(x)
        unique, place = np.unique(np.array(texts, dtype=object), return_inverse=True)
        answer = model(unique.tolist())
        answer = answer if isinstance(answer, Tensor) else torch.as_tensor(np.asarray(answer))
        return answer[torch.from_numpy(place)]

    return Classifier(
        call, kind, False, answers, names, source=source or model, reads="symbols", takes="text"
    )


def trim_padding(x: Tensor) -> Tensor:
    """Without the columns at the end in which no sentence has a word."""
    there = (x.detach().as_subclass(Tensor) != PAD).any(0).nonzero()[:, 0]
    length = max(1, int(there[-1]) + 1 if len(there) else 1)
    if length == x.shape[1]:
        return x
    if isinstance(x, RelaxedTokens):
        plain = x.as_subclass(Tensor)[:, :length]
        held = x.places < length
        return RelaxedTokens.of(plain, x.options[:, held], x.weights[:, held], x.places[held])
    return x[:, :length]


def by_length(call: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same function of sentences, asked in pieces of like length; it must mask padding."""

    def asked(x: Tensor) -> Tensor:
        if isinstance(x, RelaxedTokens) or len(x) <= PIECE // 8:
            return call(trim_padding(x))
        order = (x != PAD).sum(1).argsort(stable=True)
        found = torch.cat([call(trim_padding(x[part])) for part in torch.split(order, PIECE)])
        return found[order.argsort()]

    return asked


def unpadded(call: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same function of sentences, asked with sentences of one length at a time.

    A network that does not mask padding answers a padded sentence otherwise than the sentence.
    """

    def asked(x: Tensor) -> Tensor:
        plain = x.detach().as_subclass(Tensor)
        lengths = (plain != PAD).sum(1)
        parts = [at for one in sorted(set(lengths.tolist())) for at in
                 torch.split((lengths == one).nonzero()[:, 0], PIECE)]  # fmt: skip
        if len(parts) <= 1:
            return call(trim_padding(x))
        found = torch.cat([call(trim_padding(_rows(x, at))) for at in parts])
        return found[torch.cat(parts).argsort()]

    return asked


def _rows(x: Tensor, at: Tensor) -> Tensor:
    if not isinstance(x, RelaxedTokens):
        return x[at]
    return RelaxedTokens.of(x.as_subclass(Tensor)[at], x.options[at], x.weights[at], x.places)


def masks_padding(module: torch.nn.Module) -> bool:
    """Does its own class declare `masks_padding`, with nothing changed inside? A subclass may have
    another `forward`, so it declares it again."""
    declared = bool(vars(type(module)).get("masks_padding", False))
    if not declared or changed_inside(module):
        return False
    return not bool((embedding_of(module).weight[0] != 0).any())


def word_module(module: torch.nn.Module, answers: AnswerKind | None = None) -> Classifier:
    """A torch module on word places, with `vocabulary` (padding first, then unknown)."""
    if reads_symbols(module):  # it knows what to do with rows of words itself
        call = by_length if masks_padding(module) else unpadded
        words = isinstance(module, HasVocabulary)  # or 0 is a symbol, too
        return Classifier(
            call(module) if words else module, f"torch {type(module).__name__}", True,
            answers or "logits", module=module, source=module, slack=1e-5, reads="symbols",
        )  # fmt: skip
    if not isinstance(module, HasVocabulary):
        raise Unsupported(
            f"{type(module).__name__} has no `vocabulary`: give it the list of its words in the "
            "order of its embedding, or wrap a function of strings"
        )
    places = Places(module.vocabulary, bool(getattr(module, "lower", True)))
    layer = embedding_of(module)

    def ask(x: Tensor) -> Tensor:
        ids = places(x).to(layer.weight.device)
        if not isinstance(x, RelaxedTokens):
            return logits_of(module(ids))
        options = places(x.options).to(layer.weight.device)
        table, weights = layer.weight, x.weights
        with with_word_embeddings(
            layer, lambda out: straight_through(out, table, options, weights)
        ):
            return logits_of(module(ids))

    return Classifier(
        unpadded(ask), f"torch {type(module).__name__}", True, answers or "logits", module=module,
        source=module, slack=1e-5, reads="symbols",
    )  # fmt: skip


@contextmanager
def with_word_embeddings(layer: torch.nn.Module, through: Callable[[Tensor], Tensor]) -> Any:
    """Within the block the layer's output is what `through` makes of it: gradients, no values."""
    handle = layer.register_forward_hook(lambda _module, _inputs, output: through(output))
    try:
        yield
    finally:
        handle.remove()


def embedding_of(module: torch.nn.Module) -> torch.nn.Embedding:
    """The layer that turns symbols into vectors."""
    found: Any = None
    if callable(own := getattr(module, "get_input_embeddings", None)):
        found = own()
    if found is None:
        found = next((m for m in module.modules() if isinstance(m, torch.nn.Embedding)), None)
    if not isinstance(found, torch.nn.Embedding):
        raise Unsupported(
            f"{type(module).__name__} has no embedding layer to take gradients through"
        )
    return found


def logits_of(out: Any) -> Tensor:
    """What a model answers: a tensor, a tuple that begins with one, or an object with `.logits`."""
    if isinstance(out, tuple | list):
        out = out[0]
    if isinstance(out, dict):
        out = out.get("logits", next(iter(out.values())))
    logits: Tensor = getattr(out, "logits", out)
    return logits


def hugging_face(model: Any, tokenizer: Any) -> Classifier:
    """A sequence classifier of `transformers` with its tokeniser."""
    if not getattr(tokenizer, "is_fast", False):
        raise Unsupported(
            f"{type(tokenizer).__name__} cannot tell which piece belongs to which word; "
            "take the fast tokeniser (AutoTokenizer, use_fast=True)"
        )
    layer, most = embedding_of(model), limit(model, tokenizer)
    pieces: dict[float, list[int]] = {}

    def of_word(number: float) -> list[int]:
        if number not in pieces:
            pieces[number] = tokenizer(" " + word_of(number), add_special_tokens=False)["input_ids"]
        return pieces[number]

    def means(options: Tensor) -> Tensor:
        """(n, L, K, d): the mean vector of each option's pieces."""
        numbers = options.nan_to_num(PAD).cpu().numpy()
        used, place = np.unique(numbers, return_inverse=True)
        table = layer.weight
        rows = [table.new_zeros(table.shape[1]) if i == PAD else table[of_word(float(i))].mean(0)
                for i in used]  # fmt: skip
        return torch.stack(rows)[torch.from_numpy(place.reshape(numbers.shape)).to(table.device)]

    def call(x: Tensor) -> Tensor:
        texts = sentences(x)
        batch = tokenizer(
            texts, return_tensors="pt", padding=True, truncation=True, max_length=most,
            return_offsets_mapping=True,
        )  # fmt: skip
        words = word_of_piece(texts, batch.pop("offset_mapping").numpy())
        mask = batch.get("attention_mask")
        lengths = torch.zeros(len(x)) if mask is None else mask.sum(1)
        parts = [(lengths == one).nonzero()[:, 0] for one in lengths.unique()]
        found = torch.cat([ask(x, at, batch, words, mask) for at in parts])
        return found[torch.cat(parts).argsort().to(found.device)]

    def ask(x: Tensor, at: Tensor, batch: Any, words: np.ndarray, mask: Tensor | None) -> Tensor:
        """Sentences of one length in pieces: without padding, which not every model masks."""
        used = slice(None) if mask is None else mask[at].any(0).nonzero()[:, 0]
        given = {k: v[at][:, used].to(layer.weight.device) for k, v in batch.items()}
        if not isinstance(x, RelaxedTokens):
            return logits_of(model(**given))
        mine = torch.from_numpy(words)[at][:, used]
        inside = (mine >= 0)[..., None].to(layer.weight.dtype)
        place, weights, options = mine.clamp_min(0), x.weights[at], x.options[at]

        def through(output: Tensor) -> Tensor:
            vectors = torch.einsum("nlk,nlkd->nld", weights.to(layer.weight.dtype), means(options))
            index = place[..., None].expand(-1, -1, vectors.shape[2])
            mixed = vectors.gather(1, index) * inside
            return output + (mixed - mixed.detach())

        with with_word_embeddings(layer, through):
            return logits_of(model(**given))

    names = getattr(getattr(model, "config", None), "id2label", None)
    named = tuple(str(names[i]) for i in sorted(names)) if names else None
    return Classifier(
        by_length(call), f"hugging face {type(model).__name__}", True, "logits", named,
        module=model, source=model, slack=1e-5, reads="symbols",
    )  # fmt: skip


def from_folder(folder: Path) -> Classifier:
    """A Hugging Face sequence classifier as `save_pretrained` wrote it, with its tokeniser."""
    try:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
    except ImportError as error:
        raise Unsupported(
            f"Hugging Face models need transformers ({error}): pip install 'durometer[text]'"
        ) from None
    try:
        model = AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # of many kinds
        raise DurometerError(f"'{folder}' holds no sequence classifier: {error}") from error
    return hugging_face(model.eval(), tokenizer)


def word_of_piece(texts: list[str], offsets: np.ndarray) -> np.ndarray:
    """(n, pieces): the word (counted by blanks) a piece belongs to, -1 for special pieces."""
    found = np.full(offsets.shape[:2], -1, dtype=np.int64)
    for i, text in enumerate(texts):
        ends = np.cumsum([len(w) + 1 for w in text.split(" ")])
        start, stop = offsets[i, :, 0], offsets[i, :, 1]
        real = stop > start
        found[i, real] = np.searchsorted(ends, stop[real] - 1, side="right")
    return found


def adapt(model: Any, answers: AnswerKind | None = None) -> Classifier:
    """A model that takes sentences: a module on words, an estimator, or a function of strings."""
    if isinstance(model, torch.nn.Module):
        return word_module(model, answers)
    if hasattr(model, "predict"):
        return _pipeline(model)
    if not callable(model):
        raise DurometerError(
            f"a {type(model).__name__} takes no sentences: give a function of strings"
        )
    kind = f"callable {getattr(model, '__name__', type(model).__name__)}"
    return strings(model, kind, answers or "logits")


def _pipeline(model: Any) -> Classifier:
    """A scikit-learn pipeline: scores, else probabilities, else labels.

    What counts is `predict`: where it is not known to be the highest score, it is asked, too.
    """
    try:
        labels = np.asarray(model.classes_)
    except AttributeError:
        raise DurometerError(
            f"{type(model).__name__} has no classes: it is not fitted, or not a classifier; call "
            "fit(sentences, y) first"
        ) from None
    names = tuple(str(c) for c in labels)
    kind = f"{type(model).__module__.split('.')[0]} {type(model).__name__}"

    def predicted(texts: list[str]) -> np.ndarray:
        """(n,): the places of the predicted labels among the classes."""
        said = np.asarray(model.predict(texts)).reshape(-1, 1) == labels[None]
        if not said.any(1).all():
            wrong = texts[int((~said.any(1)).argmax())]
            raise DurometerError(f"{kind} predicts none of its classes for {wrong!r}")
        return np.asarray(said.argmax(1))

    kinds: tuple[tuple[str, AnswerKind], ...] = (
        ("decision_function", "logits"), ("predict_proba", "probabilities"),
    )  # fmt: skip
    for name, answers in kinds:
        if hasattr(model, name):
            score = getattr(model, name)
            if predicts_highest_score(model):
                return strings(score, kind, answers, names, model)
            ask = partial(_decided, score, answers, predicted, len(labels))
            return strings(ask, kind, "logits", names, model)
    votes = np.eye(len(labels))
    return strings(lambda texts: votes[predicted(texts)], kind, "labels", names, model)


def _decided(
    score: Callable[[list[str]], Any],
    answers: str,
    predicted: Callable[[list[str]], np.ndarray],
    classes: int,
    texts: list[str],
) -> np.ndarray:
    return decided(score(texts), answers, predicted(texts), classes)


def decided(scores: Any, answers: str, predicted: np.ndarray, classes: int) -> np.ndarray:
    """(n, C) scores whose highest is what the model predicts.

    A threshold, a vote or a `predict` of one's own need not pick the highest score. Where it does
    not, the predicted class is put above the others, by exp(-d) if it was d below: the closer the
    scores come to another answer, the smaller its lead, so a search still sees where to go.
    """
    found: np.ndarray = np.array(scores, dtype=np.float64)
    if answers == "probabilities":
        found = np.log(np.maximum(found, 1e-30))
    if found.ndim == 1 or found.shape[1] == 1:
        found = found.reshape(-1, 1) * np.array([[-0.5, 0.5]])
    if found.shape[1] != classes:  # e.g. one score for each pair of classes
        found = np.zeros((len(found), classes))
    rows = np.arange(len(found))
    mine = found[rows, predicted]
    others = found.copy()
    others[rows, predicted] = -np.inf
    best = others.max(1)
    found[rows, predicted] = np.where(mine > best, mine, best + np.exp(mine - best))
    return found


def reads_text(model: Any) -> bool:
    """Does it take sentences? Pipelines that begin with a vectoriser do, and modules with words."""
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        return hasattr(steps[0][1], "build_analyzer") or hasattr(steps[0][1], "get_stop_words")
    return isinstance(model, torch.nn.Module) and (
        isinstance(model, HasVocabulary) or reads_symbols(model)
    )

"""How many pieces of a sentence a Hugging Face model reads; what comes after is cut off.

A tokeniser that was saved without `model_max_length` cuts nothing, and the model then fails on the
first sentence that has more pieces than it has positions.

What a reader would get wrong: RoBERTa and its kin count positions from behind the padding's id, so
they read fewer pieces than `max_position_embeddings` says.
"""

from __future__ import annotations

from typing import Any

_BEHIND_PADDING = ("roberta", "camembert", "longformer", "mpnet", "esm", "luke", "data2vec-text")
_NO_LIMIT = 10**6  # tokenisers say 10^30 where they do not know


def limit(model: Any, tokenizer: Any) -> int | None:
    """The most pieces a sentence may have, the special ones among them; None: any number."""
    config = getattr(model, "config", None)
    said = [getattr(tokenizer, "model_max_length", None)]
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        kind = str(getattr(config, "model_type", ""))
        behind = any(name in kind for name in _BEHIND_PADDING)
        said.append(positions - ((config.pad_token_id or 0) + 1 if behind else 0))  # type: ignore[union-attr]
    known = [n for n in said if isinstance(n, int) and 0 < n < _NO_LIMIT]
    return min(known) if known else None

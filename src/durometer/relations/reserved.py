"""Words of the language: a column of such a name is written in quotes."""

RESERVED = frozenset(
    {"if", "then", "else", "and", "or", "not", "in", "within", "original", "abs", "min", "max"}
    | {"log", "floor", "divide", "fill", "count", "sum"}
)

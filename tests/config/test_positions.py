"""Where keys stand: every path that tomllib reads has a line, and it is the right one."""

import json
import string
import tomllib

from hypothesis import given
from hypothesis import strategies as st

from durometer.config.positions import line_of, lines

TEXT = '''# a comment with [brackets] and = signs
seed = 3

[data]
name = "mnist"          # trailing
where = {y = [1, "a # b"], "odd key" = 'x'}
[attack]
type = "Then"
attacks = [
    {type = "APGD", steps = 100},  # one

    {type = "Square", queries = 5},
]
note = """
[not.a.table]
key = 1
"""
last.dotted.key = 2024-01-01 00:00:00
[[many]]
a = 1
[[many]]
b = 2
[many.under]
c = 3
'''


def paths(value, path=()):
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def test_every_key_has_its_line():
    found = lines(TEXT)
    rows = TEXT.splitlines()
    for path in paths(tomllib.loads(TEXT)):
        assert path in found, path
        if isinstance(path[-1], str):
            assert path[-1] in rows[found[path] - 1], path
    assert found[("attack", "attacks", 1, "queries")] == 12
    assert found[("attack", "last", "dotted", "key")] == 18
    assert found[("many", 1, "under", "c")] == 24
    assert ("attack", "note", "not") not in found


def test_a_missing_key_is_placed_at_what_surrounds_it():
    found = lines(TEXT)
    assert line_of(found, ("attack", "attacks", 0, "nothing")) == 10
    assert line_of(found, ("nowhere",)) == 1


keys = st.text(string.ascii_letters + string.digits + "_- .#=[]\"'é", min_size=1, max_size=6)
scalars = st.one_of(
    st.integers(-(2**40), 2**40), st.booleans(), st.text(string.printable + "é", max_size=8)
)
values = st.recursive(
    scalars,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(keys, v, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(keys, values, max_size=5), st.randoms(use_true_random=False))
def test_the_same_paths_as_tomllib(given_, random):
    from durometer.core.toml import key, value

    text = "".join(
        f"{'# [x] = {' * random.randint(0, 1)}\n{key(k)} = {value(v)}\n" for k, v in given_.items()
    )
    read = tomllib.loads(text)
    assert json.dumps(read) == json.dumps(given_)
    assert set(lines(text)) == set(paths(read))

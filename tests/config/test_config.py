"""TOML and nouns: what is read is what was written, and what is wrong is said with its line."""

import dataclasses
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import durometer as du
from durometer.config.build import build, number, table
from durometer.config.config import Config, parse, read
from durometer.config.models import Model
from durometer.config.registry import KINDS, names, parameters, summary
from durometer.config.sources import Data
from durometer.config.writing import keep, to_toml
from durometer.core.errors import DurometerError

GOOD = """\
seed = 7
batch = 64
out = "runs/x"

[data]
name = "mnist"
rows = 20
where = {y = [1, "7"]}

[model]
demo = "mnist"

[space]
type = "Linf"
eps = "8/255"

[goal]
type = "Group"
relation = {1 = [7], "7" = ["1", 2]}

[attack]
type = "Then"
attacks = [
    {type = "APGD", steps = 5, loss = "margin"},
    {type = "Restarts", attack = {type = "PGD", step = 0.1}, times = 2},
]

[budget]
forwards = 100
"""


def test_a_file_is_the_nouns_it_names():
    config = parse(GOOD)
    assert (config.seed, config.batch, config.out) == (7, 64, "runs/x")
    assert config.space.eps == 8 / 255 and config.space.p == math.inf
    assert config.attack == du.Then(
        du.APGD(steps=5, loss="margin"), du.Restarts(du.PGD(step=0.1), times=2)
    )
    assert config.goal == du.Group({"1": (7,), "7": ("1", 2)})
    assert config.budget == du.Budget(forwards=100)
    assert config.data == Data(name="mnist", rows=20, where={"y": [1, "7"]})
    assert config.threat(du.Dataset([[0.0]], [0])).goal == config.goal


def test_what_was_read_can_be_written_and_reads_the_same():
    config = parse(GOOD)
    again = parse(to_toml(config))
    assert to_toml(again) == to_toml(config)
    assert repr(again) == repr(config)


def test_in_the_folder_of_a_run_a_file_finds_what_it_names(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "net.py").write_text("net = None\n")
    text = GOOD.replace('demo = "mnist"', 'python = "net.py:net"')
    (tmp_path / "in" / "run.toml").write_text(text)
    config = read(tmp_path / "in" / "run.toml")
    keep(config, tmp_path / "runs" / "deep" / "first")
    again = read(tmp_path / "runs" / "deep" / "first" / "config.toml")
    assert again.folder == "../../../in"
    assert again.place.folder.resolve() == (tmp_path / "in").resolve()
    assert again.model == config.model and to_toml(again).count("folder") == 1
    keep(again, tmp_path / "elsewhere")  # and so does what was read from there
    assert read(tmp_path / "elsewhere" / "config.toml").folder == "../in"


def test_the_standard_policy_is_written_like_any_attack():
    text = GOOD[: GOOD.index("[goal]")] + '[attack]\ntype = "Standard"\nproofs = false\n'
    config = parse(text)
    toy = du.Dataset([[0.0]], [0])
    assert config.threat(toy).attack == du.Standard(proofs=False)
    assert parse(to_toml(config)).threat(toy).attack == du.Standard(proofs=False)


def test_a_table_space_takes_the_schema_of_the_data():
    start, end = GOOD.index("[space]"), GOOD.index("[goal]")
    text = GOOD[:start] + '[space]\ntype = "TableSpace"\neps = 0.2\np = inf\n' + GOOD[end:]
    config = parse(text)
    schema = du.Schema([du.Feature("a", low=0, high=1)])
    data = du.Dataset([[0.5]], [0], schema=schema)
    space = config.threat(data).space
    assert (space.schema, space.eps, space.p) == (schema, 0.2, math.inf)
    assert to_toml(parse(to_toml(config))) == to_toml(config)
    with pytest.raises(
        DurometerError, match=r"line 13 \[space\]: TableSpace needs data with a schema"
    ):
        config.threat(du.Dataset([[0.5]], [0]))
    with pytest.raises(DurometerError, match="no parameter 'ep'; did you mean 'eps'"):
        parse(text.replace("eps = 0.2", "ep = 0.2"))


# (what to replace, by what, the line it stands in, what the message must say)
WRONG = [
    ("seed = 7", "sed = 7", 1, "'sed'.*did you mean 'seed'"),
    ("seed = 7", 'seed = "7"', 1, "'7'; expected a whole number"),
    ("batch = 64", "batch = 0", 2, "batch = 0: expected at least 1"),
    ("batch = 64", "batch = 1.5", 2, "expected a whole number"),
    ("[budget]", "[buget]", 28, "'buget'.*did you mean 'budget'"),
    ('name = "mnist"', 'name = "mnst"', 6, "no dataset 'mnst'; did you mean 'mnist'"),
    ("rows = 20", "row = 20", 7, "'row'; did you mean 'rows'"),
    ("rows = 20", "rows = -1", 7, "rows = -1"),
    ("rows = 20", "full = 3", 7, "3; expected true or false"),
    ("rows = 20", 'split = "tets"', 7, "'tets'; did you mean 'test'"),
    ('demo = "mnist"', 'demo = "mnits"', 11, "'mnits'.*did you mean 'mnist'"),
    ('demo = "mnist"', 'onnx = "no.onnx"', 11, "no such file"),
    ('demo = "mnist"', 'python = "no.py"', 11, "expected 'file.py:name'"),
    ('demo = "mnist"', 'demo = "url"\nonnx = "a.onnx"', 10, "exactly one of.*onnx and demo"),
    ('type = "Linf"', 'type = "Linff"', 14, "no space 'Linff'; did you mean 'Linf'"),
    ('type = "Linf"', "", 13, "which space.*L0, L1, L2, Linf"),
    ('eps = "8/255"', "ep = 1", 15, "Linf has no parameter 'ep'; did you mean 'eps'"),
    ('eps = "8/255"', "", 13, "Linf needs eps; it takes eps, low=0.0, high=1.0"),
    ('eps = "8/255"', 'eps = "8/0"', 15, "divides by 0"),
    ('eps = "8/255"', 'eps = "__import__"', 15, "not a number"),
    ('eps = "8/255"', "eps = [[1]]", 15, "not a number"),
    ("relation = {1 = [7]", "relation = {1 = 7", 19, "7; expected a list"),
    ("relation =", "relations =", 19, "did you mean 'relation'"),
    ('type = "APGD"', 'type = "APDG"', 24, "no attack 'APDG'; did you mean 'APGD'"),
    ("steps = 5", "step_s = 5", 24, "'step_s'; did you mean 'steps'"),
    ("steps = 5", 'steps = "5"', 24, "APGD: steps = '5'; expected a whole number"),
    ("steps = 5", "steps = true", 24, "expected a whole number"),
    ('loss = "margin"', 'loss = "margn"', 24, "loss = 'margn'; did you mean 'margin'"),
    ('attack = {type = "PGD", step = 0.1}', "attack = 3", 25, "names a type of attack"),
    ("step = 0.1", "stp = 0.1", 25, "PGD has no parameter 'stp'; did you mean 'step'"),
    ("forwards = 100", "forward = 100", 29, "'forward'; did you mean 'forwards'"),
    ("forwards = 100", "forwards = 1e2", 29, "100.0; expected a whole number"),
    ("batch = 64", "batch = ", 2, "not valid TOML"),
]


@pytest.mark.parametrize(("old", "new", "line", "said"), WRONG, ids=[w[1][:30] for w in WRONG])
def test_a_mistake_is_answered_with_line_expectation_and_nearest_name(old, new, line, said):
    assert old in GOOD
    with pytest.raises(DurometerError) as caught:
        parse(GOOD.replace(old, new, 1))
    message = str(caught.value)
    assert re.search(rf"line {line}\b", message), message
    assert re.search(said, message), message


@pytest.mark.parametrize("section", ["data", "model", "space"])
def test_a_missing_section_is_named(section):
    text = re.sub(rf"\[{section}\]\n(.+\n)+", "", GOOD)
    with pytest.raises(DurometerError, match=rf"section \[{section}\] is missing"):
        parse(text)


def test_nothing_is_loaded_before_everything_was_checked(tmp_path):
    """The model file would raise if it were imported; the mistake in [attack] is said instead."""
    (tmp_path / "net.py").write_text("raise RuntimeError('imported')")
    text = GOOD.replace('demo = "mnist"', 'python = "net.py:net"').replace("steps = 5", "stps = 5")
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(DurometerError, match="stps"):
        read(tmp_path / "run.toml")
    (tmp_path / "run.toml").write_text(text.replace("stps", "steps"))
    with pytest.raises(DurometerError, match=r"line 10 \[model\].*RuntimeError: imported"):
        read(tmp_path / "run.toml").load()


def test_a_file_that_is_not_there():
    with pytest.raises(DurometerError, match="cannot read 'nowhere.toml'"):
        read("nowhere.toml")


# --- numbers


@given(st.integers(-1000, 1000), st.integers(1, 1000))
def test_fractions(a, b):
    assert number(f"{a}/{b}") == number(f" {a} / {b} ") == a / b


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_as_text(x):
    assert number(repr(x)) == number(x) == x


@pytest.mark.parametrize("text", ["", "/", "1/", "a", "1/2/3", "2**3", "1 2", "nan", "0x1f", "()"])
def test_what_is_no_number(text):
    with pytest.raises(DurometerError, match="not a number"):
        number(text)


# --- round trip, as a property


def sure(kind):
    return st.sampled_from(kind)


positive = st.floats(1e-6, 1e3)
losses = st.none() | sure(sorted(names("losses")))
single = st.one_of(
    st.builds(du.PGD, st.integers(1, 99), st.none() | positive, losses, sure(["random", "clean"])),
    st.builds(du.APGD, st.integers(1, 99), losses, st.integers(1, 9), positive),
    st.builds(du.FGSM, losses),
    st.builds(du.Square, st.integers(1, 9999), st.floats(1e-6, 1)),
    st.builds(du.FAB, st.integers(1, 9999)),
    st.builds(du.CW, st.integers(1, 9999)),
)
attacks = st.recursive(
    single,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda a: du.Then(*a)),
        st.lists(inner, min_size=1, max_size=3).map(lambda a: du.Worst(*a)),
        st.builds(du.Restarts, inner, st.integers(1, 9)),
        st.builds(du.Guess, inner, sure(["best", "average"]), st.none() | st.integers(1, 9)),
    ),
    max_leaves=5,
)
box = st.floats(-10, 10) | st.lists(st.floats(-10, 10), min_size=1, max_size=3)
spaces = st.sampled_from([du.L0, du.L1, du.L2, du.Linf]).flatmap(
    lambda space: st.builds(space, positive, box, box)
)
label = st.integers(0, 42) | st.text(max_size=5)
goals = st.one_of(
    st.none(),
    st.builds(du.Untargeted, st.none() | label),
    st.builds(du.Targeted, label | st.lists(label, max_size=3).map(tuple)),
    st.just(du.LeastLikely()),
    st.builds(
        du.Group, st.dictionaries(st.text(max_size=5), st.lists(label, max_size=3).map(tuple))
    ),
)
budgets = st.none() | st.builds(du.Budget, st.none() | st.integers(1, 99))
data = st.builds(
    Data,
    name=st.just("mnist"),
    split=sure(["train", "test"]),
    rows=st.none() | st.integers(1, 99),
    where=st.none() | st.fixed_dictionaries({"y": label | st.lists(label, max_size=2)}),
    options=sure([{}, {"full": True}]),
)
configs = st.builds(
    Config, data, st.builds(Model, demo=sure(["mnist", "url"])), spaces, goals,
    st.none() | attacks, budgets, st.integers(), st.integers(1, 999), st.none() | st.text(),
)  # fmt: skip


@given(configs)
def test_config_to_text_to_config(config):
    again = parse(to_toml(config))
    assert to_toml(again) == to_toml(config)
    for name in ("data", "model", "goal", "attack", "budget", "seed", "batch", "out"):
        assert getattr(again, name) == getattr(config, name), name
    assert vars(again.space) | {"low": 0, "high": 0} == vars(config.space) | {"low": 0, "high": 0}
    assert np.array_equal(again.space.low, config.space.low)


@given(attacks)
def test_attack_to_table_to_attack(attack):
    assert build("attacks", table(attack)) == attack


def test_a_noun_nobody_can_name_is_not_written():
    @dataclasses.dataclass(frozen=True)
    class Mine(du.AutoAttack):
        pass

    odd = Mine(steps=3)
    with pytest.raises(DurometerError, match="cannot be written"):
        table(odd)


# --- names


@pytest.mark.parametrize("kind", KINDS)
def test_every_public_noun_is_described_and_takes_typed_parameters(kind):
    found = names(kind)
    assert found
    for name, noun in found.items():
        assert summary(noun).endswith((".", ":")), name
        for p in parameters(noun).values():
            assert p.hint is not None
            assert str(p).startswith(p.name)


def test_the_kinds_hold_what_the_package_says():
    assert {"APGD", "PGD", "Then", "Worst", "Restarts", "Guess", "Standard"} <= set(
        names("attacks")
    )
    assert {"L0", "L1", "L2", "Linf"} <= set(names("spaces"))
    assert {"Untargeted", "Targeted", "Group", "LeastLikely"} <= set(names("goals"))
    assert {"mnist", "gtsrb", "url", "pima", "orl"} <= set(names("datasets"))


@pytest.mark.parametrize("section", ["space", "attack", "budget"])
def test_under_noise_nobody_attacks(section):
    text = f"""
[data]
name = "pima"
[model]
demo = "url"
[noise]
type = "Normal"
sd = 0.1
[{section}]
"""
    with pytest.raises(DurometerError, match=rf"line 9 \[{section}\].*nobody attacks"):
        parse(text)

"""Goal x space x game from a file: a group goal on a table, a quota with eyeglasses."""

import shutil
from pathlib import Path

import pytest

import durometer as du
from durometer._evaluate import play
from durometer.config.config import parse, read
from durometer.config.writing import to_toml
from durometer.run.merge import merge, report_of
from durometer.run.store import Store

EXAMPLES = Path(__file__).parents[2] / "examples"


def played(config, rows):
    model, data = config.load()
    return play(config.job((model, rows(data))))


def test_a_quota_with_eyeglasses():
    config = read(EXAMPLES / "vault.toml")
    assert config.goal.k == 3 and isinstance(config.attack, du.Campaign)
    assert parse(to_toml(config)).attack == config.attack
    report = played(config, lambda data: data)
    assert report.metric("robust").n == 15
    assert report.metric("clean").n == 120
    assert 0 < report.metric("reachable").value < 1
    assert report.metric("valid").value == 1


def test_a_group_goal_on_a_table(tmp_path):
    for name in ("grades.py", "grades.toml"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    scope = {"__file__": str(tmp_path / "grades.py"), "__name__": "grades"}
    exec((EXAMPLES / "grades.py").read_text(), scope)
    scope["write"](tmp_path)
    report = played(read(tmp_path / "grades.toml"), lambda data: data.take(slice(0, 120)))
    assert report.spec.aims == (0, 1)
    assert report.metric("valid").value == 1
    won = report.table[report.table["success"]]
    assert len(won) and set(won["final"]) <= {0, 1}  # an A or a B, nothing else counts
    assert (report.table.loc[report.table["y"] < 2, "skipped"] == "no target").all()


VAULT = """
[data]
name = "orl"
rows = 40
[model]
demo = "orl"
[space]
type = "Patch"
[goal]
type = "Quota"
sources = ["s1"]
targets = ["s2"]
"""


def test_orders_multiply_in_a_file():
    text = (
        VAULT
        + """
[attack]
type = "Campaign"
attack = {type = "PGD"}
order = {type = "Product", first = {type = "ByMD", steps = 1}, second = {type = "ByChance"}}
"""
    )
    assert parse(text).attack.order == du.orders.ByMD(1) * du.orders.ByChance()
    with pytest.raises(du.DurometerError, match="ByMD"):
        parse(text.replace('"ByMD"', '"ByMDD"'))


def test_a_goal_that_cannot_be_is_told_with_its_line():
    with pytest.raises(du.DurometerError, match=r"line 9 \[goal\].*k=2"):
        parse(VAULT + "k = 2")
    with pytest.raises(du.DurometerError, match=r"line 9 \[goal\].*both a source and a target"):
        parse(VAULT.replace('"s2"', '"s1"'))
    for text in (VAULT, VAULT.replace("Quota", "Group").replace(
        'sources = ["s1"]\ntargets = ["s2"]', 'relation = {"s1" = ["s2"]}'
    )):  # fmt: skip
        config = parse(text.replace('"s2"', '"s222"'))
        with pytest.raises(du.DurometerError, match=r"line 9 \[goal\].*'s222'"):
            config.threat(config.data.load())
    config = parse(ALSO.replace('"s11"', '"s111"'))
    with pytest.raises(du.DurometerError, match=r"line 3 \[also\].*'s111'"):
        config.threat(config.data.load())


ALSO = """
batch = 8
also = [{type = "Untargeted"}, {type = "Group", relation = {"s15" = ["s11"]}}]
[data]
name = "orl"
rows = 24
[model]
demo = "orl"
[space]
type = "Patch"
[goal]
type = "Group"
relation = {"s15" = ["s3"], "s13" = ["s3"]}
[attack]
type = "PGD"
steps = 1
"""


def test_further_goals_in_a_file():
    config = parse(ALSO)
    assert config.also[0] == du.Untargeted()
    assert parse(to_toml(config)).also == config.also
    report = played(config, lambda data: data)
    assert list(report.also) == ["untargeted", "group"]
    assert report.metric("robust_untargeted").n == 24
    with pytest.raises(du.DurometerError, match=r"line 3 .*Untargetted.*did you mean 'Untargeted'"):
        parse(ALSO.replace('"Untargeted"', '"Untargetted"'))
    with pytest.raises(du.DurometerError, match="list of goals"):
        parse(ALSO.replace("also = [", "also = 3 #"))


def test_further_goals_survive_shards(tmp_path):
    config = parse(ALSO)
    loaded = config.load()
    parts = [tmp_path / "1", tmp_path / "2"]
    for k, part in enumerate(parts, 1):
        run = du.Run(out=part, shard=(k, 2))
        play(config.job(loaded), run).save(part)
    (parts[1] / "also" / "group" / "spec.json").rename(tmp_path / "kept")
    with pytest.raises(du.DurometerError, match=r"2/also/group' is not the folder of a run"):
        merge(parts, tmp_path / "whole")
    assert not (tmp_path / "whole").exists()  # so that the next try can go there
    (tmp_path / "kept").rename(parts[1] / "also" / "group" / "spec.json")
    whole = report_of(parts, merge(parts, tmp_path / "whole"))
    Store(parts[0]).clear()
    assert not list(parts[0].rglob("spec.json"))
    once = config.play()
    assert set(whole.also) == set(once.also)
    assert whole.metric("robust_untargeted") == once.metric("robust_untargeted")

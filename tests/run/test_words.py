"""Words go where their ids go: to workers and back, into a folder, out of it, into exports.

What is read back is looked at in a fresh process, which has met none of the words.
"""

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tests.oracles.sentences import neighbours
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app

TABLE = {"good": ["fine"], "fresh": ["zesty"], "dull": ["boring"], "film": ["movie"]}
GOOD = ["a good film", "the film is fresh and good", "good fun", "a fresh idea"]
BAD = ["a dull film", "the film is not good , it is dull", "dull dull dull", "a bad idea"]
TEXTS, LABELS = GOOD + BAD, ["nice"] * 4 + ["poor"] * 4
RUN = """
out = "run"
batch = 3
[data]
path = "reviews.csv"
text = "review"
label = "verdict"
[model]
pickle = "model.pkl"
[space]
type = "Text"
most = 0.5
keep = ["a", "the", "is", "not"]
candidates = {type = "Synonyms", table = {good = ["fine"], fresh = ["zesty"], dull = ["boring"], film = ["movie"]}}
"""  # noqa: E501


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10)).fit(TEXTS, LABELS)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    pd.DataFrame({"review": TEXTS, "verdict": LABELS}).to_csv("reviews.csv", index=False)
    (tmp_path / "run.toml").write_text(RUN)
    return tmp_path


def elsewhere(code: str) -> str:
    """What a process that has met no word yet prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(*arguments: str) -> None:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output


def check(found: pd.DataFrame, folder: Path) -> None:
    """Every success, judged from the strings by the pipeline itself."""
    model = pickle.loads((folder / "model.pkl").read_bytes())
    assert found["success"].any()
    assert set(found["verdict"]) <= {"broken", "proven"}  # all sentences can be listed
    for text, row in zip(TEXTS, found.itertuples(), strict=True):
        near = sorted(neighbours(text, TABLE, 0.5))
        label = "nice" if text in GOOD else "poor"
        assert row.success == any(model.predict(near) != label)
        if row.success:
            assert row.x in near and model.predict([row.x])[0] != label


def test_a_file_of_sentences_a_pickled_pipeline_and_what_is_exported(folder: Path) -> None:
    asked("run", "run.toml", "--workers", "2")
    asked("export", "run", "--to", "csv", "--out", "found.csv", "--inputs")
    check(pd.read_csv("found.csv"), folder)


def test_a_run_goes_on_and_is_read_in_processes_that_know_no_word(folder: Path) -> None:
    asked("run", "run.toml")
    before = du.Report.load("run")
    (folder / "run" / "records.parquet").unlink()  # as if it had been killed before the report
    subprocess.run([sys.executable, "-m", "durometer", "run", "run.toml", "--resume"], check=True)
    said = elsewhere("""
        import torch, durometer as du
        report = du.Report.load("run")
        print(report)
        print("\\n".join(report.adversarial))
    """)

    assert said.splitlines()[-len(TEXTS) :] == list(before.adversarial)
    won = before.table[before.table["success"] & (before.table["winner"] != "clean")]
    assert len(won) and "replaced in most successes: " in said and " -> " in said
    page = (folder / "run" / "report.html").read_text()
    assert "<del>" in page and "Replacements in most successes" in page


def test_a_pickled_data_set_brings_its_words(tmp_path: Path) -> None:
    data = du.Dataset(["never seen before xyzzy", "plugh"], [0, 1])
    (tmp_path / "data.pkl").write_bytes(pickle.dumps(data))
    said = elsewhere(f"""
        import pickle
        from durometer.spaces.token_ids import sentences
        data = pickle.load(open({str(tmp_path / "data.pkl")!r}, "rb"))
        print(sentences(data.x))
    """)
    assert said.strip() == "['never seen before xyzzy', 'plugh']"


@pytest.mark.parametrize(
    "old, new, said",
    [
        ('text = "review"', 'text = "reviews"', "did you mean 'review'"),
        ('"Synonyms"', '"Synonym"', "did you mean 'Synonyms'"),
    ],
)
def test_what_is_wrong_in_the_file_is_said(folder: Path, old: str, new: str, said: str) -> None:
    (folder / "run.toml").write_text(RUN.replace(old, new))
    done = CliRunner().invoke(app, ["run", "run.toml"])
    assert done.exit_code != 0 and said in " ".join(done.output.split())

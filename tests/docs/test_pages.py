"""What the documentation and the examples say is true: files read, links lead somewhere."""

import re
from pathlib import Path

import pytest

import durometer as du
from durometer.config.config import parse
from durometer.config.sweep import Plan, read
from durometer.core.errors import DurometerError

ROOT = Path(__file__).parents[2]
# Pages that the build of the site writes.
WRITTEN = re.compile(r"live/|api/|gallery/|reference/(keys|cli)\.md|^(keys|cli)\.md")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.toml")), ids=lambda f: f.name)
def test_examples_read(file):
    if file.stem.endswith("_schema"):
        assert len(du.Schema.read(file)) > 0
        return
    plan = read(file)
    configs = [p.config for p in plan.points] if isinstance(plan, Plan) else [plan]
    assert all(c.data.check(file.parent) is None for c in configs)


def test_own_model_example_runs(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from durometer.cli.app import app

    monkeypatch.chdir(tmp_path)
    file = ROOT / "examples" / "own_model.toml"
    result = CliRunner().invoke(app, ["run", str(file), "--rows", "20", "-q"])
    assert result.exit_code == 0, result.output


def test_the_file_in_the_docs_reads_but_for_its_model(tmp_path):
    (text,) = re.findall(
        r"```toml\n(seed.*?)```", (ROOT / "docs/reference/configuration.md").read_text(), re.S
    )
    with pytest.raises(DurometerError, match=r"model\.onnx'.*no such file"):
        parse(text)
    (tmp_path / "model.onnx").touch()
    assert parse(text, tmp_path / "first.toml").seed == 0
    with pytest.raises(
        DurometerError, match=r"line 23 \[attack\]: APGD has no parameter 'stepps'; did"
    ):
        parse(text.replace("steps", "stepps"), tmp_path / "first.toml")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("http") and not WRITTEN.search(target):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_names_in_the_docs_exist(page):
    import durometer as du

    for name in set(re.findall(r"\bdu\.([A-Za-z_]\w*)", page.read_text())):
        assert hasattr(du, name), name


def test_every_column_of_the_records_is_explained():
    from durometer.core.records import FIELDS

    page = (ROOT / "docs/reference/report-format.md").read_text(encoding="utf-8")
    assert set(FIELDS) <= set(re.findall(r"^\| `(\w+)` \|", page, re.M))


def test_every_warning_is_in_the_index_of_its_page():
    page = (ROOT / "docs/reference/warnings.md").read_text(encoding="utf-8")
    for name in re.findall(r"^## ([a-z-]+)$", page, re.M):
        assert f"[`{name}`](#{name})" in page

"""What the site's own checks find, on planted pages; and the examples in the reference are code."""

from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "docs" / "site"


@pytest.fixture(autouse=True)
def _path(monkeypatch):
    monkeypatch.syspath_prepend(str(SITE))


def planted(folder: Path, body: str, head: str = "") -> Path:
    head = f'<!doctype html><html lang="en"><head><title>t</title>{head}</head>'
    text = f"{head}<body>{body}</body></html>"
    (folder / "index.html").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<h1>a</h1><h1>b</h1>", "2 h1"),
        ("<p>none</p>", "0 h1"),
        ('<h1>a</h1><img src="x.png">', "no alt text"),
        ('<h1>a</h1><a href="gone.html">b</a>', "no such file"),
        ('<h1>a</h1><a href="#gone">b</a>', "no such anchor"),
        ('<h1>a</h1><script src="https://cdn.example/x.js"></script>', "fetches https://cdn"),
    ],
)
def test_a_broken_promise_is_named(tmp_path, body, said):
    import check

    assert any(said in problem for problem in check.problems(planted(tmp_path, body)))


def test_a_sound_page_passes(tmp_path):
    import check

    assert check.problems(planted(tmp_path, '<h1 id="a">a</h1><a href="#a">b</a>')) == []


def test_a_docstring_falls_into_its_parts():
    import reference

    doc = reference.parsed(
        "Adds.\n\nArgs:\n    a, b: What is added,\n        in euros.\n\nReturns:\n    Their sum."
        "\n\n>>> 1 + 1\n2"
    )
    assert doc.lead == "Adds." and doc.example == ">>> 1 + 1\n2"
    assert doc.sections["Args"] == [(name, "What is added, in euros.") for name in ("a", "b")]
    assert doc.sections["Returns"] == [("", "Their sum.")]


def test_every_public_name_has_a_page_with_its_parameters(tmp_path):
    import inspect

    import reference

    import durometer as du

    count = reference.write(tmp_path)
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert count == len(list(tmp_path.glob("*.md"))) - 1 > 100
    for name in reference.public():
        if name not in reference.SKIPPED:
            assert f"({name}.md)" in index
    for name in ("APGD", "evaluate", "TableSpace"):
        page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        wanted = inspect.signature(getattr(du, name)).parameters
        assert all(f"| `{parameter}` |" in page for parameter in wanted)


def test_every_command_and_key_is_in_the_reference(tmp_path):
    import commands

    from durometer.config.models import Model
    from durometer.config.sources import Data

    assert commands.write(tmp_path) > 10
    keys = (tmp_path / "keys.md").read_text(encoding="utf-8")
    for section in (Data, Model):
        assert all(f"| `{name}` |" in keys for name in section.__dataclass_fields__)
    assert "| `--resume` |" in (tmp_path / "cli.md").read_text(encoding="utf-8")


def test_a_gallery_page_is_played_again_when_the_package_changes(tmp_path, monkeypatch):
    import gallery

    script = gallery.scripts()[0]
    (tmp_path / "key").write_text(gallery._key(script))
    (tmp_path / "page.json").write_text("{}")
    assert gallery._is_current(script, tmp_path, stale=False)
    monkeypatch.setattr(gallery, "sources", lambda: "other")
    assert not gallery._is_current(script, tmp_path, stale=False)
    assert gallery._is_current(script, tmp_path, stale=True)


def test_the_version_is_said_once():
    import tomllib

    import durometer as du

    root = SITE.parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"] and "version" not in project["project"]
    assert f"site_name: durometer {du.__version__}\n" in (root / "mkdocs.yml").read_text()
    assert f"\nversion: {du.__version__}\n" in (root / "CITATION.cff").read_text()
    assert f"## {du.__version__}\n" in (root / "CHANGELOG.md").read_text()


@pytest.mark.heavy
def test_a_browser_sees_requests_and_pale_text(tmp_path):
    import browse

    body = (
        '<h1>a</h1><p style="color:#999;background:#fff">pale</p><p style="color:#333">dark</p>'
        '<div style="background:#000"><p style="color:#fff8">half</p></div>'
    )
    planted(tmp_path, body, '<link rel="stylesheet" href="http://192.0.2.1/x.css">')
    found, opened = browse.problems(tmp_path)
    assert opened == 1
    assert any("asks for http://192.0.2.1/x.css" in f for f in found)
    assert any('"pale"' in f and "2.8" in f for f in found)  # #999 on white: 2.85
    assert not any('"dark"' in f or '"half"' in f for f in found)  # 12.6; and 5.3 by its layers


@pytest.mark.heavy
def test_the_built_site_asks_for_nothing_and_can_be_read():
    import browse

    built = SITE.parents[1] / "build" / "site"
    if not built.exists():
        pytest.skip("make docs has not been run")
    found, opened = browse.problems(built)
    assert found == [] and opened > 40


def test_guides_are_short_and_no_diary():
    import measure
    import stage

    assert {page: found for page in measure.guides() if (found := measure.marks(page))} == {}
    lengths = {
        page: (stage.PAGES / page).read_text(encoding="utf-8").count("\n")
        for page in measure.guides()
    }
    assert {page: n for page, n in lengths.items() if n > measure.LONGEST} == {}


def test_every_guide_says_for_whom_it_is_and_what_to_read_next():
    import measure
    import stage

    for page in measure.guides():
        text = (stage.PAGES / page).read_text(encoding="utf-8")
        if page.name == "index.md":
            continue
        assert "\n*For anyone " in text[:400], f"{page} does not say for whom it is"
        assert "\n**Next:** [" in text, f"{page} does not say what to read next"
        assert page.parts[0] != "how-to" or "```" in text, f"{page} shows no code"


def test_every_page_has_its_place_in_the_navigation():
    import stage
    import yaml

    nav = yaml.safe_load((SITE.parents[1] / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]

    def places(node):
        if isinstance(node, str):
            return {node}
        parts = node.values() if isinstance(node, dict) else node
        return set().union(*(places(part) for part in parts))

    assert {page.as_posix() for page in stage.pages()} <= places(nav)


def test_a_shelf_keeps_other_versions_and_leads_to_the_newest(tmp_path):
    import json

    import versions

    site, shelf = tmp_path / "site", tmp_path / "shelf"
    for version, text in (("0.9.1", "old"), ("0.10.0", "new"), ("0.9.1", "again")):
        site.mkdir(exist_ok=True)
        (site / "index.html").write_text(text)
        standing = versions.shelve(site, shelf, version)
    assert standing == ["0.10.0", "0.9.1"]
    listed = json.loads((shelf / "versions.json").read_text())
    assert [(e["version"], e["aliases"]) for e in listed] == [
        ("0.10.0", ["latest"]),
        ("0.9.1", []),
    ]
    assert (shelf / "0.9.1" / "index.html").read_text() == "again"
    assert 'url=0.10.0/index.html"' in (shelf / "index.html").read_text()

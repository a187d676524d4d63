"""What an index, conda and a container are told about the package is what pyproject.toml says."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import durometer as du

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _metadata(build: ModuleType) -> dict[str, Any]:
    pytest.importorskip("hatchling")
    metadata: dict[str, Any] = {}
    build.AddressHook(str(ROOT), {}).update(metadata)
    return metadata


def test_links_and_pictures_of_the_readme_are_absolute_on_an_index(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUROMETER_REPOSITORY", "https://example.org/some/durometer/")
    metadata = _metadata(build)
    text = metadata["readme"]["text"]
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links and all(link.startswith("https://") for link in links)
    picture = re.search(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert picture is not None
    assert picture[1].startswith("https://example.org/some/durometer/raw/main/")
    assert metadata["urls"]["Repository"] == "https://example.org/some/durometer"


def test_no_address_is_invented_where_none_is_known(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DUROMETER_REPOSITORY", raising=False)
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    metadata = _metadata(build)
    assert "urls" not in metadata
    assert metadata["readme"]["text"] == (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_conda_recipe_asks_for_what_pyproject_declares() -> None:
    text = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = text.split("  run:\n")[1].split("\ntests:")[0]
    asked = {line.strip()[2:].replace(" ", "") for line in run.strip().splitlines()}
    asked = {line.replace("pytorch>=", "torch>=") for line in asked}
    declared = {d.replace(" ", "") for d in PROJECT["dependencies"]}
    assert asked == declared | {f"python{PROJECT['requires-python']}"}
    assert f'version: "{du.__version__}"' in text


def test_every_python_that_is_declared_is_tested() -> None:
    declared = {
        found[1]
        for line in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    }
    for name in ("tests.yml", "release.yml"):
        text = (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8")
        matrix = re.search(r"python: \[([^]]+)\]", text)
        assert matrix is not None
        assert set(re.findall(r'"([\d.]+)"', matrix[1])) == declared, name

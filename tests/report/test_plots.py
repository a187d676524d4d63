"""What is drawn is what the report says: every mark is read back from the axes and compared."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

import durometer as du

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)


@pytest.fixture(autouse=True)
def closed() -> Any:
    yield
    plt.close("all")


def drawn(ax: Any) -> Any:
    """The axes, after everything in them was really drawn."""
    ax.figure.canvas.draw()
    return ax


@pytest.mark.parametrize("kind", ["table", "images", "groups", "nature", "long", "quota"])
def test_the_bar_of_verdicts_counts_the_rows(kind: str) -> None:
    report = getattr(pages, kind)()
    ax = drawn(report.plot.verdicts())
    t = report.table[report.table["skipped"] == ""]
    widths = [int(bar.get_width()) for bar in ax.patches]
    assert sum(widths) == len(t)
    if kind == "nature":
        stable = int((t["probability_low"] >= 0.99).sum())
        assert widths[0] == stable
        return
    early = int((t["success"] & (t["winner"] == "clean")).sum())
    colours = {to_hex(bar.get_facecolor()): int(bar.get_width()) for bar in ax.patches}
    assert colours.get("#b3400a", 0) == int(t["success"].sum()) - early
    assert colours.get("#6b4a3a", 0) == early
    assert colours.get("#1f5fbf", 0) == int((t["verdict"] == "proven").sum())
    assert colours.get("#a9c4ec", 0) == int((~t["success"] & (t["verdict"] != "proven")).sum())
    lefts = [bar.get_x() for bar in ax.patches]
    assert lefts == [sum(widths[:k]) for k in range(len(widths))]


def test_the_curve_is_that_of_radii_and_ends_in_the_metrics() -> None:
    report = pages.long()
    ax = drawn(report.plot.curve())
    lines = {line.get_label(): line for line in ax.lines}
    assert set(lines) == {"at most (attacked)", "at least (proven)"}
    known = report.radii()
    for label, column in (("at most (attacked)", "at_most"), ("at least (proven)", "at_least")):
        x, y = lines[label].get_data()
        assert np.array_equal(x, known.index) and list(y) == [e.value for e in known[column]]
    assert lines["at most (attacked)"].get_ydata()[-1] == report.metric("robust").value
    assert lines["at least (proven)"].get_ydata()[-1] == report.metric("proven").value
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(min(e.low for e in known["at_most"]))
    some = report.plot.curve(eps=[0, 4 / 255])
    assert list(some.lines[0].get_xdata()) == [0, 4 / 255]


def test_a_curve_of_attacks_alone_has_no_lower_side() -> None:
    ax = pages.images().plot.curve()
    assert [line.get_label() for line in ax.lines] == ["at most (attacked)"]
    with pytest.raises(du.DurometerError, match="a space with a size"):
        pages.nature().plot.curve()


def test_confusion_counts_what_attacks_did_and_not_what_was_wrong_before() -> None:
    report = pages.images()
    t = report.table
    ax = drawn(report.plot.confusion())
    shown = np.asarray(ax.images[0].get_array())
    sources = [label.get_text() for label in ax.get_yticklabels()]
    ends = [label.get_text() for label in ax.get_xticklabels()]
    names = report.spec.classes
    won = t[t["success"] & (t["winner"] != "clean")]
    assert shown.sum() == len(won) < int(t["success"].sum())
    for i, a in enumerate(sources):
        for j, b in enumerate(ends):
            y, final = (next(k for k, n in enumerate(names) if n[:27] == s[:27]) for s in (a, b))
            assert shown[i, j] == int(((won["y"] == y) & (won["final"] == final)).sum())


def test_features_and_distances() -> None:
    report = pages.table()
    ax = drawn(report.plot.features())
    e = report.examples
    bars = [int(bar.get_width()) for bar in ax.patches]
    assert bars == sorted((int(c) for c in e.changed if c), reverse=True)
    before = report.data.x.numpy()
    at = report.table["success"].to_numpy() & (report.table["winner"] != "clean").to_numpy()
    changed = (before[at] != report.records.adversarial[at]).sum(0)
    assert sorted(changed[changed > 0].tolist(), reverse=True) == bars
    ax = drawn(report.plot.distances(bins=7))
    assert len(ax.patches) == 7
    assert sum(bar.get_height() for bar in ax.patches) == int(at.sum())
    assert ax.lines[0].get_xdata()[0] == 0.4
    with pytest.raises(du.DurometerError, match="columns of a table"):
        pages.images().plot.features()


def test_examples_show_the_pixels_before_and_after() -> None:
    report = pages.images()
    e = report.examples
    ax = drawn(report.plot.examples(most=3))
    shown = np.asarray(ax.images[0].get_array())
    assert shown.shape == (24, 24, 3)
    for k in range(3):
        assert np.allclose(shown[:8, 8 * k : 8 * k + 8, 0], np.clip(e.clean[k, 0], 0, 1))
        assert np.allclose(shown[8:16, 8 * k : 8 * k + 8, 0], np.clip(e.adversarial[k, 0], 0, 1))
        change = e.adversarial[k, 0] - e.clean[k, 0]
        part = shown[16:, 8 * k : 8 * k + 8]
        redder = part[..., 0] - part[..., 2]
        large = np.abs(change) > 0.5 * np.abs(change).max()
        assert (np.sign(redder) == np.sign(change))[large].all()


def test_examples_of_a_table_name_features_and_values() -> None:
    report = pages.table()
    ax = drawn(report.plot.examples(most=2))
    e = report.examples
    assert len(ax.texts) == 2
    i = int(np.flatnonzero(e.clean[0] != e.adversarial[0])[0])
    text = " ".join(ax.texts[0].get_text().split())
    assert f"{e.clean[0][i]:.6g} → {e.adversarial[0][i]:.6g}" in text


def test_a_comparison_draws_four_counts_and_its_sentence() -> None:
    both = pages.images(0).compare(pages.images(2))
    ax = drawn(both.plot(names=("a", "b")))
    x, y = (t["success"].to_numpy(bool) for t in (both.first, both.second))
    wanted = [int(v.sum()) for v in (~x & ~y, x & ~y, y & ~x, x & y)]
    assert [int(bar.get_width()) for bar in ax.patches] == wanted
    assert " ".join(ax.get_title(loc="left").split()) == both.sentence(("a", "b"))
    noisy = pages.nature().compare(pages.nature())
    points = np.asarray(drawn(noisy.plot()).collections[0].get_offsets())
    assert np.array_equal(points, np.stack(noisy.sides, 1))


def test_a_ladder_draws_its_rungs() -> None:
    steps = pages.moving()
    ax = drawn(steps.plot())
    values = ax.lines[0].get_xdata()
    assert list(values) == [r.metric("robust").value for r in steps.reports.values()]
    assert [t.get_text() for t in ax.get_yticklabels()] == list(steps.reports)
    assert "at most" in ax.get_xlabel()


def test_axes_go_in_and_come_out() -> None:
    ax = plt.subplots()[1]
    report = pages.images()
    for draw in (report.plot.verdicts, report.plot.curve, report.plot.confusion,
                 report.plot.distances, report.plot.examples):  # fmt: skip
        assert draw(ax) is ax
    with pytest.raises(du.DurometerError, match="expected one matplotlib Axes"):
        report.plot.verdicts(plt.figure())


def test_a_name_is_never_a_formula() -> None:
    x = np.array([[0.4, 0.0], [0.6, 0.0], [0.45, 0.0], [0.55, 0.0]], np.float32)
    schema = du.Schema([du.Feature(r"$\frac{", "real", 0, 1), du.Feature("b$", "real", 0, 1)])
    import torch

    net = torch.nn.Linear(2, 2)
    net.weight.data, net.bias.data = torch.tensor([[-5.0, 0], [5, 0]]), torch.tensor([2.5, -2.5])
    data = du.Dataset(x, (x[:, 0] > 0.5).astype(int), schema=schema, classes=(r"$\x", "$b$"))
    report = du.evaluate(
        net, data, space=schema.space(eps=0.3, p=2), attack=du.CAPGD(20), progress=False
    )
    assert report.table["success"].any()
    for draw in (report.plot.confusion, report.plot.features, report.plot.examples):
        drawn(draw())


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (pages.images().plot.verdicts, pages.moving().plot):
        with pytest.raises(du.Unsupported, match=r"durometer\[plot\]"):
            draw()

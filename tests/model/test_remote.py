"""A model behind HTTP: records as of the model itself, limits kept, nothing asked twice."""

import itertools
import json

import numpy as np
import pytest
from tests.toys.faulty_server import serving
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(6, 2))
FAULTS = ("429", "503", "short", "html", "dies")


def model(x: np.ndarray) -> np.ndarray:
    z = np.asarray(x, dtype=float).reshape(len(x), -1) @ WEIGHTS
    return z.round(6)


def data(n: int = 24) -> du.Dataset:
    x = RNG.uniform(size=(n, 6))
    return du.Dataset(x, model(x).argmax(1))


def quick(url: str, **how: object) -> du.Endpoint:
    return du.Endpoint(url, **({"backoff": 0.001, "timeout": 0.5} | how))  # type: ignore[arg-type]


def evaluated(target: object, rows: du.Dataset, out: object = None, **how: object) -> du.Report:
    run = du.Run(out, **how) if out is not None else None  # type: ignore[arg-type]
    return du.evaluate(target, rows, space=du.Linf(0.2), attack=du.Square(30), batch=8, run=run)  # type: ignore[arg-type]


def columns(report: du.Report) -> dict[str, list[object]]:
    c = report.records.columns
    names = ("clean", "final", "success", "verdict", "forwards", "distance", "margin")
    return {n: np.asarray(c[n]).astype(str).tolist() for n in names}


def test_records_are_those_of_the_model_itself_through_every_fault() -> None:
    rows = data()
    own = evaluated(du.wrap(model, inputs="array"), rows)
    with serving(model, lambda k: FAULTS[k // 2 % 5] if k % 2 else "") as server:
        far = evaluated(du.wrap(remote=quick(server.url, batch=7)), rows)
    assert columns(far) == columns(own)
    assert set(server.answered.values()) == {1}  # no answered row is asked again
    assert max(server.sent.values()) > 1  # ... and there were faults


def test_a_slow_reply_is_given_up_and_asked_again() -> None:
    with serving(model, lambda k: "slow" if k == 0 else "") as server:
        asked = quick(server.url, timeout=0.2)(np.ones((2, 6)))
    assert np.array_equal(asked, model(np.ones((2, 6)))) and server.requests == 2


def test_a_resumed_run_asks_nothing_twice(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rows = data(40)
    with serving(model) as server:
        with pytest.raises(du.DurometerError, match="questions=300 are used") as caught:
            evaluated(du.wrap(remote=quick(server.url, questions=300)), rows, tmp_path / "run")
        assert sum(server.sent.values()) <= 300
        far = evaluated(du.wrap(remote=quick(server.url)), rows, tmp_path / "run", resume=True)
    assert set(server.sent.values()) == {1}
    assert "resume with a higher limit" in str(caught.value)
    assert columns(far) == columns(evaluated(du.wrap(model, inputs="array"), rows))


def test_workers_share_answers_and_the_limit(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rows = data(32)
    with serving(model) as server:
        target = du.wrap(remote=quick(server.url, questions=100_000, rate=500.0))
        far = evaluated(target, rows, tmp_path / "run", workers=2)
        assert target.source.asked == sum(server.sent.values())
    assert columns(far) == columns(evaluated(du.wrap(model, inputs="array"), rows))


def test_limits_hold_exactly() -> None:
    with serving(model, lambda k: "503" if k % 2 else "") as server:
        endpoint = quick(server.url, questions=50, batch=4, retries=50)
        with pytest.raises(du.DurometerError, match="of questions=50 are used"):
            for _ in itertools.count():
                endpoint(RNG.uniform(size=(4, 6)))
        assert sum(server.sent.values()) == endpoint.asked == 48
    with serving(model, lambda k: "slow") as server:
        endpoint = quick(server.url, seconds=0.3, timeout=0.2, retries=9)
        with pytest.raises(du.DurometerError, match="seconds=0.3 of requests are used"):
            endpoint(np.ones((1, 6)))
        assert server.requests == 2


def test_the_rate_is_kept() -> None:
    with serving(model) as server:
        endpoint = quick(server.url, rate=20.0, batch=1)
        endpoint(RNG.uniform(size=(6, 6)))
    assert server.times[-1] - server.times[0] > 0.2  # five pauses of 0.05 s, as the server saw them


def test_failures_are_named() -> None:
    with serving(model, lambda k: "400") as server, pytest.raises(du.DurometerError, match="400"):
        quick(server.url)(np.ones((1, 6)))
    assert server.requests == 1  # a refusal is not tried again
    with serving(model, lambda k: "short") as server:
        with pytest.raises(du.DurometerError, match=r"a reply of shape \(2, 2\) for 3 rows"):
            quick(server.url, retries=1)(RNG.uniform(size=(3, 6)))
        assert server.requests == 2
    with pytest.raises(du.DurometerError, match="did not answer after 2 tries"):
        quick(server.url, retries=1)(np.ones((1, 6)))  # nobody listens there now
    with (
        serving(lambda x: np.zeros((len(x), 2)) + np.nan) as server,
        pytest.raises(du.DurometerError, match="no finite numbers"),
    ):
        quick(server.url, retries=0)(np.ones((1, 6)))


def test_a_dying_server_is_no_label_only_model() -> None:
    with (
        serving(model, lambda k: "503" if k else "") as server,
        pytest.raises(du.DurometerError, match="did not answer"),
    ):
        evaluated(du.wrap(remote=quick(server.url, retries=1, batch=4)), data())


def test_secrets_are_in_no_file_and_no_message(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("TOKEN_FOR_TESTS", "s3cret-value")
    headers = {"Authorization": "Bearer ${TOKEN_FOR_TESTS}"}
    with serving(model) as server:
        url = server.url + "?key=${TOKEN_FOR_TESTS}"
        target = du.wrap(remote=quick(url, headers=headers))
        report = evaluated(target, data(), tmp_path / "run")
        report.save(tmp_path / "run")
    assert server.headers[0]["Authorization"] == "Bearer s3cret-value"
    files = [p for p in (tmp_path / "run").rglob("*") if p.is_file()]
    assert len(files) > 4 and not any(b"s3cret" in p.read_bytes() for p in files)
    assert "s3cret" not in repr(target) + repr(report) and "?key" not in report.spec.model
    with serving(model, lambda k: "400") as server, pytest.raises(du.DurometerError) as caught:
        quick(server.url, headers=headers)(np.ones((1, 6)))
    assert "${TOKEN_FOR_TESTS}" in str(caught.value) and "s3cret" not in str(caught.value)
    with pytest.raises(du.DurometerError, match="name an environment variable"):
        du.Endpoint("http://127.0.0.1", headers={"authorization": "Bearer abc"})
    with pytest.raises(du.DurometerError, match="a user name or a password"):
        du.Endpoint("http://me:abc@127.0.0.1")
    monkeypatch.delenv("TOKEN_FOR_TESTS")
    with pytest.raises(du.DurometerError, match="TOKEN_FOR_TESTS is not set"):
        quick("http://127.0.0.1:9", headers=headers)(np.ones((1, 6)))


def test_own_bodies_and_tables() -> None:
    pd = pytest.importorskip("pandas")
    seen: list[object] = []

    def encode(rows: list[object]) -> bytes:
        seen.extend(rows)
        return json.dumps({"instances": [[r["a"], r["b"] == "x"] for r in rows]}).encode()  # type: ignore[index]

    def decode(reply: bytes) -> object:
        return [[1 - p, p] for p in json.loads(reply)["predictions"]]

    frame = pd.DataFrame({"a": RNG.uniform(size=20), "b": ["x", "y"] * 10})
    with serving(lambda x: 0.8 * x[:, 0] + 0.1 * x[:, 1]) as server:
        endpoint = quick(server.url, encode=encode, decode=decode)
        schema = du.Schema.suggest(frame)
        rows = du.Dataset(frame, [0, 1] * 10, schema=schema)
        report = du.evaluate(
            du.wrap(remote=endpoint, answers="probabilities", inputs="frame"), rows,
            space=schema.space(eps=0.1), attack=du.MOEVA(2),
        )  # fmt: skip
    assert report.spec.answers == "probabilities" and seen[1]["b"] == "y"  # type: ignore[index]


def test_from_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    np.savez(tmp_path / "rows.npz", x=data().x.numpy(), y=data().y.numpy())
    with serving(model) as server:
        (tmp_path / "run.toml").write_text(
            f'[model]\nurl = "{server.url}"\n[model.request]\nbatch = 5\nquestions = 9000\n'
            '[data]\npath = "rows.npz"\n[space]\ntype = "Linf"\neps = 0.2\n'
            '[attack]\ntype = "Square"\nqueries = 5\n'
        )
        shown = CliRunner().invoke(
            app, ["run", str(tmp_path / "run.toml"), "--out", str(tmp_path / "out")]
        )
    assert shown.exit_code == 0, shown.output
    assert set(server.sent.values()) == {1} and (tmp_path / "out/answers.sqlite").exists()


def test_a_table_behind_an_address_is_asked_through_copies_first() -> None:
    rows = data(12)
    schema = du.Schema([du.Feature(n, "real", 0, 1) for n in "abcdef"])
    rows = du.Dataset(rows.x, rows.y, schema=schema)
    space = schema.space(eps=0.1, p=np.inf)
    with serving(model) as server:
        target = du.wrap(remote=quick(server.url), answers="logits")
        few = du.Budget(forwards=40)
        report = du.evaluate(target, rows, space=space, budget=few, progress=False)
        assert "Mirror" in set(report.table["winner"])
        again = du.evaluate(target, rows, space=space, budget=few, batch=4, progress=False)
        assert columns(again) == columns(report)

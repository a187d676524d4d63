"""A proof is vacuous if it hangs on what no attacker of the space can move: one meaning
everywhere."""

import numpy as np
import torch
from xgboost import XGBClassifier

import durometer as du
from durometer.goals.classes import Untargeted
from durometer.training.hardening.judge import Judge


def _tables():
    rng = np.random.default_rng(0)
    wide = rng.integers(0, 4, 300).astype(float)  # one step is a third of the range
    x = np.stack([rng.random(300), wide], axis=1)
    y = (wide >= 2).astype(int)
    schema = du.Schema([du.Feature("moves", "real", 0, 1), du.Feature("wide", "integer", 0, 3)])
    return du.Dataset(x, y, schema=schema), schema


def _trees(data, names):
    x = data.x.numpy().copy()
    blank = [i for i, n in enumerate(data.schema.names) if n not in names]
    x[:, blank] = 0.0
    return XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1).fit(x, data.y.numpy())


def test_what_eps_cannot_move_makes_a_proof_vacuous_for_the_report_and_for_harden():
    data, schema = _tables()
    model = _trees(data, ["wide"])
    for eps, hollow in ((0.1, True), (0.34, False)):
        space = schema.space(eps=eps, p=np.inf)
        table = du.evaluate(model, data.take(range(50)), space=space, attack=du.Exact()).table
        proven = (table["verdict"] == "proven").to_numpy()
        assert proven.any()
        assert (table["vacuous"].to_numpy()[proven] == hollow).all()
        judge = Judge.of(data.take(range(50)), space, Untargeted(), 50, 1.0, 0)
        assert judge.vacuous(model, proven) == float(hollow)


def test_bounds_of_a_network_say_the_same():
    data, schema = _tables()
    net = torch.nn.Linear(2, 2).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, -1.0], [0.0, 1.0]]))
        net.bias.copy_(torch.tensor([1.5, -1.5]))
    space = schema.space(eps=0.1, p=np.inf)
    table = du.evaluate(net, data.take(range(50)), space=space, attack=du.Bounds()).table
    assert (table["verdict"] == "proven").all() and table["vacuous"].all()


def test_a_one_hot_group_that_eps_cannot_switch_stays_where_it_is():
    rng = np.random.default_rng(1)
    pick = rng.integers(0, 3, 300)
    x = np.concatenate([np.eye(3)[pick], rng.random((300, 1))], axis=1)
    members = [du.Feature(f"is_{k}", "boolean", group="g") for k in range(3)]
    schema = du.Schema([*members, du.Feature("r", "real", 0, 1)])
    data = du.Dataset(x, (pick == 2).astype(int), schema=schema)
    model = _trees(data, ["is_0", "is_1", "is_2"])
    # each 0/1 column alone could move by 1, but switching moves two: sqrt(2)
    for eps, p, verdict in ((1.2, 2, "proven"), (1.5, 2, "broken"), (1.2, 1, "proven")):
        space = schema.space(eps=eps, p=p)
        table = du.evaluate(model, data.take(range(40)), space=space, attack=du.Exact()).table
        assert (table["verdict"] == verdict).all(), (eps, p)
        assert (table["vacuous"] == (verdict == "proven")).all(), (eps, p)


def test_a_proof_that_leans_on_the_size_of_the_ball_is_not_vacuous():
    rng = np.random.default_rng(2)
    x = rng.random((300, 1))
    schema = du.Schema([du.Feature("r", "real", 0, 1)])
    data = du.Dataset(x, (x[:, 0] > 0.5).astype(int), schema=schema)
    model = XGBClassifier(n_estimators=4, max_depth=1, n_jobs=1).fit(x, data.y.numpy())
    for p in (1, 2, np.inf):
        space = schema.space(eps=0.05, p=p)
        table = du.evaluate(model, data.take(range(40)), space=space, attack=du.Exact()).table
        assert (table["verdict"] == "proven").any() and not table["vacuous"].any(), p

"""Group goals: orders, guesses and escalation keep their promises and do what they are for."""

import pytest
import torch

import durometer as du
from durometer.attacks.orders import singles
from durometer.spaces.lp import Lp
from durometer.testing import check_attack, check_goal

CASES = [
    du.Escalation(5, most=1),
    du.Eyeglasses(60, step=0.25),
    du.Guess(du.PGD(3), order=du.orders.ByMD(1)),
    du.Guess(du.PGD(3), order=du.orders.ByMD(1) * du.orders.ByChance(), most=2),
]


@pytest.mark.parametrize("attack", CASES, ids=str)
def test_attack_keeps_its_promises(attack):
    check_attack(attack)


@pytest.mark.parametrize("goal", [du.RandomTarget(), du.RandomTarget(seed=4)], ids=str)
def test_goal_keeps_its_promises(goal):
    check_goal(goal)


def signs():
    """A linear model on which some targets are near and others out of reach."""
    g = torch.Generator().manual_seed(0)
    net = torch.nn.Linear(20, 8)
    with torch.no_grad():
        net.weight.copy_(torch.randn(8, 20, generator=g))
        net.bias.copy_(-net.weight.sum(1) / 2)
        x = torch.rand(200, 20, generator=g)
        return net, du.Dataset(x, net(x).argmax(1))


GOAL = du.Group({s: [5, 6, 7] for s in range(5)})


def rate(net, data, attack, **how):
    report = du.evaluate(net, data, space=du.Linf(0.12), goal=GOAL, attack=attack, **how)
    rows = report.table[report.table["skipped"] == ""]
    return rows["success"].mean(), rows["backwards"].mean()


def test_guesses_stand_in_their_order():
    net, data = signs()
    single = du.APGD(10, loss="md")
    best, cost = rate(net, data, du.Guess(single, mode="best"))
    until, less = rate(net, data, du.Guess(single))
    average, _ = rate(net, data, du.Guess(single, mode="average"))
    worst, _ = rate(net, data, du.Guess(single, mode="worst"))
    assert worst < average < best == until
    assert less < cost
    escalated, price = rate(net, data, du.Escalation(10))
    assert escalated >= best - 0.02 and price < cost / 2
    thorough, more = rate(net, data, du.Escalation(10, thorough=True))
    assert thorough >= escalated and more > price


def test_escalation_leaves_alone_what_no_target_is_near_to():
    """Half a run at all targets is all that a row far from every target costs."""
    net, data = signs()
    report = du.evaluate(net, data, space=du.Linf(0.001), goal=GOAL, attack=du.Escalation(10))
    far = report.table[(report.table["skipped"] == "") & (report.table["margin"] < -0.5)]
    assert len(far) > 50
    assert far["backwards"].max() == 6  # 5 steps, and the start
    for near, runs in (
        (1.0, 1),
        (2.0, 2),
        (4.0, 3),
    ):  # each target must be twice as near as the last
        every = du.evaluate(
            net, data, space=du.Linf(0.001), goal=GOAL, attack=du.Escalation(10, near=near)
        )
        assert (every.table["backwards"][far.index] == 6 + 11 * runs).all()
        assert every.table["success"].sum() == report.table["success"].sum()


def test_escalation_pays_no_more_than_mdmul_for_what_mdmul_finds():
    """Where single targets find nothing more, they must not be paid for either."""
    net, data = signs()
    for eps in (0.01, 0.03):
        found, cost = {}, {}
        for name, attack in (("one", du.APGD(20, loss="mdmul")), ("all", du.Escalation(20))):
            table = du.evaluate(net, data, space=du.Linf(eps), goal=GOAL, attack=attack).table
            found[name], cost[name] = table["success"].sum(), table["backwards"].sum()
        assert found["all"] >= found["one"]
        assert cost["all"] < cost["one"]


def test_worst_guess_needs_every_target():
    """On a linear model a target is reached or not; counted target by target."""
    net, data = signs()
    single = du.APGD(30, loss="md")
    alone = [
        du.evaluate(net, data, space=du.Linf(0.12), goal=du.Targeted(t), attack=single).table
        for t in (5, 6, 7)
    ]
    report = du.evaluate(
        net, data, space=du.Linf(0.12), goal=GOAL, attack=du.Guess(single, mode="worst")
    )
    every = alone[0]["success"] & alone[1]["success"] & alone[2]["success"]
    table = report.table
    rows = (table["skipped"] == "") & (table["winner"] != "clean")
    # A run aimed at one target may end in another one of the group, so `every` is a lower bound.
    assert (table["success"] >= every)[rows].all()
    some = alone[0]["success"] | alone[1]["success"] | alone[2]["success"]
    assert (table["success"] <= some)[rows].all()
    assert table["success"][rows].mean() < some[rows].mean() - 0.2


def test_worst_guess_pays_and_looks_like_best_guess():
    """Every run of every target is on the account, and so is every flat gradient seen."""
    net, data = signs()
    flat = torch.nn.Sequential(net, torch.nn.Hardtanh(-0.1, 0.1))
    seen = {}
    for mode in ("best", "worst"):
        attack = du.Guess(du.PGD(4, loss="md"), mode=mode)
        report = du.evaluate(flat, data, space=du.Linf(0.05), goal=GOAL, attack=attack)
        flags = [f.text for f in report.flags if f.id == "vanishing-gradients"]
        seen[mode] = (report.table["forwards"].tolist(), report.table["backwards"].tolist(), flags)
    assert seen["best"] == seen["worst"] and seen["best"][2]


def test_average_guess_draws_anew_on_a_sample():
    """A sample of the same seed must not decide which target is drawn."""
    net, data = signs()
    part = data.where(y=list(range(5))).sample(60)
    attack = du.Guess(du.PGD(1, loss="md"), mode="average")
    few, many = (
        du.evaluate(net, part, space=du.Linf(0.12), goal=GOAL, attack=attack, seed=seed).table
        for seed in (0, 9)
    )
    assert abs(few["success"].mean() - many["success"].mean()) < 0.2
    net, data = signs()
    chance = du.Guess(du.APGD(10, loss="md"), most=1, order=du.orders.ByChance())
    both = [
        du.evaluate(net, part, space=du.Linf(0.12), goal=GOAL, attack=a).table["success"].mean()
        for a in (du.Guess(du.APGD(10, loss="md"), mode="average"), chance)
    ]
    nearest = du.Guess(du.APGD(10, loss="md"), most=1, order=du.orders.ByMD(0))
    top = du.evaluate(net, part, space=du.Linf(0.12), goal=GOAL, attack=nearest)
    assert max(both) < top.table["success"].mean() - 0.1


def test_one_step_finds_the_target_that_is_within_reach():
    net, data = signs()
    ranks = {}
    for name, order in (
        ("clean", du.orders.ByMD(0)),
        ("step", du.orders.ByMD(1)),
        ("chance", du.orders.ByChance()),
    ):
        ranks[name], _ = rate(net, data, du.Guess(du.APGD(10, loss="md"), most=1, order=order))
    assert ranks["step"] > ranks["chance"] + 0.1
    assert ranks["clean"] > ranks["chance"] + 0.1


def test_only_the_nearest_are_looked_at_closely():
    net, data = signs()
    full = du.Guess(du.APGD(10, loss="md"), most=1, order=du.orders.ByMD(1))
    two = du.Guess(du.APGD(10, loss="md"), most=1, order=du.orders.ByMD(1, among=2))
    (all_of_them, cost), (nearest, less) = rate(net, data, full), rate(net, data, two)
    assert less < cost and nearest >= all_of_them - 0.05


def test_prior_and_product_sort_targets():
    net, data = signs()
    P = torch.zeros(8, 8)
    P[:, 6] = 1.0  # everybody has always been able to pass for 6
    only = du.Guess(du.APGD(10, loss="md"), most=1, order=du.orders.ByPrior(P))
    to_six = du.evaluate(net, data, space=du.Linf(0.12), goal=GOAL, attack=only).table
    rows = to_six["success"] & (to_six["winner"] != "clean")
    assert (to_six.loc[rows, "final"] == 6).mean() > 0.8
    both = du.orders.ByMD(0) * du.orders.ByPrior(P)
    assert repr(both).startswith("Product(first=ByMD(steps=0")
    with pytest.raises(du.DurometerError, match="shape"):
        rate(net, data, du.Guess(du.PGD(2), order=du.orders.ByPrior(P[:2])))


@pytest.mark.parametrize("p", [1.0, 2.0, float("inf")])
def test_by_distance_orders_targets_by_how_far_a_linear_model_would_have_to_go(p):
    """Of a linear model the first-order distance is the distance: checked against its weights."""
    g = torch.Generator().manual_seed(3)
    net = torch.nn.Linear(6, 5).double()
    net.weight.data = torch.randn(5, 6, generator=g, dtype=torch.float64)
    x = torch.rand(9, 6, generator=g, dtype=torch.float64)
    seen = {}

    class Look:
        needs = du.orders.ByDistance().wants

        def __call__(self, problem):
            seen["scores"] = du.orders.ByDistance(among=3).scores(problem)
            seen["rows"], seen["clean"] = problem.open, problem.clean

    with torch.no_grad():
        y = net(x).argmax(1)
    du.evaluate(net, du.Dataset(x, y), space=Lp(p, 0.01), attack=Look(), progress=False)
    dual = {1.0: torch.inf, 2.0: 2.0, torch.inf: 1.0}[p]
    for i in seen["rows"].tolist():
        far = torch.tensor([
            float(seen["clean"][i, y[i]] - seen["clean"][i, t])
            / max(float(torch.linalg.vector_norm(net.weight[y[i]] - net.weight[t], dual)), 1e-30)
            for t in range(5)
        ])  # fmt: skip
        near = seen["clean"][i].argsort(descending=True)[1:4]
        assert torch.allclose(seen["scores"][i][near].float(), far[near], rtol=1e-5)
        rest = [t for t in range(5) if t != y[i] and t not in near.tolist()]
        assert seen["scores"][i][rest].min() >= seen["scores"][i][near].max()


def test_singles_split_a_mask():
    mask = torch.tensor([[True, False, True], [False, True, False]])
    parts = list(singles(mask))
    assert len(parts) == 2
    assert torch.equal(parts[0] | parts[1], mask)
    assert parts[1].sum() == 1


def test_random_targets_do_not_depend_on_the_batch():
    y = torch.arange(6) % 3
    goal, blank = du.RandomTarget(), torch.zeros(6, 9)
    whole = goal.targets(y, blank, torch.arange(6))
    part = goal.targets(y[3:], blank[3:], torch.arange(3, 6))
    assert torch.equal(whole[3:], part)
    assert (whole.sum(1) == 1).all() and not whole[torch.arange(6), y].any()


def test_speed_signs_are_the_published_relation():
    signs = du.datasets.gtsrb()
    goal = signs.slow_down_goal()
    allowed = goal.allowed(43, signs.test.classes)
    assert allowed.sum(1)[:9].tolist() == [3, 3, 4, 5, 5, 5, 5, 6, 7]
    assert int(allowed.sum()) == 43
    assert allowed.any(0).nonzero()[:, 0].tolist() == [0, 1, 2, 3, 14, 15, 17]


def test_faces_have_staff_and_burglars():
    faces = du.datasets.orl()
    vault = faces.vault(k=3)
    pairs, goal = vault.expand(faces.test)
    assert len(pairs) == 5 * 3 * 5 + 35 * 3  # five burglars, three pictures each, five targets
    rule = vault.rule(40, faces.test.classes)
    assert not set(rule.sources) & set(rule.targets) and not rule.reuse
    assert set(faces.staff_goal().relation) == set(vault.sources)
    assert len(goal.target) == len(pairs)

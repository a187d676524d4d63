"""The group defence of Lin et al. against its baselines: part C4 and the faces of `groups.py`.

Every comparison starts from one network per seed (free adversarial training on signs, DOA training
on faces), which is then trained further in the baseline's way and in the group defence's way, for
as many epochs. Differences are paired: the same images, the same first network.
"""

import copy

import numpy as np

import durometer as du
from durometer.architectures.images.smallcnn import SmallCNN
from durometer.goals.coalition_probability import Pairs, chances
from durometer.report.stats import bootstrap
from durometer.training import DOATraining, Free, Group, Standard, fit, fresh

LINF = du.Linf(8 / 255)
GLASSES = du.Patch("eyeglasses")


def free(signs, seed, given):
    """The network of a seed, by free adversarial training; the same file as the benchmark's."""
    train = signs.train.sample(min(given.train, len(signs.train)))
    net = fresh(lambda: SmallCNN(43, 3), seed)
    file = given.cache and given.cache / f"free-{len(train)}-{given.epochs}-{seed}.pt"
    fit(net, train, Free(replays=4), epochs=given.epochs, batch=64, seed=seed, checkpoint=file)
    return net


def c4(signs, given):
    train = signs.train.sample(min(given.train, len(signs.train)))
    # fmt: off
    print(f"\n== C4: traffic signs, {given.seeds} seeds, {len(train)} images, free {given.epochs} "
          f"epochs, then {given.more} more (5e-4); kappa {given.kappa}, weight {given.weight}")
    # fmt: on
    goal = signs.slow_down_goal()
    speed = signs.test.where(y=list(goal.relation))
    speed = speed.sample(min(given.rows, len(speed)))
    wanted = [k for k in range(43) if goal.allowed(43, signs.test.classes)[:, k].any()]
    group = Group(goal, LINF, kappa=given.kappa, replays=4, weight=given.weight)
    ways = {"free": None, "free + free": (Free(replays=4), 64), "free + group": (group, 48)}
    found = {name: [] for name in ways}
    for seed in range(given.seeds):
        net = free(signs, seed, given)
        for name, more in ways.items():
            model = copy.deepcopy(net)
            if more is not None:
                recipe, size = more
                fit(model, train, recipe, epochs=given.more, batch=size, rate=5e-4, seed=100 + seed)
            attack = du.Escalation(given.steps)
            report = du.evaluate(model, speed, space=LINF, goal=goal, attack=attack)
            right = _right(model, signs.test)
            aimed = np.isin(signs.test.y.numpy(), wanted)
            held = ~report.table["success"].to_numpy()
            figures = (right, signs.test.ids), (right[aimed], signs.test.ids[aimed]), (
                held, speed.ids)  # fmt: skip
            found[name].append(figures)
            shown = " ".join(f"{values.mean():.3f}" for values, _ in figures)
            print(f"seed {seed} {name:13s} accuracy, on T, Rob: {shown}", flush=True)
    summary(found, ("accuracy", "accuracy on T", "Rob"))


def _right(net, data):
    from torch import no_grad

    with no_grad():
        answers = [net(x).argmax(1) for x in data.x.split(256)]
    return np.concatenate([a.numpy() for a in answers]) == data.y.numpy()


def summary(found, names):
    """Means over networks and images, and the last way minus each other way, paired."""
    last = list(found)[-1]
    print(f"{'mean [95 %]':28s}" + "".join(f"{n:28s}" for n in names))
    for way, runs in found.items():
        cells = [_mean(*zip(*(run[k] for run in runs), strict=True)) for k in range(len(names))]
        shown = (f"{c.value:.3f} [{c.low:.3f}, {c.high:.3f}]" for c in cells)
        print(f"{way:28s}" + "".join(f"{c:28s}" for c in shown))
    for way, runs in found.items():
        if way == last:
            continue
        cells = []
        for k in range(len(names)):
            gains = [
                a[k][0].astype(float) - b[k][0] for a, b in zip(found[last], runs, strict=True)
            ]
            cells.append(_mean(gains, [run[k][1] for run in runs]))
        shown = (f"{c.value:+.3f} [{c.low:+.3f}, {c.high:+.3f}]" for c in cells)
        print(f"{last + ' - ' + way:28s}" + "".join(f"{c:28s}" for c in shown))


def _mean(values, images):
    """The mean over all runs; an image is drawn with all that was measured on it, in every run."""
    return bootstrap(np.concatenate(values).astype(float), np.concatenate(images))


def faces(_, given):
    """Burglars with eyeglasses pass for two or three of five staff; other people each time."""
    data = du.datasets.orl()
    # fmt: off
    print(f"\n== faces: ORL, eyeglasses, 5 burglars, 5 staff, {given.seeds} seeds, {given.choices} "
          f"choices of people each; standard training for {given.face_epochs} epochs, DOA "
          f"{given.doa_epochs}, then {given.face_more} more (1e-4); kappa {given.face_kappa}")
    # fmt: on
    doa = DOATraining(attack=du.DOA(10, step=0.1, stride=8, candidates=6))
    found = {"DOA": [], "DOA + DOA": [], "DOA + group": []}
    quotas = {name: [] for name in found}
    for seed in range(given.seeds):
        net = fresh(lambda: SmallCNN(40, 1, width=12), seed)
        fit(net, data.train, Standard(), epochs=given.face_epochs, batch=40, seed=seed)
        file = given.cache and given.cache / f"doa-{given.face_epochs}-{given.doa_epochs}-{seed}.pt"
        fit(net, data.train, doa, epochs=given.doa_epochs, batch=32, seed=seed, checkpoint=file)
        longer = further(net, data.train, doa, given, seed)
        for choice in range(given.choices):
            people = np.random.default_rng([seed, choice]).permutation(40)
            names = [data.test.classes[p] for p in people[:10]]
            burglars, staff = names[:5], names[5:]
            goal = du.Group({b: staff for b in burglars})
            attack = du.APGD(20, loss="odds")
            recipe = Group(goal, GLASSES, given.face_kappa, share=0.5, attack=attack)
            guarded = further(net, data.train, recipe, given, seed)
            for name, model in zip(found, (net, longer, guarded), strict=True):
                figures, robs = judged(model, data.test, burglars, staff, given)
                found[name].append(figures)
                quotas[name].append(robs)
                shown = " ".join(f"{values.mean():.3f}" for values, _ in figures)
                print(f"seed {seed}.{choice} {name:12s} accuracy, on T, pairs out of reach: {shown}"
                      f"   Rob, 2 of 5, reuse / no; 3 of 5, reuse / no: "
                      + " ".join(f"{r:.2f}" for r in robs), flush=True)  # fmt: skip
    summary(found, ("accuracy", "accuracy on T", "pairs out of reach"))
    print(
        "Rob, mean over seeds and choices: 2 of 5 with reuse, without; 3 of 5 with reuse, without"
    )
    for name, robs in quotas.items():
        gain = np.array(quotas["DOA + group"]) - np.array(robs)
        worse = " ".join(f"{int((g < 0).sum())}" for g in gain.T)
        cells = zip(np.mean(robs, 0), np.std(robs, 0, ddof=len(robs) > 1), strict=True)
        print(f"{name:14s}" + "  ".join(f"{m:.3f} (sd {s:.3f})" for m, s in cells)
              + f"   group is lower in {worse} of {len(robs)}")  # fmt: skip


def further(net, train, recipe, given, seed):
    model = copy.deepcopy(net)
    fit(model, train, recipe, epochs=given.face_more, batch=32, rate=1e-4, seed=100 + seed)
    return model


def judged(model, test, burglars, wanted, given):
    """Right answers, on all and on the staff; pairs out of reach; Rob for four quotas."""
    vault = du.Quota(3, burglars, wanted)
    attack = du.Campaign(du.APGD(given.face_steps))
    report = du.evaluate(model, test, space=GLASSES, goal=vault, attack=attack)
    pairs, rule = Pairs.of(report.records.columns), report.spec.quota
    right = _right(model, test)
    staff = np.isin(test.y.numpy(), rule.targets)
    inputs = np.repeat(pairs.ids, len(pairs.targets))
    robs = [1 - chances(pairs, rule | {"k": k, "reuse": reuse})[0]
            for k in (2, 3) for reuse in (True, False)]  # fmt: skip
    every = (right, test.ids), (right[staff], test.ids[staff]), (~pairs.hits.reshape(-1), inputs)
    return every, robs

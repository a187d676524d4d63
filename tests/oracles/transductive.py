"""A transductive game from the paper (Chen et al. 2022, Algorithms 1 and 2), in numpy alone.

GMSA-AVG or FPA with PGD inside (signed steps, from the clean point, element-wise best by the mean
loss) against a defender that swings its border, round after round. Nothing of the package is used.
"""

import numpy as np


def swing(state, batch):
    """The defender: a border through a moving average, turned by the spread of the batch."""
    after = 0.5 * state + 0.5 * batch.mean(0)
    angle = 4 * batch[:, 1].std()
    return (10 * np.array([np.cos(angle), np.sin(angle)]), after), after


def base(state):
    return (np.array([10.0, 0.0]), state)


def score(model, x):
    """Of class 1 over class 0."""
    weight, middle = model
    return (x - middle) @ weight


def losses(model, x, y):
    """Cross entropy of the true class and its gradient in x."""
    sign = np.where(y == 1, -1.0, 1.0)  # the loss grows with sign * score
    z = sign * score(model, x)
    return np.logaddexp(0, z), (sign / (1 + np.exp(-z)))[:, None] * model[0][None]


def pgd(models, x, y, eps, steps):
    best = x.copy()
    record = np.full(len(x), -np.inf)
    z = x.copy()

    def look(z):
        nonlocal best, record
        parts = [losses(model, z, y) for model in models]
        value = np.mean([v for v, _ in parts], 0)
        better = value > record
        best[better], record[better] = z[better], value[better]
        return np.mean([g for _, g in parts], 0)

    look(x)
    for _ in range(steps):
        g = look(z)
        z = np.clip(z + 2.5 * eps / steps * np.sign(g), x - eps, x + eps).clip(0, 1)
    look(z)
    return best


def wrong(model, x, y):
    return (score(model, x) > 0) != (y == 1)


def play(x, y, start, batch, eps, steps, iterations, average):
    """Per row: the input handed in, the answer, the attacker's idea of its success."""
    truth = mind = np.asarray(start, float)
    handed, answers, rehearsed = [], [], []
    for i in range(0, len(x), batch):
        u, labels = x[i : i + batch], y[i : i + batch]
        models, best = [base(mind)], None
        for _ in range(iterations + 1):
            attacked = models if average else models[-1:]
            candidate = pgd(attacked, u, labels, eps, steps)
            model, _ = swing(mind, candidate)
            hits = wrong(model, candidate, labels)
            if best is None or hits.mean() > best[0]:
                best = (hits.mean(), candidate, hits)
            if hits.all():
                break
            models.append(model)
        _, move, hits = best
        final, truth = swing(truth, move)
        _, mind = swing(mind, move)
        handed.append(move)
        answers.append((score(final, move) > 0).astype(int))
        rehearsed.append(hits)
    return np.concatenate(handed), np.concatenate(answers), np.concatenate(rehearsed)

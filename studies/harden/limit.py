"""What no model can have: phishing rows in whose region a legitimate row lies.

    python studies/harden/limit.py [--all]      # URL's test rows, or all 11,430

If row l is a valid point of row p's region, no model is both robust on p and right on l. The
largest set of such pairs that share no row (a maximum matching) is therefore a number of rows that
every model gets wrong: unproven phishing rows and misjudged legitimate rows together are at least
as many. The bound is one of these rows; it says nothing about what can be learnt.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching
from sklearn.neighbors import NearestNeighbors
from tables import URL

import durometer as du


def pairs(x: torch.Tensor, y: torch.Tensor, schema: du.Schema, eps: float, p: float) -> csr_matrix:
    """(phishing rows, legitimate rows): does the second lie in the region of the first?"""
    width = np.array([f.range[1] - f.range[0] or 1.0 for f in schema.features])
    scaled, space = x.double().numpy() / width, schema.space(eps=eps, p=p)
    ours, theirs = (torch.nonzero(y == c)[:, 0] for c in (1, 0))
    near = NearestNeighbors(radius=eps, metric="chebyshev" if p == math.inf else "euclidean")
    found = near.fit(scaled[theirs]).radius_neighbors(scaled[ours], return_distance=False)
    cells: list[tuple[int, int]] = []
    for i, at in enumerate(found):
        if len(at):
            around = space.around(x[ours[i]].expand(len(at), -1))
            cells += [(i, int(j)) for j in at[around.contains(x[theirs[at]]).numpy()]]
    rows, columns = zip(*cells, strict=True) if cells else ((), ())
    return csr_matrix((np.ones(len(cells)), (rows, columns)), shape=(len(ours), len(theirs)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    splits = du.datasets.url()
    parts = [splits.test]
    if parser.parse_args().all:
        parts += [splits.train, splits.val]
    x, y = torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts])
    for name, (eps, p, _) in URL.items():
        found = pairs(x, y, splits.train.schema, eps, p)
        matched = int((maximum_bipartite_matching(found, perm_type="column") >= 0).sum())
        some, all_ = int((found.getnnz(axis=1) > 0).sum()), found.shape[0]
        print(f"{name}: {some} of {all_} phishing rows reach a legitimate one; {matched} pairs")


if __name__ == "__main__":
    main()

"""The noisy root of a tree of two counts, with the noise for ε = 1 by the sensitivity that the tree says it has."""

import opendp.prelude as dp
from serve import serve

dp.enable_features("contrib")
counts = dp.vector_domain(dp.atom_domain(T=int), size=2), dp.l1_distance(T=int)
tree = dp.t.make_b_ary_tree(*counts, leaf_count=2, branching_factor=2)
release = tree >> dp.m.then_laplace(scale=float(tree.map(1)))
assert release.map(1) <= 1.0  # what it says of itself


def mechanism(database, size, rng):
    rows = database.tolist()
    return [release(rows)[0] for _ in range(size)]


serve(mechanism)

"""Ordered pairs of databases for `pairs.given = { call, parameters }`: `hpcdp.patterns:statdp` and `hpcdp.patterns:around`."""

from collections.abc import Sequence
from itertools import product
from math import prod

Pairs = list[tuple[list[float], list[float]]]
_MOST = 1_000_000


def statdp(dimension: int) -> Pairs:
    """The eight patterns of query answers of Ding et al. (CCS 2018), Table I of Askin, Kutta and Dette (S&P 2022).

    In this order: one above, one below, one above rest below, one below rest above, half half, all above, all below, X shape.
    dimension: queries, at least 2. No answer moves by more than 1.
    """
    if type(dimension) is not int or not 2 <= dimension <= _MOST:
        raise ValueError(f"dimension: an integer from 2 to {_MOST:,}; given: {dimension!r}")
    k, half = dimension, dimension // 2
    parts: list[tuple[tuple[int, int], ...]] = [((2, 1), (1, k - 1)), ((0, 1), (1, k - 1)), ((2, 1), (0, k - 1))]
    parts += [((0, 1), (2, k - 1)), ((2, half), (0, k - half)), ((2, k),), ((0, k),)]
    others = [[float(value) for value, times in part for _ in range(times)] for part in parts]
    cross = [[float((i < half) != flipped) for i in range(k)] for flipped in (False, True)]
    return [*(([1.0] * k, other) for other in others), (cross[0], cross[1])]


def around(vector: Sequence[float], values: Sequence[float] | None = None) -> Pairs:
    """A vector against every other one near it, for its data-centric level: each coordinate moved by −1, 0 or 1.

    values: instead, every other vector whose coordinates are among these. At most a million pairs.
    """
    given = [vector] if values is None else [vector, values]
    if not all(isinstance(x, list | tuple) and x and {type(v) for v in x} <= {int, float} for x in given):
        raise ValueError(f"vector, values: lists of numbers, not empty; given: {[type(x).__name__ for x in given]}")
    near = [(x - 1.0, x, x + 1.0) if values is None else tuple(values) for x in vector]
    if (count := prod(len(set(choices)) for choices in near)) > _MOST:
        raise ValueError(f"vector: at most {_MOST:,} vectors near it; given: {len(vector)} numbers with {count:.3g}")
    own, every = [float(x) for x in vector], product(*map(dict.fromkeys, near))
    return [(own, [float(x) for x in other]) for other in every if list(other) != list(vector)]

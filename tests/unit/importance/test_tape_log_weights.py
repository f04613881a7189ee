"""Random tapes: log-weights against a literal reading of the densities, within the bound that is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tapes import proposal

from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import BINS, Proposal, join

Floats = NDArray[np.float64]

WIDE = np.longdouble


def reference(entries: list[Any], mixture: Proposal, output: int) -> Any:
    """log w of one output in extended precision, literally: densities by the book, one after another."""
    ratios = []
    for c in range(mixture.count):
        total = WIDE(0.0)
        for entry in entries:
            for j in range(min(int(entry.used[output]), entry.values.shape[1])):
                if j < mixture.tables[entry.kind].shape[1]:
                    total += literal(entry, output, j, mixture.tables[entry.kind][c, j])
        ratios.append(total)
    top = max(ratios)
    shares = [WIDE(share) for share in mixture.shares]
    return -top - np.log(sum(share * np.exp(ratio - top) for share, ratio in zip(shares, ratios, strict=True)))


def literal(entry: Any, row: int, j: int, given: Floats) -> Any:
    """log g/f of one entry."""
    x, p, one = WIDE(entry.values[row, j]), given.astype(WIDE), WIDE(1.0)

    match entry.kind:
        case "normal":
            return -np.log(p[1]) + (x * x - ((x - p[0]) / p[1]) ** 2) / 2
        case "exponential":
            return x - x / p[0] - np.log(p[0])
        case "laplace":
            chance, scale = (p[0], p[1]) if x >= 0 else (one - p[0], p[2])
            return np.log(2 * chance / scale) + abs(x) - abs(x) / scale
    assert entry.kind == "uniform"
    edges = np.concatenate([[WIDE(0.0)], p[BINS:], [one]])
    b = int(np.searchsorted(edges, x, "right")) - 1
    return np.log(p[b] / (edges[b + 1] - edges[b]))


def all_kinds(g: Any, n: Any, times: int) -> None:
    for _ in range(times):
        for draw in (
            lambda: g.normal(size=n), lambda: g.exponential(size=n), lambda: g.laplace(size=n), lambda: g.random(n),
            lambda: g.gamma(300.0, size=n), lambda: g.gamma(0.5, size=n),
            lambda: g.poisson(200.0, n), lambda: g.poisson(0.01, n),
            lambda: g.binomial(1000, 0.999, n), lambda: g.binomial(1, 0.5, n),
            lambda: g.choice(50, n), lambda: g.choice(2, n, p=[0.999, 0.001]),
        ):  # fmt: skip
            draw()
        if n is None:
            g.permutation(20)
            g.choice(200, 5, replace=False)


@pytest.mark.slow
@pytest.mark.parametrize("strength", (1e-6, 0.05, 0.5, 3.0))
@pytest.mark.parametrize("rows", (True, False))
def test_log_weights_are_exact_within_the_bound_that_is_told(strength: float, rows: bool) -> None:
    """Against extended precision, of tilts so slight that terms cancel and so strong that masses vanish; 40 outputs each."""
    size = 40
    for seed in range(2):
        mixture = proposal(seed, strength)
        longer = {kind: np.tile(table, (1, 20, 1)) for kind, table in mixture.tables.items()}
        for times, mixed_ in ((1, mixture), (15, Proposal(mixture.shares, longer))):
            tape = Tape(seed, mixed_, size, rows)
            if rows:
                all_kinds(tape, size, times)
            else:
                for number in range(0, size, 4):
                    generator = tape.generator(number)
                    all_kinds(generator, None, times)
                    generator.close()
            which = np.arange(0, size, 4)
            logs, bounds = tape.log_weights(which)
            entries = tape.entries()
            exact = np.array([reference(entries, mixed_, int(i)) for i in which])
            off = np.abs(logs.astype(WIDE) - exact)
            assert (off <= bounds).all()
            assert (bounds > 0.0).all()
            assert (
                bounds < (1e-9, 1e-7)[times > 1]
            ).all()  # of the weight; worst cases of 13 and 195 terms, some of thousands


def test_the_bound_of_a_few_normals_is_far_below_what_sums_are_rounded_to() -> None:
    """Units of M · 2^-40, 9e-13 of the largest weight."""
    tape = Tape(1, proposal(), 1_000, True)
    tape.normal(size=(1_000, 3))
    assert tape.log_weights(np.arange(1_000))[1].max() < 2.0**-40


@pytest.mark.parametrize("rows", (True, False))
@pytest.mark.parametrize(
    "kind, draw, row",
    (
        ("exponential", lambda g, n: g.standard_exponential(n), np.array([1.0 + 1e-9])),
        ("normal", lambda g, n: g.standard_normal(n), np.array([1e-9, 1.0 - 1e-9])),
        ("laplace", lambda g, n: g.laplace(0.0, 1.0, n), np.array([0.5 + 1e-9, 1.0 + 1e-9, 1.0 - 1e-9])),
    ),
)
def test_the_bound_holds_where_terms_of_one_kind_cancel(kind: str, draw: Any, row: Floats, rows: bool) -> None:
    mixture, size = join([{kind: row[None]}], np.array([0.5, 0.5])), 40
    tape = Tape(1, mixture, size, rows)
    if rows:
        draw(tape, size)
    else:
        for number in range(size):
            generator = tape.generator(number)
            draw(generator, None)
            generator.close()
    logs, bounds = tape.log_weights(np.arange(size))
    exact = np.array([reference(tape.entries(), mixture, i) for i in range(size)])
    assert (np.abs(logs.astype(WIDE) - exact) <= bounds).all()

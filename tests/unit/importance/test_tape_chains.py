"""Chained proposals: exact weights, known densities, and draws that have them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tapes import by_rows, check_mean, one_by_one

from hpcdp.importance import _chain_kernels as chain
from hpcdp.importance.chains import Near
from hpcdp.importance.curve import weighted_sums
from hpcdp.importance.fit import fit
from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import PLAIN, Proposal, is_chain, join
from hpcdp.importance.pool import Elite, Pool, ratios_of

Floats = NDArray[np.float64]

SHARES = np.array([0.3, 0.25, 0.25, 0.2])
SIZE = 40_000
CHANCE = 0.35  # of the geometric variates
STEP = -math.log1p(-CHANCE)
HEIGHTS = {chain.OWN + b: 2.0 / (1.0 + 8.0 * b / chain.BINS) for b in range(chain.BINS)}


def place(kind: str, code: float, c: float, rest: dict[int, float], row: list[float] | None = None) -> Floats:
    base = PLAIN[kind].size
    out = np.zeros(base + chain.OWN + chain.BINS)
    out[:base] = PLAIN[kind] if row is None else row
    out[base + chain.CODE], out[base + chain.COEFFICIENT], out[base + chain.TAIL] = code, c, 1.0
    for column, value in rest.items():
        out[base + column] = value
    return out


def chained(kind: str, step: float = 0.0) -> list[dict[str, Floats]]:
    """Three components of three places: up to a bound, without one, and one whose first place is tilted and scores little."""
    found = []
    for t, upper, tail in ((4.0, 2.5, 1.0), (6.5, 0.0, 1.3), (3.0, 1.0, 0.8)):
        own: dict[int, float] = {chain.THRESHOLD: t, chain.UPPER: upper, chain.TAIL: tail, chain.STEP: step}
        led = {chain.OWN: 0.3, chain.OWN + 1: 0.25, chain.OWN + 2: 0.9} if kind == "normal" else HEIGHTS
        lead = chain.FREE if kind == "laplace" else chain.LED
        sign = 1.0 if kind == "exponential" else -1.0
        tilt = {"normal": [0.5, 1.2], "exponential": [1.5], "laplace": [0.6, 1.4, 1.0]}[kind]
        first = place(kind, chain.FREE, 0.2, own, tilt) if t == 3.0 else place(kind, lead, 0.5, own | led)
        last = place(kind, chain.BEYOND, sign, own)
        found.append({kind: np.stack([first, place(kind, lead, 0.8, own | led), last])})
    return found


def proposal(kind: str, step: float = 0.0) -> Proposal:
    return join(chained(kind, step), SHARES)


KINDS: dict[str, Any] = {
    "normal": ("normal", 0.0, lambda g, n: g.normal(0.0, 1.0, n), stats.norm()),
    "exponential": ("exponential", 0.0, lambda g, n: g.exponential(1.0, n), stats.expon()),
    "laplace": ("laplace", 0.0, lambda g, n: g.laplace(0.0, 1.0, n), stats.laplace()),
    "geometric": ("exponential", STEP, lambda g, n: g.geometric(CHANCE, n), stats.geom(CHANCE)),
}
STYLES: dict[str, Any] = {
    "rows": lambda g, draw, size: draw(g, (size, 3)),
    "columns": lambda g, draw, size: draw(g, (3, size)).T,
    "calls": lambda g, draw, size: np.stack([draw(g, size) for _ in range(3)], axis=1),
    "flat": lambda g, draw, size: draw(g, 3 * size).reshape(size, 3),
}


@pytest.mark.parametrize(
    ("name", "style"),
    [*(("normal", style) for style in (*STYLES, "loop", "loop of arrays")),
     *((name, style) for name in KINDS if name != "normal" for style in ("rows", "loop"))],
)  # fmt: skip
def test_weights_make_up_for_chains(name: str, style: str) -> None:
    """E_g[w·φ] = E_f φ of the sum's tail, of a product and of 1."""
    kind, step, draw, law = KINDS[name]
    mixture = proposal(kind, step)
    if style in STYLES:
        out, tape = by_rows(lambda g, size: STYLES[style](g, draw, size), mixture, 31, SIZE)
    else:
        several = style == "loop of arrays"
        one = (lambda g: draw(g, 3)) if several else (lambda g: [float(draw(g, None)) for _ in range(3)])
        out, tape = one_by_one(one, mixture, 32, 8_000)
    logs, errors = tape.log_weights(np.arange(out.shape[0]))
    weights = np.exp(logs)
    assert errors.max() < 1e-9
    assert weights.max() <= mixture.largest * (1.0 + 1e-9)
    assert np.ptp(weights) > 0.5
    check_mean(weights, 1.0, name)
    far = law.ppf(0.9)
    check_mean(weights * (out > far).all(axis=1), float(law.sf(far)) ** 3, name)
    check_mean(weights * out[:, 0] * out[:, 2], float(law.mean()) ** 2, name)
    check_mean(weights * (out[:, 1] > far), float(law.sf(far)), name)
    ratios = ratios_of(tape, np.arange(out.shape[0]), chained(kind, step))
    taught = np.logaddexp.reduce(ratios + np.log(SHARES), axis=1)
    np.testing.assert_allclose(-taught, logs, atol=1e-9, err_msg="training weighs draws as the test does")


def literal(kind: str, table: Floats, values: Floats) -> tuple[float, list[float]]:
    """log g − log f of an output's values, place by place, as docs/mathematics-draws.md has it; and G of each."""
    base, score, total, told = PLAIN[kind].size, 0.0, 0.0, []
    for row, x in zip(table, values, strict=True):
        own = row[base:]
        code, c, t, upper, tail, step = own[: chain.OWN]
        rest = t - score
        if kind == "normal":
            f = stats.norm.logpdf(x)
            g, below = stats.norm.logpdf(x, *row[:base]), stats.norm.cdf(x, *row[:base])
        elif kind == "exponential":
            f, g, below = -x, -x / row[0] - math.log(row[0]), -math.expm1(-x / row[0])
        else:
            up, own_size = (row[0], row[1]) if x >= 0.0 else (1.0 - row[0], row[2])
            f, g = -abs(x) - math.log(2.0), math.log(up / own_size) - abs(x) / own_size
            below = 1.0 - up * math.exp(-x / own_size) if x >= 0.0 else up * math.exp(x / own_size)
        size = abs(c) or math.inf
        y, near, room = x * math.copysign(1.0, c), rest / size, (upper or math.inf) / size
        if kind == "exponential":
            ends = [near, near + room]
            if step > 0.0:
                ends = [step * (math.ceil(end - 0.25) - 1.0) if math.isfinite(end) else end for end in ends]
            near, end = (max(0.0, end) for end in ends)
            room = end - near if end > near and code != chain.LED else math.inf
            if code >= chain.HELD and end == near:  # a dead end, which a chain leaves by no more than this
                room = step or upper / c
        if code == chain.LED and kind == "normal":
            law = own[chain.OWN] + own[chain.OWN + 1] * rest, own[chain.OWN + 2]
            g, below = stats.norm.logpdf(x, *law), stats.norm.cdf(x, *law)
        elif code in (chain.LED, chain.HELD) and near > 0.0:
            heights = own[chain.OWN :]
            edges = np.arange(heights.size + 1) * near / heights.size
            if step > 0.0:
                edges = step * np.ceil(np.arange(heights.size + 1) * round(near / step) / heights.size)
            beyond = -tail * math.expm1(-room / tail)
            area = beyond + float(heights @ np.diff(edges))
            if x >= near:
                g = -(x - near) / tail - math.log(area) if x < near + room else -math.inf
                below = 1.0 - (beyond + tail * math.expm1(-(x - near) / tail)) / area
            else:
                b = int((x >= edges[1:]).sum())  # on a lattice some are empty
                g, within = math.log(heights[b] / area), x
                if step > 0.0:
                    g += math.log(step / -math.expm1(-step)) - x % step
                    within = x - x % step + step * math.expm1(-(x % step)) / math.expm1(-step)
                below = float(heights @ np.clip(within - edges[:-1], 0.0, np.diff(edges))) / area
        elif code != chain.FREE and near >= {"normal": 0.5, "laplace": 0.0}.get(kind, -1.0):
            rate = 0.5 * (near + math.sqrt(near**2 + 4.0)) if kind == "normal" else 1.0 / tail
            held = -math.expm1(-room * rate)
            g = math.log(rate / held) - rate * (y - near) if near <= y < near + room else -math.inf
            below = -math.expm1(-rate * (y - near)) / held
        total, told = total + g - f, [*told, below]
        score += c * (math.ceil(x / step) if step > 0.0 else x)
    return total, told


@pytest.mark.parametrize("name", KINDS)
def test_densities_are_products_of_conditional_ones(name: str) -> None:
    kind, step, draw, _ = KINDS[name]
    tape = Tape(5, proposal(kind, step), 400, True)
    draw(tape, (400, 3))
    values = tape.entries()[0].values
    for component in chained(kind, step):
        found = ratios_of(tape, np.arange(400), [component])[:, 1]
        exact = np.array([literal(kind, component[kind], own)[0] for own in values])
        np.testing.assert_array_equal(np.isinf(found), np.isinf(exact))
        inside = np.isfinite(exact)
        assert inside.sum() > 50
        np.testing.assert_allclose(found[inside], exact[inside], rtol=1e-9, atol=1e-9)


ENDED: dict[str, tuple[float, Any, Any, tuple[float, ...]]] = {
    "exponential": (*KINDS["exponential"][1:], (0.5, 0.8, 1.0)),
    "geometric": (*KINDS["geometric"][1:], (0.5, 0.8, 1.0)),
    "alike": (*KINDS["geometric"][1:], (1.0, 1.0, 1.0)),
    "one of none": (*KINDS["geometric"][1:], (1.0, 0.0, 1.0)),
}


def ended(steps: Any, coefficients: tuple[float, ...], t: float, upper: float, tail: float = 1.0) -> dict[str, Floats]:
    """A component on an interval of the score."""
    least, rows = np.array(coefficients) * (np.array(steps) > 0.0), []
    for j, (step, c) in enumerate(zip(steps, coefficients, strict=True)):
        own = {chain.THRESHOLD: t - least[j + 1 :].sum(), chain.UPPER: upper, chain.TAIL: tail, chain.STEP: step}
        is_last = j == len(coefficients) - 1 or t < 0.0
        code = chain.ENDED if is_last else chain.HELD if c > 0.0 else chain.FREE
        rows.append(place("exponential", code, c, own | HEIGHTS))
    return {"exponential": np.stack(rows)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDED)
def test_chains_that_end_at_every_place(name: str) -> None:
    """Their densities, what is drawn by them, where that lies, and what their weights tell."""
    step, draw, law, coefficients = ENDED[name]
    ends = ((3.5, 1.5, 1.0), (5.5, 2.5, 1.3), (8.5, 1.0, 0.8))  # which share no output where they lie apart
    components = [ended((step,) * 3, coefficients, *end) for end in ends]
    tape = Tape(7, join(components, SHARES), SIZE, True)
    out = np.asarray(draw(tape, (SIZE, 3)), np.float64)
    (entry,), (strata, _) = tape.entries(), tape.strata(np.arange(SIZE))
    every = ratios_of(tape, np.arange(SIZE), components)[:, 1:]
    for k, component in enumerate(components):
        table = component["exponential"]
        few = np.concatenate([np.arange(300), np.flatnonzero(strata == k + 1)[:3_000]])
        exact, told = zip(*(literal("exponential", table, entry.values[i]) for i in few), strict=True)
        np.testing.assert_array_equal(np.isinf(every[few, k]), np.isinf(exact))
        inside = np.isfinite(exact)
        np.testing.assert_allclose(every[few, k][inside], np.array(exact)[inside], rtol=1e-9, atol=1e-9)
        assert inside[300:].all()
        for j in range(3):
            assert stats.kstest(np.array(told[300:])[:, j], "uniform").pvalue > 1e-6, (k, j)
        if name != "geometric":  # there a step may lead beyond
            t, upper = table[-1, PLAIN["exponential"].size + np.array([chain.THRESHOLD, chain.UPPER])]
            score = out[strata == k + 1] @ coefficients
            assert t <= score.min()
            assert score.max() < t + upper + 1e-9
    weights = np.exp(tape.log_weights(np.arange(SIZE))[0])
    far = law.ppf(0.7)
    check_mean(weights, 1.0, name)
    check_mean(weights * (out > far).all(axis=1), float(law.sf(far)) ** 3, name)
    check_mean(weights * out[:, 0] * out[:, 2], float(law.mean()) ** 2, name)


@pytest.mark.parametrize("terms, chance", [(3, 0.55), (2, 0.3)])
def test_draws_on_tiles_tell_probabilities_by_their_integrals(terms: int, chance: float) -> None:
    """Of values that have a tile of their own, and of two that share one, beside exact ones; and how well they are told."""
    step, tables = -math.log1p(-chance), []
    for t, upper in ((7.5, 1.0), (8.5, 1.0), (9.5, 2.0)):
        own = {chain.UPPER: upper, chain.TAIL: 1.0, chain.STEP: step}
        rows = []
        for left in range(terms - 1, -1, -1):
            ways = 1.0 + (math.ceil(t - left) - 1) * (1.0 - np.arange(chain.BINS) / chain.BINS) * (left == 2)
            heights = {chain.OWN + b: h for b, h in enumerate(ways * -math.expm1(-step) / step)}
            code = chain.HELD if left else chain.ENDED
            rows.append(place("exponential", code, 1.0, own | heights | {chain.THRESHOLD: t - left}))
        tables.append({"exponential": np.stack(rows)})
    pool, size = Pool(), 1 << 14
    numbers = [0, *pool.add(tables)]
    tape = Tape(11, join(tables, np.full(4, 0.25)), size, True)
    out = np.asarray(tape.geometric(chance, (size, terms)).sum(axis=1), np.float64)
    pool.take([(out, tape)], numbers)
    cells, weights = out.astype(np.int64), pool.weights()
    assert set(np.unique(pool.tiles[0])) == {-1, 0, 1, 2}
    share, variance = weighted_sums(cells, weights, *pool.tiles, 64)
    plain = np.bincount(cells, weights * weights, 64) / size**2
    exact = stats.nbinom(terms, chance).pmf(np.arange(64) - terms)
    for value in (4, 6, 8, 9, 10, 11):
        assert abs(share[value] - exact[value]) < 5.0 * math.sqrt(variance[value]), value
    assert (variance[[8, 9]] < 0.2 * plain[[8, 9]]).all()
    np.testing.assert_allclose(variance[[4, 6]], plain[[4, 6]])


@pytest.mark.parametrize("shift", [0.0, -3.0])
def test_a_chain_ends_where_the_next_set_begins_and_else_nowhere(shift: float) -> None:
    """Also where scores in the set are below 0."""
    tape = Tape(6, Proposal.plain(), 1 << 13, True)
    out, ones = tape.normal(0.0, 1.0, (tape.size, 3)).sum(axis=1), np.ones(tape.size)
    every, inside = np.arange(tape.size), np.flatnonzero(out >= 2.0 + shift)
    for end in (3.0 + shift, math.inf):
        classes = np.where(out >= end, 1, np.where(out >= 2.0 + shift, 0, -1))
        found = fit(
            [Elite(tape, inside, ones[inside], out[inside])], near=Near([Elite(tape, every, ones, out)], classes)
        )
        tables = [one["normal"][-1, PLAIN["normal"].size :] for _, one in found if is_chain(one)]
        assert tables
        for row in tables:
            assert row[chain.CODE] == chain.BEYOND
            assert row[chain.UPPER] == pytest.approx(1.0 if end < math.inf else 0.0, abs=0.02)

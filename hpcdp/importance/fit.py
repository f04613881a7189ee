"""Proposals from weighted tapes: of each place the tilt under which what was found there is likeliest (cross-entropy).

Of independent entries the best product of tilts has the weighted means of what was found (Rubinstein and Kroese 2004); several
modes are told apart by expectation and maximisation. Heuristic: whatever is proposed, weights are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcdp.importance.chains import Near, chained
from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import BINS, PLAIN, Component, Floats
from hpcdp.importance.pool import Elite, Place, find_places, ratios_of

_MOST_MODES = 4
_NARROW, _NARROWEST = 0.7, 0.05  # spreads of normals, of plain ones 1
_MOST_PLACES = 400  # with more, modes are not told apart
_ROUNDS = 12
_JUDGED = 1_000  # outputs by which it is judged how many modes there are
_GAIN = 0.1  # of the log-likelihood of an output that was kept out, from which on another mode is worth it
_CLEAR = 3.0  # standard errors from which on a place is tilted at all
_WIDEST = 4.0
_PLAIN_SHARE = 0.01  # of each place with tilted masses, so that no value is impossible
_STEP = 2.0**-53  # of uniforms
_SPLIT = 8.0  # of the log-likelihood, by which another bin must be worth it


def fit(
    elites: Sequence[Elite], narrows: bool = False, near: Near | None = None, splits: bool = True
) -> list[tuple[float, Component]]:
    """Components with shares of the weight; narrows: twice where normals are narrow; near: also with a chain that leads there."""
    mixture = _modes(elites, splits)
    if narrows or near is not None:
        weights = np.concatenate([elite.weights for elite in elites])
        places = find_places(elites) if narrows else []
        ratios = _ratios(elites, [component for _, component in mixture]) + np.log([share for share, _ in mixture])
        chances = np.exp(ratios - np.logaddexp.reduce(ratios, axis=1)[:, None])
        for k, (share, component) in enumerate([*mixture]):
            own = weights * chances[:, k]
            narrow = _narrowed(component, places, own) if narrows else None
            of_mode = np.where(chances[:, k] > 0.5, own, 0.0)
            chain = None if near is None else chained(elites, of_mode, component, near)
            for more in (narrow, chain):
                if more is not None:
                    mixture[k] = (0.4 * mixture[k][0], component)
                    mixture.append((0.6 * share, more))
    return mixture


def _narrowed(component: Component, places: Sequence[Place], weights: Floats) -> Component | None:
    """The component with the spread of its normals as it was found, None where none is narrower than a plain one."""
    if "normal" not in component:
        return None
    table, is_new = component["normal"].copy(), False
    for place in places:
        if place.kind == "normal" and place.place < table.shape[0]:
            own = weights[place.output]
            if not own.sum() > 0.0:
                continue
            mean = own @ place.values / own.sum()
            spread = float(np.sqrt(own @ (place.values - mean) ** 2 / own.sum()))
            if spread < _NARROW:
                table[place.place], is_new = (mean, max(spread, _NARROWEST)), True
    return {**component, "normal": table} if is_new else None


def _modes(elites: Sequence[Elite], splits: bool) -> list[tuple[float, Component]]:
    weights = np.concatenate([elite.weights for elite in elites])
    places = find_places(elites)
    single = [(1.0, fit_product(places, weights))]
    if not (splits and weights.size) or len(places) > _MOST_PLACES:
        return single
    modes = count_modes(elites)
    return (_expectation(elites, places, weights, modes) if modes > 1 else None) or single


def count_modes(elites: Sequence[Elite]) -> int:
    """How many modes outputs that were kept out gain by; of a part of the outputs."""
    step = -(-sum(elite.which.size for elite in elites) // _JUDGED)
    few = [Elite(e.tape, e.which[::step], e.weights[::step], e.outputs[::step]) for e in elites]
    weights, places = np.concatenate([elite.weights for elite in few]), find_places(few)
    kept_out = np.arange(weights.size) % 2 == 1
    learn, judge = np.where(kept_out, 0.0, weights), np.where(kept_out, weights, 0.0)
    if not (learn.any() and judge.any()):
        return 1
    best = _likelihood(few, [(1.0, fit_product(places, learn))], judge)
    for modes in range(2, _MOST_MODES + 1):
        split = _expectation(few, places, learn, modes)
        now = -np.inf if split is None else _likelihood(few, split, judge)
        if now < best + _GAIN:
            return modes - 1
        best = now
    return _MOST_MODES


def wild(tape: Tape) -> list[Component]:
    """Components that look far out in all directions, for the kinds and places of a plain tape."""
    lengths = tape.lengths()
    places = sum(lengths.values())
    scales = (2.0, 4.0, 8.0) if places <= 4 else (1.5, 2.0, 4.0) if places <= 12 else (1.2, 1.5)
    components: list[Component] = []
    for scale in scales:
        components.append({kind: np.tile(_widened(kind, scale), (n, 1)) for kind, n in lengths.items()})
    if 1 < places <= 16:
        for kind, n in lengths.items():
            for place in range(n):
                table = np.tile(PLAIN[kind], (n, 1))
                table[place] = _widened(kind, 4.0)
                components.append({kind: table})
    return [component for component in components if component]


def _widened(kind: str, scale: float) -> Floats:
    if kind == "normal":
        return np.array([0.0, scale])
    if kind == "exponential":
        return np.array([scale])
    if kind == "laplace":
        return np.array([0.5, scale, scale])
    near = 2.0 ** -np.linspace(2.0, min(40.0, 4.0 + 6.0 * scale), BINS // 2 - 1)[::-1]
    edges = np.concatenate([near, [0.5], 1.0 - near[::-1]])
    return np.concatenate([np.full(BINS, 1.0 / BINS), np.round(edges / _STEP) * _STEP])


def _ratios(elites: Sequence[Elite], components: Sequence[Component]) -> Floats:
    return np.concatenate([ratios_of(elite.tape, elite.which, components)[:, 1:] for elite in elites])


def _likelihood(elites: Sequence[Elite], mixture: list[tuple[float, Component]], weights: Floats) -> float:
    shares, components = zip(*mixture, strict=True)
    mixed = np.logaddexp.reduce(_ratios(elites, components) + np.log(shares), axis=1)
    return float(weights @ mixed / weights.sum())


def _expectation(
    elites: Sequence[Elite], places: Sequence[Place], weights: Floats, modes: int
) -> list[tuple[float, Component]] | None:
    """A mixture of so many modes; it starts from outputs ordered along the direction in which they differ most."""
    along = _principal(places, weights)
    if along is None:
        return None
    total = weights.sum()
    order = np.argsort(along, kind="stable")
    rank = np.empty(along.size)
    rank[order] = np.cumsum(weights[order]) / total
    own = np.minimum((rank * modes).astype(np.int64), modes - 1)
    chances = np.where(np.arange(modes) == own[:, None], 0.9, 0.1 / (modes - 1))
    for _ in range(_ROUNDS):
        parts = [weights * chances[:, k] for k in range(modes)]
        shares = [max(1e-12, float(part.sum() / total)) for part in parts]
        components = [fit_product(places, part) for part in parts]
        ratios = _ratios(elites, components) + np.log(shares)
        chances = np.exp(ratios - np.logaddexp.reduce(ratios, axis=1)[:, None])
    return list(zip(shares, components, strict=True)) if min(shares) > 0.02 else None


def _principal(places: Sequence[Place], weights: Floats) -> Floats | None:
    """The first principal component of what outputs were given, (outputs,); None: nothing differs."""
    columns = []
    for place in places:
        column = np.zeros(weights.size)
        column[place.output] = place.values
        mean = weights @ column / weights.sum()
        spread = np.sqrt(weights @ (column - mean) ** 2 / weights.sum())
        if spread > 0.0:
            columns.append((column - mean) * (1.0 if place.kind in ("normal", "laplace") else 1.0 / spread))
    if not columns:
        return None
    matrix = np.stack(columns, axis=1)
    _, vectors = np.linalg.eigh((matrix * weights[:, None]).T @ matrix)
    return np.asarray(matrix @ vectors[:, -1])


def fit_product(places: Sequence[Place], weights: Floats) -> Component:
    """The likeliest product of tilts."""
    lengths: dict[str, int] = {}
    for place in places:
        lengths[place.kind] = max(lengths.get(place.kind, 0), place.place + 1)
    tables = {kind: np.tile(PLAIN[kind], (n, 1)) for kind, n in lengths.items()}
    for place in places:
        own = weights[place.output]
        inside = own > 0.0
        total = float(own.sum())
        if total > 0.0:
            own, values = own[inside] / total, place.values[inside]
            row = _FIT[place.kind](values, own, 1.0 / float((own * own).sum()))
            if row is not None:
                tables[place.kind][place.place, : row.size] = row
    return {kind: table for kind, table in tables.items() if (table != PLAIN[kind]).any()}


def _fit_normal(x: Floats, w: Floats, size: float) -> Floats | None:
    mean = float(w @ x)
    scale = float(np.sqrt(w @ (x - mean) ** 2))
    is_moved, is_wide = abs(mean) > _CLEAR / np.sqrt(size), scale > 1.0 + _CLEAR / np.sqrt(2.0 * size)
    # never narrower than the noise itself: the weights beyond a shift then fall, and are bounded on a half-line
    return (
        np.array([mean if is_moved else 0.0, min(_WIDEST, scale) if is_wide else 1.0]) if is_moved or is_wide else None
    )


def _fit_exponential(x: Floats, w: Floats, size: float) -> Floats | None:
    mean = float(w @ x)
    return np.array([max(mean, 0.05)]) if abs(mean - 1.0) > _CLEAR / np.sqrt(size) else None


def _fit_laplace(x: Floats, w: Floats, size: float) -> Floats | None:
    up = x >= 0.0
    chance = float(w[up].sum())
    if abs(chance - 0.5) <= _CLEAR / np.sqrt(4 * size) and abs(float(w @ np.abs(x)) - 1.0) <= _CLEAR / np.sqrt(size):
        return None
    scales = [
        float(w[s] @ np.abs(x[s])) / max(1e-300, float(w[s].sum())) if w[s].sum() > 10.0 / size else 1.0
        for s in (up, ~up)
    ]
    bounded = min(max(chance, _PLAIN_SHARE), 1.0 - _PLAIN_SHARE)
    return np.array([bounded, max(scales[0], 0.1), max(scales[1], 0.1)])


def _fit_uniform(x: Floats, w: Floats, size: float) -> Floats | None:
    """A density of at most 16 steps: the bin whose cut gains most is cut, as long as that is worth it."""
    order = np.argsort(x, kind="stable")
    x, cumulated = x[order], np.concatenate([[0.0], np.cumsum(w[order])])
    bins = [(0.0, 1.0)]
    cuts = {bins[0]: _best_cut(x, cumulated, *bins[0])}
    while len(bins) < BINS:
        gain, at = max(((*cuts[b][:1], b) for b in bins), key=lambda pair: pair[0])
        if gain * size < _SPLIT:
            break
        edge = cuts[at][1]
        bins.remove(at)
        for part in ((at[0], edge), (edge, at[1])):
            bins.append(part)
            cuts[part] = _best_cut(x, cumulated, *part)
    if len(bins) == 1:
        return None
    bins.sort()
    edges = np.array([low for low, _ in bins[1:]])
    sums = np.diff(cumulated[np.searchsorted(x, np.concatenate([[0.0], edges, [1.0]]))])
    while edges.size < BINS - 1:  # a bin cut in two equal halves is the same density
        whole = np.concatenate([[0.0], edges, [1.0]])
        widest = int(np.argmax(np.diff(whole)))
        middle = np.round(0.5 * (whole[widest] + whole[widest + 1]) / _STEP) * _STEP
        share = (middle - whole[widest]) / (whole[widest + 1] - whole[widest])
        edges = np.insert(edges, widest, middle)
        sums = np.insert(sums, widest, sums[widest] * share)
        sums[widest + 1] *= 1.0 - share
    widths = np.diff(np.concatenate([[0.0], edges, [1.0]]))
    return np.concatenate([(1.0 - _PLAIN_SHARE) * sums / sums.sum() + _PLAIN_SHARE * widths, edges])


def _best_cut(x: Floats, cumulated: Floats, low: float, high: float) -> tuple[float, float]:
    """Gain of the log-likelihood by the best cut of a bin, and where it is, a little towards the sparse side."""
    first, last = (int(i) for i in np.searchsorted(x, (low, high)))
    if last - first < 8 or high - low < 2.0**-36:
        return 0.0, low
    at = x[first + 1 : last]
    left = cumulated[first + 1 : last] - cumulated[first]
    total = float(cumulated[last] - cumulated[first])
    right = total - left
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (
            left * np.log(left / (at - low))
            + right * np.log(right / (high - at))
            - total * np.log(total / (high - low))
        )
    gain[~np.isfinite(gain)] = 0.0
    best = int(gain.argmax())
    edge, dense_left = float(at[best]), left[best] * (high - at[best]) > right[best] * (at[best] - low)
    if dense_left:
        edge += min(10.0 * (edge - low) / (best + 2), 0.5 * (high - edge))
    else:
        edge = float(x[first + best]) if best else edge
        edge = float(at[best]) - min(10.0 * (high - edge) / (last - first - best), 0.5 * (edge - low))
    edge = float(np.round(edge / _STEP) * _STEP)
    return (float(gain[best]), edge) if low < edge < high else (0.0, low)


_FIT = {"normal": _fit_normal, "exponential": _fit_exponential, "laplace": _fit_laplace, "uniform": _fit_uniform}

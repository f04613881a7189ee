"""Where cells begin: on a line of slowly changing widths, or half-way between the values of a lattice.

Widths obey h(x) <= h(y) + growth·|x − y|, so a cell and its neighbour differ by the factor 1 + growth at most. The largest
such h below the pilot's quantile spacings is linear in pieces; cells are where the integral of 1/h is an integer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_CELLS = 1 << 16
"""No line is cut in more cells."""

_QUANTILES = 1 << 13
_FEWEST = 16  # pilot outputs between neighbouring quantiles, so that their spacing is not chance alone
_GROWTH = 0.002
_FAR = 1e6  # ranges of the pilot beyond which there is one last cell
_LATTICE_REACH = 2048  # values of a lattice beyond the pilot, or into a gap, that have cells of their own
_LATTICE_GROWTH = 0.005


def mirrored(size: int, parts: int) -> Ints:
    """Places that cut range(size + 1) in an odd number of about `parts` nearly equal parts, or in single steps.

    0 and size are among them. They are the same ones seen from the other end, so a change of sign changes nothing.
    """
    if parts >= size:
        return np.arange(size + 1)
    parts = max(1, parts - 1) | 1
    half = np.arange(parts // 2 + 1) * size // parts
    return np.unique(np.concatenate([half, size - half]))


def unit_exponent(x: Floats) -> int:
    """The power of two that brings the largest |x| into [1/2, 1)."""
    return int(np.frexp(np.abs(x).max())[1])


def cut_line(pool: Floats, most: int) -> Floats:
    """Edges of at most `most` cells, increasing and finite, of a sorted pool that holds two values or more."""
    exponent = unit_exponent(pool)
    unit = np.ldexp(pool, -exponent)  # neither differences nor tails overflow
    centre = 0.5 * unit[(unit.size - 1) // 2] + 0.5 * unit[unit.size // 2]
    at = mirrored(pool.size - 1, min(_QUANTILES, max(1, (pool.size - 1) // _FEWEST)))
    quantiles = np.unique(unit[at] - centre)
    fine = _QUANTILES / (quantiles.size - 1)
    growth = _GROWTH
    while True:
        nodes, widths = _pieces(quantiles, fine, growth)
        offsets = _integrate(nodes, widths, most - 1)
        if offsets is not None:
            break
        growth *= 2.0
        fine = max(1.0, fine / 2.0)
    edges = np.ldexp(centre + offsets, exponent)
    return np.unique(edges[np.isfinite(edges)])


def _pieces(x: Floats, fine: float, growth: float) -> tuple[Floats, Floats]:
    """Nodes of the width function and its values there, of sorted distinct quantiles x, at least two."""
    gaps = np.diff(x)
    caps = np.maximum(gaps / fine, np.finfo(float).tiny)
    at = np.minimum(np.append(caps, np.inf), np.append(np.inf, caps)).tolist()
    rises = (growth * gaps).tolist()
    for i in range(1, len(at)):
        at[i] = min(at[i], at[i - 1] + rises[i - 1])
    for i in range(len(at) - 2, -1, -1):
        at[i] = min(at[i], at[i + 1] + rises[i])
    left, right = np.array(at[:-1]), np.array(at[1:])
    meet = np.clip(0.5 * (gaps + (right - left) / growth), 0.0, gaps)
    up = np.minimum(np.maximum(caps - left, 0.0) / growth, meet)
    down = np.minimum(np.maximum(caps - right, 0.0) / growth, gaps - meet)
    nodes = np.stack([x[:-1], x[:-1] + up, x[1:] - down], axis=1).reshape(-1)
    widths = np.stack([left, left + growth * up, right + growth * down], axis=1).reshape(-1)
    far = _FAR * (x[-1] - x[0])
    nodes = np.concatenate([[x[0] - far], nodes, [x[-1], x[-1] + far]])
    widths = np.concatenate([[at[0] + growth * far], widths, [at[-1], at[-1] + growth * far]])
    return nodes, widths


def _integrate(nodes: Floats, widths: Floats, most: int) -> Floats | None:
    """Edges at equal steps, of about 1, of the integral of 1/width; None where that makes more than `most` cells."""
    lengths = np.maximum(np.diff(nodes), 0.0)
    rise = np.diff(widths)
    flat = np.abs(rise) < 1e-6 * widths[:-1]  # 1/width there is that of the middle, to 1e-13
    with np.errstate(invalid="ignore", divide="ignore"):
        bent = lengths * (np.diff(np.log(widths)) / rise)
    counts = np.where(flat, lengths / (widths[:-1] + 0.5 * rise), bent)
    sums = np.append(0.0, np.cumsum(counts))
    if not sums[-1] <= most - 1:
        return None
    targets = np.linspace(0.0, sums[-1], int(np.ceil(sums[-1])) + 1)
    piece = np.clip(np.searchsorted(sums, targets, "right") - 1, 0, lengths.size - 1)
    inside = targets - sums[piece]
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = (rise / lengths)[piece]
        bent = widths[piece] * (np.expm1(slope * inside) / slope)
    straight = inside * (widths[:-1] + 0.5 * rise)[piece]
    return nodes[piece] + np.minimum(np.where(flat[piece], straight, bent), lengths[piece])


def lattice_spacing(values: Floats, most: int) -> float | None:
    """The spacing of the lattice that sorted distinct values lie on, or None; at least two values. In 2^`unit_exponent`.

    A lattice that would need more than `most` values (gaps count as `_LATTICE_REACH` values twice at most) is none.
    """
    exponent = unit_exponent(values)
    gaps = np.diff(np.ldexp(values, -exponent))
    if not gaps.min() > 0:  # the smallest are lost beside the largest
        return None
    near = gaps[gaps < 1.5 * gaps.min()]
    spacing = float(np.median(near))
    steps = np.rint(gaps / spacing)
    rounding = 4 * np.finfo(float).eps
    missed = np.abs(gaps - steps * spacing)
    close = (missed <= 1e-9 * steps * spacing) & (missed <= 0.01 * spacing) & (steps <= 1e9)
    if not (close | ((missed <= rounding) & (8 * rounding <= spacing))).all():
        return None
    if np.minimum(steps, 2 * _LATTICE_REACH).sum() > most:
        return None
    return spacing


def cut_values(values: Floats, spacing: float | None, most: int) -> Floats:
    """Edges half-way between sorted distinct values, at least two, increasing and finite, at most `most`.

    spacing: of the lattice of these values, in 2^`unit_exponent`; its values inside gaps have cells too. None: no
    lattice, and gaps stay whole. Either way cells go on beyond the values: every step first, then in steps that grow.
    """
    exponent = unit_exponent(values)
    unit = np.ldexp(values, -exponent)
    gaps = np.diff(unit)
    step = spacing if spacing is not None else float(np.median(gaps[gaps > 0]))
    middle = 0.5 * values[:-1] + 0.5 * values[1:]
    middle = np.where((middle > values[:-1]) & (middle <= values[1:]), middle, values[1:])
    wide = np.flatnonzero(gaps > 1.5 * step) if spacing is not None else np.empty(0, np.int64)
    far = _FAR * (unit[-1] - unit[0]) / step
    reach, growth = _LATTICE_REACH, _LATTICE_GROWTH
    while True:
        outer = _growing(reach, growth, far)
        filled = [_fill(gaps[i] / step, reach, growth) for i in wide]
        total = 2 * outer.size + sum(part.size for part in filled) + middle.size
        if total <= most or reach == 0:
            break
        reach, growth = reach // 2, growth * 2.0
    new = [_between_values(unit[-1], step, outer), _between_values(unit[0], step, -outer)]
    new += [_between_values(unit[i], step, part) for i, part in zip(wide, filled, strict=True)]
    narrow = np.ones(middle.size, np.bool_)
    narrow[[i for i, part in zip(wide, filled, strict=True) if part.size]] = False
    edges = np.concatenate([middle[narrow], *(np.ldexp(part, exponent) for part in new)])
    return np.unique(edges[np.isfinite(edges)])


def _between_values(base: float, step: float, places: Floats) -> Floats:
    """Edges at base + step·places, half-way between two values; the upper one where no float is between them."""
    low, high = base + step * (places - 0.5), base + step * (places + 0.5)
    middle = 0.5 * low + 0.5 * high
    return np.where((middle > low) & (middle <= high), middle, high)


def _growing(reach: int, growth: float, limit: float) -> Floats:
    """Half-way places in steps beyond 0: ½, 1½, … `reach` times, then ever farther apart, up to the limit."""
    if reach == 0:
        return np.array([0.5])
    places = np.arange(min(reach, int(min(limit, reach)) + 1), dtype=np.float64)
    if limit > reach:
        count = int(np.ceil(np.log1p((limit - reach) * growth) / np.log1p(growth)))
        places = np.append(places, np.rint(reach - 1 + np.expm1(np.arange(1, count + 1) * np.log1p(growth)) / growth))
    return np.unique(places) + 0.5


def _fill(steps: float, reach: int, growth: float) -> Floats:
    """Half-way places inside a gap of so many steps, growing from both ends to its middle; empty where reach is 0."""
    if reach == 0:
        return np.empty(0)
    whole = float(np.rint(steps))
    if whole <= 2 * reach:
        return np.arange(whole) + 0.5
    near = _growing(reach, growth, whole / 2 - 1)
    near = near[near < whole / 2]
    return np.concatenate([near, whole - near[::-1]])

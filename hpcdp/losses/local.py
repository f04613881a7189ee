"""The local estimates of Askin, Kutta and Dette (S&P 2022): DPL on training outputs, and densities at a point named beforehand.

DPL (Algorithm 3) is |ln f − ln f'| at its largest over a region C, of densities with an absolute floor τ: of the values' own
frequencies where outputs are discrete (TDDE), else of Gaussian kernels (TKDE). The second stage of MPL (Algorithm 4)
estimates both densities anew at that point alone, with one bandwidth for both laws: there sums of weights, whole numbers, are
all that is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.distinct import count_distinct, learn_sides
from hpcdp.losses.kde._density import SMALLEST, Summary
from hpcdp.losses.kde.kde import Kde, LineModel, PlaneModel
from hpcdp.losses.parameters import KdeParameters
from hpcdp.losses.protocol import Counter, Model, Outputs, Side

Floats = NDArray[np.float64]
Interval = tuple[float, float]
Within = tuple[Interval, ...] | None
"""C: an interval a column, ends included; None: everywhere."""

UNIT = 1 << 32
"""What a kernel's weight at its centre counts: sums of whole numbers do not depend on their order."""

_UNDERSMOOTHED = 0.06  # the least γ in the exponent −1/(2 + d) − γ of the second stage's bandwidth


@dataclass(frozen=True)
class Peak:
    """Where the loss estimate is largest in size on training outputs."""

    loss: float  # ln f − ln f' there, signed; its size is ε̂ of DPL
    at: Any  # the output, as JSON has it
    error: float  # standard error of the loss, of training outputs, as if the place were not chosen (heuristic)
    bandwidths: tuple[float, ...] = ()  # of the second stage, one a column, for both laws; none of discrete outputs


def in_region(outputs: Outputs, within: Within) -> NDArray[np.bool_]:
    """Which outputs lie in C, shape (size,)."""
    if within is None:
        return np.ones(outputs.shape[0], np.bool_)
    rows = outputs[:, None] if outputs.ndim == 1 else outputs
    low, high = np.array(within, np.float64).T
    return np.asarray(((rows >= low) & (rows <= high)).all(axis=1))


def inside(side: Side, within: Within) -> Outputs:
    """The outputs of a side that lie in C."""
    if within is None:
        return side.outputs
    if side.is_sorted:
        ((low, high),) = within
        return side.outputs[np.searchsorted(side.outputs, low) : np.searchsorted(side.outputs, high, "right")]
    return side.outputs[in_region(side.outputs, within)]


def counter_inside(model: Model, thresholds: Floats, within: Within) -> Counter:
    """A model's counter, of which outputs that lie in C are asked alone."""
    if within is not None and isinstance(model, LineModel):
        return model.counter(thresholds, *within[0])
    return model.counter(thresholds)


def is_discrete(sides: Sequence[Side]) -> bool:
    """Whether training outputs are values that come again: no reals, or reals of which most are held more than once."""
    if any(side.dtype.kind != "f" for side in sides):
        return True
    rows = np.concatenate([side.spread(1 << 12) for side in sides])
    return 2 * count_distinct(rows) < rows.shape[0]


def has_densities(sides: Sequence[Side]) -> bool:
    """Whether DPL has an estimate of such outputs: discrete ones, or reals of one or two columns."""
    outputs = sides[0].outputs
    return is_discrete(sides) or outputs.ndim == 1 or outputs.shape[1] <= 2


def find_peak(
    p: Side,
    q: Side,
    floor: float,
    within: Within,
    tests: int,
    rule: str | float = "silverman",
    model: Model | None = None,
) -> Peak:
    """DPL of one pair, for a second stage with `tests` outputs a law. model: what `kde` by this rule learned, if it did."""
    if not is_discrete((p, q)):
        return _continuous(p, q, floor, within, tests, rule, model)
    distinct, *counts = learn_sides(p, q)
    values = distinct.values()
    order = np.argsort(values) if values.ndim == 1 else np.lexsort(values.T[::-1])  # of equal losses the least value's
    values, counts = values[order], [held[order] for held in counts]
    shares = [held / side.draws for held, side in zip(counts, (p, q), strict=True)]
    variance = sum(
        (1.0 / np.maximum(share, floor) - 1.0) / side.draws for share, side in zip(shares, (p, q), strict=True)
    )
    return _peak(shares, floor, np.asarray(variance), values, in_region(values, within))


def _continuous(
    p: Side, q: Side, floor: float, within: Within, tests: int, rule: str | float, model: Model | None
) -> Peak:
    if not isinstance(model, LineModel | PlaneModel):
        model = Kde(KdeParameters.model_validate({"bandwidth": rule})).fit(p, q)
    points: Floats
    if isinstance(model, LineModel):  # linear between nodes, so the largest loss is at a node or at an end of C
        points = model.cells[0]
        if within is not None:
            low, high = within[0]
            nodes = points[np.searchsorted(points, low, "right") : np.searchsorted(points, high)]
            points = np.concatenate([[low], nodes, [high]])
        volumes = model.p.bandwidth, model.q.bandwidth
    else:
        axes = [np.union1d(model.p.axis(k), model.q.axis(k)) for k in range(2)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        volumes = float(np.prod(model.p.bandwidths)), float(np.prod(model.q.bandwidths))
    densities = [model.p.density(points), model.q.density(points)]
    square = (2.0 * math.sqrt(math.pi)) ** (-1 if points.ndim == 1 else -2)
    variance = sum(
        square / (np.maximum(f, floor) * side.draws * volume)
        for f, side, volume in zip(densities, (p, q), volumes, strict=True)
    )
    bandwidths = second_bandwidths((p, q), tests)
    return _peak(densities, floor, np.asarray(variance), points, in_region(points, within), bandwidths)


def _peak(
    densities: Sequence[Floats],
    floor: float,
    variance: Floats,
    points: Outputs,
    inside: NDArray[np.bool_],
    bandwidths: tuple[float, ...] = (),
) -> Peak:
    if not inside.any():
        raise ValueError("pure.within: no training output lies in it")
    losses = np.log(np.maximum(densities[0], floor)) - np.log(np.maximum(densities[1], floor))
    place = int(np.argmax(np.where(inside, np.abs(losses), -1.0)))
    return Peak(float(losses[place]), as_json(points[place]), math.sqrt(variance[place]), bandwidths)


def as_json(output: Any) -> Any:
    """An output as JSON has it: bytes as text, or, where they are none, as 0x and their digits."""
    if not isinstance(output, bytes):
        return output.tolist()
    try:
        text = output.decode()
    except UnicodeDecodeError:
        return f"0x{output.hex()}"
    return text if not text.startswith("0x") else f"0x{output.hex()}"


def second_bandwidths(sides: Sequence[Side], tests: int) -> tuple[float, ...]:
    """One bandwidth a column for both laws: 0.9 · scale · N^(−1/(2 + d) − γ), undersmoothed ((C4) of the paper). Asymptotic."""
    rows = [np.asarray(side.outputs, np.float64).reshape(side.size, -1) for side in sides]
    columns, train = rows[0].shape[1], min(side.draws for side in sides)
    growth = max(0.0, math.log(tests) / math.log(max(2, train)) - 1.0)
    least = 2.0 * growth / (columns * (1.0 + growth) * (2.0 + columns))
    # γ undersmooths, so that the first stage's error in t̂ does not matter: N = n^(1 + growth)
    power = -1.0 / (2.0 + columns) - max(_UNDERSMOOTHED, math.floor(100.0 * least + 1.0) / 100.0)
    bandwidths = []
    for column in range(columns):
        scales = [
            (Summary.of_side(side) if columns == 1 else Summary.of(np.ascontiguousarray(x[:, column]))).scale()
            for side, x in zip(sides, rows, strict=True)
        ]
        scale = min((s for s in scales if s > 0.0), default=1.0)
        bandwidths.append(max(SMALLEST, 0.9 * scale * tests**power))
    return tuple(bandwidths)


def weigh(outputs: Outputs, at: Any, bandwidths: Sequence[float]) -> int:
    """The sum of weights at a point of at most 2³¹ outputs: Gaussian kernels in units of 1/2³², or how many are equal to it."""
    if not bandwidths:
        if outputs.dtype == object:
            wanted = bytes.fromhex(at[2:]) if at.startswith("0x") else at.encode()
            return sum(output == wanted for output in outputs)
        if outputs.ndim == 1:
            return int(np.count_nonzero(outputs == np.asarray(at, outputs.dtype)))
        return int(np.count_nonzero((outputs == np.asarray(at, outputs.dtype)).all(axis=1)))
    rows = np.asarray(outputs, np.float64).reshape(outputs.shape[0], -1)
    squares = np.zeros(rows.shape[0])
    for column, (centre, bandwidth) in enumerate(zip(np.atleast_1d(at), bandwidths, strict=True)):
        z = (rows[:, column] - centre) / bandwidth
        squares += z * z
    near = squares < 2.0 * math.log(2.0 * UNIT)  # farther away a weight is rounded to 0
    return int(np.rint(np.exp(-0.5 * squares[near]) * UNIT).astype(np.int64).sum())

"""Outputs as numbers that a linear model or a network learns from: columns brought to one scale, values, steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hpcdp.losses.protocol import Outputs

Floats = NDArray[np.float64]

SAMPLE = 1 << 17
"""Outputs of each side that are enough to learn columns from: a quantile is then within 0.2 % of its rank."""

_SHARE = 0.01  # of the outputs: a value that more of them hold gets an indicator of its own, so at most 100 a column
_STRAIGHT = 6.0  # scaled values beyond this grow with the logarithm only, so that heavy tails stay small
_NORMAL = 2 * float(ndtri(0.75))  # interquartile range of the standard normal law


def as_rows(outputs: Outputs) -> Floats:
    """Numeric outputs of shape (size,) or (size, d) as float64 rows (size, d), without a copy where there is no need."""
    return np.ascontiguousarray(outputs.reshape(outputs.shape[0], -1), np.float64)


@dataclass(frozen=True, eq=False)
class Columns:
    """How outputs (size, d) become features.

    A column of few values gives an indicator for each of its values but one. Any other gives its scaled value (minus the
    median, over the interquartile range in units of a normal law's), an indicator for each value that more than 1 % of
    the outputs hold, and steps: is it above a quantile? Steps of a column make a linear model additive: it can
    follow any function of one column, in as many levels as there are steps.

    scaled: columns (a,) int64 with centre and scale (a,). held, value: column and value (b,) of the indicators.
    stepped, edge: column and place (c,) of the steps.
    """

    scaled: NDArray[np.int64]
    centre: Floats
    scale: Floats
    held: NDArray[np.int64]
    value: Floats
    stepped: NDArray[np.int64]
    edge: Floats

    @classmethod
    def learn(cls, p: Outputs, q: Outputs, steps: int) -> Columns:
        """From some training outputs of each side, with so many steps a column."""
        rows = np.concatenate([as_rows(outputs) for outputs in (p, q)])
        numbers: list[tuple[int, float, float]] = []
        values: list[tuple[int, float]] = []
        edges: list[tuple[int, float]] = []
        for number, column in enumerate(rows.T):
            distinct, counts = np.unique(column, return_counts=True)
            common = counts > _SHARE * column.size
            if common.all():  # the commonest value is what the others differ from
                values += [(number, v) for v in np.delete(distinct, np.argmax(counts))]
                continue
            values += [(number, v) for v in distinct[common]]
            rest = column[~np.isin(column, distinct[common])] if common.any() else column
            low, centre, high = np.quantile(rest, [0.25, 0.5, 0.75])
            numbers.append((number, centre, (high - low) / _NORMAL or float(rest.std()) or 1.0))
            places = np.quantile(rest, np.arange(1, steps + 1) / (steps + 1), method="inverted_cdf")
            edges += [(number, v) for v in np.unique(places)]
        return cls(
            np.array([n for n, _, _ in numbers], np.int64),
            np.array([c for _, c, _ in numbers], np.float64),
            np.array([s for _, _, s in numbers], np.float64),
            np.array([n for n, _ in values], np.int64),
            np.array([v for _, v in values], np.float64),
            np.array([n for n, _ in edges], np.int64),
            np.array([v for _, v in edges], np.float64),
        )

    @property
    def plain(self) -> int:
        """How many features there are without the steps."""
        return self.scaled.size + self.held.size

    @property
    def size(self) -> int:
        """How many features there are."""
        return self.plain + self.stepped.size

    def features(self, rows: Floats, dtype: Any = np.float64) -> NDArray[Any]:
        """Features (size, self.size) of rows (size, d); the steps come last. Steps and indicators are 0 or 1."""
        columns = np.ascontiguousarray(rows.T)  # a feature at a time, in contiguous memory
        out = np.empty((self.size, rows.shape[0]), dtype)
        a, b = self.scaled.size, self.plain
        z = (columns[self.scaled] - self.centre[:, None]) / self.scale[:, None]
        far = np.abs(z) > _STRAIGHT
        if far.any():
            z[far] = np.sign(z[far]) * (_STRAIGHT + np.log1p(np.abs(z[far]) - _STRAIGHT))
        out[:a] = z
        for i, (column, value) in enumerate(zip(self.held, self.value, strict=True), a):
            out[i] = columns[column] == value
        for i, (column, edge) in enumerate(zip(self.stepped, self.edge, strict=True), b):
            out[i] = columns[column] > edge
        return out.T

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Columns:
        """The columns that `state` came from."""
        return cls(**{name: state[name] for name in cls.__dataclass_fields__})

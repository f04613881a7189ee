"""The second stage of MPL: the loss at a point (Askin, Kutta and Dette, S&P 2022, Algorithm 4). **Asymptotic**, all of it.

The point, the sign and the bandwidths were fixed by training; the sums of weights are of fresh outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtri


@dataclass(frozen=True)
class LossAt:
    """The loss at one point, from fresh outputs: ln f − ln f', and the standard error of it (equation 24).

    NaN where a density is 0, of which nothing is told.
    """

    loss: float
    error: float

    @property
    def is_told(self) -> bool:
        """Whether both densities are above 0."""
        return not math.isnan(self.loss)

    @classmethod
    def of(
        cls, sums: Sequence[int], tests: Sequence[int], bandwidths: Sequence[float], floor: float, unit: int
    ) -> LossAt:
        """From sums of weights of both laws, D first, of so many outputs each.

        bandwidths: one a column, none of discrete outputs, whose sums are counts. floor: τ, below which no density is told,
        or 0. unit: what a kernel's weight at its centre counts. Errors of both laws are those of independent samples; for equal
        numbers of outputs they are equation 24.
        """
        columns = len(bandwidths)
        volume = math.prod(bandwidths)
        peak = unit * (2.0 * math.pi) ** (0.5 * columns) * volume if columns else 1.0
        densities = [max(found / (n * peak), floor) for found, n in zip(sums, tests, strict=True)]
        if not all(densities):
            return cls(math.nan, math.nan)
        if columns:
            square = (2.0 * math.sqrt(math.pi)) ** -columns / volume
            variance = sum(square / (f * n) for f, n in zip(densities, tests, strict=True))
        else:
            variance = sum((1.0 / f - 1.0) / n for f, n in zip(densities, tests, strict=True))
        return cls(math.log(densities[0]) - math.log(densities[1]), math.sqrt(variance))

    def lower(self, sign: float, level: float) -> float:
        """Equation 26 with the sign that training found: a lower bound on the pure level, which may be negative. Asymptotic."""
        return sign * self.loss + float(ndtri(level)) * self.error

    def literal(self, level: float) -> float:
        """Equation 26 to the letter, with the absolute value: where the loss is 0 it is above 0 in 2·level of all runs."""
        return abs(self.loss) + float(ndtri(level)) * self.error

    def interval(self, level: float) -> tuple[float, float]:
        """Two-sided interval for the loss at the point, from equations 24 and 25. Asymptotic, for each point by itself."""
        z = -float(ndtri(0.5 * level))
        return self.loss - z * self.error, self.loss + z * self.error

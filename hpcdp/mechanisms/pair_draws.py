"""Pairs of neighbouring databases drawn from a population: how far a query's answers are apart, and the loss of noise on them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.parent import no_copy
from hpcdp._base.raised import describe_raised, interruptions, readable
from hpcdp.errors import MechanismError, StudyError

SENSITIVITY, LOSS, NUMBERS = 0, 1, 2
"""Columns of an output: S, L of one draw of noise, and how many numbers the query returns."""


@dataclass(frozen=True)
class PairDraws:
    """Two databases share all rows but the last, and have one of their own each, of `rows` rows; every row is drawn by itself.

    source: draws rows, fn(size, rng, **parameters); None: rows of the population, each as likely as every other, with
    replacement. scale: of the Laplace noise.
    """

    query: Callable[[NDArray[Any]], Any]
    source: Callable[..., Any] | None
    parameters: Mapping[str, Any]
    rows: int
    scale: float

    def draw(self, database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """(size, 3) float64: S = ‖f(x) − f(y)‖₁, the loss of f(x) + noise, and k, of each pair; it raises MechanismError."""
        found = np.empty((size, 3))
        try:
            with no_copy():
                for place in range(size):
                    found[place] = self._pair(database, rng)
        except MechanismError:
            raise
        except interruptions():
            raise
        except BaseException as error:  # a query that exits would take hpcdp along without a word
            raise MechanismError(f"the query raised {describe_raised(error)}") from error
        return found

    def draw_each(self, databases: NDArray[Any], rng: np.random.Generator) -> None:
        """Nothing: rows are drawn here."""

    def _pair(self, population: NDArray[Any], rng: np.random.Generator) -> tuple[float, float, int]:
        rows = self._rows(population, rng)
        other = np.concatenate([rows[:-2], rows[-1:]])
        first, second = self._answer(rows[:-1]), self._answer(other)
        if first.shape != second.shape:
            raise MechanismError(
                f"the query returned {first.size} numbers of one database and {second.size} of another"
            )
        noise = rng.laplace(scale=self.scale, size=first.size)
        with np.errstate(over="ignore"):
            shift = first - second
            far = np.abs(shift)
            distance = float(far.sum())
        if not np.isfinite(distance):
            raise MechanismError("two answers of the query are so far apart that it is no float")
        most = distance / self.scale
        # |noise + shift| − |noise| without a difference of large numbers
        loss = float(np.clip(2.0 * np.sign(shift) * noise + far, -far, far).sum()) / self.scale
        return distance, min(max(loss, -most), most), shift.size  # rounding may lift |L| above S/scale

    def _rows(self, population: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        if self.source is None:
            return np.asarray(population[rng.integers(population.shape[0], size=self.rows + 1)])
        try:
            rows = np.array(self.source(self.rows + 1, rng, **self.parameters))  # its own may be what it draws from
        except interruptions():
            raise
        except BaseException as error:
            raise MechanismError(f"the population's callable raised {describe_raised(error)}") from error
        if rows.ndim not in (1, 2) or rows.shape[0] != self.rows + 1 or rows.dtype.kind not in "biuf":
            raise MechanismError(
                f"the population's callable returned {rows.dtype} of shape {rows.shape}; accepted: numbers of shape "
                f"({self.rows + 1},) or ({self.rows + 1}, columns)"
            )
        return rows

    def _answer(self, database: NDArray[Any]) -> NDArray[np.float64]:
        answer = np.asarray(self.query(database))
        if answer.dtype.kind not in "biuf" or answer.ndim > 1 or not answer.size or not np.isfinite(answer).all():
            shown = readable(np.array2string(answer, threshold=8, edgeitems=2), 80)
            raise MechanismError(f"the query returned {shown}; accepted: a finite number or a vector of them")
        return np.atleast_1d(answer).astype(np.float64)


def bind_query(function: Callable[..., Any], path: str) -> Callable[[NDArray[Any]], Any]:
    """The function, if it can be called with one database."""
    return _bound(function, (None,), {}, "at_risk.query", path, "query(database)")


def bind_population(function: Callable[..., Any], parameters: Mapping[str, Any], path: str) -> Callable[..., Any]:
    """The function, if it can be called with a size, a random generator and its parameters."""
    return _bound(function, (1, None), parameters, "at_risk.population.call", path, "call(size, rng, **parameters)")


def _bound(
    function: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any], key: str, path: str, accepted: str
) -> Callable[..., Any]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of what is not written in Python
        return function
    try:
        signature.bind(*given, **named)
    except TypeError as error:
        raise StudyError(f"{key}: {path} takes {signature}; accepted: {accepted} ({error})") from None
    return function

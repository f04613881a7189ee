"""The generator that a mechanism gets where its random tape is drawn from a proposal."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hpcdp.errors import MechanismError
from hpcdp.importance.tape import LATE, Closed, Noted
from hpcdp.keys import sequence
from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, LAPLACE, NORMAL, UNIFORM
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.mechanisms.streams import Floats, Stream, _shape, broadcast_shape
from hpcdp.study.databases import Input
from hpcdp.study.sampler import Sampler

_MOST_SPAN = 1 << 21  # integers that are as likely as one another within 2⁻³², if made of a uniform
_LARGEST = float(1 << 62)
_MOST_ORDERED = 256  # items of an order that have proposals
_LEAST_TAIL = 1e-300  # probabilities that are told apart
_TABLED = 1 << 16  # whole numbers whose probabilities are kept
_LEAST, _MOST = 5e-324, 1.7976931348623157e308  # floats above 0
_ANY, _NOT_NEGATIVE, _POSITIVE, _FINITE = (-math.inf, math.inf), (0.0, math.inf), (_LEAST, math.inf), (_LEAST, _MOST)
_SHAPE, _HALF_SHAPE = (0.1, _MOST), (0.2, _MOST)  # of gammas whose ratios are formed: smaller ones may be 0
_Numpy = np.random.Generator


class Tape(Noted):
    """A `Stream` for a batch of outputs whose variates come from a proposal, and which knows what it gave to each output.

    Two ways tell which output a variate belongs to. By rows: the outputs of one call are drawn at once, and an array has an axis
    of as many entries; what has none is shared by all, is drawn plainly and counted in `shared`. One by one: `generator(i)` is
    output i's alone, and what it draws is a function of the seed and i, whatever other outputs draw. `close()` of what
    `generator` gave says that its outputs are there: whatever is asked of it later ends the study.

    With proposals: `normal`, `laplace`, `exponential`, `random`, `uniform` and their standard forms, and what is made of these:
    by inversion of a uniform `integers` of up to 2²¹ values, `choice` and `multinomial` of one trial; of an exponential
    `geometric`, `rayleigh`, `weibull`, `gumbel`, `logistic`, `pareto`, `power`; of a Laplace variate, whose tails reach far,
    `gamma`, `poisson`, `binomial`, `negative_binomial`, `standard_cauchy`; `permutation`, `shuffle`, `choice` without
    replacement, and `permuted` along rows, by the order of exponentials; and `multivariate_normal`, `lognormal`, `chisquare`,
    `standard_t`, `f`, `beta`, `dirichlet`, `triangular`.
    Other methods, other dtypes, streams that are spawned and whatever takes `bit_generator` draw plainly, with weight 1.

    Args:
        seed: as of `numpy.random.PCG64`.
        proposal: the mixture that weighs, and that is drawn from.
        size: how many outputs.
        by_rows: which way.
        is_plain: whether outputs are drawn plainly all the same, to be weighed by the proposal.
        exchanged: rows (size,) bool whose entries come from another seed, and that seed: to see which outputs change.
        flat: how a row axis of size · k entries is laid out: outputs one after another ("rows"), or places ("columns").
    """

    def __repr__(self) -> str:
        return "Tape(PCG64)"

    __str__ = __repr__

    def _plainly(self, name: str, *args: Any, is_shared: bool = False, **named: Any) -> Any:
        """What NumPy's method of this name draws, without a proposal."""

        def draw(source: Stream) -> Any:
            is_own = source is self._plain() or named.get("out") is None  # a stream for comparison fills another array
            return getattr(_Numpy, name)(
                source, *args, **(named if is_own else named | {"out": np.empty_like(named["out"])})
            )

        return self._passed(draw, is_shared)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """As of NumPy."""
        return super().uniform(_real(low), _real(high), size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """As of NumPy."""
        if size is None and not self.by_rows and type(loc) is type(scale) is float and scale > 0.0:
            ready = self._ready.get("normal")  # the short way of Python loops
            return (ready.pop() if ready else self._one("normal")) * scale + loc
        return super().normal(_real(loc), _real(scale), size)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """As of NumPy."""
        return super().laplace(_real(loc), _real(scale), size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """As of NumPy."""
        return super().exponential(_real(scale), size)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """As of NumPy; of float32 plain."""
        if size is None and not self.by_rows and dtype is np.float64 and out is None:
            ready = self._ready.get("uniform")
            return ready.pop() if ready else self._one("uniform")
        if _is_single(dtype):
            return self._plainly("random", size, dtype, out=out)
        return super().random(size, dtype, out)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """As of NumPy; of float32 plain."""
        if _is_single(dtype):
            return self._plainly("standard_normal", size, dtype, out=out)
        return super().standard_normal(size, dtype, out)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: Any = "zig", out: Any = None
    ) -> Any:
        """As of NumPy; of float32 plain."""
        if _is_single(dtype):
            return self._plainly("standard_exponential", size, dtype, method, out=out)
        return super().standard_exponential(size, dtype, method, out)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """As of NumPy."""
        first, last = (_index(0), _index(low)) if high is None else (_index(low), _index(high))
        kind = np.dtype(dtype)
        if first is not None and last is not None and kind.kind in "biu" and kind.isnative:
            span = last - first + bool(endpoint)
            bounds = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
            if bounds[0] <= first <= first + span - 1 <= bounds[1] and span <= _MOST_SPAN:
                offsets = np.floor(np.asarray(self._variates(UNIFORM, 0.0, 1.0, size)) * span).astype(np.int64)
                if size is None:
                    return (dtype if dtype in (int, bool) else kind.type)(int(offsets) + first)
                shifted = offsets.astype(kind, copy=False)
                if first:
                    shifted += kind.type(first)  # modulo 2^bits, as it may go beyond in between
                return shifted
        return self._passed(lambda source: Stream.integers(source, low, high, size, dtype, endpoint))

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        """As of NumPy; without replacement by the order of exponentials, of up to 256 items."""
        items = np.arange(a) if isinstance(a, int | np.integer) and a > 0 else np.asarray(a)
        n = items.shape[axis] if items.ndim and -items.ndim <= axis < items.ndim else 0
        masses = None if p is None else np.asarray(p, np.float64)
        wanted = 1 if size is None else math.prod(_shape(size))
        chosen: Any = None
        if n and replace and masses is None:
            chosen = self.integers(0, n, size)
        elif n and replace and masses is not None and masses.shape == (n,) and _is_law(masses):
            chosen = self._chosen(masses, size)
        elif not (replace or self.by_rows) and masses is None and wanted <= n <= _MOST_ORDERED and n:
            order = self._order(n)
            chosen = order[0] if size is None else order[:wanted].reshape(_shape(size))
        if chosen is not None:
            return np.take(items, chosen, axis=axis)
        return self._plainly("choice", a, size, replace, p, axis, shuffle, is_shared=True)

    def _chosen(self, masses: Floats, size: Any) -> Any:
        """Numbers 0 to n − 1 with these probabilities (n,), by inversion."""
        edges, last = np.cumsum(masses), int(np.flatnonzero(masses > 0.0)[-1])
        coins = np.asarray(self._variates(UNIFORM, 0.0, 1.0, size))
        return np.minimum(np.searchsorted(edges, coins * edges[-1], side="right"), last)

    def _order(self, n: int) -> NDArray[np.int64]:
        """Numbers 0 to n − 1 of the present output in a random order."""
        return np.argsort(self._standards("exponential", (n,)), kind="stable")

    def _reordered(self, items: NDArray[Any], axis: int) -> NDArray[Any] | None:
        """The items of the present output in a random order along an axis; None: drawn without a proposal."""
        if self.by_rows or not items.ndim or not -items.ndim <= axis < items.ndim:
            return None
        n = items.shape[axis]
        return np.take(items, self._order(n), axis=axis) if 0 < n <= _MOST_ORDERED else None

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """As of NumPy."""
        reordered = self._reordered(np.arange(x) if isinstance(x, int | np.integer) else np.asarray(x), axis)
        if reordered is not None:
            return reordered
        return self._plainly("permutation", x, axis, is_shared=True)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """As of NumPy."""
        is_list = type(x) is list and axis == 0
        reordered = (
            self._reordered(np.arange(len(x)) if is_list else x, axis) if is_list or type(x) is np.ndarray else None
        )
        if reordered is None:
            self._plainly("shuffle", x, axis, is_shared=True)
        else:
            x[:] = [x[i] for i in reordered.tolist()] if is_list else reordered

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """As of NumPy; by rows along the last axis of (size, items), else plain."""
        items, reordered = np.asarray(x), None
        if self.by_rows and items.ndim == 2 and axis in (1, -1) and len(items) == self.size:
            if 0 < items.shape[1] <= _MOST_ORDERED:
                order = np.argsort(self._standards("exponential", items.shape), axis=1, kind="stable")
                reordered = np.take_along_axis(items, order, axis=1)
        elif items.ndim == 1 and axis in (None, 0, -1):
            reordered = self._reordered(items, 0)
        if reordered is None:
            return self._plainly("permuted", x, axis=axis, out=out, is_shared=True)
        if out is None:
            return reordered
        out[...] = reordered
        return out

    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """As of NumPy; of float32 plain."""
        if _is_single(dtype) or not _all(shape, _FINITE):
            return self._plainly("standard_gamma", shape, size, dtype, out=out)
        if out is not None:
            if size is not None and np.empty(size).shape != out.shape:
                raise ValueError("size must match out.shape when used together")
            out[...] = self.standard_gamma(shape, out.shape)
            return out
        return _shown(
            _inverted(self, size, special.gammaincinv, special.gammainccinv, np.asarray(shape, np.float64)), size
        )

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """As of NumPy."""
        trials = np.asarray(n)
        usual = trials.dtype.kind in "iu" and bool(((trials >= 0) & (trials < 1 << 53)).all())
        if not (usual and _all(p, (0.0, 1.0))):
            return self._plainly("binomial", n, p, size)
        return _shown(_counted(self, size, "binomial", np.asarray(n, np.float64), np.asarray(p, np.float64)), size)

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        """As of NumPy; one trial is a choice."""
        masses = np.asarray(pvals, np.float64)
        if _index(n) == 1 and masses.ndim == 1 and masses.size and _is_law(masses):
            chosen = self._chosen(masses, size)
            return (chosen[..., None] == np.arange(masses.size)).astype(np.int64)
        return self._plainly("multinomial", n, pvals, size)

    # what is made of these, of the shape that is asked for with these parameters

    def _base(self, kind: int, size: Any, *given: Any) -> Any:
        """Standard variates, an array."""
        shape = broadcast_shape(size, *given)
        return np.asarray(self._variates(kind, 0.0, 1.0, shape if shape else None))

    def _gammas(self, size: Any, shape: Any, *given: Any) -> Any:
        """Standard gammas, an array; of small shapes many are 0, as NumPy's are."""
        wanted = broadcast_shape(size, shape, *given)
        return np.asarray(self.standard_gamma(shape, wanted if wanted else None))

    def _parts(self, size: Any, shape: Any, *given: Any) -> Any:
        """Standard gammas of shapes of which none is ever 0 but by rounding, so that ratios may be formed."""
        return np.maximum(self._gammas(size, shape, *given), _LEAST_TAIL)

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        """As of NumPy."""
        shapes = np.asarray(alpha, np.float64)
        if shapes.ndim != 1 or not _all(shapes, _SHAPE):
            return self._plainly("dirichlet", alpha, size)
        wanted = (*(() if size is None else _shape(size)), shapes.size)
        drawn = self._parts(wanted, shapes)
        return drawn / drawn.sum(axis=-1, keepdims=True)


def _geometric(tape: Tape, size: Any, chance: Any) -> Any:
    """By inversion of an exponential."""
    with np.errstate(divide="ignore"):
        rate = -np.log1p(-chance)
    before = tape._place("exponential")
    drawn = tape._base(EXPONENTIAL, size, rate)
    tape._stepped(before, rate)
    with np.errstate(over="ignore"):
        return np.clip(np.ceil(drawn / rate), 1.0, _LARGEST).astype(np.int64)


def _tails(tape: Tape, size: Any, given: tuple[Any, ...]) -> tuple[Any, Floats]:
    """Whether variates lie above their median, and the probability of what is as far out or farther on that side."""
    drawn = tape._base(LAPLACE, size, *given)
    return drawn >= 0.0, np.maximum(0.5 * np.exp(-np.abs(drawn)), _LEAST_TAIL)


def _inverted(tape: Tape, size: Any, lower: Any, upper: Any, *given: Any) -> Floats:
    """By inversion of the lower and the upper tail, functions of (*given, probability)."""
    above, tail = _tails(tape, size, given)
    out, whole = np.empty(tail.shape), [np.broadcast_to(array, tail.shape) for array in (*given, tail)]
    for inverse, which in ((lower, ~above), (upper, above)):
        out[which] = inverse(*(array[which] for array in whole))
    return out


_COUNTS: dict[str, tuple[Any, Any]] = {
    "poisson": (special.pdtr, special.pdtrc),
    "binomial": (
        lambda k, n, p: np.where(k < n, special.betainc(np.maximum(n - k, 1.0), k + 1.0, 1.0 - p), 1.0),
        lambda k, n, p: np.where(k < n, special.betainc(k + 1.0, np.maximum(n - k, 1.0), p), 0.0),
    ),
    "negative_binomial": (
        lambda k, n, p: special.betainc(n, k + 1.0, p),
        lambda k, n, p: special.betainc(k + 1.0, n, 1.0 - p),
    ),
}
"""Distributions of whole numbers from 0 on: P(X ≤ k) and P(X > k), of k and the parameters."""


def _counted(tape: Tape, size: Any, name: str, *given: Any) -> NDArray[np.int64]:
    """Whole numbers by inversion: the least k that is as far out as the tail says; of few numbers from a table."""
    above, tail = _tails(tape, size, given)
    lower, upper = _COUNTS[name]
    if not any(parameter.ndim for parameter in given) and (table := _table(name, *map(float, given))) is not None:
        first, low, high = table
        return first + np.where(above, np.searchsorted(-high, -tail), np.searchsorted(low, tail))
    return _least(lambda k: np.where(above, upper(k, *given) <= tail, lower(k, *given) >= tail), tail.shape)


def _least(reaches: Callable[[Floats], Any], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The least whole numbers from 0 on that reach something, as all larger ones do."""
    low, high = np.full(shape, -1.0), np.zeros(shape)
    while not (is_enough := reaches(high)).all():
        low, high = np.where(is_enough, low, high), np.where(is_enough, high, 2.0 * high + 1.0)
    while (high - low > 1.0).any():
        middle = np.floor(0.5 * (low + high))
        is_enough = reaches(middle)
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    return high.astype(np.int64)


@lru_cache(1 << 5)
def _table(name: str, *given: float) -> tuple[int, Floats, Floats] | None:
    """The first of all whole numbers but those of no mass, with P(X ≤ k) and P(X > k) of each; None where these are many."""
    lower, upper = _COUNTS[name]
    first = int(_least(lambda k: lower(k, *given) >= _LEAST_TAIL, ()))
    last = int(_least(lambda k: upper(k, *given) <= _LEAST_TAIL, ()))
    if last - first >= _TABLED:
        return None
    numbers = np.arange(float(first), last + 1.0)
    return first, lower(numbers, *given), upper(numbers, *given)


def _f(tape: Tape, size: Any, above: Any, below: Any) -> Any:
    above, below = 0.5 * above, 0.5 * below
    return tape._parts(size, above, below) / above / (tape._parts(size, below, above) / below)


def _triangular(tape: Tape, size: Any, a: Any, c: Any, b: Any) -> Any:
    if not (np.all(a <= c) and np.all(c <= b) and np.all(a < b)):
        return _Numpy.triangular(tape, a, c, b, size)
    u, rising = tape._base(UNIFORM, size, a, c, b), (c - a) / (b - a)
    low = a + np.sqrt(u * (b - a) * (c - a))
    return np.where(u <= rising, low, b - np.sqrt((1.0 - u) * (b - a) * (b - c)))


_PLACE, _SCALE = (0.0, _ANY), (1.0, _NOT_NEGATIVE)
_Domain = tuple[float, float]
_MADE: dict[str, tuple[dict[str, tuple[Any, _Domain]], Any]] = {
    "geometric": ({"p": (None, (_LEAST, 1.0))}, _geometric),
    "gamma": ({"shape": (None, _FINITE), "scale": (1.0, _POSITIVE)}, lambda t, n, k, s: t._gammas(n, k, s) * s),
    "lognormal": ({"mean": _PLACE, "sigma": _SCALE}, lambda t, n, m, s: np.exp(t.normal(m, s, n))),
    "rayleigh": ({"scale": _SCALE}, lambda t, n, s: s * np.sqrt(2.0 * t._base(EXPONENTIAL, n, s))),
    "weibull": ({"a": (None, _POSITIVE)}, lambda t, n, a: t._base(EXPONENTIAL, n, a) ** (1.0 / a)),
    "gumbel": ({"loc": _PLACE, "scale": _SCALE}, lambda t, n, m, s: m + s * -np.log(t._base(EXPONENTIAL, n, m, s))),
    "logistic": (
        {"loc": _PLACE, "scale": _SCALE},
        lambda t, n, m, s: m + s * ((e := t._base(EXPONENTIAL, n, m, s)) + np.log(-np.expm1(-e))),
    ),
    # the size has the tail of an exponential's power, so that a tilt reaches far
    "standard_cauchy": (
        {},
        lambda t, n: np.copysign(1.0 / np.tan(0.5 * np.pi * np.exp(-np.abs(e := t._base(LAPLACE, n)))), e),
    ),
    "pareto": ({"a": (None, _POSITIVE)}, lambda t, n, a: np.expm1(t._base(EXPONENTIAL, n, a) / a)),
    "power": ({"a": (None, _POSITIVE)}, lambda t, n, a: np.exp(-t._base(EXPONENTIAL, n, a) / a)),
    "chisquare": ({"df": (None, _FINITE)}, lambda t, n, df: 2.0 * t._gammas(n, 0.5 * df)),
    "standard_t": (
        {"df": (None, _HALF_SHAPE)},
        lambda t, n, df: t._base(NORMAL, n, df) / np.sqrt(t._parts(n, 0.5 * df) / (0.5 * df)),
    ),
    "f": ({"dfnum": (None, _HALF_SHAPE), "dfden": (None, _HALF_SHAPE)}, _f),
    "beta": (
        {"a": (None, _SHAPE), "b": (None, _SHAPE)},
        lambda t, n, a, b: (gamma := t._parts(n, a, b)) / (gamma + t._parts(n, b, a)),
    ),
    "poisson": ({"lam": (1.0, (0.0, 1e9))}, lambda t, n, lam: _counted(t, n, "poisson", lam)),
    "negative_binomial": (
        {"n": (None, (_LEAST, 1e6)), "p": (None, (1e-3, 1.0))},
        lambda t, size, n, p: _counted(t, size, "negative_binomial", n, p),
    ),
    "triangular": ({"left": (None, _ANY), "mode": (None, _ANY), "right": (None, _ANY)}, _triangular),
}
"""Distributions that are made of others: of each parameter its value where none is given, between what it has to be; and how."""


def _method(name: str) -> Any:
    """NumPy's method of this name, of a distribution that is made of others, or plain."""
    made = _MADE.get(name)

    def method(self: Tape, *args: Any, **named: Any) -> Any:
        if made is not None:
            given = {**{key: default for key, (default, _) in made[0].items()}, "size": None}
            if len(args) <= len(given) and named.keys() <= given.keys():
                given |= dict(zip(given, args, strict=False)) | named
                size = given.pop("size")
                if all(_all(given[key], domain) for key, (_, domain) in made[0].items()):
                    return _shown(
                        made[1](self, size, *(np.asarray(value, np.float64) for value in given.values())), size
                    )
        return self._plainly(name, *args, **named)

    method.__name__, method.__doc__ = name, "As of NumPy." if made else "As of NumPy, plain."
    return method


for _name in (
    *_MADE, "bytes", "hypergeometric", "logseries", "multivariate_hypergeometric", "noncentral_chisquare", "noncentral_f",
    "vonmises", "wald", "zipf",
):  # fmt: skip
    setattr(Tape, _name, _method(_name))


def _real(given: Any) -> Any:
    """What NumPy would make float64 of, as a float or an array of it; anything else as it is."""
    if type(given) is float:
        return given
    array = np.asarray(given) if isinstance(given, bool | int | np.generic | np.ndarray | list | tuple) else None
    if array is None or array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        return given
    return array.astype(np.float64, copy=False) if array.ndim else float(array)


def _all(given: Any, domain: tuple[float, float]) -> bool:
    """Whether it is one or more real numbers, of which all are between these."""
    low, high = domain
    if type(given) is float:
        return low <= given <= high
    try:
        array = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        return False  # NumPy says what is wrong
    return bool(((array >= low) & (array <= high)).all())


def _is_law(masses: Floats) -> bool:
    return bool((masses >= 0.0).all()) and abs(float(masses.sum()) - 1.0) < 1e-8


def _index(given: Any) -> int | None:
    """A whole number, None of anything else."""
    with suppress(TypeError):
        return operator.index(given)
    return None


def _is_single(dtype: Any) -> bool:
    return dtype is not np.float64 and np.dtype(dtype) != np.float64


def _shown(drawn: Any, size: Any) -> Any:
    """As NumPy returns it: a number where one was asked for."""
    return drawn if np.ndim(drawn) or size is not None else drawn.item()


def draw_tape(
    sampler: Sampler,
    database: Input,
    key: str,
    stage: str | None,
    chunk: int,
    size: int,
    schema: Schema | None,
    **how: Any,
) -> tuple[Outputs, Tape]:
    """Outputs of a sampler from a random tape, and the tape; how: as of `Tape`. By rows in one call, else in a call each."""
    tape, asked = Tape(sequence(sampler.seed, key, stage, chunk), size=size, **how), Closed.asked
    try:
        return sampler.draw_noted(database, size, schema, tape), tape
    finally:
        if Closed.asked != asked:  # also where the mechanism caught that
            raise MechanismError(LATE)

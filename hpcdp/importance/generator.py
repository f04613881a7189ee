"""The generator that a mechanism gets where its random tape is drawn from a proposal."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

import numpy as np

from hpcdp.errors import MechanismError
from hpcdp.importance.kinds import MOST_ORDERED, MOST_VALUES, draw_choices
from hpcdp.importance.tape import LATE, Closed, Noted
from hpcdp.keys import sequence
from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, NORMAL, UNIFORM
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.mechanisms.streams import Floats, Stream, _shape, broadcast_shape
from hpcdp.study.databases import Input
from hpcdp.study.sampler import Sampler

_MOST_SPAN = 1 << 21  # integers that are as likely as one another within 2⁻³², if made of a uniform
_LARGEST = float(1 << 62)
_LEAST_SHAPE = 0.1  # of gammas whose ratios are formed: smaller ones may be 0
_Numpy = np.random.Generator


class Tape(Noted):
    """A `Stream` for a batch of outputs whose variates come from a proposal, and which knows what it gave to each output.

    Two ways tell which output a variate belongs to. By rows: the outputs of one call are drawn at once, and an array has an axis
    of as many entries; what has none is shared by all, is drawn plainly and counted in `shared`. One by one: `generator(i)` is
    output i's alone, and what it draws is a function of the seed and i, whatever other outputs draw. `close()` of what
    `generator` gave says that its outputs are there: whatever is asked of it later ends the study.

    With proposals: `normal`, `laplace`, `exponential`, `random`, `uniform` and their standard forms, `gamma`, `geometric`,
    `poisson`, `binomial`, `multinomial` of one trial, `integers` of up to 2²¹ values, `choice` (with probabilities, or without
    replacement), `permutation`, `shuffle`, `permuted` along rows, and what is made of these: `multivariate_normal`, `lognormal`,
    `rayleigh`, `weibull`, `gumbel`, `logistic`, `pareto`, `power`, `standard_cauchy`, `chisquare`, `standard_t`, `f`, `beta`,
    `dirichlet`, `negative_binomial`, `triangular`.
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
            return self._passed(lambda source: _Numpy.random(source, size, dtype, _own(out, source, self)))
        return super().random(size, dtype, out)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """As of NumPy; of float32 plain."""
        if _is_single(dtype):
            return self._passed(lambda source: _Numpy.standard_normal(source, size, dtype, _own(out, source, self)))
        return super().standard_normal(size, dtype, out)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: Any = "zig", out: Any = None
    ) -> Any:
        """As of NumPy; of float32 plain."""
        if _is_single(dtype):
            return self._passed(
                lambda source: _Numpy.standard_exponential(source, size, dtype, method, _own(out, source, self))
            )
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
                if span <= MOST_VALUES:
                    found = self._values(_even(span), size)
                else:
                    found = np.floor(np.asarray(self._variates(UNIFORM, 0.0, 1.0, size)) * span).astype(np.int64)
                if size is None:
                    return (dtype if dtype in (int, bool) else kind.type)(int(found) + first)
                shifted = found.astype(kind, copy=False)
                if first:
                    shifted += kind.type(first)  # modulo 2^bits, as it may go beyond in between
                return shifted
        return self._passed(lambda source: Stream.integers(source, low, high, size, dtype, endpoint))

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        """As of NumPy; without replacement by orders of Plackett and Luce, of up to 256 items."""
        items = np.arange(a) if isinstance(a, int | np.integer) and a > 0 else np.asarray(a)
        n = items.shape[axis] if items.ndim and -items.ndim <= axis < items.ndim else 0
        masses = None if p is None else np.asarray(p, np.float64)
        usual = n > 0 and (masses is None or (masses.shape == (n,) and _is_law(masses)))
        if usual and replace:
            if masses is None and n > MOST_VALUES:
                return np.take(items, self.integers(0, n, size), axis=axis)
            own = _even(n) if masses is None else masses / masses.sum()
            if n <= MOST_VALUES:
                return np.take(items, self._values(own, size), axis=axis)
            found = draw_choices(own, None, np.asarray(self._variates(UNIFORM, 0.0, 1.0, size)))
            return np.take(items, int(found) if size is None else found, axis=axis)
        wanted = 1 if size is None else math.prod(_shape(size))
        if usual and not self.by_rows and masses is None and wanted <= n <= MOST_ORDERED:
            found = self._order(n, wanted)
            return np.take(items, found[0] if size is None else found.reshape(_shape(size)), axis=axis)
        return self._passed(lambda source: _Numpy.choice(source, a, size, replace, p, axis, shuffle), is_shared=True)

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """As of NumPy."""
        items = np.arange(x) if isinstance(x, int | np.integer) else np.asarray(x)
        if not self.by_rows and items.ndim and -items.ndim <= axis < items.ndim:
            n = items.shape[axis]
            if 0 < n <= MOST_ORDERED:
                return np.take(items, self._order(n, n), axis=axis)
        return self._passed(lambda source: _Numpy.permutation(source, x, axis), is_shared=True)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """As of NumPy."""
        if not self.by_rows and type(x) is np.ndarray and x.ndim and -x.ndim <= axis < x.ndim:
            n = x.shape[axis]
            if 0 < n <= MOST_ORDERED:
                x[...] = np.take(x, self._order(n, n), axis=axis)
                return
        elif not self.by_rows and type(x) is list and axis == 0 and 0 < len(x) <= MOST_ORDERED:
            x[:] = [x[i] for i in self._order(len(x), len(x)).tolist()]
            return
        self._passed(lambda source: _Numpy.shuffle(source, x, axis), is_shared=True)

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """As of NumPy; by rows along the last axis of (size, items), else plain."""
        items = np.asarray(x)
        if (
            self.by_rows and items.ndim == 2 and axis in (1, -1) and items.shape[0] == self.size
            and 0 < items.shape[1] <= MOST_ORDERED
        ):  # fmt: skip
            found = np.take_along_axis(items, self._block("order", items.shape[1], items.shape[1]), axis=1)
        elif not self.by_rows and items.ndim == 1 and 0 < items.size <= MOST_ORDERED and axis in (None, 0, -1):
            found = np.take(items, self._order(items.size, items.size))
        else:
            return self._passed(lambda source: _Numpy.permuted(source, x, axis=axis, out=out), is_shared=True)
        if out is None:
            return found
        out[...] = found
        return out

    def geometric(self, p: Any, size: Any = None) -> Any:
        """As of NumPy, by inversion of an exponential."""
        chance = _real(p)
        if not _all(chance, lambda c: (c > 0.0) & (c <= 1.0)):
            return self._passed(lambda source: _Numpy.geometric(source, p, size))
        with np.errstate(divide="ignore"):
            rate = -np.log1p(-np.asarray(chance))
        before = self._place("exponential")
        found = self._base(EXPONENTIAL, size, rate)
        self._stepped(before, rate)
        with np.errstate(over="ignore"):
            found = np.clip(np.ceil(found / rate), 1.0, _LARGEST).astype(np.int64)
        return _shown(found, size)

    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """As of NumPy; of float32 plain."""
        if _is_single(dtype) or not _all(shape, lambda k: (k > 0.0) & np.isfinite(k)):
            return self._passed(
                lambda source: _Numpy.standard_gamma(source, shape, size, dtype, _own(out, source, self))
            )
        if out is not None:
            if size is not None and np.empty(size).shape != out.shape:
                raise ValueError("size must match out.shape when used together")
            out[...] = self.standard_gamma(shape, out.shape)
            return out
        return self._tilted("gamma", (shape,), size, lambda source: _Numpy.standard_gamma(source, shape, size))

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        """As of NumPy."""
        if not (_all(shape, lambda k: (k > 0.0) & np.isfinite(k)) and _all(scale, lambda s: s > 0.0)):
            return self._passed(lambda source: _Numpy.gamma(source, shape, scale, size))
        return _shown(self._gammas(size, shape, scale) * np.asarray(scale, np.float64), size)

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        """As of NumPy."""
        if not _all(lam, lambda mean: (mean >= 0.0) & (mean < 1e9)):
            return self._passed(lambda source: _Numpy.poisson(source, lam, size))
        return self._tilted("poisson", (lam,), size, lambda source: _Numpy.poisson(source, lam, size))

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """As of NumPy."""
        trials = np.asarray(n)
        usual = trials.dtype.kind in "iu" and bool(((trials >= 0) & (trials < 1 << 53)).all())
        if not (usual and _all(p, lambda c: (c >= 0.0) & (c <= 1.0))):
            return self._passed(lambda source: _Numpy.binomial(source, n, p, size))
        return self._tilted("binomial", (n, p), size, lambda source: _Numpy.binomial(source, n, p, size))

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        """As of NumPy; one trial is a choice."""
        masses = np.asarray(pvals, np.float64)
        if _index(n) == 1 and masses.ndim == 1 and 0 < masses.size <= MOST_VALUES and _is_law(masses):
            found = np.asarray(self._values(masses / masses.sum(), size))
            return (found[..., None] == np.arange(masses.size)).astype(np.int64)
        return self._passed(lambda source: _Numpy.multinomial(source, n, pvals, size))

    # what is made of these, of the shape that is asked for with these parameters

    def _base(self, kind: int, size: Any, *given: Any) -> Any:
        """Standard variates, an array."""
        shape = broadcast_shape(size, *given)
        return np.asarray(self._variates(kind, 0.0, 1.0, shape if shape else None))

    def _gammas(self, size: Any, shape: Any, *given: Any) -> Any:
        """Standard gammas, an array."""
        wanted = broadcast_shape(size, shape, *given)
        return np.asarray(self.standard_gamma(shape, wanted if wanted else None))

    def standard_cauchy(self, size: Any = None) -> Any:
        """As of NumPy: the size has the tail of an exponential's power, so that a tilt reaches far."""
        drawn = np.asarray(self.laplace(0.0, 1.0, size))
        return _shown(np.copysign(1.0 / np.tan(0.5 * np.pi * np.exp(-np.abs(drawn))), drawn), size)

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        """As of NumPy."""
        shapes = np.asarray(alpha, np.float64)
        if shapes.ndim != 1 or not _all(shapes, _is_shape):
            return self._passed(lambda source: _Numpy.dirichlet(source, alpha, size))
        wanted = (*(() if size is None else _shape(size)), shapes.size)
        drawn = np.asarray(self.standard_gamma(shapes, wanted))
        return drawn / drawn.sum(axis=-1, keepdims=True)


def _is_positive(k: Any) -> Any:
    return k > 0.0


def _is_scale(s: Any) -> Any:
    return s >= 0.0


def _is_shape(k: Any) -> Any:
    return (k >= _LEAST_SHAPE) & np.isfinite(k)


def _is_half_shape(k: Any) -> Any:
    return _is_shape(0.5 * k)


def _is_any(x: Any) -> Any:
    return x == x


def _logistic(tape: Tape, size: Any, loc: Any, scale: Any) -> Any:
    drawn = tape._base(EXPONENTIAL, size, loc, scale)
    return loc + scale * (drawn + np.log(-np.expm1(-drawn)))


def _f(tape: Tape, size: Any, above: Any, below: Any) -> Any:
    above, below = 0.5 * above, 0.5 * below
    return tape._gammas(size, above, below) / above / (tape._gammas(size, below, above) / below)


def _beta(tape: Tape, size: Any, a: Any, b: Any) -> Any:
    one, other = tape._gammas(size, a, b), tape._gammas(size, b, a)
    return one / (one + other)


def _student(tape: Tape, size: Any, df: Any) -> Any:
    drawn = tape._base(NORMAL, size, df)
    return drawn / np.sqrt(tape._gammas(size, 0.5 * df) / (0.5 * df))


def _triangular(tape: Tape, size: Any, a: Any, c: Any, b: Any) -> Any:
    if not (np.all(a <= c) and np.all(c <= b) and np.all(a < b)):
        return _Numpy.triangular(tape, a, c, b, size)
    u, rising = tape._base(UNIFORM, size, a, c, b), (c - a) / (b - a)
    low = a + np.sqrt(u * (b - a) * (c - a))
    return np.where(u <= rising, low, b - np.sqrt((1.0 - u) * (b - a) * (b - c)))


_LOC_SCALE = {"loc": 0.0, "scale": 1.0}
_MADE: dict[str, tuple[dict[str, Any], tuple[Any, ...], Any]] = {
    "lognormal": ({"mean": 0.0, "sigma": 1.0}, (_is_any, _is_scale), lambda t, n, m, s: np.exp(t.normal(m, s, n))),
    "rayleigh": ({"scale": 1.0}, (_is_scale,), lambda t, n, s: s * np.sqrt(2.0 * t._base(EXPONENTIAL, n, s))),
    "weibull": ({"a": None}, (_is_positive,), lambda t, n, a: t._base(EXPONENTIAL, n, a) ** (1.0 / a)),
    "gumbel": (_LOC_SCALE, (_is_any, _is_scale), lambda t, n, m, s: m + s * -np.log(t._base(EXPONENTIAL, n, m, s))),
    "logistic": (_LOC_SCALE, (_is_any, _is_scale), _logistic),
    "pareto": ({"a": None}, (_is_positive,), lambda t, n, a: np.expm1(t._base(EXPONENTIAL, n, a) / a)),
    "power": ({"a": None}, (_is_positive,), lambda t, n, a: np.exp(-t._base(EXPONENTIAL, n, a) / a)),
    "chisquare": (
        {"df": None}, (lambda k: (k > 0.0) & np.isfinite(k),), lambda t, n, df: 2.0 * t._gammas(n, 0.5 * df),
    ),
    "standard_t": ({"df": None}, (_is_half_shape,), _student),
    "f": ({"dfnum": None, "dfden": None}, (_is_half_shape, _is_half_shape), _f),
    "beta": ({"a": None, "b": None}, (_is_shape, _is_shape), _beta),
    # a Poisson variate whose mean is a gamma one
    "negative_binomial": (
        {"n": None, "p": None}, (lambda n: (n > 0.0) & (n < 1e6), lambda p: (p > 1e-3) & (p <= 1.0)),
        lambda t, size, n, p: np.asarray(t.poisson(t._gammas(size, n, p) * ((1.0 - p) / p))),
    ),
    "triangular": ({"left": None, "mode": None, "right": None}, (_is_any, _is_any, _is_any), _triangular),
}  # fmt: skip
"""Distributions that are made of others: parameters with their values where none is given, where each has to be, and how."""


def _method(name: str) -> Any:
    """NumPy's method of this name, of a distribution that is made of others, or plain."""
    numpys, made = getattr(_Numpy, name), _MADE.get(name)

    def method(self: Tape, *args: Any, **named: Any) -> Any:
        if made is not None:
            defaults, allowed, make = made
            given = {**defaults, "size": None, **dict(zip((*defaults, "size"), args, strict=False)), **named}
            parameters = [given[key] for key in defaults]
            known = len(given) == len(defaults) + 1 >= len(args)
            if known and all(_all(one, holds) for one, holds in zip(parameters, allowed, strict=True)):
                size = given["size"]
                return _shown(make(self, size, *(np.asarray(one, np.float64) for one in parameters)), size)
        return self._passed(lambda source: numpys(source, *args, **named))

    method.__name__, method.__doc__ = name, "As of NumPy." if made else "As of NumPy, plain."
    return method


for _name in (
    *_MADE, "bytes", "hypergeometric", "logseries", "multivariate_hypergeometric", "noncentral_chisquare", "noncentral_f",
    "vonmises", "wald", "zipf",
):  # fmt: skip
    setattr(Tape, _name, _method(_name))


@lru_cache(1 << 10)
def _even(n: int) -> Floats:
    """Equal masses (n,), which nobody changes."""
    return np.full(n, 1.0 / n)


def _real(given: Any) -> Any:
    """What NumPy would make float64 of, as a float or an array of it; anything else as it is."""
    if type(given) is float:
        return given
    array = np.asarray(given) if isinstance(given, bool | int | np.generic | np.ndarray | list | tuple) else None
    if array is None or array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        return given
    return array.astype(np.float64, copy=False) if array.ndim else float(array)


def _all(given: Any, holds: Any) -> bool:
    """Whether it is one or more real numbers, of which all are so."""
    if type(given) is float:
        return bool(holds(given))
    try:
        array = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        return False  # NumPy says what is wrong
    return bool(np.all(holds(array)))


def _is_law(masses: Floats) -> bool:
    return bool((masses >= 0.0).all()) and abs(float(masses.sum()) - 1.0) < 1e-8


def _index(given: Any) -> int | None:
    """A whole number, None of anything else."""
    if type(given) is int:
        return given
    try:
        return operator.index(given) if not isinstance(given, np.ndarray) or given.ndim == 0 else None
    except TypeError:
        return None


def _is_single(dtype: Any) -> bool:
    return dtype is not np.float64 and np.dtype(dtype) != np.float64


def _own(out: Any, source: Any, tape: Any) -> Any:
    """The array that was given to be filled, of a stream for comparison another."""
    return out if out is None or source is tape._plain() else np.empty_like(out)


def _shown(found: Any, size: Any) -> Any:
    """As NumPy returns it: a number where one was asked for."""
    return found if np.ndim(found) or size is not None else found.item()


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

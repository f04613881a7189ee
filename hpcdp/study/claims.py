"""Claims about a mechanism's privacy, written as text: `laplace(epsilon=1)`, `dp(epsilon=1, delta=1e-6)`."""

import ast
import csv
import io
import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._base.asked import wrong
from hpcdp._base.files import read_bytes
from hpcdp._base.messages import did_you_mean
from hpcdp._base.node import NodeExecutor
from hpcdp._base.plugins import load_plugin, plugins
from hpcdp._base.raised import readable
from hpcdp._check import fraction, non_negative, refusal
from hpcdp.analytic import (
    ApproximateDP,
    GaussianShift,
    LaplaceShift,
    LaplaceVector,
    SpectrumPoints,
    TradeOffPoints,
    gaussian_sigma,
)
from hpcdp.errors import StudyError
from hpcdp.mechanisms.user_code import import_object
from hpcdp.notions.curve import Bound, TradeOffCurve, polygon, tensor
from hpcdp.notions.renyi_claim import renyi_tradeoff, zcdp_tradeoff
from hpcdp.store.records import foreign
from hpcdp.store.results import read_results
from hpcdp.store.root import latest_version, open_layout, resume_command

FORMS = {
    "laplace": "laplace(epsilon=...)",
    "gaussian": "gaussian(mu=...) or gaussian(epsilon=..., delta=...)",
    "dp": "dp(epsilon=..., delta=0)",
    "renyi": "renyi(order=..., epsilon=...)",
    "zcdp": "zcdp(rho=...)",
    "file": "file(path)",
    "store": "store(path)",
    "pld": "pld(package.module:object)",
}
"""What is accepted, by the name that a claim begins with, as messages say it."""

_OTHER_NAMES = {"rdp": "renyi", "gdp": "gaussian", "pure": "dp", "adp": "dp", "cdp": "zcdp"}

_PLUGINS = "hpcdp.claims"  # entry points: functions of numbers by name, which return a `hpcdp.analytic.Curve`

PRODUCT = (
    "a product of these, such as laplace(epsilon=1)*gaussian(mu=1), for a mechanism that publishes several outputs"
)
_TIMES = re.compile(rf"(?<=\))\s*\*\s*(?=(?:{'|'.join(FORMS)})\s*\()")  # a star in a path is none
_SHOWN = 500  # characters of a claim, or of what stands in one, that a message quotes
_MOST_FACTORS, _MOST_DIFFERENT, _MOST_READ = 1000, 64, 8
"""Claims of a product: all; those but for gaussians and equal laplaces (64 different laplaces take 3 s); those that are read from
files and stores (8 take 5 s)."""
_MOST_BYTES = 16 << 20  # of a file with points


@dataclass(frozen=True)
class RenyiLimit:
    """D of this order, in both directions of every pair, is at most `most`; of no order: D_a is at most `most` times a."""

    order: float | None
    most: float


@dataclass(frozen=True)
class Claim:
    """What a claim allows, for both directions of every pair."""

    text: str  # as it was written
    bound: Bound  # the exact curve, or the known points; all that it means for tests
    is_estimate: bool = False  # the estimated spectrum of another run, no guarantee
    limit: RenyiLimit | None = None  # what it says of Rényi divergences in its own words

    def delta(self, epsilon: ArrayLike) -> NDArray[np.float64]:
        """The largest delta, float64 from 0 to 1, that the claim allows at each level; ValueError of a level below 0 or NaN."""
        return self.bound.spectrum(epsilon)

    def implied(self, epsilon: ArrayLike) -> NDArray[np.float64]:
        """The largest delta at each level that meeting the claim at all levels allows: less than `delta` for points of a file."""
        allowed = self.delta(epsilon)
        if not isinstance(self.bound, SpectrumPoints) or self.is_estimate:
            return allowed
        levels = np.asarray(epsilon, np.float64)
        for level, mass in zip(self.bound.epsilons, self.bound.deltas, strict=True):
            lower = np.minimum(levels - level, 0.0)
            below = np.exp(lower) * mass - np.expm1(lower)  # small masses keep their digits
            allowed = np.where(levels < level, np.minimum(allowed, below), allowed)
        return np.clip(allowed, 0.0, 1.0)

    @property
    def pure_level(self) -> float | None:
        """Of a claim of pure differential privacy and nothing else, its ε."""
        is_pure = isinstance(self.bound, ApproximateDP) and self.bound.delta0 == 0.0
        return self.bound.epsilon0 if isinstance(self.bound, ApproximateDP) and is_pure else None

    @property
    def is_symmetric(self) -> bool:
        """Whether the claimed trade-off curve is its own inverse, so that it says the same of (D, D') and of (D', D)."""
        if isinstance(self.bound, TradeOffPoints):
            return self.bound.is_symmetric
        if isinstance(self.bound, TradeOffCurve):
            return self.bound.is_symmetric()
        return isinstance(self.bound, ApproximateDP | GaussianShift | LaplaceShift | LaplaceVector | SpectrumPoints)

    @property
    def curve(self) -> Any:
        """The claimed trade-off curve, which tells δ of both directions; of points of a spectrum what they imply."""
        return polygon(self.bound) if isinstance(self.bound, SpectrumPoints) else self.bound

    def tradeoff(self, alpha: ArrayLike) -> NDArray[np.float64]:
        """The smallest type-II error, float64 from 0 to 1 - alpha, that the claim allows for a test of each size from 0 to 1."""
        return self.bound.tradeoff(alpha)


def factors_of(text: str) -> list[str]:
    """The claims that a product is of; a claim alone is its own."""
    return _TIMES.split(text)


def parse_claim(text: str, folder: Path = Path()) -> Claim:
    """Read a claim of `FORMS`, or a product; StudyError where it is none. Relative paths begin in `folder`: docs/claims.md."""
    parts = factors_of(text)
    if len(parts) > 1:
        _refuse_many(text, parts)
        read = {part: parse_claim(part, folder) for part in dict.fromkeys(parts)}
        claims = [read[part] for part in parts]
        try:
            return Claim(text, tensor([claim.bound for claim in claims]), any(claim.is_estimate for claim in claims))
        except ValueError as error:
            raise StudyError(f"claim {_quoted(text)}: {error}") from None
    name = text.partition("(")[0].strip()
    if name not in (*FORMS, *plugins(_PLUGINS)) or not text.rstrip().endswith(")"):
        known = [*FORMS.values(), *(f"{other}(...)" for other in plugins(_PLUGINS))]
        meant = (
            "; a claim ends with its closing parenthesis"
            if name in FORMS
            else did_you_mean(_OTHER_NAMES.get(name.lower(), name), FORMS)
        )
        raise StudyError(f"claim: {_quoted(text)} was given; accepted: {', '.join(known)}; {PRODUCT}{meant}")
    try:
        if name == "file":
            return Claim(text, _read_file(folder / _path(text)))
        if name == "store":
            return Claim(text, _read_store(folder / _path(text)), is_estimate=True)
        if name == "pld":
            return Claim(text, _read_pld(_path(text), folder.resolve()))
        numbers = _numbers(text)
        return Claim(text, _curve(name, numbers), limit=_limit(name, numbers))
    except _Unreadable as error:
        raise StudyError(
            f"claim {_quoted(text)}: {readable(str(error), _SHOWN)} was given; accepted: {FORMS[name]}"
        ) from None
    except ValueError as error:
        raise StudyError(f"claim {_quoted(text)}: {readable(str(error))}") from None


def _refuse_many(text: str, parts: list[str]) -> None:
    """StudyError for a product that would take long: equal laplaces are one sum, gaussians one gaussian."""
    merged = {part for part in parts if part.lstrip().startswith("laplace")}
    read = [part for part in parts if part.lstrip().startswith(("file", "store", "pld"))]
    rest = [part for part in parts if part.lstrip().startswith(("dp", "renyi", "zcdp"))]
    different = len(merged) + len(read) + len(rest)
    if len(parts) > _MOST_FACTORS or different > _MOST_DIFFERENT or len(read) > _MOST_READ:
        raise StudyError(
            f"claim {_quoted(text)}: a product of {len(parts)} claims was given ({different} but for gaussians and equal "
            f"laplaces, {len(read)} of files and stores); accepted: at most {_MOST_FACTORS} ({_MOST_DIFFERENT}, {_MOST_READ})"
        )


def _quoted(text: str) -> str:
    """The text in quotes; of a long one the beginning."""
    return repr(text) if len(text) <= _SHOWN else readable(repr(text), _SHOWN)


def as_claim(claim: Claim | str) -> Claim:
    """A claim, or its text read with paths relative to the current folder, as `parse_claim`."""
    if not isinstance(claim, Claim | str):
        raise wrong("claim", claim, "a text such as 'dp(epsilon=1)'")
    return parse_claim(claim) if isinstance(claim, str) else claim


def meaning(text: str) -> str:
    """What a claim says, equal for all ways to write its numbers, and its factors in any order; of what is no claim, the text."""
    try:
        return repr(sorted(_meaning(part) for part in factors_of(text)))
    except (_Unreadable, ValueError):
        return text


def _meaning(text: str) -> str:
    name = text.partition("(")[0].strip()
    if name in ("file", "store", "pld"):
        return f"{name}({_path(text)})"
    curve = _curve(name, numbers := _numbers(text))
    return repr(_limit(name, numbers) or curve)


class _Unreadable(Exception):
    """What was given instead of the arguments that a claim of this name takes."""


def _call(text: str) -> ast.Call | None:
    """The text as the syntax tree of one plain call, or None; nothing is evaluated."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return tree if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) else None


def _numbers(text: str) -> dict[str, float]:
    if (call := _call(text)) is None:
        raise _Unreadable("something that is no call")
    if call.args:
        raise _Unreadable(f"{ast.unparse(call.args[0])} without a name")
    numbers: dict[str, float] = {}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in numbers:
            raise _Unreadable(f"{ast.unparse(keyword)} twice" if keyword.arg else ast.unparse(keyword))
        numbers[keyword.arg] = _number(keyword.arg, keyword.value)
    return numbers


def _number(name: str, node: ast.expr) -> float:
    value: Any = None
    with suppress(ValueError, TypeError, MemoryError, RecursionError):
        value = ast.literal_eval(node)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: {readable(ast.unparse(node), _SHOWN)} was given; accepted: a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # the curve refuses it, as it is not finite


def _curve(name: str, numbers: dict[str, float]) -> Bound:
    forms: dict[tuple[str, ...], Callable[..., Bound]] = {
        ("laplace", "epsilon"): lambda epsilon: LaplaceShift(non_negative("epsilon", epsilon)),
        ("gaussian", "mu"): GaussianShift,
        ("gaussian", "delta", "epsilon"): lambda delta, epsilon: GaussianShift(1.0 / gaussian_sigma(epsilon, delta)),
        ("dp", "epsilon"): _dp,
        ("dp", "delta", "epsilon"): _dp,
        ("renyi", "epsilon", "order"): lambda epsilon, order: renyi_tradeoff(order, epsilon),
        ("zcdp", "rho"): zcdp_tradeoff,
    }
    if name in plugins(_PLUGINS):
        try:
            return load_plugin(_PLUGINS, name)(**numbers)
        except TypeError as error:
            raise ValueError(str(error)) from None
    form = forms.get((name, *sorted(numbers)))
    if form is None:
        raise _Unreadable(", ".join(numbers) or "no argument")
    return form(**numbers)


def _dp(epsilon: float, delta: float = 0.0) -> Bound:
    return ApproximateDP(non_negative("epsilon", epsilon), fraction("delta", delta))


def _limit(name: str, numbers: dict[str, float]) -> RenyiLimit | None:
    """What a claim that `_curve` took says of Rényi divergences themselves."""
    if name == "renyi":
        return RenyiLimit(numbers["order"], numbers["epsilon"])
    return RenyiLimit(None, numbers["rho"]) if name == "zcdp" else None


def _path(text: str) -> str:
    """The one path between the parentheses, bare or in quotes."""
    inside = text.partition("(")[2].rstrip()[:-1].strip()
    parts = [] if (call := _call(text)) is None else [*call.args, *call.keywords]
    if len(parts) == 1 and isinstance(parts[0], ast.Constant) and isinstance(parts[0].value, str):
        inside = parts[0].value
    elif len(parts) > 1 or inside[:1] in ("'", '"'):
        raise _Unreadable(inside)
    if not inside:
        raise _Unreadable("no path")
    return inside


def _read_file(path: Path) -> SpectrumPoints | TradeOffPoints:
    try:
        text = io.StringIO(read_bytes(path, _MOST_BYTES).decode("utf-8-sig"), newline="")
        rows = [(number, row) for number, row in enumerate(csv.reader(text), start=1) if row]
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or 'unreadable'}; accepted: a CSV file") from None
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"{path}: bytes that are no text were given; accepted: a CSV file") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    header = [cell.strip() for cell in rows[0][1]] if rows else []
    if header not in (["epsilon", "delta"], ["alpha", "beta"]):
        # whoever made a store may have named any file, so nothing of it is quoted
        raise ValueError(f"{path}: its first line is no header; accepted: epsilon,delta or alpha,beta")
    points = []
    for number, row in rows[1:]:
        try:
            epsilon, delta = map(float, row)
        except ValueError:
            raise ValueError(f"{path}: line {number} does not hold two numbers; accepted: two numbers a line") from None
        points.append((epsilon, delta))
    if not points:
        raise refusal(f"{path}: points", "no line after the header", "one or more")
    if header == ["alpha", "beta"]:
        return _points(TradeOffPoints, path, np.array(points))
    for (_, before), (epsilon, after) in pairwise(points):
        if after > before:
            raise refusal(f"{path}: delta at epsilon {epsilon!r}", after, f"a number <= {before!r}, the one before")
    return _points(SpectrumPoints, path, np.array(points))


def _read_store(path: Path) -> SpectrumPoints | TradeOffPoints:
    try:
        is_there = path.exists()
    except OSError as error:  # such as a name that is too long
        raise ValueError(f"{path}: {error.strerror}; accepted: a store") from None
    if not is_there:
        raise ValueError(f"{path}: nothing is there; accepted: a store")
    with foreign(path):
        layout = open_layout(path)
        stored = read_results(layout)
    if stored is None or not stored[1]["complete"] or stored[1]["version"] != latest_version(layout):
        raise StudyError(f"{path} is not complete yet; go on with: {resume_command(path)}")
    points = np.column_stack([stored[0][name][1] for name in ("epsilon", "spectrum_delta")])
    return _points(SpectrumPoints, path, points[np.argsort(points[:, 0])])


def _points(
    kind: Callable[..., SpectrumPoints | TradeOffPoints], path: Path, points: NDArray[np.float64]
) -> SpectrumPoints | TradeOffPoints:
    try:
        return kind(points[:, 0], points[:, 1])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


_ACCEPTED_PLD = '"package.module:object", a PrivacyLossDistribution, a DpEvent or a PrivacyAccountant of dp_accounting'
_NEAR, _FAR, _LEVELS, _FEWER = 8.0, 700.0, 1 << 14, 1 << 10
"""Levels: most of them up to the first, the others up to the second. Of accountants, which take milliseconds for each: fewer."""


def _read_pld(path: str, folder: Path) -> TradeOffCurve:
    """The least trade-off curve that the accountant's δ allows at many ε, in both directions; ValueError where it is none."""
    if ":" not in path:
        raise ValueError(f"{path} was given; accepted: {_ACCEPTED_PLD}")
    return _pld_curve(path, folder, frozenset((module, module.stat().st_mtime_ns) for module in folder.glob("*.py")))


@lru_cache(maxsize=16)
def _pld_curve(path: str, folder: Path, _modules: frozenset[tuple[Path, int]]) -> TradeOffCurve:
    with NodeExecutor(1) as node:
        return TradeOffCurve.from_delta(*node.submit(_deltas, path, folder).result())


def _deltas(path: str, folder: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Levels, and the δ that an accountant gives there, never rising."""
    given = import_object(path, folder, "claim")
    asked = getattr(given, "get_delta_for_epsilon", None)
    levels = np.append(np.linspace(0.0, _NEAR, _LEVELS), np.geomspace(_NEAR, _FAR, _FEWER)[1:])
    if asked is None and not hasattr(given, "get_delta"):
        try:
            from dp_accounting import DpEvent
            from dp_accounting.pld import PLDAccountant
        except ImportError:
            raise ValueError(
                f"{path} is a {_type_of(given)}; dp_accounting is not installed: pip install hpcdp[accounting]"
            ) from None
        if not isinstance(given, DpEvent):
            raise ValueError(f"{path} is a {_type_of(given)}; accepted: {_ACCEPTED_PLD}")
        given = PLDAccountant().compose(given)
    if asked is None:
        levels = np.append(np.linspace(0.0, _NEAR, _FEWER), np.geomspace(_NEAR, _FAR, 64)[1:])
        deltas = [given.get_delta(float(level)) for level in levels]
    else:
        deltas = asked(levels)
    return levels, np.minimum.accumulate(np.clip(np.asarray(deltas, np.float64), 0.0, 1.0))


def _type_of(given: Any) -> str:
    return f"{type(given).__module__}.{type(given).__qualname__}"

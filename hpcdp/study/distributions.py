"""Distributions over databases (Δ), and databases drawn from one with a row held at a value.

Distributional DP compares the laws of M(D) given D_i = x and given D_i = x', where D is drawn from a distribution with
independent rows (Lu et al., "Eureka", S&P 2024, Definitions 4 and 15). So a database is drawn and its row i overwritten.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.doing import at_risk
from hpcdp._base.raised import Blamed
from hpcdp._check import without_contents
from hpcdp.errors import MechanismError, StudyError
from hpcdp.keys import canonical_json, digest_bytes
from hpcdp.mechanisms._callable import CallableMechanism
from hpcdp.mechanisms._program import ProgramMechanism
from hpcdp.mechanisms.user_code import import_callable, refuse_call, source_digest
from hpcdp.study.at_risk import PairDraws
from hpcdp.study.file import Study
from hpcdp.study.pairs import Distributional

Databases = NDArray[Any]
"""Many databases of one shape: (size, rows) or (size, rows, columns), booleans, integers or reals."""

_BLOCK_BYTES = 64 << 20  # of the databases in memory at once; a constant, because a block's draws depend on it
_CELL_BYTES = 8
_TRIAL_STREAM = 20240520

Draws = CallableMechanism | ProgramMechanism | PairDraws
"""What draws outputs of one database, and of many at once where it can."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """A distribution over databases, π; one that was opened to read results has no function."""

    number: int  # its place in Δ
    call: str
    parameters: Mapping[str, Any] = field(repr=False)
    shape: tuple[int, ...]  # of one database, (rows,) or (rows, columns)
    function: Callable[..., Any] | None = field(default=None, repr=False)
    outputs: Callable[..., Any] | None = field(default=None, repr=False)  # draws M(D) given one row
    source: str = ""  # digest of the file that holds the function

    @property
    def rows(self) -> int:
        """Rows of each database."""
        return self.shape[0]

    @property
    def cells(self) -> int:
        """Numbers in each database, to draw it; 1 where outputs are drawn directly."""
        return 1 if self.outputs is not None else math.prod(self.shape)

    @property
    def block(self) -> int:
        """How many databases are drawn at a time."""
        return max(1, _BLOCK_BYTES // (_CELL_BYTES * math.prod(self.shape)))

    def draw(self, size: int, rng: np.random.Generator) -> Databases:
        """`size` databases, checked; MechanismError tells what is wrong with them."""
        if self.function is None:
            raise MechanismError("this problem was opened to read results; it cannot draw")
        with Blamed(f"distribution {self.call}"):
            made = np.array(self.function(size, rng, **self.parameters))
        if made.shape[1:] != self.shape or made.shape[:1] != (size,) or made.dtype.kind not in "biuf":
            raise MechanismError(
                f"distribution {self.call} returned {made.dtype} of shape {made.shape} when asked for {size} databases; "
                f"accepted: numbers of shape {(size, *self.shape)}"
            )
        if made.dtype.kind == "f" and not np.isfinite(made).all():
            odd = made[~np.isfinite(made)][0]
            raise MechanismError(f"distribution {self.call} returned {odd}; accepted: finite numbers")
        return made


@dataclass(frozen=True, eq=False)
class Conditional:
    """D drawn from a distribution with row `row` (from 0) held at a value: a number, or one number a column."""

    distribution: Distribution
    row: int
    value: Any = field(repr=False)

    @property
    def key(self) -> str:
        """Digest of the distribution's name and parameters, the row and the value."""
        about = [self.distribution.call, dict(self.distribution.parameters), self.row, self.value]
        return digest_bytes(b"conditional", canonical_json(about))

    def draw(self, mechanism: Draws, size: int, rng: np.random.Generator) -> Any:
        """`size` outputs of M(D), each of a database of its own, in blocks that memory bounds; or as the distribution has it."""
        distribution = self.distribution
        if distribution.outputs is not None:
            with Blamed(f"outputs of {distribution.call}"):
                parameters = _accepted(distribution.outputs, distribution.parameters)
                return distribution.outputs(size, rng, self.row, self.value, **parameters)
        most = distribution.block
        parts = [self._block(mechanism, min(most, size - start), rng) for start in range(0, size, most)]
        if all(isinstance(part, np.ndarray) for part in parts):
            return parts[0] if len(parts) == 1 else _joined(parts)
        return [output for part in parts for output in part]

    def _block(self, mechanism: Draws, size: int, rng: np.random.Generator) -> Any:
        databases = self.distribution.draw(size, rng)
        value = np.asarray(self.value)
        with np.errstate(invalid="ignore"):  # a value beyond an integer's range is refused below
            held = value.astype(databases.dtype)
        if held.tolist() != np.asarray(self.value, object).tolist():  # as Python compares: NumPy would round integers
            raise MechanismError(
                f"distribution {self.distribution.call} draws databases of type {databases.dtype}, which cannot hold "
                f"a value at which row {self.row} is held; accepted: values of that type"
            )
        databases[:, self.row] = held
        outputs = mechanism.draw_each(databases, rng)
        if outputs is None:
            return [_only(mechanism.draw(database, 1, rng)) for database in databases]
        try:
            count = len(outputs)
        except TypeError:
            raise MechanismError(
                f"the mechanism's each returned one {type(outputs).__name__} for {size} databases; "
                "accepted: an array or a list, an output of each"
            ) from None
        if count != size:
            raise MechanismError(f"the mechanism's each returned {count} outputs for {size} databases")
        return outputs


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """The outputs of all blocks."""
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        given = ", ".join(str(shape) for shape in sorted(shapes))
        raise MechanismError(f"the mechanism's each returned outputs of shapes {given}; accepted: one shape")
    return np.concatenate(parts)


def _only(outputs: Any) -> Any:
    """The one output of a call for one."""
    listed = outputs if isinstance(outputs, (list, tuple)) else np.atleast_1d(outputs)
    if len(listed) != 1:
        raise MechanismError(f"the mechanism returned {len(listed)} outputs when asked for one")
    return listed[0]


def _accepted(function: Callable[..., Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a function takes: what draws outputs directly need not take all that draws databases."""
    names = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in names.values()):
        return dict(parameters)
    return {name: value for name, value in parameters.items() if name in names}


def load_distributions(study: Study) -> list[Distribution]:
    """Every distribution of Δ, tried out on a few databases; StudyError says what is wrong with one."""
    return [_load(number, section, study.folder) for number, section in enumerate(study.pairs.distributional or ())]


def known_distributions(study: Study, shapes: Sequence[Sequence[int]]) -> list[Distribution]:
    """The distributions of a stored study, to read results: they cannot draw."""
    sections = study.pairs.distributional or ()
    return [
        Distribution(number, section.call, section.parameters, tuple(shape))
        for number, (section, shape) in enumerate(zip(sections, shapes, strict=True))
    ]


def _load(number: int, section: Distributional, folder: Path) -> Distribution:
    where = f"pairs.distributional.{number}"
    function = import_callable(section.call, folder, f"{where}.call")
    for reserved in ("size", "rng"):
        if reserved in section.parameters:
            raise StudyError(f"{where}.parameters.{reserved}: hpcdp passes this argument itself; leave it out")
    refuse_call(function, f"{where}.call", section.call, "fn(size, rng, **parameters)", 1, None, **section.parameters)
    shape = _shape_of(function, section, where)
    _check_rows(section, shape, where)
    outputs = getattr(function, "outputs", None)
    if outputs is not None and not callable(outputs):
        raise StudyError(f"{where}.call: its outputs must be callable; given: a {type(outputs).__name__}")
    source = source_digest(section.call, folder)
    return Distribution(number, section.call, section.parameters, shape, function, outputs, source)


def _shape_of(function: Callable[..., Any], section: Distributional, where: str) -> tuple[int, ...]:
    """Shape of one database, from one that is drawn."""
    rng = np.random.default_rng(_TRIAL_STREAM)
    with Blamed(f"{where}.call: {section.call}", failure=StudyError), at_risk(f"{where}.call {section.call}"):
        made = np.asarray(function(1, rng, **section.parameters))
    if made.ndim not in (2, 3) or made.shape[0] != 1 or made.size == 0 or made.dtype.kind not in "biuf":
        raise StudyError(
            f"{where}.call: {section.call} returned {made.dtype} of shape {made.shape} when asked for 1 database; "
            "accepted: numbers of shape (size, rows) or (size, rows, columns)"
        )
    return tuple(int(n) for n in made.shape[1:])


def _check_rows(section: Distributional, shape: tuple[int, ...], where: str) -> None:
    beyond = [row for row in section.index if isinstance(row, int) and row >= shape[0]]
    if beyond:
        raise StudyError(f"{where}.index: rows from 0 to {shape[0] - 1}; given: {beyond[0]}")
    for number, value in enumerate(section.values):
        given = np.asarray(value)
        if given.dtype.kind not in "biuf" or given.shape != shape[1:] or not np.isfinite(given).all():
            accepted = "a finite number" if len(shape) == 1 else f"a list of {shape[1]} finite numbers"
            raise StudyError(
                f"{where}.values.{number}: {accepted}, a row of a database, integers from -2**63 to 2**64 - 1; given: "
                f"{without_contents(value)}"
            )
    spelled = [np.ravel(value).tolist() for value in section.values]
    equal = [i for i, value in enumerate(spelled) if value in spelled[:i]]  # 0, 0.0 and false are one
    if equal:
        raise StudyError(f"{where}.values.{equal[0]}: distinct values of a row; given: one that equals one before it")

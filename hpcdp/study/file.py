"""The study file: parsed once, validated, frozen.

Every key of the file is a field here; an unknown key, a wrong type or an impossible value raises `StudyError` that
names the key, what was given and what is accepted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import pydantic
from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    model_validator,
)

from hpcdp._base.files import read_toml
from hpcdp._base.messages import accepted_keys, describe_errors
from hpcdp.errors import StudyError
from hpcdp.keys import canonical_json, digest_json
from hpcdp.losses import LOSSES, kind_of
from hpcdp.mechanisms.code_digest import digest_function, digest_value
from hpcdp.mechanisms.functions import import_path, name_of
from hpcdp.mechanisms.tabular import Frames, is_frame
from hpcdp.study.at_risk import AtRisk, sections_of
from hpcdp.study.estimate import Estimate
from hpcdp.study.pure import Pure
from hpcdp.study.section import STORED, Key, Rows, Seconds, Section

_RESERVED = re.compile(r"[^A-Za-z0-9._+-]")


class Header(Section):
    """[study]: what it is called, the seed from which the whole run follows, and an optional claim.

    stream: what makes random numbers of the seed: "philox" (`hpcdp.mechanisms.streams`), or "numpy", its default generator.
    """

    name: Annotated[str, Field(min_length=1, max_length=200), Key("nothing")]
    seed: Annotated[int, Field(ge=0), Key("law")]
    claim: Annotated[str | None, Key("nothing")] = None
    stream: Annotated[Literal["numpy", "philox"], Key("law", absent="numpy", kept=True)] = "philox"

    @model_validator(mode="after")
    def _name_is_a_file_name(self) -> Self:
        bad = _RESERVED.search(self.name)
        if bad or self.name.startswith("."):
            raise ValueError(f"name: letters, digits and . _ + - only, not starting with a dot; given: {self.name!r}")
        if self.claim is not None and not self.claim.isprintable():
            raise ValueError(f"claim: characters that can be printed; given: {self.claim!r}")
        return self


class ProgramCall(Section):
    """mechanism.call as a table: a program in an environment of its own. timeout: seconds a chunk may take."""

    command: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1), Key("law")]
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False), Key("nothing", "change")] = 600.0
    start_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False), Key("nothing", "change")] = 120.0


class FunctionCall(Section):
    """mechanism.call of a function that was given as an object: what a store keeps of it, its name and its digest.

    undigested: what it reads that has no digest (`hpcdp.mechanisms.code_digest`), so that nobody can tell whether it changed.
    """

    function: Annotated[str, Field(min_length=1), Key("law")]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{32}$"), Key("nothing", "change")]
    undigested: Annotated[list[str], Key("nothing", "change", absent=[])] = Field(default_factory=list)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionCall:
        """What is kept of a function."""
        found = digest_function(function)
        return cls(function=name_of(function), digest=found.digest, undigested=list(found.undigested))


def _bounds_pure(loss: Any) -> bool:
    """Whether what a file gives as a loss bounds pure ε; what is no loss is refused elsewhere."""
    return isinstance(loss, str) and loss in LOSSES and LOSSES[loss].bounds_pure


_LISTED, _CALLED = "(list)", "(call)"
_NAME, _PROGRAM, _FUNCTION = (
    "(name)",
    "(program)",
    "(function)",
)  # messages leave out parts of a location in parentheses


def _kind_of_call(value: Any) -> str:
    if isinstance(value, FunctionCall) or (isinstance(value, dict) and "function" in value):
        return _FUNCTION
    return _PROGRAM if isinstance(value, dict | ProgramCall) else _NAME


class MechanismSection(Section):
    """[mechanism]: a built-in's name, "package.module:callable", a program, or a function of this process; its parameters.

    reproducible: whether outputs are a function of the seed; False keeps every sample, for none can be drawn again.
    timeout: seconds that a callable may take for a chunk, in a process of its own then; None: as long as it takes.
    isolated: whether a run without workers calls the study's code in a process of its own; with workers it always is. Where
    a function was given as an object and this was not, that is called where it is.
    impossible: "package.module:predicate" of outputs that the study declares D′ cannot produce, for random tapes.
    """

    call: Annotated[
        Annotated[str, Field(min_length=1), Tag(_NAME)]
        | Annotated[ProgramCall, Tag(_PROGRAM)]
        | Annotated[FunctionCall, Tag(_FUNCTION)],
        Discriminator(_kind_of_call),
        Key("law"),
    ]
    parameters: Annotated[dict[str, Any], Key("law")] = Field(default_factory=dict)
    reproducible: Annotated[bool, Key("law")] = True
    timeout: Annotated[Seconds | None, Key("nothing", "change", absent=None)] = None
    isolated: Annotated[bool, Key("nothing", "change", absent=True)] = True
    impossible: Annotated[
        Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")] | None, Key("family", "change", absent=None)
    ] = None
    _function: Callable[..., Any] | None = PrivateAttr(None)
    _is_here: bool = PrivateAttr(False)

    def holding(self, function: Callable[..., Any], given: Mapping[str, Any]) -> None:
        """The function was given as an object in this process, and these keys with it."""
        self._function, self._is_here = function, "isolated" not in given

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function, where it was given as an object in this process."""
        return self._function

    @property
    def shares_process(self) -> bool:
        """Whether a run without workers calls it in this process: so as asked, and a function of this process unasked."""
        return not self.isolated or self._is_here

    @property
    def handed(self) -> dict[str, Any]:
        """What tasks need of a function that was given and stores do not have: by digest itself; by import path its digest."""
        if self._function is None:
            return {}
        if isinstance(self.call, FunctionCall):
            return {self.call.digest: self._function}
        return {str(self.call): digest_function(self._function, code_alone=True).digest}

    @model_validator(mode="after")
    def _one_timeout(self) -> Self:
        from hpcdp.mechanisms import READERS

        if self.timeout is not None and isinstance(self.call, ProgramCall):
            raise ValueError(
                f"timeout: a program has its own, mechanism.call.timeout; given: {self.timeout:g}; accepted: "
                "call = { command = [...], timeout = ... }"
            )
        if self.timeout is not None and self.call in READERS:
            raise ValueError(f"timeout: {self.call} draws nothing; leave this key out; given: {self.timeout:g}")
        return self

    @model_validator(mode="after")
    def _may_share_a_process(self) -> Self:
        from hpcdp.mechanisms import READERS

        if self.isolated:
            return self
        if isinstance(self.call, ProgramCall):
            raise ValueError("isolated: a program always has a process of its own; leave this key out; given: false")
        if self.call in READERS:
            raise ValueError(f"isolated: {self.call} draws nothing; leave this key out; given: false")
        if self.timeout is not None:
            raise ValueError(
                f"isolated: with mechanism.timeout it has a process of its own, which can be ended; given: false and "
                f"timeout = {self.timeout:g}; accepted: one of them"
            )
        return self


class Framed(Section):
    """A database that was given as a DataFrame: what a study says of it. The codes of its rows are stored as arrays are."""

    frame: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    rows: Annotated[int, Field(ge=0)]
    _given: Any = PrivateAttr(None)

    @property
    def given(self) -> Any:
        """The DataFrame, where it was given in this process."""
        return self._given

    @classmethod
    def of(cls, frame: Any) -> Framed:
        """What is said of a DataFrame, which is kept beside it."""
        made = cls(frame=digest_value(frame).digest, rows=len(frame))
        made._given = frame.copy()
        return made


def _read_database(value: Any) -> Any:
    """A DataFrame by what is said of it, an array as the list of its rows."""
    return Framed.of(value) if is_frame(value) else value.tolist() if isinstance(value, np.ndarray) else value


_ROWS, _FRAME = "(rows)", "(frame)"
Rowed = Annotated[
    Annotated[list[Any], Tag(_ROWS)] | Annotated[Framed, Tag(_FRAME)],
    Discriminator(lambda value: _FRAME if isinstance(value, dict | Framed) else _ROWS),
    BeforeValidator(_read_database),
]
"""A database of numbers, or a DataFrame."""


class GivenPair(Section):
    """One ordered pair (D, D')."""

    d: Rowed
    d_prime: Rowed


class GivenCall(Section):
    """A callable that returns ordered pairs, as `hpcdp.patterns` has some ready."""

    call: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Any] = Field(default_factory=dict)


class Relative(Section):
    """T, and the neighbours of each of its databases: one row removed, or one row edited to other values."""

    databases: list[Rowed] | None = None
    file: str | None = None
    call: str | None = None
    rows: Rows = "all"
    relation: Literal["remove", "edit"] = "remove"
    values: list[Any] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in ("databases", "file", "call") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of databases, file, call; given: {', '.join(given) or 'none'}")
        if self.databases is not None and not self.databases:
            raise ValueError("databases: at least one database")
        if isinstance(self.rows, tuple) and (not self.rows or len(set(self.rows)) < len(self.rows)):
            raise ValueError('rows: "all" or a list of distinct row numbers, at least one')
        if self.values is not None and (self.relation != "edit" or not self.values):
            raise ValueError('values: a list of at least one row, with relation = "edit" only')
        return self


class Distributional(Section):
    """One distribution of Δ: what draws databases, which rows are held, and at which values."""

    call: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Any] = Field(default_factory=dict)
    index: Rows = "all"
    values: list[Any]
    exchangeable: bool = False

    @model_validator(mode="after")
    def _rows_and_values(self) -> Self:
        if isinstance(self.index, tuple) and (not self.index or len(set(self.index)) < len(self.index)):
            raise ValueError('index: "all" or a list of distinct row numbers, at least one')
        if len({canonical_json(value) for value in self.values}) < max(2, len(self.values)):
            raise ValueError("values: a list of at least two distinct values of a row")
        return self


class Domain(Section):
    """All pairs of numbers of an interval, by the midpoints of equal buckets: local privacy.

    lipschitz: D: by how much the density at any output changes while the input moves by one unit, at most: an assumption.
    """

    lower: Annotated[float, Field(allow_inf_nan=False)]
    upper: Annotated[float, Field(allow_inf_nan=False)]
    points: Annotated[int, Field(ge=2, le=100_000)]
    lipschitz: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _ascends(self) -> Self:
        if not self.lower < self.upper or not math.isfinite(self.upper - self.lower):
            raise ValueError(f"lower < upper; given: {self.lower:g} and {self.upper:g}")
        return self

    @property
    def midpoints(self) -> list[float]:
        """Of the buckets, ascending."""
        step = (self.upper - self.lower) / self.points
        return [self.lower + (number + 0.5) * step for number in range(self.points)]

    @property
    def change(self) -> float:
        """By how much the density of an input differs from that of its bucket's midpoint, at most."""
        return 0.5 * self.lipschitz * (self.upper - self.lower) / self.points


class Pairs(Section):
    """[pairs]: exactly one of given, relative, distributional, domain."""

    given: (
        Annotated[
            Annotated[list[GivenPair], Tag(_LISTED)] | Annotated[GivenCall, Tag(_CALLED)],
            Discriminator(lambda value: _CALLED if isinstance(value, (dict, GivenCall)) else _LISTED),
        ]
        | None
    ) = None
    relative: Relative | None = None
    distributional: Annotated[
        list[Distributional] | None, BeforeValidator(lambda v: [v] if isinstance(v, dict) else v)
    ] = None
    domain: Annotated[Domain | None, Key("law", absent=None)] = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        kinds = ("given", "relative", "distributional", "domain")
        found = [key for key in kinds if getattr(self, key) is not None]
        if len(found) != 1:
            raise ValueError(f"exactly one of {', '.join(kinds)}; given: {', '.join(found) or 'none'}")
        if self.given == []:
            raise ValueError("given: at least one pair")
        if self.distributional is not None and not self.distributional:
            raise ValueError("distributional: at least one distribution")
        return self


class Study(Section):
    """A whole study, frozen; compare studies by `to_dict`. folder: where relative paths start and what is importable."""

    study: Header
    mechanism: MechanismSection
    pairs: Pairs
    estimate: Estimate
    pure: Annotated[Pure | None, Key("learned", absent=None)] = None
    at_risk: Annotated[AtRisk | None, Key("law", absent=None)] = None
    folder: Path = Field(default_factory=Path.cwd, exclude=True, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _at_risk_alone(cls, data: Any) -> Any:
        """[at_risk] says all that the other sections would."""
        if not isinstance(data, dict) or data.get("at_risk") is None:
            return data
        given = [key for key in ("mechanism", "pairs", "estimate", "pure") if data.get(key) is not None]
        given += (
            ["study.claim"] if isinstance(data.get("study"), dict) and data["study"].get("claim") is not None else []
        )
        if given:
            raise ValueError(f"at_risk: a study of [study] and [at_risk] alone; given with it: {', '.join(given)}")
        return {**data, **sections_of(data["at_risk"])}

    @model_validator(mode="before")
    @classmethod
    def _levels_are_optional(cls, data: Any) -> Any:
        """With [pure], and with a loss that bounds pure ε, no ε need be given."""
        estimate = data.get("estimate") if isinstance(data, dict) else None
        if not isinstance(estimate, dict) or estimate.get("epsilons") not in (None, [], ()):
            return data
        if data.get("pure") is None and not _bounds_pure(estimate.get("loss")):
            return data
        return {**data, "estimate": {**estimate, "epsilons": ()}}

    @model_validator(mode="after")
    def _drawn_from_proposals(self) -> Self:
        """A random tape is the noise of a mechanism that takes it all from rng, in this process, on databases that are given."""
        from hpcdp.mechanisms import READERS

        section, given = self.mechanism, ""
        if not self.estimate.tape:
            return self
        if isinstance(section.call, ProgramCall):
            given = "a program, which has generators of its own"
        elif section.call in READERS:
            given = f"mechanism.call = {section.call!r}, which draws nothing"
        elif not section.reproducible:
            given = "mechanism.reproducible = false, which has randomness of its own"
        elif section.timeout is not None:
            given = "mechanism.timeout, for which outputs are drawn in another process"
        elif self.pairs.distributional is not None:
            given = "pairs.distributional, whose databases are drawn too"
        elif self.pairs.domain is not None or self.pure is not None or self.at_risk is not None:
            given = (
                "pairs.domain" if self.pairs.domain is not None else "[pure]" if self.pure is not None else "[at_risk]"
            )
        if given:
            raise ValueError(
                f"estimate.tape: the mechanism's own noise is drawn from proposals; given: {given}; accepted: a built-in or a "
                "callable that takes all its randomness from rng, given or relative pairs, cells by ε"
            )
        return self

    @model_validator(mode="after")
    def _pure_alone(self) -> Self:
        """[pure] takes the place of the cells, with what one L̂ a pair learns from training samples."""
        e = self.estimate
        if self.pairs.domain is not None and (not self.bounds_pure or e.epsilons):
            what = "estimate.epsilons" if self.bounds_pure else f"loss = {e.loss!r}"
            raise ValueError(
                'pairs.domain: midpoints, of which no pair is enumerated; accepted with loss = "histogram" without epsilons; '
                f"given: {what}"
            )
        if self.pure is None:
            if not e.epsilons and not self.bounds_pure and self.at_risk is None:
                raise ValueError(
                    "estimate.epsilons: a grid has at least one point; none are needed with [pure] and with loss = "
                    '"histogram" only'
                )
            return self
        given = [f"estimate.{key} = {value!r}" for key in ("reuse", "refine", "time") if (value := getattr(e, key))]
        given += ["estimate.target"] if e.target is not None else []
        given += [f"estimate.loss = {list(e.loss)}"] if e.other_losses else []
        given += [
            f"estimate.{key}" for key in ("etas", "renyi", "certify") if getattr(e, key) and not self.counts_levels
        ]
        if kind_of(e.default_loss).way:
            given.append(f"estimate.loss = {e.default_loss!r}")
        if given:
            raise ValueError(
                f"pure: one L̂ a pair, learned from training samples, and fresh test samples; given with it: "
                f"{', '.join(given)}; accepted: any one loss but literal-knn, without reuse, refine, target and time; etas, "
                'renyi and certify with pure.test = "all" and epsilons'
            )
        return self

    @property
    def counts_levels(self) -> bool:
        """Whether cells by ε are counted: with [pure] only where all pairs are tested and ε are given."""
        if self.at_risk is not None:
            return False
        if self.pure is None:
            return bool(self.estimate.epsilons)
        return self.pure.test == "all" and bool(self.estimate.epsilons)

    @property
    def bounds_pure(self) -> bool:
        """Whether the loss's way has an interval of pure ε."""
        return kind_of(self.estimate.default_loss).bounds_pure

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The ε that are counted."""
        return self.estimate.epsilons if self.counts_levels else ()

    @model_validator(mode="after")
    def _declared_of_tapes(self) -> Self:
        """What D′ cannot output matters where bounds have a leftover."""
        if self.mechanism.impossible is not None and not self.estimate.tape:
            raise ValueError(
                f"mechanism.impossible: with estimate.tape = true only, whose bounds it spares the leftover; given: "
                f"{self.mechanism.impossible!r}"
            )
        return self

    @model_validator(mode="after")
    def _stream_otherwise(self) -> Self:
        """What draws nothing, or has generators of its own, has no stream of hpcdp's own; stores then name none."""
        from hpcdp.mechanisms import READERS

        call = self.mechanism.call
        if "stream" not in self.study.model_fields_set and (isinstance(call, ProgramCall) or call in READERS):
            header = self.study.model_copy()
            header.__dict__["stream"] = "numpy"
            self.__dict__["study"] = header
        return self

    @model_validator(mode="after")
    def _loss_otherwise(self) -> Self:
        """A loss that learns from fresh draws for cells alone has another in its place elsewhere, which stores name."""
        other = kind_of(self.estimate.default_loss).otherwise
        if other is not None and not self.is_drawn_for_cells:
            self.__dict__["estimate"] = self.estimate.with_loss(other).without_loss_named()
        return self

    @property
    def is_drawn_for_cells(self) -> bool:
        """Whether training outputs are fresh draws, and all that they teach is where to count."""
        from hpcdp.mechanisms import READERS

        e = self.estimate
        is_drawn = self.mechanism.call not in READERS and self.mechanism.reproducible
        return is_drawn and e.reuse is False and not (e.refine or e.has_budget) and self.pure is None

    @model_validator(mode="after")
    def _drawn_once(self) -> Self:
        """Samples that are not kept are drawn again when they are needed, so they must be the same ones again."""
        if not self.mechanism.reproducible and self.estimate.keep != "all":
            raise ValueError(
                'estimate.keep: with mechanism.reproducible = false only "all", for what is not kept is drawn again; '
                f"given: {self.estimate.keep!r}"
            )
        return self

    @model_validator(mode="after")
    def _reused_from_the_store(self) -> Self:
        """Samples that are reused are read again and again; stored files hold them already."""
        from hpcdp.mechanisms import STORED

        e = self.estimate
        if e.reuse is not False and e.keep != "all" and self.mechanism.call != STORED:
            raise ValueError(
                f'estimate.keep: with reuse only "all", but for mechanism.call = "stored"; given: {e.keep!r}'
            )
        return self

    @classmethod
    def from_toml(cls, path: str | Path) -> Study:
        """Read a study file; raises StudyError with one message for all that is wrong with it."""
        path = Path(path)
        try:
            data = read_toml(path)
        except FileNotFoundError:
            raise StudyError(f"no study file at {path}") from None
        except OSError as error:
            raise StudyError(f"cannot read the study file {path}: {error}") from None
        except ValueError as error:
            raise StudyError(f"{path} is not TOML: {error}") from None
        return cls.from_dict(data, path.resolve().parent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], folder: str | Path | None = None) -> Study:
        """Validate a study given as nested dictionaries with the keys of the study file.

        mechanism.call may be a function, or any object that can be called, of a module, a script, a notebook, or within
        another function: one that an import finds is the same as its "package.module:name"; of others a store keeps the
        name and a digest, and who goes on with it gives the function again.
        """
        if "folder" in data:
            raise StudyError(f"folder: unknown key (given: {data['folder']!r}); accepted: {accepted_keys(cls)}")
        place = Path(folder or ".").absolute()
        mechanism = data.get("mechanism")
        function = mechanism.get("call") if isinstance(mechanism, Mapping) else None
        if isinstance(mechanism, Mapping) and callable(function):
            call = import_path(function, place) or FunctionCall.of(function)
            data = {**data, "mechanism": {**mechanism, "call": call}}
        try:
            study = cls.model_validate({**data, "folder": place})
        except pydantic.ValidationError as error:
            raise StudyError(describe_errors(error, cls)) from None
        if isinstance(mechanism, Mapping) and callable(function):
            study.mechanism.holding(function, mechanism)
        return study

    def to_dict(self) -> dict[str, Any]:
        """The study as JSON values, defaults filled in; equal studies give equal dictionaries, which `from_dict` reads again."""
        return self._dumped(None)

    def to_stored(self) -> dict[str, Any]:
        """The same as stores hold it: without keys that mean what their absence in a store means."""
        return self._dumped(STORED)

    def _dumped(self, context: dict[str, str] | None) -> dict[str, Any]:
        found = self.model_dump(mode="json", context=context)
        return found if self.at_risk is None else {key: found[key] for key in ("study", "at_risk")}

    @property
    def framed(self) -> tuple[Framed, ...]:
        """Its databases, where they were given as DataFrames; none where they were not."""
        pairs = self.pairs
        given = pairs.given if isinstance(pairs.given, list) else []
        found: list[Any] = [database for pair in given for database in (pair.d, pair.d_prime)]
        found += (pairs.relative.databases if pairs.relative is not None else None) or []
        return tuple(database for database in found if isinstance(database, Framed))

    @property
    def frames_key(self) -> str:
        """By which what makes its DataFrames of codes is handed to tasks."""
        return f"frames {digest_json([database.frame for database in self.framed])}"

    @cached_property
    def frames(self) -> tuple[Frames, list[Any]] | None:
        """What makes its DataFrames of codes, and the codes of each; None where it has none, or a store alone knows them."""
        framed = self.framed
        if not framed or any(database.given is None for database in framed):
            return None
        where = "pairs.given" if self.pairs.given is not None else "pairs.relative.databases"
        return Frames.of([database.given for database in framed], where)

    @property
    def handed(self) -> dict[str, Any]:
        """What tasks need and stores do not have: a function and DataFrames that were given as objects."""
        return self.mechanism.handed | ({} if self.frames is None else {self.frames_key: self.frames[0]})

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.name

    @property
    def seed(self) -> int:
        """The seed from which the whole run follows."""
        return self.study.seed

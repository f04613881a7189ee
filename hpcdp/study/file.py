"""The study file: parsed once, validated, frozen.

Every key of the file is a field here; an unknown key, a wrong type or an impossible value raises `StudyError` that
names the key, what was given and what is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field, model_validator

from hpcdp._base.asked import address_of
from hpcdp._base.files import absolute, parse_toml, place_of
from hpcdp._base.messages import accepted_keys, describe_errors
from hpcdp.errors import StudyError
from hpcdp.keys import digest_json
from hpcdp.losses import kind_of
from hpcdp.mechanisms import READERS
from hpcdp.mechanisms.exceptions import name_of_class
from hpcdp.mechanisms.tabular import Frames
from hpcdp.mechanisms.user_code import import_path, name_of
from hpcdp.study.at_risk import AtRisk, sections_of
from hpcdp.study.combinations import method_named, name_of_method, refuse_combinations
from hpcdp.study.estimate import Estimate
from hpcdp.study.mechanism import FunctionCall, MechanismSection, ProgramCall, Pure
from hpcdp.study.pairs import Framed, FramedRows, Pairs
from hpcdp.study.section import STORED, WHOLE, Key, Section

_RESERVED = re.compile(r"[^A-Za-z0-9._+-]")

_NAMES_CODE = re.compile(r"\bpld\s*\(")  # of claims


class Header(Section):
    """[study]: what it is called, the seed from which the whole run follows, and an optional claim."""

    name: Annotated[str, Field(min_length=1, max_length=200), Key("nothing")]
    seed: Annotated[int, Field(ge=0), WHOLE, Key("law")]
    claim: Annotated[str | None, Key("nothing")] = None
    about: Annotated[str | None, Field(min_length=1, max_length=1000), Key("nothing", "change", absent=None)] = None
    owner: Annotated[str | None, Field(min_length=1, max_length=200), Key("nothing", "change", absent=None)] = None
    stream: Annotated[Literal["numpy", "philox"], Key("law", absent="numpy", kept=True)] = "philox"

    @model_validator(mode="after")
    def _name_is_a_file_name(self) -> Self:
        bad = _RESERVED.search(self.name)
        if bad or self.name.startswith("."):
            raise ValueError(
                f"name: ASCII letters, digits and . _ + - only, not starting with a dot; given: {self.name!r}"
            )
        for key in ("claim", "about", "owner"):
            if (text := getattr(self, key)) is not None and not text.isprintable():
                raise ValueError(f"{key}: one line of characters that can be printed; given: {text!r}")
        if self.claim is not None and _NAMES_CODE.search(self.claim):  # who reads a store runs no code that it names
            raise ValueError(
                f"claim: {self.claim} names code, which a study may not; accepted: --claim of verify and audit, and "
                "hpcdp.verify(result, claim)"
            )
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
        header = data.get("study")
        given += ["study.claim"] if isinstance(header, dict) and header.get("claim") is not None else []
        if given:
            raise ValueError(f"at_risk: a study of [study] and [at_risk] alone; given with it: {', '.join(given)}")
        return {**data, **sections_of(data["at_risk"])}

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        refuse_combinations(self)
        return self

    @property
    def method(self) -> Any:
        """The method that it asks for, a `hpcdp.engine.method.Method`; cross-fitting where a run may choose that."""
        return method_named(name_of_method(self, is_reused=True))

    @property
    def counts_levels(self) -> bool:
        """Whether cells by ε are counted: with [pure] only where all pairs are tested and ε are given."""
        return bool(self.estimate.epsilons) and (self.pure is None or self.pure.test == "all")

    @property
    def bounds_pure(self) -> bool:
        """Whether the loss's way has an interval of pure ε."""
        return kind_of(self.estimate.default_loss).bounds_pure

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The ε that are counted."""
        return self.estimate.epsilons if self.counts_levels else ()

    @model_validator(mode="after")
    def _stream_otherwise(self) -> Self:
        """What draws nothing, or has generators of its own, has no stream of hpcdp's own; stores then name none."""
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
        e = self.estimate
        is_drawn = self.mechanism.call not in READERS and self.mechanism.reproducible
        return is_drawn and e.reuse is False and not (e.refine or e.has_budget) and self.pure is None

    @classmethod
    def from_toml(cls, path: str | Path) -> Study:
        """Read a study file; raises StudyError with one message for all that is wrong with it."""
        path = Path(path)
        if address := address_of(path):
            raise StudyError(
                f"{address}: an address was given; accepted: the path of a study file or a store "
                "(show, plot and report read the address of a copy that was exported)"
            )
        try:
            text = path.read_text(encoding="utf-8")
            data = parse_toml(text)
        except FileNotFoundError:
            raise StudyError(f"no study file at {path}") from None
        except IsADirectoryError:
            raise StudyError(f"{path} is a folder; accepted: a study file. hpcdp resume goes on with a store") from None
        except OSError as error:
            raise StudyError(f"cannot read the study file {path}: {error}") from None
        except ValueError as error:
            raise StudyError(f"{path} is not TOML: {error}") from None
        return cls._validated(data, path.resolve().parent, lambda message: place_of(message, path, text))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], folder: str | Path | None = None) -> Study:
        """Validate a study given as nested dictionaries with the keys of the study file.

        mechanism.call may be a function, or any object that can be called, of a module, a script, a notebook, or within
        another function: one that an import finds is the same as its "package.module:name"; of others a store keeps the
        name and a digest, and who goes on with it gives the function again. Where another key takes a name, such as
        pairs.given.call and estimate.loss, an object that an import finds may be given too.
        """
        return cls._validated(data, absolute(folder or "."), None)

    @classmethod
    def _validated(cls, data: Mapping[str, Any], folder: Path, where: Callable[[str], str] | None) -> Study:
        if "folder" in data:
            raise StudyError(f"folder: unknown key (given: {data['folder']!r}); accepted: {accepted_keys(cls)}")
        place = absolute(folder or ".")
        data = with_names(data, place)
        mechanism = data.get("mechanism")
        function = mechanism.get("call") if isinstance(mechanism, Mapping) else None
        if isinstance(mechanism, Mapping) and callable(function):
            call = import_path(function, place) or FunctionCall.of(function)
            data = {**data, "mechanism": {**mechanism, "call": call}}
        try:
            study = cls.model_validate({**data, "folder": place})
        except pydantic.ValidationError as error:
            raise StudyError(describe_errors(error, cls, where)) from None
        if isinstance(mechanism, Mapping) and callable(function):
            study.mechanism.holding(function)
        return study

    def to_dict(self) -> dict[str, Any]:
        """The study as JSON values, defaults filled in; equal studies give equal dictionaries, which `from_dict` reads again."""
        return self._dumped(None)

    def to_stored(self) -> dict[str, Any]:
        """The same as stores hold it: without keys that mean what their absence in a store means."""
        return self._dumped(STORED)

    def _dumped(self, context: dict[str, str] | None) -> dict[str, Any]:
        dumped = self.model_dump(mode="json", context=context)
        return dumped if self.at_risk is None else {key: dumped[key] for key in ("study", "at_risk")}

    @property
    def framed(self) -> tuple[Framed, ...]:
        """Its databases, where they were given as DataFrames; none where they were not."""
        pairs = self.pairs
        given = pairs.given if isinstance(pairs.given, list) else []
        databases: list[Any] = [database for pair in given for database in (pair.d, pair.d_prime)]
        databases += (pairs.relative.databases if pairs.relative is not None else None) or []
        return tuple(database for database in databases if isinstance(database, Framed))

    @property
    def frames_key(self) -> str:
        """By which what makes its DataFrames of codes is handed to tasks."""
        edits = self._framed_rows
        codes = [] if edits is None else [edits.codes]
        return f"frames {digest_json([*(database.frame for database in self.framed), *codes])}"

    @property
    def _framed_rows(self) -> FramedRows | None:
        """What edits set rows of its DataFrames to, where it says that."""
        values = None if self.pairs.relative is None else self.pairs.relative.values
        return values if isinstance(values, FramedRows) else None

    @cached_property
    def frames(self) -> tuple[Frames, list[Any]] | None:
        """What makes its DataFrames of codes, and the codes of each; None where it has none, or a store alone knows them."""
        framed = self.framed
        edits = self._framed_rows
        if not framed or any(database.given is None for database in framed) or (edits and edits.given is None):
            return None
        where = "pairs.given" if self.pairs.given is not None else "pairs.relative.databases"
        return Frames.of([database.given for database in framed], where, None if edits is None else edits.given)

    @property
    def handed(self) -> dict[str, Any]:
        """What tasks need and stores do not have: a function and DataFrames that were given as objects."""
        return self.mechanism.handed | ({} if self.frames is None else {self.frames_key: self.frames[0]})

    def named_paths(self) -> Iterator[tuple[str, str]]:
        """What keys that may name code say, but for mechanism.call: the key, and a path or a name of hpcdp's own."""
        for key in _NAMED:
            reached: list[Any] = [self]
            for part in key.split("."):
                values = [getattr(item, part, None) for item in reached]
                reached = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
            yield from ((key, path) for path in reached if isinstance(path, str))

    def without_objects(self) -> Study:
        """The same without the function that was given as an object, which goes to other processes by itself."""
        mechanism = self.mechanism.model_copy()
        mechanism.holding(None)
        return self.model_copy(update={"mechanism": mechanism})

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.name

    @property
    def seed(self) -> int:
        """The seed from which the whole run follows."""
        return self.study.seed


_NAMED = (
    "estimate.view",
    "pairs.given.call",
    "pairs.relative.call",
    "pairs.distributional.call",
    "estimate.loss",
    "mechanism.impossible",
    "mechanism.raises",
    "at_risk.query",
    "at_risk.population.call",
)
_LIST = "pairs.distributional"  # all others may be long, and hold no names


def with_names(value: Any, folder: Path, key: str = "") -> Any:
    """Keys of a study with names for objects, StudyError where no import finds one; mechanism.call is left as it is."""
    if isinstance(value, Mapping) and any(name.startswith(f"{key}." if key else "") for name in _NAMED):
        return {own: with_names(item, folder, f"{key}.{own}" if key else str(own)) for own, item in value.items()}
    if isinstance(value, list) and key in (_LIST, *_NAMED):
        return [with_names(item, folder, key) for item in value]
    if key not in _NAMED or not callable(value):
        return value
    if isinstance(value, type) and issubclass(value, BaseException):
        return name_of_class(value).removeprefix("builtins:")
    path = import_path(value, folder)
    if path is None:
        raise StudyError(
            f"{key}: {name_of(value)} was given, an object that no import finds by its name; accepted: "
            '"package.module:name", or an object of a module, as it stands there'
        )
    return path

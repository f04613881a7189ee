"""Draws chunks of outputs: the mechanism, the random streams, and the checks that every chunk passes."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hpcdp._base.doing import drawing, tell_type
from hpcdp._base.messages import did_you_mean
from hpcdp.errors import MechanismError, StudyError
from hpcdp.keys import digest_array, digest_bytes, law_keys, sequence
from hpcdp.mechanisms import BUILTINS, READERS, SCORES, STORED
from hpcdp.mechanisms._callable import CallableMechanism, bind
from hpcdp.mechanisms._pcg64 import PCG64
from hpcdp.mechanisms._program import ProgramMechanism, bind_program, name_program, program_digest
from hpcdp.mechanisms.code_digest import digest_function
from hpcdp.mechanisms.exceptions import Catching
from hpcdp.mechanisms.outputs import Outputs, Schema, canonicalise, conform
from hpcdp.mechanisms.special import Raised, has_special, items_of, name_special
from hpcdp.mechanisms.stored import StoredSamples, files_digest, load_scores, load_stored, models_digest
from hpcdp.mechanisms.subsampled import bind_builtin
from hpcdp.mechanisms.tabular import Frames
from hpcdp.mechanisms.user_code import held, import_callable, other_there, source_digest
from hpcdp.study.at_risk import PairDraws, bind_pairs
from hpcdp.study.databases import Input, frames_missing
from hpcdp.study.distributions import Conditional, Draws
from hpcdp.study.file import Study
from hpcdp.study.mechanism import FunctionCall, MechanismSection, ProgramCall

Mechanism = Draws | StoredSamples

_WITH_SPECIAL = "studies without tape, refine, target, time, pure, at_risk and the losses histogram and literal-knn"

TRIAL_SIZE = 16
"""Outputs of a first trial, where that does not take long."""


@dataclass(frozen=True)
class Sampler:
    """Draws canonical outputs of a study's mechanism."""

    seed: int
    call: str
    parameters: dict[str, Any]
    mechanism: Mechanism
    source: str  # digest of the code or of the stored files
    chunk: int  # outputs that a run draws in one call, at most
    reproducible: bool = True  # whether equal streams give equal outputs
    stream: str = "numpy"
    frames: Frames | None = None  # makes DataFrames of databases' codes
    tried: str = ""  # what trial draws are of, in words
    timeout: float | None = None  # seconds a chunk may take
    special: bool = False  # whether outputs may be NaN, infinite or None
    as_printed: bool = False  # whether reals keep all their bits, for views

    @classmethod
    def of(cls, study: Study) -> Sampler:
        """Resolve the study's mechanism; StudyError says what is wrong with its name or parameters."""
        section, parameters = study.mechanism, study.mechanism.parameters
        call = name_mechanism(study)
        mechanism: Mechanism
        if study.at_risk is not None:
            mechanism, source = bind_pairs(study.at_risk, study.folder)
        elif isinstance(section.call, ProgramCall):
            command, limits = section.call.command, (section.call.timeout, section.call.start_timeout)
            mechanism = bind_program(command, *limits, parameters, study.folder)
            source = program_digest(command, study.folder)
        elif isinstance(section.call, FunctionCall):
            function, source = given_function(section), section.call.digest
            mechanism = _catching(bind(function, parameters, call, section.reproducible), study, call)
        elif call == STORED:
            mechanism = load_stored(parameters, study.folder)
            source = files_digest(mechanism)
        elif call == SCORES:
            mechanism = load_scores(parameters, study.folder)
            own_source = source_digest(parameters["score"], study.folder)
            source = digest_bytes(b"scores", models_digest(mechanism).encode(), own_source.encode())
        elif call in BUILTINS:
            mechanism, source = bind_builtin(call, parameters, study.folder, section.reproducible)
        elif ":" in call:
            function = import_callable(call, study.folder, "mechanism.call")
            if (given := held(call)) is not None and digest_function(function, code_alone=True) != given:
                raise other_there(call)
            mechanism = _catching(bind(function, parameters, call, section.reproducible), study, call)
            source = source_digest(call, study.folder)
        else:
            names = [*BUILTINS, *READERS]
            raise StudyError(
                f'mechanism.call: a built-in ({", ".join(names)}), "package.module:callable" or '
                f"{{ command = [...] }}; given: {call!r}{did_you_mean(call, names)}"
            )
        made = cls._made(study, mechanism, source)
        return replace(made, frames=_frames_of(study, mechanism), timeout=section.timeout)

    @property
    def named(self) -> str:
        """The key of the study that names what is drawn from, and that name."""
        return f"{'at_risk.query' if isinstance(self.mechanism, PairDraws) else 'mechanism.call'} {self.call}"

    @classmethod
    def keys_only(cls, study: Study, source: str) -> Sampler:
        """A sampler that knows the keys of its laws but cannot draw: reading results needs no mechanism."""
        return cls._made(study, CallableMechanism(_refuse_to_draw, {}, True), source)

    @classmethod
    def _made(cls, study: Study, mechanism: Mechanism, source: str) -> Sampler:
        e, section = study.estimate, study.mechanism
        call, chunk = name_mechanism(study), min(e.chunk, max(e.train, e.test))
        reproducible, stream = section.reproducible, study.study.stream
        special = (call not in BUILTINS or bool(e.view)) and study.method.takes_special(study)
        given = study.seed, call, section.parameters, mechanism, source, chunk, reproducible, stream
        return cls(*given, special=special, as_printed=bool(e.view))

    def _canonical(self, raw: Any, size: int, schema: Schema | None = None, *, fresh: bool = False) -> Outputs:
        """Canonical outputs; MechanismError where special values among them have no place."""
        outputs = canonicalise(raw, size, schema, fresh=fresh, as_printed=self.as_printed)
        if self._catching is not None and outputs.dtype.kind == "b":  # exceptions have a place among integers
            outputs = outputs.astype(np.int64)
        if not self.special and self.call not in BUILTINS and has_special(outputs):
            raise MechanismError(
                f"the mechanism returned {name_special(outputs)}; accepted: finite numbers, and NaN, infinities and None only in "
                f"{_WITH_SPECIAL}"
            )
        return outputs

    @property
    def _catching(self) -> Catching | None:
        return self.mechanism.catching if isinstance(self.mechanism, CallableMechanism) else None

    def _recurring(self, raw: Any) -> Any:
        """Outputs as they come; MechanismError where an exception among them does not recur."""
        if self._catching is not None:
            self._catching.confirm(raw)
        return raw

    def key(self, database: Input) -> str:
        """Key of the law of the mechanism on this input."""
        digest = database.key if isinstance(database, Conditional) else digest_array(database)
        return self._keys(digest)

    @cached_property
    def _keys(self) -> Callable[[str], str]:
        return law_keys(self.call, self.parameters, self.stream)

    def draw(self, database: Input, key: str, stage: str, chunk: int, start: int, size: int, schema: Schema) -> Outputs:
        """Outputs of one chunk of one stage, a pure function of its arguments; start: the chunk's first sample."""
        if isinstance(self.mechanism, StoredSamples):
            assert isinstance(database, np.ndarray)
            raw = self.mechanism.take(database, self.seed, key, stage, start, size)
            return self._canonical(raw, size, schema)
        return self.draw_from(database, key, stage, chunk, size, schema)

    def draw_from(self, database: Input, key: str, stage: str, chunk: int, size: int, schema: Schema) -> Outputs:
        """Outputs from the random stream of any key, canonical and in the study's schema."""
        if isinstance(self.mechanism, StoredSamples):
            raise MechanismError("stored samples cannot be drawn anew")
        raw = self._recurring(self._outputs(database, size, self._generator(key, stage, chunk)))
        if schema.kind == "bytes":
            return self._canonical(raw, size, schema)
        fresh = sys.getrefcount(raw) == _ALONE and not weakref.getweakrefcount(raw)  # held by this variable alone
        outputs = self._canonical(raw, size, fresh=fresh)
        dtype = raw.dtype if isinstance(raw, np.ndarray) and raw.dtype.kind == "f" else outputs.dtype
        tell_type("integers" if dtype.kind == "i" else dtype.name)
        return conform(outputs, schema)

    def draw_noted(self, database: Input, size: int, schema: Schema | None, tape: Any) -> Outputs:
        """Outputs whose noise comes from a random tape (`hpcdp.importance.generator.Tape`): in one call, or in a call each."""
        if not tape.by_rows:
            return self._canonical(self._one_by_one(database, size, tape), size, schema)
        with closing(tape.generator()) as rng:
            return self._canonical(self._outputs(database, size, rng), size, schema)

    def _one_by_one(self, database: Input, size: int, tape: Any) -> list[Any]:
        """Outputs each of a call of its own."""
        raw = []
        for number in range(size):
            with closing(tape.generator(number)) as rng:
                raw.append(_alone(self._outputs(database, 1, rng)))
        return raw

    def trial(self, database: Input, size: int, number: int, schema: Schema | None = None) -> Outputs:
        """A few outputs from a stream of their own, canonical but in no schema yet, unless it is given."""
        if isinstance(self.mechanism, StoredSamples):
            assert isinstance(database, np.ndarray)
            outputs = self.mechanism.first(database, size)
            return self._canonical(outputs, outputs.shape[0], schema)
        return self._canonical(self.unchecked(database, size, number), size, schema)

    def unchecked(self, database: Input, size: int, number: int) -> Any:
        """What the mechanism returns for a trial's stream, as it comes."""
        of = "the pairs" if isinstance(self.mechanism, PairDraws) else self.tried
        with drawing(lambda: f"{size:,} trial outputs of {of}", self.timeout):
            return self._outputs(database, size, self._generator("0" * 32, None, number))

    def end(self) -> None:
        """End what this thread's draws have started; the next draw starts it anew."""
        if isinstance(self.mechanism, ProgramMechanism):
            self.mechanism.end()

    def first_trial(self, database: Input, size: int) -> tuple[Outputs, bool]:
        """The first trial's outputs, and whether they came one by one as lists, tuples or vectors, of any length perhaps."""
        raw = self.unchecked(database, size, 0)
        with drawing(lambda: f"exceptions of trial outputs of {self.tried}, again", self.timeout):
            self._recurring(raw)
        items = [item for item in items_of(raw) or () if not isinstance(item, Raised)]
        return self._canonical(raw, size), len(items) > 0 and isinstance(items[0], list | tuple | np.ndarray)

    def _generator(self, key: str, stage: str | None, chunk: int) -> np.random.Generator:
        """The random stream of one chunk of one stage of a key; stage None is for trial draws."""
        if self.stream == "numpy":
            return np.random.Generator(PCG64(sequence(self.seed, key, stage, chunk)))
        from hpcdp.mechanisms.streams import Stream

        return Stream(sequence(self.seed, key, stage, chunk))

    def _outputs(self, database: Input, size: int, rng: np.random.Generator) -> Any:
        assert not isinstance(self.mechanism, StoredSamples)
        if isinstance(database, Conditional):
            return database.draw(self.mechanism, size, rng)
        return self.mechanism.draw(database if self.frames is None else self.frames.decode(database), size, rng)


def _catching(mechanism: CallableMechanism, study: Study, call: str) -> CallableMechanism:
    """The mechanism with the exceptions that the study names as outputs."""
    raises = study.mechanism.raises
    if raises is None:
        return mechanism
    if not study.method.takes_special(study):
        raise StudyError(f"mechanism.raises: {', '.join(raises)} was given; accepted: only in {_WITH_SPECIAL}")
    own = study.mechanism.call
    return mechanism.catch(raises, study.folder, call, own.digest if isinstance(own, FunctionCall) else None)


def _frames_of(study: Study, mechanism: Mechanism) -> Frames | None:
    """What makes the mechanism's databases of their codes, where they are DataFrames; StudyError where it cannot be."""
    if not study.framed:
        return None
    if study.mechanism.call in (*BUILTINS, *READERS) or not isinstance(mechanism, CallableMechanism):
        raise StudyError(
            f"pairs: a database of numbers, which {name_mechanism(study)} takes; given: a DataFrame; accepted: an array of one, "
            "as its to_numpy() makes, or a function as the mechanism"
        )
    frames: Frames | None = study.frames[0] if study.frames is not None else held(study.frames_key)
    if frames is None:
        raise frames_missing()
    return frames


def _alone(outputs: Any) -> Any:
    """The output of a call for one, as a copy: the mechanism may fill the same array again."""
    is_one = isinstance(outputs, list | tuple | np.ndarray) and len(outputs) == 1
    output = (outputs if is_one else canonicalise(outputs, 1))[0]
    return output.copy() if isinstance(output, list | np.ndarray) else output


def _references() -> int:
    """What is counted of an object that nothing but one local variable holds."""
    made = object()
    return sys.getrefcount(made)


_ALONE = _references()


def name_mechanism(study: Study) -> str:
    """The mechanism's name in keys and messages: what the study calls, of a program its command."""
    call = study.mechanism.call
    if isinstance(call, FunctionCall):
        return f"function {call.function}"  # which no name of a built-in or a module can be
    return name_program(call.command) if isinstance(call, ProgramCall) else call


def given_function(section: MechanismSection) -> Callable[..., Any]:
    """The function that a study was given as an object; StudyError where it is known by a store alone."""
    assert isinstance(section.call, FunctionCall)
    function: Callable[..., Any] | None = section.function or held(section.call.digest)
    if function is None:
        raise StudyError(
            f"mechanism.call: {section.call.function} was given as a function, of which a store keeps name and digest alone; "
            "give the function again to hpcdp.run"
        )
    return function


def _refuse_to_draw(*_: Any, **__: Any) -> None:
    raise MechanismError("this problem was opened to read results; it cannot draw")

"""Draws chunks of outputs: the mechanism, the random streams, and the checks that every chunk passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp.databases import Input
from hpcdp.distributions import Conditional
from hpcdp.errors import MechanismError, StudyError
from hpcdp.imports import import_callable, source_digest
from hpcdp.keys import digest_array, digest_bytes, law_key, stream
from hpcdp.mechanisms import BUILTINS, STORED, load_builtin
from hpcdp.mechanisms._callable import CallableMechanism, bind
from hpcdp.mechanisms.stored import StoredSamples, files_digest, load_stored
from hpcdp.outputs import Outputs, Schema, canonicalise, schema_of, widest
from hpcdp.study import Study

_TRIAL_SIZE = 16
_SECOND_TRIAL_SIZE = 1024
_TRIAL_SECONDS = 1.0
_TIMING_SECONDS = 0.1
_TIMING_SIZE = 1 << 18
_CHANCE = 40.0  # −log of the chance below which equal outputs are no coincidence


@dataclass(frozen=True)
class Sampler:
    """Draws canonical outputs of a study's mechanism.

    source: digest of the code or of the stored files. chunk: outputs that a run draws in one call.
    """

    seed: int
    call: str
    parameters: dict[str, Any]
    mechanism: CallableMechanism | StoredSamples
    source: str
    chunk: int

    @classmethod
    def of(cls, study: Study) -> Sampler:
        """Resolve the study's mechanism; StudyError says what is wrong with its name or parameters."""
        call, parameters = study.mechanism.call, study.mechanism.parameters
        mechanism: CallableMechanism | StoredSamples
        if call == STORED:
            mechanism = load_stored(parameters, study.folder)
            source = files_digest(mechanism)
        elif call in BUILTINS:
            mechanism = bind(load_builtin(call), parameters, call)
            source = digest_bytes(b"builtin", call.encode())
        elif ":" in call:
            mechanism = bind(_import(call, study.folder), parameters, call)
            source = source_digest(call, study.folder)
        else:
            raise StudyError(
                f'mechanism.call: a built-in ({", ".join([*BUILTINS, STORED])}) or "package.module:callable"; given: {call!r}'
            )
        return cls(study.seed, call, parameters, mechanism, source, study.estimate.chunk)

    @classmethod
    def keys_only(cls, study: Study, source: str) -> Sampler:
        """A sampler that knows the keys of its laws but cannot draw: reading results needs no mechanism."""
        mechanism = CallableMechanism(_refuse_to_draw, {}, True)
        call, parameters = study.mechanism.call, study.mechanism.parameters
        return cls(study.seed, call, parameters, mechanism, source, study.estimate.chunk)

    def key(self, database: Input) -> str:
        """Key of the law of the mechanism on this input."""
        digest = database.key if isinstance(database, Conditional) else digest_array(database)
        return law_key(self.call, self.parameters, digest)

    def draw(self, database: Input, key: str, stage: str, chunk: int, start: int, size: int, schema: Schema) -> Outputs:
        """Outputs of one chunk of one stage, a pure function of its arguments; start: the chunk's first sample."""
        if isinstance(self.mechanism, StoredSamples):
            assert isinstance(database, np.ndarray)
            raw = self.mechanism.take(database, self.seed, key, stage, start, size)
            return canonicalise(raw, size, schema)
        return self.draw_from(database, key, stage, chunk, size, schema)

    def draw_from(self, database: Input, key: str, stage: str, chunk: int, size: int, schema: Schema) -> Outputs:
        """Outputs from the random stream of any key, canonical and in the study's schema."""
        if isinstance(self.mechanism, StoredSamples):
            raise MechanismError("stored samples cannot be drawn anew")
        raw = self._outputs(database, size, stream(self.seed, key, stage, chunk))
        return canonicalise(raw, size, schema)

    def trial(self, database: Input, size: int, number: int, schema: Schema | None = None) -> Outputs:
        """A few outputs from a stream of their own, canonical but in no schema yet, unless it is given."""
        if isinstance(self.mechanism, StoredSamples):
            assert isinstance(database, np.ndarray)
            outputs = self.mechanism.outputs(database)
            return canonicalise(outputs, outputs.shape[0], schema)
        return canonicalise(self._outputs(database, size, stream(self.seed, "0" * 32, None, number)), size, schema)

    def _outputs(self, database: Input, size: int, rng: np.random.Generator) -> Any:
        assert not isinstance(self.mechanism, StoredSamples)
        if isinstance(database, Conditional):
            return database.draw(self.mechanism, size, rng)
        return self.mechanism.draw(database, size, rng)


def _import(call: str, folder: Path) -> Callable[..., Any]:
    try:
        return import_callable(call, folder, "mechanism.call")
    except SystemExit as error:
        raise StudyError(f"mechanism.call: importing {call!r} ended the program (exit code {error.code})") from None


def _refuse_to_draw(*_: Any, **__: Any) -> None:
    raise MechanismError("this problem was opened to read results; it cannot draw")


@dataclass(frozen=True)
class Trial:
    """What trial draws showed: the schema, the seconds that one draw takes, and how many columns have many values.

    The last two only decide how tasks are cut and what the plan says of time.
    """

    schema: Schema
    seconds_per_draw: float
    many_valued: int


def try_out(sampler: Sampler, databases: Iterable[Input], needed: int) -> Trial:
    """Draw a few outputs for as many databases as a second allows; StudyError tells what is wrong with them.

    needed: samples that a database must have; all stored files are looked at, because with fewer rows training and
    test samples would overlap. Databases come in order of importance.
    """
    begin = time.perf_counter()
    schemas: list[Schema] = []
    first: Input | None = None
    try:
        for number, database in enumerate(databases):
            first = database if first is None else first
            if isinstance(sampler.mechanism, StoredSamples):
                outputs = sampler.trial(database, _TRIAL_SIZE, 0)
                _check_stored(sampler.mechanism, database, outputs, needed)
            else:
                if number >= 2 and time.perf_counter() - begin > _TRIAL_SECONDS:
                    break
                outputs = sampler.trial(database, _TRIAL_SIZE, 0)
                if number < 2:
                    _check_randomness(sampler, database, outputs)
            schemas.append(schema_of(outputs))
        if first is None:
            raise StudyError("pairs: at least one pair; given: none")
        return Trial(widest(schemas), *_time_draws(sampler, first))
    except MechanismError as error:
        raise StudyError(f"mechanism.call {sampler.call}: {error} (seen in trial draws)") from error


def _check_stored(stored: StoredSamples, database: Input, outputs: Outputs, needed: int) -> None:
    assert isinstance(database, np.ndarray)
    if outputs.shape[0] < needed:
        raise MechanismError(
            f"{stored.files[stored.index(database)]} holds {outputs.shape[0]} outputs; "
            f"accepted: at least train + test = {needed}"
        )


def _check_randomness(sampler: Sampler, database: Input, outputs: Outputs) -> None:
    begin = time.perf_counter()
    again, other = sampler.trial(database, _TRIAL_SIZE, 0), sampler.trial(database, _TRIAL_SIZE, 1)
    if again.shape != outputs.shape or digest_array(again) != digest_array(outputs):
        raise MechanismError(
            "it gave different outputs from equal random generators; all its randomness must come from rng, "
            "or a run could not be repeated or resumed (a program with its own randomness goes in as stored samples)"
        )
    if digest_array(other) != digest_array(outputs):
        return
    if not equals_no_chance(outputs):  # a few discrete outputs may well be equal, many may not
        per_draw = (time.perf_counter() - begin) / (2 * _TRIAL_SIZE)
        size = max(_TRIAL_SIZE, min(_SECOND_TRIAL_SIZE, int(_TRIAL_SECONDS / per_draw)))
        outputs, other = (sampler.trial(database, size, number) for number in (0, 1))
    if digest_array(other) == digest_array(outputs) and equals_no_chance(outputs):
        raise MechanismError(
            "it gave identical outputs from different random generators; it ignores its rng, so its draws are not independent"
        )


def equals_no_chance(outputs: Outputs) -> bool:
    """Whether other draws as varied as these cannot be equal to them by chance (chance below 10⁻¹⁷).

    Two independent draws are equal with probability Σ p², here with the shares of the first values as p (heuristic:
    it errs towards chance where values are rarer than the first ones show).
    """
    head = outputs[:1024]
    _, held = np.unique(head, axis=0 if head.ndim == 2 else None, return_counts=True)
    return bool(-head.shape[0] * np.log(np.square(held / head.shape[0]).sum()) > _CHANCE)


def _many_valued(outputs: Outputs) -> int:
    """How many columns of some outputs hold more distinct values than a tenth of their number."""
    head = outputs[:4096]
    columns = [head] if head.ndim == 1 else list(head.T)
    return sum(np.unique(column).size > 0.1 * head.shape[0] for column in columns)


def _time_draws(sampler: Sampler, database: Input) -> tuple[float, int]:
    """Seconds a draw, and columns with many values.

    From growing trial draws, at most as large as a run's, until they took a tenth of a second.
    """
    if isinstance(sampler.mechanism, StoredSamples):
        return 2e-8, _many_valued(sampler.trial(database, _TRIAL_SIZE, 0))
    clock = time.perf_counter
    size, spent, limit = min(_TRIAL_SIZE, sampler.chunk), 0.0, min(_TIMING_SIZE, sampler.chunk)
    while True:
        begin = clock()
        outputs = sampler.trial(database, size, 2)
        seconds = clock() - begin
        spent += seconds
        if spent > _TIMING_SECONDS or size >= limit:
            return seconds / size, _many_valued(outputs)
        # a call may have a cost of its own, and the first one's is larger; the next may take as long as all before
        size = min(4 * size, limit)

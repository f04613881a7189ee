"""Draws chunks of outputs: the mechanism, the random streams, and the checks that every chunk passes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import MechanismError, StudyError
from hpcdp.imports import import_callable, source_digest
from hpcdp.keys import digest_array, digest_bytes, law_key, stream
from hpcdp.mechanisms import BUILTINS, STORED, load_builtin
from hpcdp.mechanisms._callable import CallableMechanism, bind
from hpcdp.mechanisms.stored import StoredSamples, files_digest, load_stored
from hpcdp.outputs import Outputs, Schema, canonicalise, conform, schema_of, widest
from hpcdp.study import Study

_TRIAL_SIZE = 16
_TRIAL_SECONDS = 1.0


@dataclass(frozen=True)
class Sampler:
    """Draws canonical outputs of a study's mechanism. source: digest of the code or of the stored files."""

    seed: int
    call: str
    parameters: dict[str, Any]
    mechanism: CallableMechanism | StoredSamples
    source: str

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
            mechanism = bind(import_callable(call, study.folder, "mechanism.call"), parameters, call)
            source = source_digest(call, study.folder)
        else:
            raise StudyError(
                f'mechanism.call: a built-in ({", ".join([*BUILTINS, STORED])}) or "package.module:callable"; given: {call!r}'
            )
        return cls(study.seed, call, parameters, mechanism, source)

    def key(self, database: NDArray[Any]) -> str:
        """Key of the law of the mechanism on this database."""
        return law_key(self.call, self.parameters, database)

    def draw(
        self, database: NDArray[Any], key: str, stage: str, chunk: int, start: int, size: int, schema: Schema
    ) -> Outputs:
        """Outputs of one chunk of one stage, a pure function of its arguments; start: the chunk's first sample."""
        if isinstance(self.mechanism, StoredSamples):
            raw = self.mechanism.take(database, self.seed, key, stage, start, size)
            return conform(canonicalise(raw, size), schema)
        return self.draw_from(database, key, stage, chunk, size, schema)

    def draw_from(self, database: NDArray[Any], key: str, stage: str, chunk: int, size: int, schema: Schema) -> Outputs:
        """Outputs from the random stream of any key, canonical and in the study's schema."""
        if isinstance(self.mechanism, StoredSamples):
            raise MechanismError("stored samples cannot be drawn anew")
        raw = self.mechanism.draw(database, size, stream(self.seed, key, stage, chunk))
        return conform(canonicalise(raw, size), schema)

    def trial(self, database: NDArray[Any], size: int, number: int) -> Outputs:
        """A few outputs from a stream of their own, canonical but in no schema yet."""
        if isinstance(self.mechanism, StoredSamples):
            outputs = self.mechanism.outputs(database)
            return canonicalise(outputs, outputs.shape[0])
        return canonicalise(self.mechanism.draw(database, size, stream(self.seed, "0" * 32, None, number)), size)


@dataclass(frozen=True)
class Trial:
    """What trial draws showed: the schema, and the seconds that one draw takes."""

    schema: Schema
    seconds_per_draw: float


def try_out(sampler: Sampler, databases: Sequence[NDArray[Any]], needed: int) -> Trial:
    """Draw a few outputs for as many databases as a second allows; StudyError tells what is wrong with them.

    needed: samples that a database must have (for stored ones). Databases come in order of importance.
    """
    begin = time.perf_counter()
    schemas: list[Schema] = []
    try:
        for number, database in enumerate(databases):
            if number >= 2 and time.perf_counter() - begin > _TRIAL_SECONDS:
                break
            outputs = sampler.trial(database, _TRIAL_SIZE, 0)
            schemas.append(schema_of(outputs))
            if isinstance(sampler.mechanism, StoredSamples):
                _check_stored(sampler.mechanism, database, outputs, needed)
            elif number < 2:
                _check_randomness(sampler, database, outputs)
        schema = widest(schemas)
    except MechanismError as error:
        raise StudyError(f"mechanism.call {sampler.call}: {error} (seen in trial draws)") from error
    return Trial(schema, _time_draws(sampler, databases[0]))


def _check_stored(stored: StoredSamples, database: NDArray[Any], outputs: Outputs, needed: int) -> None:
    if outputs.shape[0] < needed:
        raise MechanismError(
            f"{stored.files[stored.index(database)]} holds {outputs.shape[0]} outputs; "
            f"accepted: at least train + test = {needed}"
        )


def _check_randomness(sampler: Sampler, database: NDArray[Any], outputs: Outputs) -> None:
    again, other = sampler.trial(database, _TRIAL_SIZE, 0), sampler.trial(database, _TRIAL_SIZE, 1)
    if again.shape != outputs.shape or digest_array(again) != digest_array(outputs):
        raise MechanismError(
            "it gave different outputs from equal random generators; all its randomness must come from rng, "
            "or a run could not be repeated or resumed (a program with its own randomness goes in as stored samples)"
        )
    if looks_continuous(outputs) and digest_array(other) == digest_array(outputs):
        raise MechanismError(
            "it gave identical outputs from different random generators; it ignores its rng, so its draws are not independent"
        )


def looks_continuous(outputs: Outputs) -> bool:
    """Whether equal chunks of such outputs cannot be chance: reals, not all the same few values."""
    if outputs.dtype.kind != "f" or outputs.shape[0] < 2:
        return False
    head = outputs[:1024]
    return bool(np.unique(head, axis=0).shape[0] > 0.5 * head.shape[0])


def _time_draws(sampler: Sampler, database: NDArray[Any]) -> float:
    """Seconds a draw, from growing trial draws until they take 20 ms."""
    if isinstance(sampler.mechanism, StoredSamples):
        return 2e-8
    size, clock = _TRIAL_SIZE, time.perf_counter
    while True:
        begin = clock()
        sampler.trial(database, size, 2)
        seconds = clock() - begin
        if seconds > 0.02 or size >= 1 << 18:
            return seconds / size
        size *= 4


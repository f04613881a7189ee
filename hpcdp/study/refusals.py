"""Refusals of a study by what its trial draws show, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcdp.errors import StudyError
from hpcdp.losses import LOSSES, kind_of
from hpcdp.losses.local import in_region
from hpcdp.mechanisms import READERS
from hpcdp.mechanisms.outputs import Schema, describe
from hpcdp.study.file import Study


def refuse_unrefinable(study: Study, schema: Schema) -> None:
    """StudyError where L̂ cannot be refined by tallies, as the study wants."""
    e = study.estimate
    if e.precision is not None and (study.mechanism.call in READERS or not study.mechanism.reproducible):
        raise StudyError(
            "estimate.target: decides how many outputs are drawn, and draws them again; given: what does not; accepted: any "
            "other mechanism"
        )
    if not e.refine and not e.has_budget:
        return
    key = "estimate." + ("target" if e.target is not None else "time" if e.time is not None else "refine")
    kind = kind_of(e.default_loss)
    if kind.way or study.mechanism.call in READERS:
        what = f"loss = {e.default_loss}" if kind.way else f"mechanism.call = {study.mechanism.call}"
        raise StudyError(
            f"{key}: needs fresh draws for tallies; given: {what}; accepted: any other loss, and what draws"
        )
    if not study.mechanism.reproducible:
        raise StudyError(f"{key}: needs draws that can be drawn again; given: mechanism.reproducible = false")
    is_scalar = schema.kind != "bytes" and schema.columns in (None, 1)
    if not is_scalar and e.other_losses:
        raise StudyError(
            f"estimate.loss: several need outputs on a line; given: {describe(schema)} with {list(e.loss)}; accepted: one"
        )
    is_bytes = schema.kind == "bytes"
    if not is_scalar and not (kind.tells_values or (kind.projects and not is_bytes)):
        accepted = [name for name, other in LOSSES.items() if other.projects and not is_bytes]
        accepted += [name for name, other in LOSSES.items() if other.tells_values]
        raise StudyError(
            f"{key}: of such outputs ({describe(schema)}) accepted with loss = {' | '.join(accepted)}; given: "
            f"loss = {e.default_loss}"
        )


def refuse_tapeless(schema: Schema) -> None:
    """StudyError where outputs of a random tape cannot be told on a line."""
    if schema.kind == "bytes":
        raise StudyError(f"estimate.tape: of numbers and vectors of numbers; given: {describe(schema)}")


def refuse_impure(study: Study, schema: Schema, laws: Sequence[tuple[str, str]]) -> None:
    """StudyError where [pure] does not fit the outputs, or compares a database with itself."""
    pure = study.pure
    assert pure is not None
    columns, is_bytes = schema.columns or 1, schema.kind == "bytes"
    if pure.within is not None and (is_bytes or len(pure.within) != columns):
        accepted = "none, of strings" if is_bytes else f"one interval a column, {columns}"
        raise StudyError(f"pure.within: {accepted} ({describe(schema)}); given: {len(pure.within)}")
    for point in pure.at:
        values = point if isinstance(point, tuple) else (point,)
        if isinstance(point, tuple) != (schema.columns is not None) or len(values) != columns:
            raise StudyError(f"pure.at: outputs of the mechanism ({describe(schema)}); given: {point!r}")
        if not all(schema.has(v) for v in values):
            raise StudyError(f"pure.at: outputs of the mechanism ({describe(schema)}); given: {point!r}")
        if pure.within is not None and not in_region(np.array([values], np.float64), pure.within)[0]:
            accepted = " × ".join(f"[{low:g}, {high:g}]" for low, high in pure.within)
            raise StudyError(f"pure.at: outputs in pure.within, {accepted}; given: {point!r}")
    equal = [number for number, (d, d_prime) in enumerate(laws) if d == d_prime]
    if equal:
        raise StudyError(
            f"pairs.given.{equal[0]}: D and D′ are equal, and share their samples; accepted with [pure]: databases that differ"
        )

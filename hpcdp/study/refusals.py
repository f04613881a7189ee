"""Refusals of a study by what its trial draws show, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcdp.errors import StudyError
from hpcdp.losses import LOSSES, kind_of
from hpcdp.losses.local import in_region
from hpcdp.mechanisms.outputs import Schema, describe
from hpcdp.study.file import Study


def refuse_outputs_of(study: Study, schema: Schema) -> None:
    """StudyError where L̂ of such outputs cannot be refined by tallies, or told on a line, as the study wants."""
    e = study.estimate
    kind, is_bytes = kind_of(e.default_loss), schema.kind == "bytes"
    if e.tape and is_bytes:
        raise StudyError(f"estimate.tape: of numbers and vectors of numbers; given: {describe(schema)}")
    if not (e.refine or e.has_budget) or (not is_bytes and schema.columns in (None, 1)):
        return
    if e.other_losses:
        raise StudyError(
            f"estimate.loss: several need outputs on a line; given: {describe(schema)} with {list(e.loss)}; accepted: one"
        )
    if not (kind.tells_values or (kind.projects and not is_bytes)):
        key = "target" if e.target is not None else "time" if e.time is not None else "refine"
        accepted = [name for name, other in LOSSES.items() if other.projects and not is_bytes]
        accepted += [name for name, other in LOSSES.items() if other.tells_values]
        raise StudyError(
            f"estimate.{key}: of such outputs ({describe(schema)}) accepted with loss = {' | '.join(accepted)}; given: "
            f"loss = {e.default_loss}"
        )


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

"""What a study must be to be audited, and what an audit adds to it."""

from __future__ import annotations

from pathlib import Path

from hpcdp.errors import StudyError
from hpcdp.losses import kind_of
from hpcdp.losses.counts import audit_etas
from hpcdp.study.changes import holds_loss
from hpcdp.study.file import Study


def refuse_tape(study: Study, command: str) -> None:
    """Audits count plain draws, or bet on them."""
    if study.estimate.tape:
        raise StudyError(
            f"{command}: audits, sequential ones too, are of plain draws; given: estimate.tape = true; accepted: a study "
            "without it. A claim is compared with what random tapes certify by: hpcdp verify"
        )


def with_audited_loss(study: Study, store: Path) -> Study:
    """The study of an audit, in which a loss that chooses among others has one of these in its place; a store keeps its own."""
    name = study.estimate.default_loss
    other = kind_of(name).otherwise
    if other is None or holds_loss(store, name):
        return study
    return study.model_copy(update={"estimate": study.estimate.with_loss(other)})


def with_etas(study: Study) -> Study:
    """The study, with the audit's own thresholds where it has none."""
    if kind_of(study.estimate.default_loss).method:
        raise StudyError(
            f"estimate.loss: {study.estimate.default_loss} has no L̂ of all η, so that nothing chooses among them before "
            "the test; accepted by audit: every loss that has one; by verify: this one too"
        )
    if study.estimate.reuse is not False:
        raise StudyError(
            "estimate.reuse: an audit tests one L̂ on samples that taught nothing; given: "
            f"{str(study.estimate.reuse).lower()}; accepted by audit: false"
        )
    if study.estimate.etas:
        return study
    estimate = study.estimate.model_copy(update={"etas": audit_etas()})
    return study.model_copy(update={"estimate": estimate})

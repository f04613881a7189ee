"""What a study must be to be audited, and what an audit adds to it."""

from __future__ import annotations

from pathlib import Path

from hpcdp.errors import StudyError
from hpcdp.losses import kind_of
from hpcdp.losses.counts import audit_etas
from hpcdp.study.changes import holds_loss
from hpcdp.study.file import Study


def refuse_unaudited(study: Study) -> None:
    """StudyError where no audit is of the study's method: audits test one L̂ of a pair by plain draws, which taught nothing."""
    if study.method.unaudited:
        raise StudyError(study.method.unaudited)


def with_audited_loss(study: Study, store: Path) -> Study:
    """The study of an audit, in which a loss that chooses among others has one of these in its place; a store keeps its own."""
    name = study.estimate.default_loss
    other = kind_of(name).otherwise
    if other is None or holds_loss(store, name):
        return study
    return study.model_copy(update={"estimate": study.estimate.with_loss(other)})


def with_etas(study: Study) -> Study:
    """The study, with the audit's own thresholds where it has none."""
    if study.estimate.etas:
        return study
    estimate = study.estimate.model_copy(update={"etas": audit_etas()})
    return study.model_copy(update={"estimate": estimate})

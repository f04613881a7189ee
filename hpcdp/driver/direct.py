"""Functions, studies and results judged in one call: the study of a function, and audits of all three."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Number
from pathlib import Path
from typing import Any, overload

from hpcdp._base.asked import wrong
from hpcdp.driver import EPSILONS
from hpcdp.driver.driver import read_study, run
from hpcdp.errors import HpcdpError, StudyError
from hpcdp.losses import kind_of
from hpcdp.losses.counts import audit_etas
from hpcdp.mechanisms.user_code import name_of
from hpcdp.notions.box import Limits
from hpcdp.results.audit import Audit, Orientation, refuse_unknown
from hpcdp.results.audit import audit as audit_result
from hpcdp.results.result import Result
from hpcdp.store.root import resume_command
from hpcdp.study.changes import holds_loss
from hpcdp.study.claims import Claim, as_claim, parse_claim
from hpcdp.study.file import Study

_KEPT = "the same call with a store, which keeps what is done"
_HOW = ("cluster", "workers", "client", "allow_changed_code", "progress")
# what of `spectrum` is no key of [estimate]
_OF_OTHERS = ("epsilons", "seed", "parameters", "reproducible", "raises", "claim", "name")


def study_of(function: Callable[..., Any] | str, d: Any, d_prime: Any, given: Mapping[str, Any]) -> Study:
    """The study of one given pair that says the same. given: what `spectrum` takes by name; what is left out is as there."""
    if not callable(function) and not isinstance(function, str):
        raise wrong("function", function, "a function, a built-in's name, or 'package.module:name'")
    for key, database in (("d", d), ("d_prime", d_prime)):
        if database is None or isinstance(database, (str, bytes, Mapping, Number)):
            raise wrong(key, database, "a list or an array, an entry a row, or a DataFrame")
    named = function if isinstance(function, str) else name_of(function)
    mechanism: dict[str, Any] = {"call": function}
    if not given.get("reproducible", True):
        mechanism["reproducible"] = False
    mechanism |= {key: given[key] for key in ("parameters", "raises") if given.get(key) is not None}
    estimate = {key: value for key, value in given.items() if key not in _OF_OTHERS}
    return Study.from_dict(
        {
            "study": {
                "name": given.get("name") or re.sub(r"[^A-Za-z0-9_+-]+", "-", named).strip("-") or "function",
                "seed": given.get("seed", 0),
                "claim": given.get("claim"),
            },
            "mechanism": mechanism,
            "pairs": {"given": [{"d": d, "d_prime": d_prime}]},
            "estimate": {**estimate, "epsilons": _grid(given.get("epsilons", EPSILONS))},
        }
    )


def _grid(given: Any) -> Any:
    """Levels as a study takes them: a grid, or a list; StudyError for what has no several values."""
    if isinstance(given, Mapping):
        return dict(given)
    try:
        return list(given)
    except TypeError:
        raise wrong("epsilons", given, "several numbers, or a grid {start, stop, count}") from None


def run_study(study: Study, store: str | Path | None, **how: Any) -> Result:
    """The result of a study in a store, or in a temporary folder that goes with it. how: as of `run`."""
    if store is not None:
        return run(study, store, **how)
    with _temporary(study) as (place, keep):
        result = run(study, place, **how)
        keep(result)
    return result


@contextmanager
def _temporary(study: Study) -> Iterator[tuple[Path, Callable[[Result], None]]]:
    """A store in a temporary folder, and what has that go with a result; it goes at once where none is told."""
    folder = tempfile.mkdtemp(prefix="hpcdp-")
    place = Path(folder) / f"{study.name}.zarr"
    owners: list[Result] = []
    try:
        yield place, owners.append
        weakref.finalize(owners[0], _remove, folder, os.getpid())
    except BaseException as error:
        if isinstance(error, HpcdpError):
            lost = resume_command(place)
            error.args = tuple(words.replace(lost, _KEPT) if isinstance(words, str) else words for words in error.args)
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a copy of the process
        shutil.rmtree(folder, ignore_errors=True)


@overload
def audit(what: Result, claim: Claim | str, orientation: Orientation = "both", limits: Limits = "exact") -> Audit: ...
@overload
def audit(
    what: Study,
    claim: Claim | str | None = None,
    orientation: Orientation = "both",
    limits: Limits = "exact",
    *,
    store: str | Path | None = None,
    **how: Any,
) -> Audit: ...
@overload
def audit(
    what: Callable[..., Any] | str,
    d: Any,
    d_prime: Any,
    *,
    claim: Claim | str,
    orientation: Orientation = "both",
    limits: Limits = "exact",
    **given: Any,
) -> Audit: ...
def audit(what: Any, *given: Any, **named: Any) -> Audit:
    """Audit a claim by the counts of a result, of a study, or of a function on two databases: `audit(f, d, d_prime, claim="…")`.

    A study is run first, a function as by `spectrum`; both with the audit's own thresholds where none are given.

    Each pair and orientation has one η, where training promises the clearest violation: the largest distance from the
    claimed curve in units of a box. That box is of so many outputs that it is as wide as training and test shares differ by
    chance, 1/n = 1/train + 1/test; else few training outputs would send the test to rare events. The failure probability
    1 − confidence is shared by the boxes: half equally, half to the one that training ranks first (a union bound). A claim
    whose curve is its own inverse says the same in both orientations, so that one box serves them. Finite-sample.

    Args:
        what: a complete result of a study with etas; a study; or a function, or a built-in's name, with d and d_prime.
        claim: T0, by its `tradeoff`; or its text such as "gaussian(mu=1)", with paths relative to the current folder; None: a
            study's own.
        orientation: "both" for a claim about all neighbours, as f-DP is defined; "forward" for T0 of (D, D') only.
        limits: "exact" (Clopper–Pearson) or "hoeffding", √(ln(2/level)/(2·test)).
        store: of a study, by default as in `run`; of a function, by default a temporary folder that goes when the audit does.
        named: of a study, cluster, workers, client, allow_changed_code and progress, as in `run`; of a function, all that
            `spectrum` takes.

    Raises:
        StudyError: the result is incomplete, its samples taught and tested, it has no η, comes from other counts than those
            of one L̂, or was derived before there were audits; the text is no claim; the study cannot be audited. Else as `run`.
    """
    if isinstance(what, Result):
        return audit_result(what, *given, **named)
    if isinstance(what, Study):
        return _audit_study(what, *given, **named)
    if not callable(what) and not isinstance(what, str):
        raise StudyError(f"audit: a Result, a Study or a function; given: a {type(what).__name__}")
    return _audit_function(what, *given, **named)


def _audit_study(
    study: Study,
    claim: Claim | str | None = None,
    orientation: Orientation = "both",
    limits: Limits = "exact",
    *,
    store: str | Path | None = None,
    **how: Any,
) -> Audit:
    refuse_unknown(orientation, limits)
    refuse_unaudited(study)
    if claim is None and study.study.claim is None:
        raise StudyError("audit: claim is missing, and the study makes none; accepted: such as gaussian(mu=1)")
    meant = as_claim(claim) if claim is not None else parse_claim(str(study.study.claim), study.folder)
    going, root = read_study(study, store)
    result = run(with_etas(with_audited_loss(going, root)), root, **how)
    return audit_result(result, meant, orientation, limits)


def _audit_function(
    function: Callable[..., Any] | str,
    d: Any,
    d_prime: Any,
    *,
    claim: Claim | str | None = None,
    orientation: Orientation = "both",
    limits: Limits = "exact",
    store: str | Path | None = None,
    **given: Any,
) -> Audit:
    how = {key: given.pop(key) for key in _HOW if key in given}
    study = study_of(function, d, d_prime, given)
    if store is not None:
        return _audit_study(study, claim, orientation, limits, store=store, **how)
    with _temporary(study) as (place, keep):
        audited = _audit_study(study, claim, orientation, limits, store=place, **how)
        keep(audited.result)
    return audited


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

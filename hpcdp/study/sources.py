"""Digests of code that a study names beside its mechanism."""

from __future__ import annotations

from collections.abc import Sequence

from hpcdp.losses import named_code
from hpcdp.mechanisms.user_code import import_callable, lies_in, source_digest
from hpcdp.study.distributions import Distribution
from hpcdp.study.file import Study


def own_sources(study: Study, distributions: Sequence[Distribution]) -> dict[str, str]:
    """Digests of code that is neither the mechanism's nor an installed package's, by the key that names it."""
    found = {f"pairs.distributional: the source of {d.call}": d.source for d in distributions}
    called = None if study.at_risk is None else study.at_risk.population.call
    if called is not None:
        found[f"at_risk.population.call: the source of {called}"] = source_digest(called, study.folder)
    if (declared := study.mechanism.impossible) is not None:
        import_callable(declared, study.folder, "mechanism.impossible")
        found[f"mechanism.impossible: the source of {declared}"] = source_digest(declared, study.folder)
    path = named_code(study.estimate.default_loss, study.estimate.parameters)
    key = "loss" if path == study.estimate.default_loss else "parameters"
    if path is not None:
        import_callable(path, study.folder, f"estimate.{key}")
    if path is not None and (key == "loss" or lies_in(path, study.folder)):
        found[f"estimate.{key}: the source of {path}"] = source_digest(path, study.folder)
    return found

"""The methods of estimating by name, and which one a study asks for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hpcdp._base.plugins import load_plugin
from hpcdp.losses import kind_of
from hpcdp.study.file import Study

METHODS = {
    "sample-split": "hpcdp.methods.sample_split.method:METHOD",
    "cross-fitting": "hpcdp.methods.cross_fitting:METHOD",
    "figure-1": "hpcdp.methods.figure_1:METHOD",
    "histogram": "hpcdp.methods.histogram.method:METHOD",
    "pure": "hpcdp.methods.pure:METHOD",
    "at-risk": "hpcdp.methods.at_risk:METHOD",
    "importance-sampling": "hpcdp.importance.method:METHOD",
}
"""By name, where each `hpcdp.engine.method.Method` is; a loss may name its own (`hpcdp.losses.LossKind.method`)."""


GROUP = "hpcdp.methods"
"""The entry points of methods that other packages offer; `estimate.method` names one."""


def method_named(name: str) -> Any:
    """The method of this name; its modules are loaded now."""
    if name not in METHODS:
        return load_plugin(GROUP, name)
    module, _, attribute = METHODS[name].partition(":")
    return getattr(import_module(module), attribute)


def name_of_method(study: Study, is_reused: bool) -> str:
    """The name of a study's method. is_reused: whether every sample teaches and tests, as the study says or a run has chosen."""
    if study.estimate.method is not None:
        return study.estimate.method
    if study.at_risk is not None:
        return "at-risk"
    if study.pure is not None:
        return "pure"
    if study.estimate.tape:
        return "importance-sampling"
    return kind_of(study.estimate.default_loss).method or ("cross-fitting" if is_reused else "sample-split")

"""The methods of estimating by name, and which one a study asks for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hpcdp._base.plugins import load_plugin
from hpcdp.losses import kind_of

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


def methods_asked(study: Any) -> dict[str, str]:
    """The key by which a study asks for a method, and its name, the one that it gets first; of a sound study at most one."""
    e = study.estimate
    asked = {
        "estimate.method": e.method,
        "at_risk": "at-risk" if study.at_risk is not None else None,
        "estimate.tape": "importance-sampling" if e.tape else None,
        "estimate.reuse": "cross-fitting" if e.reuse else None,
        "pure": "pure" if study.pure is not None else None,
        "estimate.loss": kind_of(e.default_loss).method,
    }
    return {key: name for key, name in asked.items() if name is not None}


def name_of_method(study: Any, is_reused: bool) -> str:
    """The name of a study's method. is_reused: whether every sample teaches and tests, as the study says or a run has chosen."""
    asked = (name for key, name in methods_asked(study).items() if key != "estimate.reuse" or is_reused)
    return next(asked, "sample-split")

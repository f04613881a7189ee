"""hpcdp measures how private a mechanism really is: (ε, δ) spectra, trade-off curves, certified bounds, at any scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcdp.auditing import audit
    from hpcdp.driver import resume, run
    from hpcdp.errors import HpcdpError, LeaseError, MechanismError, StoreError, StudyError
    from hpcdp.failures import RunFailed
    from hpcdp.notions.composition import Spectrum, parallel, post_process, sequential, union
    from hpcdp.notions.curve import TradeOffCurve
    from hpcdp.repeats import repeat
    from hpcdp.result import Result, load_result
    from hpcdp.study import Study
    from hpcdp.verdict import verify

__version__ = "0.1.0"

_WHERE = {  # no module is called like one of these: once imported it would stand in its place
    "HpcdpError": "errors",
    "LeaseError": "errors",
    "MechanismError": "errors",
    "StoreError": "errors",
    "StudyError": "errors",
    "Result": "result",
    "load_result": "result",
    "RunFailed": "failures",
    "resume": "driver",
    "run": "driver",
    "Study": "study",
    "Spectrum": "notions.composition",
    "parallel": "notions.composition",
    "post_process": "notions.composition",
    "sequential": "notions.composition",
    "union": "notions.composition",
    "TradeOffCurve": "notions.curve",
    "repeat": "repeats",
    "audit": "auditing",
    "verify": "verdict",
}

__all__ = [
    "HpcdpError",
    "LeaseError",
    "MechanismError",
    "Result",
    "RunFailed",
    "Spectrum",
    "StoreError",
    "Study",
    "StudyError",
    "TradeOffCurve",
    "__version__",
    "audit",
    "load_result",
    "parallel",
    "post_process",
    "repeat",
    "resume",
    "run",
    "sequential",
    "union",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that `import hpcdp` costs nothing."""
    if name in _WHERE:
        import importlib

        return getattr(importlib.import_module(f"hpcdp.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'hpcdp' has no attribute {name!r}")

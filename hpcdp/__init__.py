"""hpcdp measures how private a mechanism really is: (ε, δ) spectra, trade-off curves, certified bounds, at any scale."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcdp.driver.direct import audit
    from hpcdp.driver.driver import resume, run
    from hpcdp.driver.function import spectrum
    from hpcdp.driver.plan import plan
    from hpcdp.driver.repeats import repeat
    from hpcdp.engine.outcomes import RunFailed
    from hpcdp.errors import HpcdpError, LeaseError, MechanismError, StoreError, StudyError
    from hpcdp.notions.curve import TradeOffCurve
    from hpcdp.results.composition import Spectrum, parallel, post_process, sequential, union
    from hpcdp.results.load import load_result
    from hpcdp.results.result import Result
    from hpcdp.results.verdict import verify
    from hpcdp.study.file import Study

__version__ = "0.1.0"

WINDOWS = "hpcdp runs on Linux, not on Windows itself: install it in WSL, the Windows Subsystem for Linux."

_WHERE = {  # no module is called like one of these: once imported it would stand in its place
    "HpcdpError": "errors",
    "LeaseError": "errors",
    "MechanismError": "errors",
    "StoreError": "errors",
    "StudyError": "errors",
    "Result": "results.result",
    "load_result": "results.load",
    "RunFailed": "engine.outcomes",
    "resume": "driver.driver",
    "run": "driver.driver",
    "Study": "study.file",
    "Spectrum": "results.composition",
    "parallel": "results.composition",
    "post_process": "results.composition",
    "sequential": "results.composition",
    "union": "results.composition",
    "TradeOffCurve": "notions.curve",
    "plan": "driver.plan",
    "repeat": "driver.repeats",
    "audit": "driver.direct",
    "spectrum": "driver.function",
    "verify": "results.verdict",
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
    "plan",
    "post_process",
    "repeat",
    "resume",
    "run",
    "sequential",
    "spectrum",
    "union",
    "verify",
]


def __dir__() -> list[str]:
    """The public names, for `dir(hpcdp)` and tab completion, though none is imported before it is asked for."""
    return [*__all__]


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that `import hpcdp` costs nothing."""
    if name in _WHERE:
        if sys.platform == "win32":
            raise ImportError(WINDOWS)
        import importlib

        return getattr(importlib.import_module(f"hpcdp.{_WHERE[name]}"), name)
    if name == "assert_private":
        import importlib

        return importlib.import_module("hpcdp.testing").assert_private  # which says where it is
    raise AttributeError(f"module 'hpcdp' has no attribute {name!r}")

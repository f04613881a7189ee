"""How much of hpcdp a small run goes through: the quickstart's study with few samples, in one process.

Counted are the modules and functions of hpcdp that `run_problem` enters: what somebody who follows a run has to read. What is
only loaded does not count, nor do comprehensions.
"""

from __future__ import annotations

import inspect
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import hpcdp
from hpcdp.study.file import Study

STUDY = Path(__file__).parents[1] / "workflows" / "diabetes_mean.toml"
SIZE = 4096


def entered(study: Study, store: Path) -> set[tuple[str, str]]:
    """Module and name of each function of hpcdp that a run calls, from the beginning of `run_problem` to its end."""
    found: set[tuple[str, str]] = set()
    within: list[FrameType] = []

    def see(frame: FrameType, event: str, _: Any) -> None:
        code, module = frame.f_code, str(frame.f_globals.get("__name__"))
        if not module.startswith("hpcdp."):
            return
        if event == "call" and code.co_name == "run_problem":
            within.append(frame)
        if (
            within
            and event == "call"
            and code.co_flags & inspect.CO_OPTIMIZED
            and not code.co_name.endswith(("comp>", "expr>"))
        ):
            found.add((module, code.co_qualname))
        if event == "return" and within and frame is within[0]:
            within.clear()

    threading.setprofile(see)  # of threads that start
    sys.setprofile(see)
    try:
        hpcdp.run(study, store, workers=0)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return found


if __name__ == "__main__":
    study = Study.from_toml(STUDY)
    study = study.model_copy(update={"estimate": study.estimate.model_copy(update={"train": SIZE, "test": SIZE})})
    with TemporaryDirectory() as folder:
        found = entered(study, Path(folder) / "entered.zarr")
    print(f"run_problem enters {len({module for module, _ in found})} modules of hpcdp and {len(found)} functions")

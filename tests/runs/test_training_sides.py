"""Training samples of a pair that are not kept: drawn in the task's own thread, one side while the other is sorted."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import SEED

import hpcdp.engine.context
from hpcdp import Study
from hpcdp.engine.context import Context, open_context
from hpcdp.engine.driver import store_problem
from hpcdp.store.stages import Stage
from hpcdp.study.problem import resolve

SIZE = 1 << 20


def test_one_side_is_sorted_while_the_other_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = {
        "study": {"name": "s", "seed": SEED},
        "mechanism": {"call": "laplace", "parameters": {"epsilon": 1.0}},
        "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
        "estimate": {"loss": "knn", "train": SIZE, "test": 1000, "chunk": 1 << 18, "keep": "none", "epsilons": [0.0]},
    }
    problem, _ = resolve(Study.from_dict(study))
    store_problem(problem, tmp_path / "s.zarr")
    context = open_context(str(tmp_path / "s.zarr"), 1)
    last = problem.pair_laws[0][1]
    is_drawing_last, threads = threading.Event(), set()
    sort, draw = hpcdp.engine.context.ascending, Context.draw

    def ascending(*given: Any, **options: Any) -> Any:
        assert is_drawing_last.wait(60), "sorted before all was drawn"
        return sort(*given, **options)

    def drawn(self: Context, stage: Stage, law: str, chunk: int) -> Any:
        threads.add(threading.get_ident())
        if law == last:
            is_drawing_last.set()
        return draw(self, stage, law, chunk)

    monkeypatch.setattr(hpcdp.engine.context, "ascending", ascending)
    monkeypatch.setattr(Context, "draw", drawn)
    sides = context.sides(0)
    assert threads == {threading.get_ident()}
    for law, side in zip(problem.pair_laws[0], sides, strict=True):
        outputs = [draw(context, problem.train, law, chunk) for chunk in range(problem.train.chunks)]
        np.testing.assert_array_equal(side.outputs, np.sort(np.concatenate(outputs)))
        assert side.draws == SIZE
    assert context.training_prints.keys() == set(problem.pair_laws[0])

"""Hundreds of seeds as a few tasks of a Dask client, without stores: a study there, and its samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from paper_figures.methods import Place

from hpcdp.store.stages import Stage
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.resolving import resolve
from hpcdp.study.sampler import Sampler

_PER_TASK = 25


def as_text(study: Study) -> tuple[str, str]:
    """A study for a task: its JSON, and its folder."""
    return json.dumps(study.to_dict()), str(study.folder)


@lru_cache(maxsize=8)
def resolved(text: str, folder: str) -> Problem:
    """The problem of a study that `as_text` wrote."""
    study = Study.from_dict(json.loads(text), Path(folder))
    return replace(resolve(study)[0], sampler=Sampler.of(study))  # which draws in this process


def with_seed(problem: Problem, seed: int) -> Problem:
    """The problem under another seed."""
    section = problem.study.study.model_copy(update={"seed": seed})
    study = problem.study.model_copy(update={"study": section})
    return replace(problem, study=study, sampler=replace(problem.sampler, seed=seed))


def draw(problem: Problem, stage: Stage, law: str) -> NDArray[Any]:
    """All samples of a distribution's stage, as a run of the study draws them."""
    parts = [
        problem.sampler.draw(
            problem.laws[law], law, stage.name, chunk, chunk * stage.chunk, stage.chunk_size(chunk), problem.schema
        )
        for chunk in range(stage.chunks)
    ]
    return np.concatenate(parts)


def over_seeds(place: Place, study: Study, seeds: int, function: Callable[..., Any], *more: Any) -> list[Any]:
    """What the function gives for blocks of the seeds 1, 2, …, in order: function(study's text, its folder, block, *more)."""
    client = place.require_client(study)
    text, folder = as_text(study)
    blocks = [list(range(first, min(first + _PER_TASK, seeds + 1))) for first in range(1, seeds + 1, _PER_TASK)]
    futures = [client.submit(function, text, folder, block, *more, pure=False) for block in blocks]
    return list(client.gather(futures))

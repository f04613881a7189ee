"""Hundreds of seeds as a few tasks of a Dask client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fdp.figures.direct import as_text
from paper_figures.methods import Place

from hpcdp.study.file import Study

_PER_TASK = 25


def over_seeds(place: Place, study: Study, seeds: int, function: Callable[..., Any], *more: Any) -> list[Any]:
    """What the function gives for blocks of the seeds 1, 2, …, in order: function(study's text, its folder, block, *more)."""
    client = place.require_client(study)
    text, folder = as_text(study)
    blocks = [list(range(first, min(first + _PER_TASK, seeds + 1))) for first in range(1, seeds + 1, _PER_TASK)]
    futures = [client.submit(function, text, folder, block, *more, pure=False) for block in blocks]
    return list(client.gather(futures))

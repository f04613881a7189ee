"""Parameters of `auto`, which has none. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from hpcdp.losses.kind import Parameters

TAUGHT = 1 << 15
"""Vectors of a half of the training outputs of a database that teach what is judged."""

FEWEST_LEARNED = 1 << 10
"""Vectors of a half with which `learned` is a candidate: it takes long, and few teach a classifier nothing that others lack."""

JUDGED = 1 << 13
"""Vectors of the other half that judge: `knn` takes long for each."""


class AutoParameters(Parameters):
    """Parameters of `auto`: none, because training outputs decide."""

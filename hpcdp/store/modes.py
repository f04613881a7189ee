"""What a run writes, its user alone can change: profiles, job scripts and learned models in a store are code."""

from __future__ import annotations

import os
from functools import partial

from hpcdp._base.shared import while_wanted

_OTHERS_WRITE = 0o022


def _mask() -> int:
    before = os.umask(0o077)  # a mask cannot be read without setting it
    os.umask(before | _OTHERS_WRITE)
    return before


own_files = partial(while_wanted(_mask, lambda _: None, os.umask), None)
"""Make files and folders within that neither group nor others can write, whatever the umask; processes inherit it."""

"""A folder for compiled kernels and Dask's own files that nobody else can write: what lies there is loaded and run.

In a folder that all users share, a stranger may make any name first. So a name is used only where it is a folder, no link,
of this user, closed to all others; else one that nobody could foresee. That shared folder must not let strangers rename
what is not theirs: it is the user's own, or has the sticky bit, as /tmp has.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hpcdp._base.files import own_folder


def private_folder() -> Path:
    """This user's folder (0700) among the machine's temporary files, made if need be."""
    import dask

    parent = Path(dask.config.get("temporary-directory") or tempfile.gettempdir())
    return own_folder(parent) or Path(tempfile.mkdtemp(prefix="hpcdp-", dir=parent))


def private_lines(parent: str) -> list[str]:
    """The same as lines of shell for a job, below a folder as the job's shell sees it; HPCDP_SCRATCH is it from then on."""
    return [
        f'export HPCDP_SCRATCH="{parent}"',
        'mkdir -p "$HPCDP_SCRATCH"',
        'mkdir -m 700 "$HPCDP_SCRATCH/hpcdp-$(id -u)" 2>/dev/null || true',
        'hpcdp_own=$(find "$HPCDP_SCRATCH/hpcdp-$(id -u)" -prune -type d -user "$(id -u)" ! -perm /077 2>/dev/null)',
        '[ -n "$hpcdp_own" ] || hpcdp_own=$(mktemp -d "$HPCDP_SCRATCH/hpcdp-XXXXXXXXXX") || exit 1',
        'export HPCDP_SCRATCH="$hpcdp_own" NUMBA_CACHE_DIR="$hpcdp_own/numba"',
    ]

"""Where the jobs of a store keep what they need and leave what they print, and what they are called."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hpcdp.keys import digest_bytes
from hpcdp.store.layout import Layout


def job_name(study: str, store: str) -> str:
    """The name of all jobs of a store, by which they are found again: hpcdp, the study's name, a digest of the path."""
    word = re.sub(r"[^A-Za-z0-9._+-]", "-", study)[:40]
    return f"hpcdp-{word}-{digest_bytes(b'store', os.fsencode(store))[:8]}"


def driver_name(name: str) -> str:
    """The name of the driver's jobs where the workers' is `name`."""
    return f"{name}-driver"


class JobFolder:
    """The folder of a store in which its jobs keep what they need. name: of the jobs."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = root, name
        self.logs = root / "logs"  # of the driver's and of the workers' jobs
        self.profile = root / "profile.toml"  # the one that `submit` was given, as it was then
        self.driver_script = root / "driver.sh"  # what `submit` hands to sbatch
        self.worker_script = root / "worker.sh"  # the last one of a worker's job or step, to read
        self.keys = root / "keys"  # folder of the folders of certificates

    def key(self, generation: int) -> Path:
        """Folder of the certificate of one run."""
        return self.keys / f"{generation:06d}"


def job_folder(layout: Layout, study: str) -> JobFolder:
    """The folder of a store's jobs."""
    root = layout.root.resolve()
    return JobFolder(Layout(root).jobs, job_name(study, str(root)))

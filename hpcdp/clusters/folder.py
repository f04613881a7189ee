"""Where the jobs of a store keep what they need and leave what they print, and what they are called."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
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


@dataclass(frozen=True)
class JobFolder:
    """The folder of a store in which its jobs keep what they need. name: of the jobs."""

    root: Path
    name: str

    @property
    def logs(self) -> Path:
        """Logs of the driver's and of the workers' jobs."""
        return self.root / "logs"

    @property
    def profile(self) -> Path:
        """The profile that `submit` was given, as it was then."""
        return self.root / "profile.toml"

    @property
    def driver_script(self) -> Path:
        """What `submit` hands to sbatch."""
        return self.root / "driver.sh"

    @property
    def worker_script(self) -> Path:
        """The last script of a worker's job or step, to read."""
        return self.root / "worker.sh"

    @property
    def keys(self) -> Path:
        """Folder of the folders of certificates."""
        return self.root / "keys"

    def key(self, generation: int) -> Path:
        """Folder of the certificate of one run."""
        return self.keys / f"{generation:06d}"


def job_folder(layout: Layout, study: str) -> JobFolder:
    """The folder of a store's jobs."""
    root = layout.root.resolve()
    return JobFolder(Layout(root).jobs, job_name(study, str(root)))

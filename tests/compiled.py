"""Compiles the kernels that most tests need, once: else each process that starts with the tests would compile them for itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

_STUDY = """
[study]
name = "compiled"
seed = 1
[mechanism]
call = "{call}"
parameters = {{ epsilon = 1.0 }}
[pairs]
given = [{{ d = [0.0], d_prime = [1.0] }}]
[estimate]
train = 2000
test = 2000
chunk = 1000
epsilons = [0.0, 0.5]
"""


def cache_folder() -> Path:
    """Where tests, and commands and jobs that they start, keep compiled kernels."""
    from hpcdp.clusters.scratch import private_folder

    return private_folder() / "numba"


def compile_common() -> None:
    """Run two small studies, an audit first, into a folder that is thrown away; a failure is the tests' to find."""
    with TemporaryDirectory(prefix="hpcdp-compiled-") as folder:
        study = Path(folder, "study.toml")
        for call, words in (("laplace", ("audit", "--claim", "dp(epsilon=1)")), ("randomized_response", ("run",))):
            study.write_text(_STUDY.format(call=call))
            command = [sys.executable, "-m", "hpcdp", words[0], str(study), *words[1:]]
            subprocess.run(
                [*command, "--store", f"{call}.zarr", "--workers", "0"], cwd=folder, capture_output=True, check=False
            )


if __name__ == "__main__":
    os.environ["NUMBA_CACHE_DIR"] = str(cache_folder())
    compile_common()

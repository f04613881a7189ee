"""Compiles the kernels that most tests need, once: else each process that starts with the tests would compile them for itself."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ONE, THREE = ([0.0], [1.0]), ([0.0, 0.0, 0.0], [0.3, 0.0, -0.5])
SIZES = {"train": 2000, "test": 2000, "chunk": 1000, "epsilons": [0.0, 0.5], "etas": [0.5, 1.0, 2.0]}
TAPE = {"tape": True, "train": 4096, "test": 1 << 17, "epsilons": [0.0, 1.0], "certify": [1.0]}
TARGET = {"train": 4096, "epsilons": [0.0, 2.0], "target": {"epsilon": 2.0, "relative_error": 0.1, "most": 1 << 21}}
# call, parameters, the pair, and [estimate]; the two lists take about as long
PARTS = (
    (
        ("laplace", {"epsilon": 1.0}, ONE, SIZES),
        ("randomized_response", {"epsilon": 1.0}, ONE, SIZES),
        ("gaussian", {"sigma": 1.0}, THREE, {**SIZES, "loss": "knn"}),
        ("gaussian", {"sigma": 1.0}, THREE, {**SIZES, "loss": "smooth"}),
        *(("laplace", {"epsilon": 1.0}, ONE, {**SIZES, "loss": loss}) for loss in ("knn", "kde")),
    ),
    (
        ("gaussian", {"sigma": 4.0}, ONE, TAPE),
        ("laplace", {"epsilon": 1.0}, THREE, TAPE),
        ("gaussian", {"sigma": 1.0}, ONE, TARGET),
    ),
)


def cache_folder() -> Path:
    """Where tests, and commands and jobs that they start, keep compiled kernels."""
    from hpcdp.clusters.scratch import private_folder

    return private_folder() / "numba"


def compile_common() -> None:
    """Run small studies in two processes, into a folder that is thrown away; a failure is the tests' to find."""
    words = [sys.executable, str(Path(__file__))]
    with TemporaryDirectory(prefix="hpcdp-compiled-") as folder:
        parts = [
            subprocess.Popen([*words, str(n)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for n in range(len(PARTS))
        ]
        for part in parts:
            part.wait()


def run_part(number: int) -> None:
    """Studies of one process, and audits of them, in its working directory."""
    import hpcdp
    from hpcdp.study.file import Study

    for n, (call, parameters, (d, d_prime), estimate) in enumerate(PARTS[number]):
        study = {
            "study": {"name": "compiled", "seed": 1},
            "mechanism": {"call": call, "parameters": parameters},
            "pairs": {"given": [{"d": d, "d_prime": d_prime}]},
            "estimate": estimate,
        }
        result = hpcdp.run(Study.from_dict(study, Path.cwd()), Path(f"{number}-{n}.zarr"), workers=0)
        if "etas" in estimate:
            hpcdp.audit(result, "dp(epsilon=1)")


if __name__ == "__main__":
    os.environ["NUMBA_CACHE_DIR"] = str(cache_folder())
    if len(sys.argv) > 1:
        run_part(int(sys.argv[1]))
    else:
        compile_common()

"""Each test file alone, in a process of its own: `python tests/support/alone.py [FILES]` prints those that are red."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FINE = (0, 5)  # of pytest; 5: no test of the file is among those that are asked for


def is_red(path: Path) -> bool:
    """Whether something of a file fails, or cannot be collected, where no other file is."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode in FINE:
        return False
    print(path, *[line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR "))], sep="\n  ")
    return True


def main(paths: list[str]) -> int:
    """The exit code: 1 where a file is red."""
    files = [Path(path).resolve() for path in paths] or sorted((ROOT / "tests").rglob("test_*.py"))
    red = sum([is_red(path) for path in files])
    print(f"{red} of {len(files)} test files are red alone")
    return int(red > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

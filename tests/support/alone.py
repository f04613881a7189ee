"""Each test file alone, in a process of its own: `python tests/support/alone.py [FILES]` prints those that are red."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GREEN, RED, NONE = 0, 1, 5  # of pytest; NONE: no test of the file is among those that are asked for


def run(path: Path) -> int:
    """GREEN, NONE, or RED where something of a file fails, or cannot be collected, where no other file is."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode in (GREEN, NONE):
        return done.returncode
    print(path, *[line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR "))], sep="\n  ")
    return RED


def main(paths: list[str]) -> int:
    """The exit code: 1 where a file is red."""
    files = [Path(path).resolve() for path in paths] or sorted((ROOT / "tests").rglob("test_*.py"))
    ended = [run(path) for path in files]
    red, none = ended.count(RED), ended.count(NONE)
    print(f"{red} of {len(files)} test files are red alone; {none} have slow tests only, of which none was run")
    return int(red > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

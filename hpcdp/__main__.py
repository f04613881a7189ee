"""The command `hpcdp`, and python -m hpcdp."""

import gc
import sys

from hpcdp import WINDOWS


def main() -> int:
    """Run the command of this process's arguments; returns its exit code."""
    if sys.platform == "win32":  # before what Windows lacks is imported
        print(WINDOWS, file=sys.stderr)
        return 2
    gc.set_threshold(100_000, 20, 100)  # a million cells to be printed are no garbage: a sixth of the time
    try:
        from hpcdp.cli.command import main as command

        return command()
    except KeyboardInterrupt:  # before the command begins, or after its last word
        print("\nhpcdp: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""The command `hpcdp`, and python -m hpcdp."""

import os
import sys

from hpcdp import WINDOWS
from hpcdp._base.early import leaving_early, start_again

_WITH_WORKERS = ("run", "risk", "resume", "audit")


def main() -> int:
    """Run the command of this process's arguments; returns its exit code."""
    if sys.platform == "win32":  # before what Windows lacks is imported
        print(WINDOWS, file=sys.stderr)
        return 2
    leaving_early()
    _have_environment_of_workers()  # before anything is loaded that would be loaded twice
    from hpcdp.cli.command import main as command

    return command()


def _have_environment_of_workers() -> None:
    """Start this command again where its workers' environment differs, so that it can fork them."""
    from contextlib import suppress
    from os.path import realpath

    from hpcdp._base.threads import worker_environment

    lacks = worker_environment()
    here = sys.argv[1:2] and sys.argv[1] in _WITH_WORKERS and not any(word.startswith("--cl") for word in sys.argv)
    if (
        lacks
        and here
        and sys.executable
        and realpath(sys.argv[0]) in (realpath(f"{os.path.dirname(sys.executable)}/hpcdp"), realpath(__file__))
    ):
        with suppress(OSError):
            start_again([sys.executable, *sys.orig_argv[1:]], os.environ | lacks)


if __name__ == "__main__":
    sys.exit(main())

"""python -m benchmarks [NAME …] [--small] [--command]: run benchmarks and print their figures."""

from __future__ import annotations

import argparse
import importlib

NAMES = (
    "textbook",
    "neighbours",
    "tradeoff",
    "limit",
    "memory",
    "command",
    "pairs",
    "scheduler",
    "learned",
    "streaming",
    "betting",
    "tiny",
    "tiny_coverage",
    "tiny_points",
    "tape",
    "tape_hidden",
    "racing",
    "local",
    "histogram",
    "soak",
    "renyi",
    "samples",
    "risk",
)


def main() -> None:
    """Run the named benchmarks, all by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--small", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--command", action="store_true", help="with textbook alone: whole processes")
    options = parser.parse_args()
    if options.command and options.names != ["textbook"]:
        parser.error(f"--command is of textbook alone; given with: {' '.join(options.names) or 'all'}")
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; accepted: {', '.join(NAMES)}")
    for name in options.names or NAMES:
        more = {"command": True} if options.command else {}
        importlib.import_module(f"benchmarks.{name}").main(options.small, **more)


if __name__ == "__main__":
    main()

"""python -m benchmarks [NAME …] [--small]: run benchmarks and print their figures."""

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
    "racing",
    "local",
    "histogram",
    "soak",
    "renyi",
    "risk",
)


def main() -> None:
    """Run the named benchmarks, all by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--small", action="store_true", help="seconds instead of minutes")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; accepted: {', '.join(NAMES)}")
    for name in options.names or NAMES:
        importlib.import_module(f"benchmarks.{name}").main(options.small)


if __name__ == "__main__":
    main()

"""The command `hpcdp`."""

from hpcdp.cli.command import main

__all__ = ["main"]

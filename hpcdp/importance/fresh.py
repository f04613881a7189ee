"""Draws chunks of random tapes in fresh processes, which have called nothing of the study's code before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hpcdp._base.node import NodeExecutor, ProcessDied
from hpcdp.errors import HpcdpError, MechanismError
from hpcdp.importance.generator import draw_tape
from hpcdp.mechanisms.code_digest import modules_of
from hpcdp.mechanisms.functions import pickled
from hpcdp.store.arrays import fingerprint
from hpcdp.study.sampler import Sampler


def fresh_prints(sampler: Sampler, is_given: bool, chunks: list[int], *given: Any, **how: Any) -> list[str] | None:
    """Fingerprints of these chunks as a fresh process draws them; None of a function that cannot be sent to one.

    is_given: whether the function was given as an object; its modules go as they are here, as to other processes. given, how: of
    `draw_tape`. MechanismError where the mechanism fails there, or where there is no such process to be had.
    """
    function: Any = getattr(sampler.mechanism, "function", None)
    try:
        own = modules_of(function) if is_given else set()
        request = pickled((_drawn, (replace(sampler), chunks, given, how), {}), own)
    except Exception:  # whatever a class of someone else raises
        return None
    with NodeExecutor(1) as node:
        try:
            found: list[str] = node.submit_pickled(request).result()
            return found
        except ProcessDied as died:
            raise MechanismError(f"the fresh process in which chunks are drawn once more {died.how}") from None
        except HpcdpError as error:
            raise MechanismError(f"in a fresh process {type(error).__name__}: {error}") from None


def _drawn(sampler: Sampler, chunks: list[int], given: tuple[Any, ...], how: dict[str, Any]) -> list[str]:
    database, law, part, size, schema = given
    return [fingerprint(draw_tape(sampler, database, law, part, chunk, size, schema, **how)[0]) for chunk in chunks]

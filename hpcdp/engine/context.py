"""What a task needs in its process: the problem, opened once, the last training samples, and one pass over drawn chunks."""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from hpcdp._base.doing import drawing
from hpcdp._base.raised import readable
from hpcdp.engine.outcomes import ChunkError, Failure, Report
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.losses import make_loss
from hpcdp.losses.kind import STREAMED_BYTES
from hpcdp.losses.protocol import Loss, Side, StreamedSide, ascending
from hpcdp.losses.views import Viewed, WithSpecial
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.store.arrays import fingerprint
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.packs import forget_packs
from hpcdp.store.samples import read_blocks
from hpcdp.store.stages import Stage
from hpcdp.study.declared import RefutedError
from hpcdp.study.problem import Problem, Sizes
from hpcdp.study.versions import load_problem

_SIDES_BYTES = 1 << 29  # of training samples that stay in memory
_APART = 1 << 20  # training samples of a law from which on a second thread sorts: a pair's task is often alone


@dataclass(frozen=True, eq=False)
class Context:
    """A store's problem at one version, as tasks of this process see it."""

    layout: Layout
    problem: Problem
    training_prints: dict[str, list[str]] = field(default_factory=dict, repr=False)  # of laws that were drawn to learn
    _sides: OrderedDict[str, Side] = field(default_factory=OrderedDict, repr=False)

    @property
    def loss(self) -> Loss:
        """The study's loss, made once in this process."""
        return self.problem.once(_losses)[0]

    @property
    def others(self) -> list[Loss]:
        """Losses that a refined one may take instead."""
        return self.problem.once(_losses)[1:]

    @property
    def foreign(self) -> str | None:
        """The class, loss or view that judges outputs and is not hpcdp's own, if any."""
        return self.problem.study.estimate.foreign

    def loss_of_pair(self, number: int) -> Loss:
        """The loss of one pair: of the view that it is of, where the study names views."""
        view = self.problem.pairs[number].origin.get("view")
        return self.loss if view is None else Viewed.of(view, self.problem.study.folder, self.loss)

    def under(self, generation: Generation) -> Context:
        """The same context, for a task that may change the store."""
        return replace(self, layout=replace(self.layout, generation=generation))

    def chunks(self, stage: Stage, law: str, chunks: range, out: Outputs | None = None) -> Iterator[Outputs]:
        """A law's chunks in order, stored or drawn again from their keys. out: of all outputs of the stage, where each is put."""
        problem = self.problem
        if stage in problem.kept_stages:
            yield from read_blocks(self.layout, stage, law, problem.schema, chunks, out)
        else:
            for chunk in chunks:
                part = self.draw(stage, law, chunk)
                if out is not None:
                    out[chunk * stage.chunk : chunk * stage.chunk + len(part)] = part
                yield part

    def draw(self, stage: Stage, law: str, chunk: int) -> Outputs:
        """Draw one chunk from its key; ChunkError names the chunk that the mechanism fails on."""
        problem = self.problem
        start, size = chunk * stage.chunk, stage.chunk_size(chunk)

        def where() -> str:
            return f"{stage.name} chunk {chunk} of {problem.describe_law(law)}"

        try:
            with drawing(where, problem.sampler.timeout):
                return problem.sampler.draw(problem.laws[law], law, stage.name, chunk, start, size, problem.schema)
        except MechanismError as error:
            raise ChunkError(where(), readable(str(error))) from error

    def training(self, law: str) -> Side:
        """The training samples of a law; the most recent ones stay in memory, because one D serves many pairs."""
        if law not in self._sides:
            self._sides[law] = self._as_side(self._gathered(law))
        self._sides.move_to_end(law)
        self._forget(0)
        return self._sides[law]

    def _forget(self, more: int) -> None:
        """Make room for the samples of so many more laws."""
        each = max(1, self.problem.train.total * self.problem.schema.bytes_in_memory)
        while self._sides and len(self._sides) + more > max(2, _SIDES_BYTES // each):
            self._sides.popitem(last=False)

    def sides(self, number: int) -> tuple[Side, Side]:
        """The training samples of both laws of a pair; of many, those of one are sorted while those of the other are drawn."""
        d, d_prime = self.problem.pair_laws[number]
        if self.problem.train.total >= _APART and d != d_prime and not {d, d_prime} & self._sides.keys():
            self._forget(2)
            with ThreadPoolExecutor(2) as pool:  # this thread alone calls the mechanism
                sorting = [pool.submit(self._as_side, self._gathered(law)) for law in (d, d_prime)]
                self._sides.update({d: sorting[0].result(), d_prime: sorting[1].result()})
        return self.training(d), self.training(d_prime)

    @property
    def _is_scalar(self) -> bool:
        schema = self.problem.schema
        return schema.kind == "float" and schema.columns is None

    def _gathered(self, law: str) -> Outputs | StreamedSide:
        """The training outputs of a law in the order of their chunks."""
        stage, schema = self.problem.train, self.problem.schema
        by_blocks = schema.kind in getattr(self.loss, "block_kinds", ()) and not self._is_scalar
        if by_blocks and stage.total * schema.bytes_in_memory > STREAMED_BYTES:
            return StreamedSide(lambda: self._training_chunks(law), stage.total, schema.dtype)
        outputs = np.empty(schema.shape(stage.total), schema.dtype)
        deque(self._training_chunks(law, outputs), 0)
        return outputs

    def _as_side(self, outputs: Outputs | StreamedSide) -> Side:
        """Training outputs as a loss takes them."""
        if isinstance(outputs, StreamedSide):
            return outputs
        if self._is_scalar and not self.problem.study.estimate.view:
            # the order of training samples carries nothing
            return Side(ascending(outputs, is_own=True), len(outputs), is_sorted=True)
        return Side(outputs, len(outputs))

    def _training_chunks(self, law: str, out: Outputs | None = None) -> Iterator[Outputs]:
        """The training chunks of a law, each put into `out`, whose fingerprints are kept when all were drawn."""
        stage, prints = self.problem.train, []
        for part in self.chunks(stage, law, range(stage.chunks), out):
            if stage not in self.problem.kept_stages:
                prints.append(fingerprint(part))
            yield part
        if prints:
            self.training_prints[law] = prints


def open_context(root: str, version: int, sizes: Sizes | None = None) -> Context:
    """The context of a store's study version in this process. sizes: what a run has decided so far of a task's pairs."""
    with open(Layout(Path(root)).study(version), "rb") as record:  # file systems of clusters then ask anew
        status = os.fstat(record.fileno())
    which = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return _open(root, version, which) if sizes is None else _sized(root, version, which, sizes)


@lru_cache(maxsize=2)
def _sized(root: str, version: int, which: tuple[int, ...], sizes: Sizes) -> Context:
    context = _open(root, version, which)
    return replace(context, problem=context.problem.sized(sizes))


@lru_cache(maxsize=2)
def _open(root: str, version: int, _record: tuple[int, ...]) -> Context:
    layout = Layout(Path(root))
    return Context(layout, load_problem(layout, version))


def _losses(problem: Problem) -> list[Loss]:
    """The study's losses; where outputs may hold NaN, infinities and None, the first is one that takes them."""
    e, folder = problem.study.estimate, problem.study.folder
    loss = make_loss(e.default_loss, e.parameters, folder)
    are_values = e.default_loss == "frequency" or (problem.schema.kind in ("bool", "bytes") and not e.view)
    first = loss if are_values or not problem.sampler.special else WithSpecial(loss)
    return [first, *(make_loss(name, {}, folder) for name in e.other_losses)]


def forget_contexts() -> None:
    """Free what tasks keep in this process, which goes on."""
    forget_packs()
    _sized.cache_clear()
    _open.cache_clear()


Unit = TypeVar("Unit")


def sweep(
    context: Context,
    laws: Mapping[Unit, Sequence[str]],
    stages: Sequence[Stage | None],
    chunks: range,
    use: Callable[[Unit, int, Outputs], None],
    report: Report,
    describe: Callable[[Sequence[Unit]], str],
    see: Callable[[str, int, int, Outputs], None] | None = None,
) -> list[Unit]:
    """Hand chunks of all sides to `use(unit, side, outputs)`, and to `see` by law; units with one first law share its chunks."""

    def read(law: str, side: int, units: Sequence[Unit]) -> bool:
        stage = stages[side]
        if stage is None:
            return True
        try:
            drawn = context.chunks(stage, law, chunks)
            for chunk in chunks:
                outputs = next(drawn)
                for unit in units:
                    use(unit, side, outputs)
                if see is not None:
                    see(law, side, chunk, outputs)
                del outputs  # so that the next chunk lies where it lay, which caches hold
        except (MechanismError, DamagedError) as error:
            which = f"{stage.name} chunks {chunks.start} to {chunks.stop - 1} of {describe(units)}"
            what = which if isinstance(error, RefutedError) else describe(units)
            report.failures.append(Failure.of(what, error))
            return False
        return True

    by_first: dict[str, list[Unit]] = {}
    for unit, own in laws.items():
        by_first.setdefault(own[0], []).append(unit)
    whole: list[Unit] = []
    for law, units in by_first.items():
        if read(law, 0, units):
            whole += [
                unit for unit in units if all(read(other, side, [unit]) for side, other in enumerate(laws[unit][1:], 1))
            ]
    return whole

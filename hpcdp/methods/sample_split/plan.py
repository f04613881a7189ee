"""Counted: L̂ is learned from training samples and counts test samples, with or without tallies in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import ClassVar

from hpcdp.engine.costs import Costs
from hpcdp.engine.index import Index, Thresholds, first_of
from hpcdp.engine.sampling import BLOCK_PAIRS, TaskList, batches, cut
from hpcdp.engine.spans import merged_length
from hpcdp.engine.task import Amounts, Progress, Task, Work
from hpcdp.keys import digest_json
from hpcdp.losses import kind_of, validate_parameters
from hpcdp.methods.sample_split.tally_plan import tallies_left, tally_progress, tally_tasks
from hpcdp.notions.accuracy import worst_share_error
from hpcdp.store.layout import Layout
from hpcdp.store.stages import Stage
from hpcdp.study.problem import Problem, describe_pairs
from hpcdp.study.sizes import Sizes

_LONG_LEARNING = 2.0  # seconds after which what is learned is stored, whoever counts with it
_PAIR_SECONDS = 5e-3  # of a pair, whatever its sizes: to read, learn and record
_REFINE_SECONDS = 1.0  # to learn from tallies, however many draws they hold


@dataclass(frozen=True)
class Learn(Work):
    """Learn pairs at these thresholds, in a task of its own because several count with it."""

    kind: ClassVar[str] = "fit"
    does: ClassVar[str] = "hpcdp.methods.sample_split.learning:learn"
    pairs: tuple[int, ...]
    thresholds: Thresholds

    def split(self) -> Sequence[Learn]:
        return [Learn((number,), self.thresholds) for number in self.pairs]

    def describe(self, problem: Problem) -> str:
        return describe_pairs(problem, self.pairs)

    def reads(self, problem: Problem, layout: Layout) -> Iterable[Path]:
        return learned_files(problem, layout, self.pairs, self.thresholds)

    def name(self, models: Sequence[tuple[str, bool]]) -> str:
        """Of the record of these: keys of what was learned, and whether it is stored."""
        return digest_json(["fits", list(self.thresholds), [list(model) for model in models]])


@dataclass(frozen=True)
class Count(Work):
    """Count a range of test chunks at these thresholds, for pairs that share D."""

    kind: ClassVar[str] = "count"
    does: ClassVar[str] = "hpcdp.methods.sample_split.work:count"
    pairs: tuple[int, ...]
    start: int
    stop: int
    thresholds: Thresholds

    def split(self) -> Sequence[Count]:
        return [replace(self, pairs=(number,)) for number in self.pairs]

    def describe(self, problem: Problem) -> str:
        return f"{describe_pairs(problem, self.pairs)}, test chunks {self.start} to {self.stop - 1}"

    def reads(self, problem: Problem, layout: Layout) -> Iterable[Path]:
        return learned_files(problem, layout, self.pairs, self.thresholds)

    def name(self, problem: Problem, pairs: Sequence[int]) -> str:
        """Of the record of these of its pairs."""
        models = [problem.model_key(number) for number in pairs]
        return digest_json(["counts", self.start, self.stop, self.draws(problem)[0], list(self.thresholds), models])

    def draws(self, problem: Problem) -> tuple[int, int]:
        """Outputs of D and of D' that it counts."""
        chunks = range(self.start, self.stop)
        d, d_prime = (
            sum(stage.chunk_size(chunk) for chunk in chunks)
            for stage in (problem.stage_of("test", self.pairs[0], side) for side in (0, 1))
        )
        return d, d_prime


def learned_files(problem: Problem, layout: Layout, pairs: Sequence[int], thresholds: Thresholds) -> Iterable[Path]:
    """Files of the store with what pairs learned, and of refined ones with what they learn from."""
    for number in pairs:
        model = problem.model_key(number)
        yield from (layout.counter(model, thresholds), layout.counter(model, ()))
        if problem.is_refined:
            pilot = problem.pilot_keys[number]
            yield layout.pilot(pilot)
            yield from layout.tallies(pilot).glob("*.npz")


def tasks(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    """The tasks that are left; where a run decides sizes, pairs with the smallest ones come first, alone."""
    groups: dict[Sizes, list[int]] = {}
    for number in range(len(problem.pairs)):
        groups.setdefault(problem.sizes_of(number), []).append(number)
    for sizes in sorted(groups, key=lambda s: (s.test, s.refine)):
        found = _of_sizes(problem.sized(sizes), groups[sizes], index, costs, workers)
        if found:
            return found
    return []


def _of_sizes(problem: Problem, numbers: Sequence[int], index: Index, costs: Costs, workers: int) -> list[Task]:
    """The tasks of pairs whose stages have the same sizes, which are the problem's."""
    needs = _needs(problem, numbers, index)
    tallies = tallies_left(problem, numbers, index, costs) if problem.is_refined else []
    learn, chunk = pair_seconds(problem, costs)
    seconds = sum(learn + chunk * sum(b - a for a, b in gaps) for _, _, gaps in needs)
    found = TaskList(problem, index, costs, seconds + sum(left.seconds for left in tallies), workers)
    tallied = tally_tasks(problem, costs, tallies, found)
    learned = _add_learning(found, problem, index, costs, needs, tallied)
    _add_counting(found, problem, costs, needs, learned)
    if not problem.study.estimate.has_budget:
        return found.tasks
    assert isinstance(problem.sizes, Sizes)
    return [replace(task, sizes=problem.sizes) for task in found.tasks]


Need = tuple[int, Thresholds, tuple[tuple[int, int], ...]]  # a pair, thresholds, and the ranges of chunks to count


def _needs(problem: Problem, numbers: Sequence[int], index: Index) -> list[Need]:
    wanted = problem.thresholds.tolist()
    needs: list[Need] = []
    seen: set[str] = set()
    for number in numbers:
        model = problem.model_key(number)
        if model in seen:
            continue
        seen.add(model)
        for thresholds in index.threshold_sets(model, wanted, problem.test):
            gaps = index.missing(model, thresholds, problem.test)
            if gaps or (index.training_counts(model, thresholds).above < 0).any():
                needs.append((number, thresholds, tuple((g.start, g.stop) for g in gaps)))
    return needs


def pair_seconds(problem: Problem, costs: Costs) -> tuple[float, float]:
    """Seconds to learn a pair, and to count one chunk of both sides of it."""
    train, test = problem.train, problem.test
    size = min(test.chunk, test.total)
    draw_train, draw_test = pair_drawing(problem, costs)
    kept = {stage.name for stage in problem.kept_stages}
    learn = _PAIR_SECONDS + 2 * train.total * (costs.learn + (costs.read if "train" in kept else 0.0)) + draw_train
    if problem.is_screened:
        learn += 2 * problem.stage_of("screen", 0).total * costs.count
    chunk = 2 * size * (costs.count + (costs.read if "test" in kept else 0.0)) + draw_test
    return learn, chunk


def pair_drawing(problem: Problem, costs: Costs) -> tuple[float, float]:
    """Of the seconds to learn a pair, and to count a chunk of it, those that drawing takes: none where samples are kept."""
    train, test = problem.train, problem.test
    kept = {stage.name for stage in problem.kept_stages}
    to_fit = 0.0 if "train" in kept else 2 * costs.drawing(train.total, train.chunks)
    to_count = 0.0 if "test" in kept else 2 * costs.drawing(min(test.chunk, test.total), 1)
    if problem.is_screened:
        screen = problem.stage_of("screen", 0)
        to_fit += 2 * costs.drawing(screen.total, screen.chunks)
    return to_fit, to_count


def _count_items(
    problem: Problem, costs: Costs, needs: Sequence[Need], found: TaskList
) -> Iterator[tuple[list[int], int, int, Thresholds]]:
    """Pairs, first and last chunk, and thresholds of each task that counts."""
    learn, chunk = pair_seconds(problem, costs)
    groups: dict[tuple[Thresholds, tuple[tuple[int, int], ...]], dict[str, list[int]]] = {}
    for number, thresholds, gaps in needs:
        groups.setdefault((thresholds, gaps), {}).setdefault(problem.pair_laws[number][0], []).append(number)
    for (thresholds, gaps), sharing in groups.items():  # pairs that share D, one after another
        chunks = sum(stop - start for start, stop in gaps)
        is_split = _is_split(learn, chunk, chunks, found.target)
        if is_split:
            some = [part for numbers in sharing.values() for part in batches(numbers, BLOCK_PAIRS)]
        else:
            some = list(batches(list(chain.from_iterable(sharing.values())), found.fit(learn + chunk * chunks)))
        for pairs in some:
            length = problem.test.chunks
            if is_split:
                length = max(1, int(found.target / (chunk * len(pairs))))
                length = -(-chunks // -(-chunks // length))  # as many tasks, of one length: workers end together
            for start, stop in cut(problem.test, gaps, length):
                yield pairs, start, stop, thresholds


def _is_split(learn: float, chunk: float, chunks: int, target: float) -> bool:
    """Whether a pair's counting goes into several tasks, after learning that all of them use."""
    return chunks > 1 and (learn > _LONG_LEARNING or learn + chunk * chunks > 2 * target)


def _add_learning(
    found: TaskList,
    problem: Problem,
    index: Index,
    costs: Costs,
    needs: Sequence[Need],
    tallied: Mapping[str, set[str]],
) -> dict[tuple[int, Thresholds], str]:
    """Add tasks that learn pairs for several that count; their names by pair and thresholds. tallied: as `tally_tasks` says."""
    learn, chunk = pair_seconds(problem, costs)
    groups: dict[Thresholds, list[int]] = {}
    for number, thresholds, gaps in needs:
        split = problem.is_refined or _is_split(learn, chunk, sum(b - a for a, b in gaps), found.target)
        learned = (problem.model_key(number), thresholds) in index.stored_counters
        trained = index.is_learned(problem.model_key(number), thresholds)
        if not trained if problem.is_screened else (split and not learned) or not (gaps or trained):
            groups.setdefault(thresholds, []).append(number)
    names: dict[tuple[int, Thresholds], str] = {}
    seconds, drawing = (_REFINE_SECONDS, 0.0) if problem.is_refined else (learn, pair_drawing(problem, costs)[0])
    for thresholds, numbers in groups.items():
        for some in batches(numbers, found.fit(learn)):
            after = found.drawing((law for pair in some for law in problem.pair_laws[pair]), ["train"])
            after |= {name for pair in some for name in tallied.get(problem.pilot_keys[pair], ())}
            work, size = Learn(tuple(some), thresholds), len(some)
            name = found.add("learn", work, after, size, seconds * size, drawing * size)
            names.update(dict.fromkeys(((number, thresholds) for number in some), name))
    return names


def _add_counting(
    found: TaskList,
    problem: Problem,
    costs: Costs,
    needs: Sequence[Need],
    learned: Mapping[tuple[int, Thresholds], str],
) -> None:
    """Add tasks that count; those whose pairs no task before has learned learn them too."""
    learn, chunk = pair_seconds(problem, costs)
    learn_drawing, chunk_drawing = pair_drawing(problem, costs)
    if problem.is_refined:
        learn, learn_drawing = _REFINE_SECONDS, 0.0
    for pairs, start, stop, thresholds in _count_items(problem, costs, needs, found):
        blocks = range(problem.test.block_of(start), problem.test.block_of(stop - 1) + 1)
        learns = [number for number in pairs if (number, thresholds) not in learned]
        after = {learned[number, thresholds] for number in pairs if (number, thresholds) in learned}
        after |= found.drawing((law for pair in pairs for law in problem.pair_laws[pair]), ["test"], blocks)
        after |= found.drawing((law for pair in learns for law in problem.pair_laws[pair]), ["train"])
        length, work = (stop - start) * len(pairs), Count(tuple(pairs), start, stop, thresholds)
        seconds, drawing = chunk * length + learn * len(learns), chunk_drawing * length + learn_drawing * len(learns)
        found.add("count", work, after, length, seconds, drawing)


def is_done(problem: Problem, index: Index) -> bool:
    """Whether every cell has all its planned counts."""
    wanted = problem.thresholds.tolist()
    return all(
        index.is_counted(model, wanted, problem.stage_of("test", number)) and index.is_learned(model, wanted)
        for model, number in first_of(problem.model_keys).items()
    )


def progress(problem: Problem, index: Index) -> list[Progress]:
    """What is learned and counted."""
    wanted = problem.thresholds.tolist()
    models = first_of(problem.model_keys)
    found = tally_progress(problem, index) if problem.is_refined else []
    found.append(Progress("learn", sum(index.is_learned(m, wanted) for m in models), len(models), "pairs"))
    done = total = 0
    for model, number in models.items():
        test = problem.stage_of("test", number)
        sets = index.threshold_sets(model, wanted, test)
        left = merged_length(gap for t in sets for gap in index.missing(model, t, test))
        done, total = done + test.chunks - left, total + test.chunks
    return [*found, Progress("count test", done, total, "chunks")]


def amounts(problem: Problem) -> Amounts:
    """What the whole of it takes, as far as sizes are decided."""
    return Amounts(*draws_and_calls(problem), memory(problem), problem.study.estimate.train)


def worst_errors(problem: Problem, epsilon: float) -> tuple[float, float]:
    """Largest standard error of δ̂ at one level: of sets with P >= e^ε·Q, and of any set."""
    test = problem.study.estimate.test
    return worst_share_error(epsilon, test), worst_share_error(epsilon, test, is_sound=False)


def draws_and_calls(problem: Problem) -> tuple[int, int]:
    """Draws of every law once, as far as their sizes are decided, and the mechanism's calls that these take."""
    e, laws = problem.study.estimate, len(problem.laws)
    if not e.has_budget:
        stages = (e.train, e.refine, e.validating, e.test)
        return laws * sum(stages), laws * sum(-(-total // e.chunk) for total in stages)
    sizes = [problem.sizes_of(number) for number in range(len(problem.pairs))]
    if len(set(sizes)) == 1:
        later = laws * sizes[0].drawn // 2
    else:
        later = sum(s.drawn for s in sizes)
    draws = laws * e.train + later
    return draws, -(-draws // e.chunk)


def memory(problem: Problem) -> int:
    """Training samples of both sides and their neighbours, a block of test samples, and databases that are drawn."""
    e, width = problem.study.estimate, problem.schema.bytes_in_memory
    stage = Stage.of("test", max(e.test, e.chunk), e.chunk, problem.schema)
    block = min(stage.total, stage.chunk * stage.chunks_per_block)
    drawn = max((min(d.block, e.chunk) * d.cells * 8 for d in problem.distributions), default=0)
    return 2 * drawn + _learning_memory(problem) + 3 * block * width


def _learning_memory(problem: Problem) -> int:
    e = problem.study.estimate
    parameters = validate_parameters(e.default_loss, e.parameters)
    return kind_of(e.default_loss).memory(parameters, problem.schema, e.train)

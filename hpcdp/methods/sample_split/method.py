"""Sample split: L̂ of a pair is learned from training samples, and test samples are counted by its classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp.engine.context import Context
from hpcdp.engine.derived import Entry, Floats, Records
from hpcdp.engine.index import Index, Span, first_of
from hpcdp.engine.method import Adder, Learned, Method, Rows, Run, memory, pair_effort
from hpcdp.engine.outcomes import Report
from hpcdp.engine.sampling import TaskList
from hpcdp.engine.series import Effort, Phase, Planner, Series, seconds_left
from hpcdp.engine.task import Amounts, Costs, Progress, Task
from hpcdp.errors import StudyError
from hpcdp.losses import LOSSES, kind_of
from hpcdp.losses.protocol import Counter
from hpcdp.losses.refined import restore_counter
from hpcdp.mechanisms.outputs import Schema, describe
from hpcdp.methods.choice import choose_reuse, describe_reuse, with_choice
from hpcdp.methods.classes import ClassCounts, checker, threshold_sets
from hpcdp.methods.sample_split import derive
from hpcdp.methods.sample_split.derive import pairs_of_one_loss, variational_arrays
from hpcdp.methods.sample_split.learning import TELLING, learn_pair, screen
from hpcdp.methods.sample_split.tally_plan import tallies_left, tally_progress, tally_tasks
from hpcdp.methods.sample_split.targets import decide, describe_target, share_time
from hpcdp.notions.spectrum import TOLD, told_pairs
from hpcdp.store.arrays import State
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.results import Arrays
from hpcdp.store.stages import Stage
from hpcdp.study.combinations import PLAIN, SPECIAL
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem, Sizes
from hpcdp.study.trial_draws import Trial

_NAMED = 4  # pairs whose test samples are listed


def describe_sizes(result: Any) -> str:
    """What each pair got to test, the most tested pairs by name."""
    tested = result["test"][:, 0, 0, :]
    most = tested.max(axis=1)
    order = np.argsort(-most, kind="stable")
    named = [
        f"{result.describe_pair(int(pair))} {tested[pair, 0]:,} of D and {tested[pair, 1]:,} of D′"
        for pair in order[:_NAMED]
    ]
    if len(order) > _NAMED:
        rest = most[order[_NAMED:]]
        named.append(f"{rest.size:,} more pairs {rest.min():,} to {rest.max():,}")
    words = f"test samples: {'; '.join(named)}"
    if len(order) > 1 and most.min() < most.max():
        words += " Which pairs got few is a heuristic; that δ is at least the bound of any of them is certified."
        if not told_pairs(result["test"]).all():
            words += (
                f" δ̂ is the largest of the pairs that got at least 1/{TOLD} of the most; of others it would be noise."
            )
    return words


_REFINE_SECONDS = 1.0  # to learn from tallies, however many draws they hold


class SampleSplit(Method):
    """See `Method`. Sizes that a run decides make a phase each; tallies of fresh draws refine what training taught."""

    asked = "a loss that learns one L̂ of all levels"
    takes = PLAIN | SPECIAL - {"precision", "domain", "impossible"}

    def takes_special(self, study: Study) -> bool:
        return study.estimate.refine == 0 and not study.estimate.has_budget

    def refuse_outputs(self, problem: Problem, trial: Trial) -> None:
        super().refuse_outputs(problem, trial)
        if "bits" in (problem.study.estimate.view or ()) and trial.schema.kind != "float":
            words = f"for reals; the mechanism returns {describe(trial.schema)} (seen in trial draws)"
            raise StudyError(f"estimate.view bits: {words}")
        refuse_unrefinable(problem.study, trial.schema)

    def chosen(self, problem: Problem, costs: Costs, known: bool | None) -> Problem:
        return with_choice(problem, costs, known)

    def phases(self, problem: Problem, index: Index) -> list[Phase]:
        by_sizes: dict[Sizes, list[int]] = {}
        for number in first_of(problem.model_keys).values():
            by_sizes.setdefault(problem.sizes_of(number), []).append(number)
        ordered = sorted(by_sizes, key=lambda sizes: (sizes.test, sizes.refine))
        return [_phase(problem, sizes, by_sizes[sizes], index) for sizes in ordered]

    def effort(self, problem: Problem, costs: Costs, phase: Phase) -> Effort:
        sized = _sized(problem, phase)
        pair = pair_effort(sized, costs)
        if sized.is_refined:
            return pair._replace(learn=_REFINE_SECONDS, learn_drawing=0.0)
        if not sized.is_screened:
            return pair
        stage = sized.stage_of("screen", 0)
        drawing, counting = 2 * costs.drawing(stage.total, stage.chunks), 2 * stage.total * costs.count
        return pair._replace(learn=pair.learn + counting + drawing, learn_drawing=pair.learn_drawing + drawing)

    def is_decided(self, problem: Problem, index: Index) -> bool:
        return all(problem.sizes_of(number).test for number in range(len(problem.pairs)))

    def tasks(self, problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
        """Where a run decides sizes, pairs with the smallest ones come first, alone."""
        for phase in self.phases(problem, index):
            sized, effort, left = _sized(problem, phase), self.effort(problem, costs, phase), phase.left(index)
            numbers = [
                n for n in range(len(problem.pairs)) if problem.sizes_of(n) == problem.sizes_of(phase.series[0].pair)
            ]
            tallies = tallies_left(sized, numbers, index, costs) if sized.is_refined else []
            seconds = seconds_left(effort, left) + sum(tally.seconds for tally in tallies)
            planner = Planner(TaskList(sized, index, costs, seconds, workers, phase.sizes), index)
            tallied = tally_tasks(sized, costs, tallies, planner.tasks)
            planner.after = {series.key: tallied.get(problem.pilot_keys[series.pair], set()) for series in phase.series}
            planner.add(phase, effort, left)
            if planner.tasks.tasks:
                return planner.tasks.tasks
        return []

    def progress(self, problem: Problem, index: Index) -> list[Progress]:
        return [*(tally_progress(problem, index) if problem.is_refined else []), *super().progress(problem, index)]

    def amounts(self, problem: Problem) -> Amounts:
        """As far as sizes are decided."""
        return Amounts(*draws_and_calls(problem), memory(problem), problem.study.estimate.train)

    def decides(self, problem: Problem) -> bool:
        return problem.study.estimate.has_budget

    def begin(self, problem: Problem, costs: Costs, workers: int, layout: Layout, generation: Generation) -> list[str]:
        shared = share_time(problem, costs, workers, layout, generation)
        return [*shared, *choose_reuse(problem, costs, layout, generation)]

    def decide(self, problem: Problem, index: Index, layout: Layout, generation: Generation) -> list[str]:
        return decide(problem, index, layout, generation)

    def describe_plan(self, problem: Problem, costs: Costs, workers: int) -> Rows:
        return describe_target(problem.study, costs, workers)

    def describe_choices(self, problem: Problem, index: Index, costs: Costs, workers: int) -> Rows:
        return describe_reuse(problem, costs, index.chosen)

    def files(self, problem: Problem, layout: Layout, series: Series) -> Iterable[Path]:
        """Of refined ones the pilot and its tallies."""
        if problem.is_refined:
            pilot = problem.pilot_keys[series.pair]
            yield layout.pilot(pilot)
            yield from layout.tallies(pilot).glob("*.npz")

    def serves_any(self, context: Context) -> bool:
        if context.problem.is_refined or context.problem.study.estimate.view:
            return False
        return bool(getattr(context.loss, "serves_any_thresholds", False))

    def learn_all(self, context: Context, series: Sequence[Series], report: Report) -> dict[Series, Learned]:
        """Of pairs that race also what fresh draws show of them."""
        learned = super().learn_all(context, series, report)
        return screen(context, learned, report, self.describe_series) if context.problem.is_screened else learned

    def learn(self, context: Context, series: Series) -> Learned:
        return learn_pair(context, series)

    def restore(self, context: Context, series: Series, state: State) -> Counter:
        if context.problem.is_refined:
            return restore_counter(state, context.loss)
        return context.loss_of_pair(series.pair).restore(state, np.asarray(series.columns))

    def stages_of(self, problem: Problem, series: Series) -> Sequence[Stage]:
        return [problem.stage_of(series.stage.name, series.pair, side) for side in (0, 1)]

    def compared(self, problem: Problem) -> int | None:
        return TELLING if problem.is_refined else None

    def adder(self, context: Context, series: Series, counter: Counter, is_first: Callable[[str], bool]) -> Adder:
        d, d_prime = self.stages_of(context.problem, series)
        check = checker(context.foreign, series.laws, is_first)
        tells = context.problem.sampler.special
        return ClassCounts(counter, len(series.columns), (d.chunk, d_prime.chunk), check, tells)

    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        arrays, e = derive.spectrum(problem, index, epsilons, run), problem.study.estimate
        arrays |= derive.tradeoff(problem, index) if e.etas else {}
        whole = pairs_of_one_loss(problem, index)
        if not whole.all():
            arrays |= {"several_losses": (("pair",), (~whole).astype(np.uint8))}
        arrays |= variational_arrays(problem, index, arrays) if e.renyi else {}
        arrays |= derive.special(problem, index)
        return arrays | derive.order(len(problem.pairs), self.tested_spans(problem, index))

    def tested_spans(self, problem: Problem, index: Index) -> Iterator[tuple[list[Span], list[int]]]:
        """The spans in which some sets of a pair were counted, and draws of a whole chunk of each side, of each pair."""
        wanted = problem.thresholds.tolist()
        for model, number in first_of(problem.model_keys).items():
            stage, other = (problem.stage_of("test", number, side) for side in (0, 1))
            for thresholds in threshold_sets(index, model, wanted, stage):
                yield index.done(model, thresholds, stage), [stage.chunk, other.chunk]

    def resample(
        self, arrays: Arrays, records: Records, entry: Entry, replicates: int, rng: np.random.Generator
    ) -> tuple[str, Floats]:
        return derive.resample(arrays, records, entry, replicates, rng)

    def describe_basis(self, result: Any) -> list[str]:
        return [*self._views(result), *self._special(result)]

    @staticmethod
    def _views(result: Any) -> list[str]:
        """Of which views the numbers are."""
        if not (views := result.study.estimate.view):
            return []
        several = ". Each view of a pair counts as a pair" if len(views) > 1 else ""
        return [
            f"View{'s' if several else ''}: {', '.join(views)}, of the outputs as they were printed. What follows from an output "
            f"is as private as the output, so that certified bounds are of the mechanism{several}."
        ]

    @staticmethod
    def _special(result: Any) -> list[str]:
        """How many outputs hold special values."""
        if "special" not in result.arrays:
            return []
        pair = int(result["special"].sum(axis=1).argmax())
        of = " and ".join(
            f"{count:,} of {side}" for count, side in zip(result["special"][pair], ("D", "D′"), strict=True)
        )
        raises = result.study.mechanism.raises
        kinds = (
            "NaN, infinities and None"
            if raises is None
            else f"NaN, infinities, None and {' and '.join(raises)} (raised)"
        )
        words = f"{kinds} are values of their own: of the test outputs of pair {pair} {of} hold one"
        is_all = (result["special"][pair] >= result["test"][pair, 0, 0]).all() and not (
            result["lower"][pair] > 0.0
        ).any()
        return [f"WARNING: {words}, which is every output: see whether the mechanism works." if is_all else f"{words}."]

    def describe_columns(self, result: Any, sure: str) -> list[str]:
        sizes = [describe_sizes(result)] if result.study.estimate.has_budget else []
        return [*super().describe_columns(result, sure), *sizes]


METHOD = SampleSplit()


def _phase(problem: Problem, sizes: Sizes, numbers: Sequence[int], index: Index) -> Phase:
    """The series of pairs whose stages have the same sizes."""
    has_budget, wanted = problem.study.estimate.has_budget, problem.thresholds.tolist()
    sized = problem.sized(sizes) if has_budget else problem
    series = [
        Series("count", model, sized.pair_laws[number], stage, number, thresholds)
        for number in numbers
        for model, stage in [(sized.model_key(number), sized.stage_of("test", number))]
        for thresholds in threshold_sets(index, model, wanted, stage)
    ]
    return Phase(
        series,
        "learn",
        "count test",
        is_apart=sized.is_refined,
        keeps=not sized.is_screened,
        sizes=sizes if has_budget else None,
    )


def _sized(problem: Problem, phase: Phase) -> Problem:
    return problem if phase.sizes is None else problem.sized(phase.sizes)


def refuse_unrefinable(study: Study, schema: Schema) -> None:
    """StudyError where L̂ of such outputs cannot be refined by tallies, or told on a line, as the study wants."""
    e, kind, is_bytes = study.estimate, kind_of(study.estimate.default_loss), schema.kind == "bytes"
    if not (e.refine or e.has_budget) or (not is_bytes and schema.columns in (None, 1)):
        return
    if e.other_losses:
        raise StudyError(
            f"estimate.loss: several need outputs on a line; given: {describe(schema)} with {list(e.loss)}; accepted: one"
        )
    if not (kind.tells_values or (kind.projects and not is_bytes)):
        key = "target" if e.target is not None else "time" if e.time is not None else "refine"
        accepted = [name for name, other in LOSSES.items() if other.projects and not is_bytes]
        accepted += [name for name, other in LOSSES.items() if other.tells_values]
        raise StudyError(
            f"estimate.{key}: of such outputs ({describe(schema)}) accepted with loss = {' | '.join(accepted)}; given: "
            f"loss = {e.default_loss}"
        )


def draws_and_calls(problem: Problem) -> tuple[int, int]:
    """Draws of every law once, as far as their sizes are decided, and the mechanism's calls that these take."""
    e, laws = problem.study.estimate, len(problem.laws)
    if not e.has_budget:
        stages = (e.train, e.refine, e.validating, e.test)
        return laws * sum(stages), laws * sum(-(-total // e.chunk) for total in stages)
    sizes = [problem.sizes_of(number) for number in range(len(problem.pairs))]
    later = laws * sizes[0].drawn // 2 if len(set(sizes)) == 1 else sum(size.drawn for size in sizes)
    draws = laws * e.train + later
    return draws, -(-draws // e.chunk)

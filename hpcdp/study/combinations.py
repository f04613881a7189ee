"""The methods of estimating by name, which one a study asks for, and what keys of a study do not go together.

These are options that its method does not take, and a table of pairs of settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from hpcdp._base.plugins import load_plugin
from hpcdp.losses import kind_of, validate_parameters
from hpcdp.mechanisms import BUILTINS, READERS
from hpcdp.mechanisms import STORED as STORED_SAMPLES
from hpcdp.study.estimate import DEFAULT_TEST, Estimate
from hpcdp.study.mechanism import ProgramCall

METHODS = {
    "sample-split": "hpcdp.methods.sample_split.method:METHOD",
    "cross-fitting": "hpcdp.methods.cross_fitting:METHOD",
    "figure-1": "hpcdp.methods.figure_1:METHOD",
    "histogram": "hpcdp.methods.histogram.method:METHOD",
    "pure": "hpcdp.methods.pure:METHOD",
    "at-risk": "hpcdp.methods.at_risk:METHOD",
    "importance-sampling": "hpcdp.importance.method:METHOD",
}
"""By name, where each `hpcdp.engine.method.Method` is; a loss may name its own (`hpcdp.losses.LossKind.method`)."""

DEFAULT = next(iter(METHODS))
"""The method of a study that asks for none."""

GROUP = "hpcdp.methods"
"""The entry points of methods that other packages offer; `estimate.method` names one."""


def method_named(name: str) -> Any:
    """The method of this name; its modules are loaded now."""
    if name not in METHODS:
        return load_plugin(GROUP, name)
    module, _, attribute = METHODS[name].partition(":")
    return getattr(import_module(module), attribute)


def methods_asked(study: Any) -> dict[str, str]:
    """The key by which a study asks for a method, and its name, the one that it gets first; of a sound study at most one."""
    e = study.estimate
    asked = {
        "estimate.method": e.method,
        "at_risk": "at-risk" if study.at_risk is not None else None,
        "estimate.tape": "importance-sampling" if e.tape else None,
        "estimate.reuse": "cross-fitting" if e.reuse else None,
        "pure": "pure" if study.pure is not None else None,
        "estimate.loss": kind_of(e.default_loss).method,
    }
    return {key: name for key, name in asked.items() if name is not None}


def name_of_method(study: Any, is_reused: bool) -> str:
    """The name of a study's method. is_reused: whether every sample teaches and tests, as the study says or a run has chosen."""
    asked = (name for key, name in methods_asked(study).items() if key != "estimate.reuse" or is_reused)
    return next(asked, DEFAULT)


_MOST_CHUNKS = 10**8  # of a stage: plans and records go through them

PLAIN = frozenset({"kept", "no line", "program", "reader", "unreproducible", "timeout", "distributional"})
"""Options that every method takes which counts plain draws, but where it says otherwise (`Method.takes`)."""

SPECIAL = frozenset(
    ("etas", "renyi", "certify", "refine", "validation", "time", "several", "δ target", "precision", "domain")
) | {"impossible", "view"}
"""Options that a method takes only where it says so."""

_CLASHES = (
    ("time", "estimate.time", "target", "one or the other"),
    ("target", "estimate.target", "refine validation test", "one or the other: a target decides these sizes itself"),
    ("time", "estimate.time", "refine validation test", "one or the other: a time decides these sizes itself"),
    ("target", "estimate.keep", "keep_all", '"train" or "none": there are too many samples'),
    ("time", "estimate.keep", "keep_all", '"train" or "none": there are too many samples'),
    ("validation", "estimate.validation", "no_refine", "with refine only, whose candidates it chooses among"),
    ("refine", "estimate.refine", "reader unreproducible", "fresh draws for tallies"),
    ("time", "estimate.time", "reader unreproducible", "fresh draws for tallies"),
    ("target", "estimate.target", "reader unreproducible", "fresh draws for tallies"),
    ("view", "estimate.view", "refine validation target time several", "training and test samples of one loss"),
    ("domain", "pairs.domain", "levels", 'loss = "histogram" without epsilons, since no pair is enumerated'),
    ("pure uncounted", "pure", "etas renyi certify", 'these with pure.test = "all" and epsilons only'),
    ("unreproducible", "estimate.keep", "not_all_kept", 'only "all", for what is not kept is drawn again'),
    ("reuse drawn", "estimate.keep", "not_all_kept", 'with reuse only "all", but for mechanism.call = "stored"'),
    ("program", "mechanism.timeout", "timeout", "call = { command = [...], timeout = ... }"),
    ("reader", "mechanism.timeout", "timeout", "none; leave this key out"),
    ("reader", "mechanism.reproducible", "unreproducible", "what is reproducible; leave this key out"),
    (
        "raises",
        "mechanism.raises",
        "program reader builtin unreproducible",
        "a function that gives one output a call, with all its randomness from rng",
    ),
    ("stream", "study.stream", "reader program", "what draws here; leave this key out"),
    ("distributional", "pairs.distributional", "reader", "a mechanism that draws: a built-in, a callable or a program"),
)
"""Names of settings that a study has all of, the key that a message begins with, settings that these do not go with, and what
is accepted."""


def _settings(study: Any) -> dict[str, str]:
    """What a study has, by name: in the words of messages. What it lacks is left out."""
    header, e, mechanism, pairs = study.study, study.estimate, study.mechanism, study.pairs
    kind, call, stream = kind_of(e.default_loss), mechanism.call, header.stream
    keep = f"estimate.keep = {e.keep!r}"
    settings = {}
    for key in ("etas", "renyi", "refine", "validation", "time", "target", "certify", "tape", "reuse", "view"):
        if value := getattr(e, key):
            settings[key] = f"estimate.{key}" + (f" = {value!r}" if isinstance(value, bool | int | str) else "")
    more: dict[str, tuple[Any, str]] = {
        "test": ("test" in e.model_fields_set and e.test != DEFAULT_TEST, "estimate.test"),
        "keep_all": (e.keep == "all", keep),
        "kept": (e.keep != "none", keep),
        "not_all_kept": (e.keep != "all", keep),
        "no_refine": (not e.refine, "estimate.refine = 0"),
        "several": (e.other_losses, f"estimate.loss = {list(e.loss)}"),
        "no line": (not (kind.projects or kind.otherwise), f"estimate.loss = {e.default_loss!r}"),
        "δ target": (e.target is not None and e.precision is None, "estimate.target without precision"),
        "precision": (e.precision is not None, "estimate.target.precision"),
        "levels": (e.epsilons, "estimate.epsilons"),
        "program": (
            isinstance(call, ProgramCall),
            "mechanism.call that is a program, which has generators of its own,",
        ),
        "reader": (call in READERS, f"mechanism.call = {call!r}, which draws nothing"),
        "unreproducible": (not mechanism.reproducible, "mechanism.reproducible = false, of randomness of its own"),
        "timeout": (mechanism.timeout is not None, "mechanism.timeout, for which outputs are drawn in another process"),
        "impossible": (mechanism.impossible is not None, "mechanism.impossible"),
        "raises": (mechanism.raises is not None, "mechanism.raises"),
        "builtin": (isinstance(call, str) and call in BUILTINS, f"mechanism.call = {call!r}"),
        "stream": ("stream" in header.model_fields_set and stream != "numpy", f"study.stream = {stream!r}"),
        "distributional": (pairs.distributional is not None, "pairs.distributional, whose databases are drawn too"),
        "domain": (pairs.domain is not None, "pairs.domain"),
        "pure": (study.pure is not None, "[pure]"),
        "uncounted": (not study.counts_levels, "no cells by ε"),
        "drawn": (call != STORED_SAMPLES, "a mechanism that draws"),
    }
    return settings | {name: words for name, (is_so, words) in more.items() if is_so}


def options_of(study: Any) -> frozenset[str]:
    """The options that a study has, of `PLAIN` and `SPECIAL`."""
    return (PLAIN | SPECIAL) & _settings(study).keys()


def _words_of(study: Any, key: str) -> str:
    """A key that asks for a method, in the words of messages."""
    section, _, name = key.rpartition(".")
    return f"{key} = {getattr(study.estimate, name)!r}" if section else f"[{key}]"


def refuse_combinations(study: Any) -> None:
    """ValueError that names the first settings of a study which do not go together, or a value that another forbids."""
    settings = _settings(study)
    for words in (*_untaken(study, settings), *_clashing(settings), *_limits(study)):
        raise ValueError(words)


def _untaken(study: Any, settings: dict[str, str]) -> Iterator[str]:
    """What the study's method does not take, other methods that it asks for among it, and what is accepted."""
    (key, name), *others = [*methods_asked(study).items(), ("", DEFAULT)]
    method = method_named(name)
    options = [option for option in settings if option in (PLAIN | SPECIAL) - method.takes]
    given = [*(settings[option] for option in options), *(_words_of(study, other) for other, _ in others if other)]
    if not given:
        return
    accepted = [method.accepted] if method.accepted else []
    for option in options:
        if asked := [known.asked for known in map(method_named, METHODS) if option in known.takes]:
            accepted.append(f"{settings[option].split()[0]} with {', or '.join(asked)}")
    listed, accepted_words = ", ".join(dict.fromkeys(given)), "; ".join(dict.fromkeys(accepted))
    if key:
        yield f"{key}: {_words_of(study, key)} was given with {listed}; accepted: {accepted_words}"
    else:
        yield f"{settings[options[0]]}: {listed} was given with {_words_of(study, 'estimate.loss')}; accepted: {accepted_words}"


def _clashing(settings: dict[str, str]) -> Iterator[str]:
    """What the table forbids."""
    for has, key, others, accepted in _CLASHES:
        given = [settings[other] for other in others.split() if other in settings]
        if given and all(name in settings for name in has.split()):
            both = f"{' and '.join(settings[name] for name in has.split())} was given with {', '.join(given)}"
            yield f"{key}: {both}; accepted: {accepted}"


def _limits(study: Any) -> Iterator[str]:
    """What is wrong with a value by what others are."""
    e = study.estimate
    for key in ("train", "test", "refine", "validation"):
        if (size := getattr(e, key) or 0) > _MOST_CHUNKS * e.chunk:
            yield f"estimate.chunk: at least {-(-size // _MOST_CHUNKS):,} with {key} = {size:,}; given: {e.chunk}"
    if e.target is not None and e.target.epsilon is not None and e.target.epsilon not in e.epsilons:
        yield f"estimate.target.epsilon: one of the epsilons; given: {e.target.epsilon}"
    if strange := [f"{epsilon:g}" for epsilon in e.certify or () if epsilon not in e.epsilons]:
        yield f"estimate.certify: some of the epsilons; given: {', '.join(strange)}"
    if not e.epsilons and study.method.needs_levels:
        words = 'at least one point; none are needed with [pure] and with loss = "histogram" only'
        yield f"estimate.epsilons: required, a grid of {words}"
    if e.other_losses and not e.refine and e.target is None and e.time is None:
        yield f"estimate.loss: several need refine, target or time, which choose among them; given: {list(e.loss)}"
    yield from study.method.limits(study)


def points_lacking(estimate: Estimate, points: int, words: str) -> Iterator[str]:
    """What is wrong where the loss needs more training points than so many of both sides. words: what is accepted."""
    try:
        parameters = validate_parameters(estimate.default_loss, estimate.parameters)
        kind_of(estimate.default_loss).refuse_points(parameters, points, words)
    except ValueError as error:
        yield f"estimate.{error}"

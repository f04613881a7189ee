"""What keys of a study do not go together, as a table; and limits of one key by the value of another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hpcdp.losses import kind_of, validate_parameters
from hpcdp.mechanisms import READERS
from hpcdp.mechanisms import STORED as STORED_SAMPLES
from hpcdp.study.estimate import DEFAULT_TEST, FEWEST_TAPE
from hpcdp.study.mechanism import ProgramCall
from hpcdp.study.reuse import FEWEST, least_learned

_MOST_TAUGHT = 4096  # ε, of which learning looks at each
_FEWEST_TAUGHT = 1 << 8  # draws of a level
_MOST_CHUNKS = 10**8  # of a stage: plans and records go through them


CLASHES = (
    ("time", "estimate.time", "target", "one or the other"),
    ("target", "estimate.target", "refine validation test", "one or the other: a target decides these instead of you"),
    ("time", "estimate.time", "refine validation test", "one or the other: a time decides these instead of you"),
    ("target", "estimate.keep", "keep_all", '"train" or "none": there are too many samples'),
    ("time", "estimate.keep", "keep_all", '"train" or "none": there are too many samples'),
    ("validation", "estimate.validation", "no_refine", "with refine only, whose candidates it chooses among"),
    (
        "tape",
        "estimate.tape",
        "etas renyi refine validation time reuse kept no_line several precision program reader unreproducible timeout "
        "distributional domain pure at_risk",
        'cells by ε of given or relative pairs; keep = "none"; a loss that brings vectors to a line ("auto", "smooth", '
        '"learned"); a built-in or a callable that takes all its randomness from rng, and no timeout',
    ),
    ("certify", "estimate.certify", "reuse way", "reuse = false, and every loss but literal-knn and histogram"),
    ("precision", "estimate.target.precision", "no_interval", "of pure ε: with loss = histogram alone"),
    ("interval", "estimate.loss", "etas refine validation time other_target", "bins and a precision, or another loss"),
    ("reuse", "estimate.reuse", "etas renyi refine target time several way", "any one loss but literal-knn, alone"),
    ("renyi", "estimate.renyi", "way", "a loss that learns one L̂ of all levels"),
    (
        "domain",
        "pairs.domain",
        "no_interval levels",
        'loss = "histogram" without epsilons, since no pair is enumerated',
    ),
    ("pure", "pure", "reuse refine time target several way", "any one loss but literal-knn, and fresh test samples"),
    ("pure uncounted", "pure", "etas renyi certify", 'these with pure.test = "all" and epsilons only'),
    ("impossible", "mechanism.impossible", "no_tape", "with estimate.tape = true only"),
    ("unreproducible", "estimate.keep", "not_all_kept", 'only "all", for what is not kept is drawn again'),
    ("reuse drawn", "estimate.keep", "not_all_kept", 'with reuse only "all", but for mechanism.call = "stored"'),
    ("program", "mechanism.timeout", "timeout", "call = { command = [...], timeout = ... }"),
    ("reader", "mechanism.timeout", "timeout", "none; leave this key out"),
    ("reader", "mechanism.reproducible", "unreproducible", "what is reproducible; leave this key out"),
    ("stream", "study.stream", "reader program", "what draws here; leave this key out"),
    ("distributional", "pairs.distributional", "reader", "a mechanism that draws: a built-in, a callable or a program"),
    ("literal", "estimate.loss", "reader", "knn, frequency: literal-knn draws anew for every ε and η"),
    ("refine", "estimate.refine", "way reader unreproducible", "fresh draws for tallies, and any other loss"),
    ("time", "estimate.time", "way reader unreproducible", "fresh draws for tallies, and any other loss"),
    ("target", "estimate.target", "literal reader unreproducible", "fresh draws for tallies, and any other loss"),
)
"""Names of settings that a study has all of, the key that a message begins with, settings that these do not go with, and what
is accepted."""


def _settings(study: Any) -> dict[str, str]:
    """What a study has, by name: in the words of messages. What it lacks is left out."""
    e, mechanism, pairs = study.estimate, study.mechanism, study.pairs
    kind, call = kind_of(e.default_loss), mechanism.call
    loss, keep = f"estimate.loss = {e.default_loss!r}", f"estimate.keep = {e.keep!r}"
    found = {}
    for key in ("etas", "renyi", "refine", "validation", "time", "target", "certify", "tape", "reuse"):
        if value := getattr(e, key):
            found[key] = f"estimate.{key}" + (f" = {value!r}" if isinstance(value, bool | int | str) else "")
    more: dict[str, tuple[Any, str]] = {
        "test": ("test" in e.model_fields_set and e.test != DEFAULT_TEST, "estimate.test"),
        "keep_all": (e.keep == "all", keep),
        "kept": (e.keep != "none", keep),
        "not_all_kept": (e.keep != "all", keep),
        "no_refine": (not e.refine, "estimate.refine = 0"),
        "no_tape": (not e.tape, "estimate.tape = false"),
        "several": (e.other_losses, f"estimate.loss = {list(e.loss)}"),
        "no_line": (not (kind.projects or kind.otherwise), loss),
        "way": (kind.method, loss),
        "literal": (kind.method and not kind.bounds_pure, loss),
        "interval": (kind.bounds_pure, loss),
        "no_interval": (not kind.bounds_pure, loss),
        "precision": (e.precision is not None, "estimate.target.precision"),
        "other_target": (e.target is not None and e.precision is None, "estimate.target without precision"),
        "levels": (e.epsilons, "estimate.epsilons"),
        "program": (
            isinstance(call, ProgramCall),
            "mechanism.call that is a program, which has generators of its own,",
        ),
        "reader": (call in READERS, f"mechanism.call = {call!r}, which draws nothing"),
        "unreproducible": (not mechanism.reproducible, "mechanism.reproducible = false, of randomness of its own"),
        "timeout": (mechanism.timeout is not None, "mechanism.timeout, for which outputs are drawn in another process"),
        "impossible": (mechanism.impossible is not None, "mechanism.impossible"),
        "stream": (
            "stream" in study.study.model_fields_set and study.study.stream != "numpy",
            f"study.stream = {study.study.stream!r}",
        ),
        "distributional": (pairs.distributional is not None, "pairs.distributional, whose databases are drawn too"),
        "domain": (pairs.domain is not None, "pairs.domain"),
        "pure": (study.pure is not None, "[pure]"),
        "at_risk": (study.at_risk is not None, "[at_risk]"),
        "uncounted": (not study.counts_levels, "no cells by ε"),
        "drawn": (call != STORED_SAMPLES, "a mechanism that draws"),
    }
    return found | {name: words for name, (is_so, words) in more.items() if is_so}


def refuse_combinations(study: Any) -> None:
    """ValueError that names the first settings of a study which do not go together, or a value that another forbids."""
    settings = _settings(study)
    for has, key, others, accepted in CLASHES:
        given = [settings[other] for other in others.split() if other in settings]
        if given and all(name in settings for name in has.split()):
            both = f"{' and '.join(settings[name] for name in has.split())} was given with {', '.join(given)}"
            raise ValueError(f"{key}: {both}; accepted: {accepted}")
    for words in _limits(study):
        raise ValueError(words)


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
    if not e.epsilons and study.pure is None and study.at_risk is None and not study.bounds_pure:
        yield (
            'estimate.epsilons: a grid has at least one point; none are needed with [pure] and with loss = "histogram" only'
        )
    if e.other_losses and not e.refine and e.target is None and e.time is None:
        yield f"estimate.loss: several need refine, target or time, which choose among them; given: {list(e.loss)}"
    if e.tape:
        if len(e.epsilons) > _MOST_TAUGHT:
            yield f"estimate.epsilons: at most {_MOST_TAUGHT:,} with tape; given: {len(e.epsilons):,}"
        if e.train < _FEWEST_TAUGHT:
            yield f"estimate.train: at least {_FEWEST_TAUGHT} with tape, of which each level teaches; given: {e.train}"
        most, key = (e.test, "test") if e.target is None else (e.target.most, "target.most")
        if most < FEWEST_TAPE:
            yield f"estimate.{key}: at least {FEWEST_TAPE:,} with tape, the draws of a chunk; given: {most:,}"
    if e.reuse is not False and e.pool < FEWEST:
        yield f"estimate.reuse: at least {FEWEST} samples, train and test together; given: {e.pool}"
    fewest, words = 2 * e.train, f"at most all training points, 2·train = {2 * e.train}"
    if e.reuse is not False:
        fewest = 2 * least_learned(e.pool)
        words = f"with reuse at most {fewest}, so many points of both sides teach the first L̂"
    try:
        kind_of(e.default_loss).refuse_points(validate_parameters(e.default_loss, e.parameters), fewest, words)
    except ValueError as error:
        yield f"estimate.{error}"

"""The sections of a run: who takes turns with whom, for how long, how often."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dev.bench.arms import Engine, Generator, Peer
from dev.bench.prompts import fresh_prompts, repetitive_prompts

__all__ = ["SECTIONS", "Arms", "run_section"]

MAX_DEPTH = 6
# A slice takes 2 to 6 seconds on two cores: longer than a request's start, shorter than a machine's mood.
TOKENS = {1: 96, 4: 96, 16: 96}
NGRAM_TOKENS = 160
STEP_TOKENS = 64

Round = dict[str, Any]


@dataclass(frozen=True)
class Arms:
    """Who is there. ``peers`` are other engines by name; ``plain`` to ``with_draft_model`` are twins."""

    ours: Engine
    plain: Engine
    drafting: Engine
    with_draft_model: Engine
    generator: Generator
    peers: Mapping[str, Peer]


def throughput(arms: Arms, users: int, number: int) -> Round:
    """Everybody answers the same prompts; who begins changes with the round."""
    prompts = fresh_prompts(users)
    turns: list[tuple[str, Callable[[], dict[str, float]]]] = [
        ("ours", lambda: arms.ours.measure_steps(prompts, TOKENS[users]))
    ]
    for name, peer in arms.peers.items():
        turns.append((name, lambda peer=peer: peer.measure(prompts, TOKENS[users])))
    first = number % len(turns)
    found: Round = {"bytes_per_second": arms.generator.bytes_per_second()}
    for name, measure in turns[first:] + turns[:first]:
        found[name] = measure()
    return found


def ngram_gain(arms: Arms, number: int) -> Round:
    """One user's repetitive text: drafts against an engine without speculation."""
    prompts = repetitive_prompts(1)
    arms.drafting.set_depth(MAX_DEPTH, MAX_DEPTH)
    turns = {
        "plain": lambda: arms.plain.measure(prompts, NGRAM_TOKENS),
        "deep": lambda: arms.drafting.measure(prompts, NGRAM_TOKENS),
    }
    return _in_turn(turns, number)


def verification(arms: Arms, batch: int, depth: int, number: int) -> Round:
    """The same engine at a depth and at 0, on text where it always has that many drafts."""
    prompts = repetitive_prompts(batch)

    def at(wanted: int) -> dict[str, float]:
        arms.drafting.set_depth(wanted, MAX_DEPTH)
        return arms.drafting.measure_steps(prompts, STEP_TOKENS * (1 + wanted // 2))

    return _in_turn({"plain": lambda: at(0), "deep": lambda: at(depth)}, number)


def soft_off(arms: Arms, loaded: Engine, users: int, number: int) -> Round:
    """Depth 0 beside a loaded proposer, against an engine that has none: a few percent at most.

    There and back, so that a machine that gets slower within the round slows both alike.
    """
    prompts = fresh_prompts(users)
    loaded.set_depth(0, MAX_DEPTH)
    turns = {
        "off": lambda: loaded.measure_steps(prompts, STEP_TOKENS),
        "never": lambda: arms.plain.measure_steps(prompts, STEP_TOKENS),
    }
    there, back = _in_turn(turns, number), _in_turn(turns, number + 1)
    return {name: {key: (there[name][key] + back[name][key]) / 2 for key in there[name]} for name in turns}


SECTIONS: Mapping[str, tuple[int, Callable[[Arms, int], Round]]] = {
    "throughput-1": (5, lambda arms, number: throughput(arms, 1, number)),
    "throughput-4": (5, lambda arms, number: throughput(arms, 4, number)),
    "throughput-16": (5, lambda arms, number: throughput(arms, 16, number)),
    "ngram-gain": (4, ngram_gain),
    "verification-1": (5, lambda arms, number: verification(arms, 1, 4, number)),
    "verification-8": (5, lambda arms, number: verification(arms, 8, 2, number)),
    "soft-off-ngram-1": (8, lambda arms, number: soft_off(arms, arms.drafting, 1, number)),
    "soft-off-ngram-8": (8, lambda arms, number: soft_off(arms, arms.drafting, 8, number)),
    "soft-off-model-1": (6, lambda arms, number: soft_off(arms, arms.with_draft_model, 1, number)),
    "soft-off-model-8": (6, lambda arms, number: soft_off(arms, arms.with_draft_model, 8, number)),
}


def run_section(name: str, arms: Arms) -> Iterator[Round]:
    """Give the rounds of a section as they end. The one before the first is not kept: caches are cold."""
    count, measure = SECTIONS[name]
    measure(arms, 0)
    for number in range(count):
        yield {"section": name, **measure(arms, number)}


def _in_turn(turns: Mapping[str, Callable[[], dict[str, float]]], number: int) -> Round:
    names = list(turns) if number % 2 else list(turns)[::-1]
    return {name: turns[name]() for name in names}

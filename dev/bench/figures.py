"""The verdict: figures from the raw record of a run, and nothing else. Pure.

A ratio is taken within a round, whose slices lie seconds apart, and the figure is the median over rounds.
Targets: issue "the built-in engine", section Speed.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from dev.figures import STRETCH, figure

__all__ = ["figures"]

Record = Mapping[str, Any]
Round = Mapping[str, Any]

STRETCH_AGAINST_PEERS = {1: 1.2, 4: 1.2, 16: 1.1}
MIB = 1 << 20


def figures(record: Record) -> list[dict[str, Any]]:
    """Compute every figure of the run."""
    return [
        *_against_peers(record),
        *_against_itself(record),
        # The first compiles the layer where no image has it.
        figure("start to ready", median(record["start_seconds"]), "s", at_most=10.0),
        figure("resident memory above weights, KV and torch", _spare_mib(record), "MiB", at_most=600.0),
    ]


def _against_peers(record: Record) -> list[dict[str, Any]]:
    found = []
    for users, stretch in STRETCH_AGAINST_PEERS.items():
        rounds = _rounds(record, f"throughput-{users}")
        ratios = {
            peer: _median(rounds, lambda one, peer=peer: one["ours"]["rate"] / one[peer]["rate"])
            for peer in record["peers"]
        }
        known = {peer: ratio for peer, ratio in ratios.items() if ratio is not None}
        peer = min(known, key=lambda name: known[name], default="no peer")
        name = f"tok/s of the faster peer's, {users} at once ({peer})"
        found.append(figure(name, known.get(peer), "ratio", at_least=1.0))
        found.append(figure(name, known.get(peer), "ratio", at_least=stretch, kind=STRETCH))
    return found


def _against_itself(record: Record) -> list[dict[str, Any]]:
    single, crowd = _rounds(record, "throughput-1"), _rounds(record, "throughput-16")
    weights = record["weight_bytes"]
    of_limit = _median(single, lambda one: weights / one["bytes_per_second"] / one["ours"]["step_seconds"])
    above = _median(crowd, lambda one: 1.0 / one["ours"]["target_share"] - 1.0)
    return [
        figure(
            "bare step of one user, of what the memory allows", of_limit, "ratio", at_least=0.6, kind=STRETCH
        ),
        figure(
            "time per token with n-gram drafts, repetitive text",
            _median(_rounds(record, "ngram-gain"), _deep_over_plain("seconds")),
            "ratio",
            at_most=0.4,
        ),
        _verification(record, 1, 4, at_most=1.6),
        _verification(record, 8, 2, at_most=2.0),
        *_soft_off(record, "ngram", "n-gram", at_most=2.0),
        *_soft_off(record, "model", "a draft model", at_most=5.0),
        figure("server and scheduler above the steps, 16 at once", _percent(above), "%", at_most=10.0),
    ]


def _soft_off(record: Record, proposer: str, name: str, at_most: float) -> list[dict[str, Any]]:
    return [
        figure(
            f"soft-off tax of {name}, {users} at once",
            _percent(_median(_rounds(record, f"soft-off-{proposer}-{users}"), _off_over_never)),
            "%",
            at_most=at_most,
        )
        for users in (1, 8)
    ]


def _verification(record: Record, batch: int, depth: int, at_most: float) -> dict[str, Any]:
    ratio = _median(_rounds(record, f"verification-{batch}"), _deep_over_plain("step_seconds"))
    name = f"step with {depth} drafts over one without, batch {batch}"
    return figure(name, ratio, "ratio", at_most=at_most, kind=STRETCH)


def _deep_over_plain(key: str) -> Callable[[Round], float]:
    return lambda one: one["deep"][key] / one["plain"][key]


def _off_over_never(one: Round) -> float:
    ratio: float = one["off"]["step_seconds"] / one["never"]["step_seconds"] - 1.0
    return ratio


def _spare_mib(record: Record) -> float:
    """Weights and KV as the files and the engine's log name them; both are resident from the start."""
    memory = record["memory"]
    return float(memory["engine"] - memory["idle"] - memory["kv"] - record["weight_bytes"]) / MIB


def _rounds(record: Record, section: str) -> Sequence[Round]:
    return [one for one in record["rounds"] if one["section"] == section]


def _median(rounds: Sequence[Round], ratio: Callable[[Round], float]) -> float | None:
    return median(map(ratio, rounds)) if rounds else None


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share

"""The simulator against recorded load points of real engines: every point is foretold from the others.

The records are those of `python -m dev.bench.record`. Step costs are fitted to the other points of the
engine, survival is what the other points with such text had; the rest is the simulator's.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specfleet.api.schedule import flat
from specfleet.simulator.cost import Cost, step_seconds
from specfleet.simulator.layout import GAP, POSITIONS, TOKEN_BOUNDS
from specfleet.simulator.state import TABLE, Rules, World, new_engine, set_table
from specfleet.simulator.steps import advance
from specfleet.simulator.traffic import new_requests

FOLDER = Path(__file__).parents[2] / "fixtures" / "recorded"
RECORDS = {path.stem: json.loads(path.read_text())["points"] for path in sorted(FOLDER.glob("*.json"))}
POINTS = [
    pytest.param(engine, number, id=f"{engine}-{one['users']}-users-depth-{one['depth']}")
    for engine, points in RECORDS.items()
    for number, one in enumerate(points)
]
Point = dict[str, Any]
# memory, overhead, token, kv, draft, draft_depth: seconds to begin with, and how far they may be off.
FITTED = ("memory", "overhead", "token", "kv", "draft", "draft_depth")
START = np.log([0.02, 0.005, 0.002, 1e-7, 1e-3, 1e-4])
SPREAD = np.array([1.5, 1.5, 1.5, 2.0, 1.5, 1.5])
NOISE = 0.05


def fitted(points: list[Point]) -> Cost:
    """Fit the costs to the points' mean steps: a time per token is that of a step over what it brings."""
    measured = np.log([one["tokenSeconds"] * one["acceptedLength"] for one in points])

    def left(logs: np.ndarray) -> np.ndarray:
        cost = cost_of(logs)
        foretold = [
            step_seconds(
                cost,
                one["users"],
                one["users"] * (1 + drafts(one)),
                one["users"] * (one["promptTokens"] + one["outputTokens"] / 2),
                one["depth"],
                1.0,
            )
            for one in points
        ]
        return np.concatenate(((measured - np.log(foretold)) / NOISE, (START - logs) / SPREAD))

    logs = START.copy()
    for _ in range(60):
        now = left(logs)
        slopes = np.column_stack([(left(logs + 1e-5 * unit) - now) / 1e-5 for unit in np.eye(len(logs))])
        logs += np.clip(np.linalg.lstsq(slopes, -now, rcond=None)[0], -0.3, 0.3)
    return cost_of(logs)


def cost_of(logs: np.ndarray) -> Cost:
    seconds = dict(zip(FITTED, np.exp(logs).tolist(), strict=True))
    return Cost(**seconds, draft_request=0.0, tax=0.0, noise=0.0, graphs=0.0)


def drafts(point: Point) -> float:
    """Drafted tokens of a request in one step."""
    return float(sum(point["drafted"]) / point["events"]) if point["depth"] else 0.0


def survival(points: list[Point], depth: int) -> np.ndarray:
    """Give S_1, S_2, ... of the points that drafted; of one that drafted less, its last goes on falling."""
    found = np.zeros(POSITIONS)
    for i in range(depth):
        deep = [one for one in points if len(one["accepted"]) > i and one["drafted"][i] > 0]
        found[i] = sum(o["accepted"][i] for o in deep) / sum(o["drafted"][0] for o in deep)
    return found


def simulated(cost: Cost, point: Point, survivals: np.ndarray, idle: float) -> tuple[float, float]:
    """Give seconds per output token and tokens per step of users who ask at once."""
    users = point["users"]
    rules = Rules(16, 2048, 10**6, 0.97, 6, 5, 1, TABLE, 0.0, idle, 0, 1.0, 1)
    world = World(survivals[None], np.ones((1, POSITIONS)), survivals[None])
    prompt = np.full(users, round(point["promptTokens"]))
    requests = new_requests(np.zeros(users), prompt, np.full(users, point["outputTokens"]))
    engine = new_engine(rules, users, np.zeros((1, 7), np.float32), 1, 0.0)
    set_table(engine, flat(point["depth"]))
    advance(engine, requests, np.arange(users, dtype=np.int32), rules, world, cost, 1000.0)
    decoded = users * (point["outputTokens"] - 1)
    events = engine.counters[GAP : GAP + len(TOKEN_BOUNDS) + 1].sum()
    return float((requests.last - requests.first).sum() / decoded), float(decoded / events)


def foretold(engine: str, number: int) -> tuple[float, float]:
    point = RECORDS[engine][number]
    others = [one for i, one in enumerate(RECORDS[engine]) if i != number]
    drafting = [one for one in others if one["depth"] and one["text"] == point["text"]]
    if not point["depth"]:
        return simulated(fitted(others), point, np.zeros(POSITIONS), 0.0)
    idle = 1.0 - sum(o["drafted"][0] for o in drafting) / sum(o["events"] for o in drafting)
    return simulated(fitted(others), point, survival(drafting, point["depth"]), idle)


def test_there_are_six_load_points_or_more() -> None:
    assert len(POINTS) >= 6
    assert "builtin" in RECORDS


@pytest.mark.parametrize(("engine", "number"), POINTS)
def test_time_per_token_and_accepted_length_are_foretold_within_ten_percent(engine: str, number: int) -> None:
    point = RECORDS[engine][number]

    seconds, length = foretold(engine, number)

    assert length == pytest.approx(point["acceptedLength"], rel=0.1)
    assert seconds == pytest.approx(point["tokenSeconds"], rel=0.1)

"""A small record of a run, as `dev.demo.run` gives it, with numbers that can be followed by hand."""

from typing import Any

TABLE = [{"maxRequests": 4, "depth": 5}, {"depth": 1}]


def pod(second: float, *, depth: int, token_seconds: float, tokens_per_step: float = 1.0) -> dict[str, Any]:
    """Counters of a pod that has decoded one sequence at one depth for so long."""
    tokens = second / token_seconds
    steps = tokens / tokens_per_step
    return {
        "running": 1.0,
        "waiting": 0.0,
        "kvUsage": 0.25,
        "generatedTokens": tokens,
        "firstTokens": 0.0,
        "decodeSeconds": second,
        "queueSeconds": 0.0,
        "queued": 0.0,
        "scheduleVersion": 7.0,
        "steps": {str(depth): steps},
        "sequenceSteps": {str(depth): steps},
    }


def sample(time: float, stage: str, counters: dict[str, Any], **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "time": time,
        "stage": stage,
        "users": 1,
        "pods": {"pod-a": counters},
        "restarts": {"uid-a": 0, "uid-operator": 0},
        "schedulePushes": {"push": 1.0, "probe": 3.0},
        "pool": {"schedule": {"version": 7, "table": TABLE}},
        "conditions": {
            "MetricsAvailable": {"status": "True", "reason": "Fresh", "message": "every pool reports"}
        },
    }
    return {**body, **more}


def replay(arm: str, *, token_seconds: float, part: str = "picking", number: int = 0) -> dict[str, Any]:
    """One user's turn: ten requests of ten tokens each."""
    return {
        "text": "repetitive",
        "users": 1,
        "arm": arm,
        "table": TABLE,
        "part": part,
        "round": number,
        "tokens": 100,
        "requestSeconds": 100 * token_seconds,
        "secondsPerToken": {"rows": token_seconds, "tests": token_seconds},
        "counters": {"token_seconds": token_seconds},
    }


def crowded(record: dict[str, Any], seconds: dict[str, float]) -> None:
    """Let there have been many users: in a turn of an arm they got 100 tokens, ten a request, in so long."""
    for phase in record["phases"]:
        phase["users"] = 20
    for one in record["replays"]:
        one["users"] = 20
        one["tokensPerRequest"] = 10.0
        one["counters"] |= {"tokens": 100.0, "seconds": seconds[one["arm"]]}


def request(
    stage: str, prompt: str, text: str, *, ended: float = 1.0, error: str | None = None
) -> dict[str, Any]:
    return {
        "stage": stage,
        "prompt": prompt,
        "text": text,
        "error": error,
        "sent": 0.0,
        "ended": ended,
        "tokens": 3,
    }


def a_record(**changes: Any) -> dict[str, Any]:
    """Two phases of one user with the same text: depth 5 at 50 ms a token where depth 0 takes 100 ms.

    The first lasts from 0 s to 100 s, the last from 100 s to 200 s, the outage from 200 s to 260 s.
    """
    # The last phase starts at depth 1 and 90 ms, and is back at 150 s.
    turn = pod(50.0, depth=1, token_seconds=0.09)
    first = [sample(t, "repetitive", pod(t, depth=5, token_seconds=0.05)) for t in range(0, 101, 10)]
    slow = [
        sample(100.0 + t, "repetitive-again", pod(t, depth=1, token_seconds=0.09)) for t in range(0, 51, 10)
    ]
    fast = [
        sample(150.0 + t, "repetitive-again", _added(turn, pod(t, depth=5, token_seconds=0.05)))
        for t in range(10, 51, 10)
    ]
    lost = {
        "MetricsAvailable": {
            "status": "False",
            "reason": "MetricsUnavailable",
            "message": "query A: no answer",
        }
    }
    cut = [
        sample(t, "outage", _added(turn, pod(t - 150.0, depth=5, token_seconds=0.05)), conditions=lost)
        for t in range(205, 260, 10)
    ]
    record: dict[str, Any] = {
        "plan": {"engine": "builtin", "window_seconds": 20.0, "depths": [0, 3, 5]},
        "phases": [
            {
                "name": "repetitive",
                "title": "one",
                "text": "repetitive",
                "users": 1,
                "start": 0.0,
                "end": 100.0,
            },
            {
                "name": "repetitive-again",
                "title": "again",
                "text": "repetitive",
                "users": 1,
                "start": 100.0,
                "end": 200.0,
            },
        ],
        "settled": {"repetitive": TABLE, "repetitive-again": TABLE},
        "outage": {"began": 200.0, "gone": 202.0, "ended": 260.0, "back": 270.0},
        "settledArms": {"repetitive": "depth-5", "repetitive-again": "settled-repetitive-again"},
        "replays": [
            replay(arm, token_seconds=seconds, part=part, number=number)
            for part in ("picking", "judging")
            for number in (0, 1)
            for arm, seconds in (
                ("depth-0", 0.1),
                ("depth-3", 0.06),
                ("depth-5", 0.05),
                ("settled-repetitive-again", 0.052),
            )
            if part == "picking" or arm in ("depth-5", "settled-repetitive-again")
        ],
        "samples": [*first, *slow, *fast, *cut],
        "requests": [
            request("repetitive", "rows", "abc"),
            request("repetitive-again", "rows", "abc", ended=230.0),
            request("repetitive/depth-0", "rows", "abc"),
        ],
    }
    return {**record, **changes}


def _added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Add up two stretches of a pod's life."""
    total = dict(other)
    for key in ("generatedTokens", "decodeSeconds"):
        total[key] = one[key] + other[key]
    for key in ("steps", "sequenceSteps"):
        total[key] = {
            depth: one[key].get(depth, 0.0) + other[key].get(depth, 0.0) for depth in one[key] | other[key]
        }
    return total

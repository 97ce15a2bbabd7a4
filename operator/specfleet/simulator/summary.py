"""A run in the few numbers that a user decides by."""

from dataclasses import dataclass

import numpy as np

from specfleet.simulator.run import LONGEST_TAIL, Run
from specfleet.simulator.state import BATCH, IN_DEPTH
from specfleet.tuning.decision import HardOff, Push


@dataclass(frozen=True, slots=True)
class Summary:
    """Times in seconds over all requests; one of the ``unfinished`` counts to the end of the run.

    ``kept``: share of requests that were served as promised. ``depth``: mean over decoding requests.
    ``hard_offs``: how often the pods were restarted without their proposer.
    """

    policy: str
    requests: int
    unfinished: int
    latency: float
    latency_p95: float
    first_token_p95: float
    token: float
    kept: float
    depth: float
    pushes: int
    hard_offs: int


def summarise(run: Run) -> Summary:
    """Sum a run up. Raises ValueError for a run without a request."""
    requests, service = run.requests, run.scenario.service
    if not len(requests.arrival):
        raise ValueError("no request arrived in this time: raise the traffic's peak or hours")
    end = run.scenario.seconds + LONGEST_TAIL
    latency = np.nan_to_num(requests.finished, nan=end) - requests.arrival
    first = np.nan_to_num(requests.first, nan=end) - requests.arrival
    others = np.maximum(requests.output - 1, 1)
    token = (latency - first) / others
    limit = np.where(requests.prompt > service.long_prompt, service.long_first_token, service.first_token)
    rows = np.concatenate([np.nan_to_num(trace.rows) for trace in run.traces])
    return Summary(
        policy=run.policy,
        requests=len(latency),
        unfinished=int(np.isnan(requests.finished).sum()),
        latency=float(latency.mean()),
        latency_p95=float(np.quantile(latency, 0.95)),
        first_token_p95=float(np.quantile(first, 0.95)),
        token=float((latency - first).sum() / others.sum()),
        kept=float(((first <= limit) & (token < service.token)).mean()),
        depth=float((rows[:, BATCH] * rows[:, IN_DEPTH]).sum() / max(1.0, float(rows[:, BATCH].sum()))),
        pushes=sum(isinstance(one.outcome.decision, Push) for one in run.passes),
        hard_offs=sum(isinstance(one.outcome.decision, HardOff) for one in run.passes),
    )

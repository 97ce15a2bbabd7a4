"""Whether the pods of a pool hang before their engine, with the images and the hub's address they were given.

Pods keep both while they run, also when the configuration changes. Pods that cannot start must not keep them:
what was wrong about them and is corrected would never reach them. A pod that ran before and starts again is
no such pod, nor is one that failed just now: a registry or a hub may have a bad minute, and a working fleet
must not come back from it with another image.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from specfleet.planning.names import FINGERPRINT_LABEL, POOL_LABEL
from specfleet.planning.observed import Live
from specfleet.planning.pod_failures import container_statuses, fails_before_engine, is_gone
from specfleet.planning.pool_design import live_fingerprint

# Within these the kubelet has tried five times: its pauses are 10, 20, 40, 80 and 160 s.
_PATIENCE = timedelta(minutes=5)


def never_start(pool: str, live: Live, pods: Iterable[Live], now: datetime) -> bool:
    """Say whether every pod that ``live``, the pool's Deployment, makes now hangs before its engine.

    Pods that wait for a node have tried nothing: they do not count. ``now`` is aware.
    """
    wanted = {POOL_LABEL: pool, FINGERPRINT_LABEL: live_fingerprint(live)}
    tried = [
        pod
        for pod in pods
        if wanted.items() <= (pod["metadata"].get("labels") or {}).items()
        and container_statuses(pod)
        and not is_gone(pod)
    ]
    return bool(tried) and all(fails_before_engine(pod) and _had_time(pod, now) for pod in tried)


def _had_time(pod: Live, now: datetime) -> bool:
    started = pod["status"].get("startTime")
    return started is not None and now - datetime.fromisoformat(started) >= _PATIENCE

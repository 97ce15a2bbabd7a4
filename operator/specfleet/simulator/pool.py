"""The pods of a run: routing, files that arrive, restarts, and the scrapes that Prometheus gets of them."""

import numpy as np

from specfleet.simulator.exposition import Gauges
from specfleet.simulator.pod import NAMESPACE, Pod
from specfleet.simulator.prometheus import SimulatedPrometheus
from specfleet.simulator.scenario import Fault, Scenario
from specfleet.simulator.state import Requests, World

EPOCH = 1_800_000_000.0  # second 0 of a run, in Prometheus' time
CLOCK_SKEW = 30.0
_NAN = Gauges(np.nan, np.nan, np.nan)


class Pool:
    """All pods, and the router in front of them: the same weight for every pod that is ready."""

    def __init__(
        self,
        scenario: Scenario,
        pods: list[Pod],
        requests: Requests,
        world: World,
        prometheus: SimulatedPrometheus,
        random: np.random.Generator,
    ) -> None:
        self.pods = pods
        self.requests = requests
        self._scenario = scenario
        self._world = world
        self._prometheus = prometheus
        self._random = random
        self._lots = random.random(len(requests.arrival))
        self._routed = 0
        self._waiting: list[np.ndarray] = [np.zeros(0, np.int32) for _ in pods]
        self._homeless = np.zeros(0, np.int32)
        self._gauges: dict[int, tuple[Gauges, ...]] = {}

    def route(self, until: float) -> None:
        """Spread what has arrived before a moment over the pods that are ready."""
        last = int(np.searchsorted(self.requests.arrival, until, "right"))
        fresh = np.arange(self._routed, last, dtype=np.int32)
        self._routed = last
        ready = [pod.number for pod in self.pods if pod.ready]
        arrived = np.concatenate((self._homeless, fresh))
        if not ready:
            self._homeless = arrived
            return
        self._homeless = arrived[:0]
        if not len(arrived):
            return
        homes = np.array(ready)[(self._lots[arrived] * len(ready)).astype(np.int64)]
        self.requests.home[arrived] = homes
        for number in ready:
            own = arrived[homes == number]
            if len(own):
                self._waiting[number] = np.concatenate((self._waiting[number], own))

    def advance(self, pod: Pod, until: float) -> None:
        """Route, and let one pod run until a moment."""
        self.route(until)
        incoming, self._waiting[pod.number] = self._waiting[pod.number], np.zeros(0, np.int32)
        pod.advance(self.requests, incoming, self._world, until)

    def scrape(self, pod: Pod, at: float) -> None:
        """Let Prometheus read a pod's page, or fail to."""
        faults = [fault for fault in self._scenario.faults if fault.holds(at, pod.number)]
        kinds = {fault.kind for fault in faults}
        self.advance(pod, at)
        lost = self._random.random() < self._scenario.telemetry.lost
        if lost or not pod.engines or kinds & {"outage", "not-scraped", "hung-exporter"}:
            return
        gauges = pod.gauges()
        if "sticky-gauges" in kinds:
            gauges = self._gauges.get(pod.number, gauges)
        self._gauges[pod.number] = gauges
        if "nan" in kinds:
            gauges = tuple(_NAN for _ in gauges)
        labels = {
            "namespace": NAMESPACE,
            "pod": pod.name,
            "specfleet_dev_pool": self._scenario.name,
            "specfleet_dev_slice": pod.slice.name,
        }
        stamp = at + (CLOCK_SKEW if "clock-skew" in kinds else 0.0)
        self._prometheus.store(labels, pod.page(gauges), EPOCH + round(stamp, 3))

    def reach(self, pod: Pod, text: str) -> None:
        """Let a schedule file appear in a pod."""
        if not pod.deaf and pod.follower.read(text):
            pod.apply()

    def stop(self, pod: Pod) -> None:
        """Take a pod's requests away and give them to the others, who begin them anew."""
        lost = np.concatenate((pod.lose_requests(), self._waiting[pod.number]))
        self._waiting[pod.number] = lost[:0]
        pod.ready = False
        self.requests.prefill[lost] = self.requests.prompt[lost]
        for values in (self.requests.generated, self.requests.idled):
            values[lost] = 0
        for times in (self.requests.admitted, self.requests.first, self.requests.last):
            times[lost] = np.nan
        self._homeless = np.sort(np.concatenate((self._homeless, lost))).astype(np.int32)


def ongoing(faults: tuple[Fault, ...], kind: str, at: float) -> bool:
    """Say whether a fault of the whole pool is going on."""
    return any(fault.kind == kind and fault.holds(at) for fault in faults)

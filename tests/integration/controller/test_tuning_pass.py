"""The tuning pass against a cluster in memory and pods that follow what it writes."""

import asyncio
import json
from dataclasses import replace

import pytest
from prometheus_client import generate_latest
from tests.fake_time import in_fake_time
from tests.integration.controller.builders import a_configuration, a_resource
from tests.integration.controller.played_prometheus import SCRAPE, PlayedPrometheus
from tests.integration.fake_api import DirectClient, Faults, Store
from tests.unit.tuning.bench import REPETITIVE

from specfleet.api.kinds import CONFIG_MAP, DEPLOYMENT, POD, POD_MONITOR, SPECULATIVE_DEPLOYMENT, Kind, Object
from specfleet.api.schedule import Document
from specfleet.cluster.errors import Unavailable
from specfleet.cluster.events import EVENT, EventRecorder
from specfleet.controller.figures import Figures
from specfleet.controller.fleet import read_fleet
from specfleet.controller.key import Key
from specfleet.controller.pool_memory import save
from specfleet.controller.push import ANNOTATION
from specfleet.controller.reconcile import Reconciler
from specfleet.controller.tuning_pass import TuningPass
from specfleet.telemetry.errors import AnswerPartial, SourceTimeout
from specfleet.telemetry.source import Series
from specfleet.tuning.memory import Memory, from_json

PODS = ("chat-main-active-a", "chat-main-active-b")
START = 1_900_000_000.0


class Fleet:
    """One resource with ready pods, a tuning pass, and a clock that moves by scrapes."""

    def __init__(self, **spec: object) -> None:
        self.store = Store()
        self.faults = Faults()
        self.client = DirectClient(self.store, self.faults, unserved=frozenset({POD_MONITOR}))
        self.spec = {"tuning": {"mode": "Enforce"}, **spec}
        self.now = START
        self.prometheus = PlayedPrometheus(self.store, PODS)
        self.figures = Figures()
        self.tuning = self.a_leader(fence=3)

    def a_leader(self, fence: int) -> TuningPass:
        events = EventRecorder(self.client, instance="test")
        sources = {"default": self.prometheus}
        configuration = a_configuration()
        return TuningPass(self.client, sources, configuration, events, self.figures, fence=fence)

    async def start(self) -> "Fleet":
        self.store.create(SPECULATIVE_DEPLOYMENT, a_resource(**self.spec))
        events = EventRecorder(self.client, instance="test")
        reconciler = Reconciler(self.client, a_configuration(), events, Figures(), fence=3)
        await reconciler.reconcile(Key("llm", "chat"))
        for pod in PODS:
            self.store.create(POD, a_pod(pod))
            self.store.set_status(POD, "llm", pod, READY)
        return self

    async def reconcile(self) -> Object:
        """Let the other loop look; gives the Deployment's container."""
        events = EventRecorder(self.client, instance="test")
        await Reconciler(self.client, a_configuration(), events, Figures(), fence=3).reconcile(
            Key("llm", "chat")
        )
        live = self.store.get(DEPLOYMENT, "llm", "chat-main-active")
        container: Object = live["spec"]["template"]["spec"]["containers"][0]
        return container

    async def passes(self, count: int) -> "Fleet":
        for _ in range(count):
            self.now += SCRAPE
            self.prometheus.scrape(self.now)
            await self.tuning.run_once(self.now + 1.0)
        return self

    @property
    def resource(self) -> Object:
        return self.store.get(SPECULATIVE_DEPLOYMENT, "llm", "chat")

    @property
    def pool(self) -> Object:
        (pool,) = self.resource["status"]["pools"]
        return pool

    @property
    def document(self) -> Document:
        live = self.store.get(CONFIG_MAP, "llm", "chat-main-active-schedule")
        return Document.from_json(live["data"]["schedule.json"])

    @property
    def memory(self) -> Object:
        return self.store.get(CONFIG_MAP, "llm", "chat-main-tuning")

    def scaled(self, replicas: int) -> None:
        """Reconcile writes how many pods exist."""
        status = self.resource["status"]
        pools = [{**pool, "replicas": replicas} for pool in status["pools"]]
        self.store.set_status(SPECULATIVE_DEPLOYMENT, "llm", "chat", {**status, "pools": pools})

    def condition(self, kind: str) -> Object:
        return next(one for one in self.resource["status"]["conditions"] if one["type"] == kind)

    def events(self, reason: str) -> list[str]:
        return [one["note"] for one in self.store.list(EVENT, "llm") if one["reason"] == reason]

    def spoil(self, text: str) -> None:
        name = "chat-main-active-schedule"
        self.store.merge_patch(CONFIG_MAP, "llm", name, {"data": {"schedule.json": text}}, "somebody")

    def edit(self, **tuning: object) -> None:
        live = self.resource
        live["spec"]["tuning"] = {"mode": "Enforce", **tuning}
        self.store.replace(SPECULATIVE_DEPLOYMENT, live)


READY = {
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": "engine", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
}


def a_pod(name: str) -> Object:
    labels = {
        "specfleet.dev/deployment": "chat",
        "specfleet.dev/pool": "main",
        "specfleet.dev/slice": "active",
        "specfleet.dev/fingerprint": "f",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "llm", "labels": labels},
        "spec": {},
    }


async def test_it_learns_pushes_and_reports_with_numbers() -> None:
    fleet = await (await Fleet().start()).passes(30)

    assert fleet.document.table[0].depth == 5
    assert fleet.pool["state"] == "Active"
    assert fleet.pool["schedule"]["appliedReplicas"] == 2
    assert float(fleet.pool["measured"]["meanDepth"]) == 5
    assert float(fleet.pool["measured"]["gainPercent"]["value"]) > 100
    assert fleet.condition("MetricsAvailable")["status"] == "True"
    assert fleet.condition("SpeculationActive")["status"] == "True"
    (push,) = fleet.events("SchedulePushed")
    assert "depth 2 -> 5" in push
    assert fleet.resource["status"]["summary"]["depth"] == "5.00"


async def test_a_push_writes_the_map_and_then_an_annotation_with_fence_and_version_on_each_pod() -> None:
    fleet = await (await Fleet().start()).passes(30)

    expected = f"{fleet.document.fence}-{fleet.document.version}"
    pods = [fleet.store.get(POD, "llm", pod) for pod in PODS]
    assert [pod["metadata"]["annotations"][ANNOTATION] for pod in pods] == [expected, expected]


async def test_each_pass_asks_a_fixed_number_of_queries() -> None:
    fleet = await (await Fleet().start()).passes(4)

    assert fleet.prometheus.queries == 4


@pytest.mark.fault("fluxcd/flagger#1035", "fluxcd/flagger#1098")
async def test_an_idle_pool_writes_nothing() -> None:
    fleet = await Fleet().start()
    fleet.prometheus.traffic = fleet.prometheus.traffic.__class__(users=0, chance=0.5)
    await fleet.passes(6)
    before = fleet.client.writes

    await fleet.passes(100)  # 25 minutes

    assert fleet.client.writes == before


@pytest.mark.fault("llm-d/llm-d#2492")
async def test_a_pool_without_pods_is_pending_and_written_once() -> None:
    fleet = await Fleet().start()
    for pod in PODS:
        fleet.store.delete(POD, "llm", pod)
    await fleet.passes(1)
    before = fleet.client.writes

    await fleet.passes(10)

    assert (fleet.pool["state"], fleet.pool["lastDecision"]["reason"]) == ("Pending", "no pod is ready")
    assert fleet.client.writes == before


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(SourceTimeout("the metrics source did not answer within 5 s"), id="timeout"),
        pytest.param(
            AnswerPartial("the metrics source warns that its answer may lack data"), id="P8-warning"
        ),
    ],
)
async def test_an_outage_keeps_version_and_table_and_says_why(error: Exception) -> None:
    fleet = await (await Fleet().start()).passes(30)
    before = fleet.document

    fleet.prometheus.error = error
    await fleet.passes(8)

    assert fleet.document == before
    assert fleet.pool["state"] == "SafeHold"
    assert fleet.condition("MetricsAvailable")["status"] == "False"
    assert str(error) in fleet.condition("MetricsAvailable")["message"]
    assert len(fleet.events("MetricsUnavailable")) == 1

    fleet.prometheus.error = None
    await fleet.passes(6)
    assert fleet.pool["state"] == "Active"
    assert fleet.condition("MetricsAvailable")["status"] == "True"


@pytest.mark.fault("grafana/mimir#7691")
async def test_p9_pods_that_are_no_longer_scraped_hold_the_schedule() -> None:
    fleet = await (await Fleet().start()).passes(30)

    fleet.prometheus.silent = PODS
    await fleet.passes(6)

    assert fleet.pool["lastDecision"]["reason"] == "no sample of 2 ready pods is younger than 3 scrapes"


@pytest.mark.fault("grafana/mimir#7691")
async def test_too_little_coverage_holds_the_schedule() -> None:
    fleet = await (await Fleet().start()).passes(5)

    fleet.prometheus.silent = PODS[:1]
    await fleet.passes(5)

    assert fleet.pool["lastDecision"]["reason"] == "1 of 2 ready pods report, 80 % are needed"


@pytest.mark.fault("llama.cpp#25345")
async def test_a_proposer_that_is_never_used_under_load_is_a_condition() -> None:
    fleet = await Fleet().start()
    fleet.prometheus.traffic = replace(REPETITIVE, draft_share=0.0)

    await fleet.passes(10)

    active = fleet.condition("SpeculationActive")
    assert (active["status"], active["reason"]) == ("False", "NothingDrafted")
    assert "main" in active["message"]


HEAD = {"method": "eagle3", "depth": {"initial": 2, "max": 5}, "proposer": {"uri": "file:///models/head"}}
NGRAM = {"method": "ngram", "depth": {"initial": 2, "max": 5}}


@pytest.mark.fault("vllm-project/vllm-ascend#7038", "vllm#46694", "vllm#13992")
@pytest.mark.parametrize(
    ("speculation", "chance", "expected"),
    [
        pytest.param(HEAD, 0.04, ("False", "HardlyAccepted"), id="weights-that-do-not-fit"),
        pytest.param(HEAD, 0.5, ("True", "Drafting"), id="weights-that-fit"),
        pytest.param(NGRAM, 0.04, ("True", "Drafting"), id="looked-up-in-hard-text"),
    ],
)
async def test_weights_of_which_hardly_a_draft_is_accepted_are_a_condition_that_can_be_alerted_on(
    speculation: Object, chance: float, expected: tuple[str, str]
) -> None:
    spec = {"engine": {"type": "builtin"}, "model": {"uri": "file:///models/m"}, "speculation": speculation}
    fleet = await Fleet(**spec, tuning={"mode": "Observe"}).start()
    fleet.prometheus.traffic = replace(REPETITIVE, chance=chance)

    await fleet.passes(10)

    active = fleet.condition("SpeculationActive")
    assert (active["status"], active["reason"]) == expected
    shown = dict(zip(("type", "status", "reason"), ("SpeculationActive", *expected), strict=True))
    labels = {"resource_namespace": "llm", "resource": "chat", **shown}
    assert fleet.figures.registry.get_sample_value("specfleet_operator_condition", labels) == 1.0


async def test_conditions_of_a_resource_that_is_gone_are_shown_no_longer() -> None:
    fleet = await (await Fleet().start()).passes(2)
    assert "specfleet_operator_condition{" in generate_latest(fleet.figures.registry).decode()

    fleet.store.delete(SPECULATIVE_DEPLOYMENT, "llm", "chat")
    await fleet.tuning.run_once(fleet.now + SCRAPE)

    assert "specfleet_operator_condition{" not in generate_latest(fleet.figures.registry).decode()


async def test_conditions_of_a_resource_that_has_become_invalid_are_shown_too() -> None:
    fleet = await (await Fleet().start()).passes(1)

    fleet.store.merge_patch(SPECULATIVE_DEPLOYMENT, "llm", "chat", {"spec": {"unknown": 1}})
    await fleet.reconcile()
    await fleet.passes(1)

    shown = {"type": "Degraded", "status": "True", "reason": "ResourceInvalid"}
    labels = {"resource_namespace": "llm", "resource": "chat", **shown}
    assert fleet.figures.registry.get_sample_value("specfleet_operator_condition", labels) == 1.0


DRAFT_SERIES = (
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_drafts_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "specfleet_draft_positions_total",
)


@pytest.mark.fault("verl-project/verl#7543")
@pytest.mark.parametrize("renamed", [DRAFT_SERIES, DRAFT_SERIES[3:4]], ids=["all", "accepted"])
async def test_series_that_an_engine_has_renamed_are_no_data_and_never_nothing_accepted(
    renamed: tuple[str, ...],
) -> None:
    fleet = await Fleet().start()
    fleet.prometheus.renamed = renamed
    table = fleet.document.table

    await fleet.passes(40)

    assert fleet.document.table == table
    assert "acceptedLength" not in fleet.pool.get("measured", {})
    assert fleet.condition("MetricsAvailable")["status"] == "False"


async def test_an_unknown_metrics_source_is_named() -> None:
    fleet = await (await Fleet(tuning={"mode": "Enforce", "metricsSource": "other"}).start()).passes(2)

    assert (
        "metricsSource other is not in the operator's configuration" in fleet.pool["lastDecision"]["reason"]
    )


async def test_a_pin_is_pushed_at_once_without_any_metrics() -> None:
    fleet = await (await Fleet().start()).passes(1)
    fleet.prometheus.error = SourceTimeout("down")

    fleet.edit(schedule=[{"maxRequests": 4, "depth": 5}, {"depth": 0}])
    await fleet.passes(1)

    assert [(row.max_requests, row.depth) for row in fleet.document.table] == [(4, 5), (None, 0)]
    assert fleet.document.version == 2


async def test_paused_freezes_even_a_new_pin() -> None:
    fleet = await (await Fleet().start()).passes(1)

    fleet.edit(paused=True, schedule=[{"depth": 0}])
    await fleet.passes(30)

    assert fleet.document.version == 1
    assert len(fleet.events("Paused")) == 1


async def test_observe_measures_and_never_writes_a_schedule() -> None:
    fleet = await (await Fleet(tuning={"mode": "Observe"}).start()).passes(30)

    assert fleet.document.version == 1
    assert fleet.pool["measured"]["meanDepth"] == "2.00"


async def test_recommend_shows_table_and_gain_and_never_writes_a_schedule() -> None:
    fleet = await (await Fleet(tuning={"mode": "Recommend"}).start()).passes(30)

    assert fleet.document.version == 1
    assert fleet.pool["recommendation"]["table"][0]["depth"] > 2
    assert float(fleet.pool["recommendation"]["expectedGainPercent"]) > 0
    assert fleet.pool["recommendation"]["appliedBy"] == "live"


async def test_pods_that_do_not_take_a_push_are_a_fault_that_stops_further_ones_until_they_do() -> None:
    fleet = await (await Fleet().start()).passes(1)
    fleet.prometheus.deaf = True
    await fleet.passes(12)
    version = fleet.document.version

    assert fleet.pool["fault"]["reason"] == "ScheduleNotApplied"
    await fleet.passes(20)
    assert fleet.document.version == version

    fleet.prometheus.deaf = False
    await fleet.passes(3)
    assert "fault" not in fleet.pool


async def test_a_new_leader_goes_on_with_what_was_learnt_and_changes_nothing_at_first() -> None:
    fleet = await (await Fleet().start()).passes(30)
    before = fleet.document

    fleet.tuning = fleet.a_leader(fence=4)
    await fleet.passes(3)

    assert fleet.document == before


@pytest.mark.fault("ai-dynamo/dynamo#13495")
async def test_a_new_leader_starts_warm_and_probes_nothing_again() -> None:
    fleet = await (await Fleet().start()).passes(60)
    probes = len(fleet.events("ProbeStarted"))

    fleet.tuning = fleet.a_leader(fence=4)
    await fleet.passes(8)

    assert fleet.pool["state"] == "Active"
    assert float(fleet.pool["measured"]["gainPercent"]["value"]) > 100
    assert len(fleet.events("ProbeStarted")) == probes


async def test_what_is_only_observed_is_remembered_too() -> None:
    fleet = await (await Fleet(tuning={"mode": "Observe"}).start()).passes(50)

    memory = from_json(fleet.memory["data"]["memory.json"])

    assert memory is not None
    assert {window.depth for window in memory.windows} == {2}


@pytest.mark.fault("ai-dynamo/dynamo#13495")
async def test_a_memory_that_nobody_can_read_is_learnt_again() -> None:
    fleet = await (await Fleet().start()).passes(30)
    live = fleet.memory
    fleet.store.replace(CONFIG_MAP, {**live, "data": {"memory.json": "[]"}})

    fleet.tuning = fleet.a_leader(fence=4)
    await fleet.passes(30)

    assert fleet.document.table[0].depth == 5


async def test_after_scaling_nothing_is_pushed_for_five_minutes() -> None:
    fleet = await (await Fleet().start()).passes(2)
    for replicas in (2, 3):
        fleet.scaled(replicas)
        await fleet.passes(1)

    await fleet.passes(18)

    assert fleet.events("SchedulePushed") == []
    await fleet.passes(15)
    assert len(fleet.events("SchedulePushed")) == 1


async def test_a_higher_fence_starts_versions_again() -> None:
    fleet = await (await Fleet().start()).passes(30)
    fleet.tuning = fleet.a_leader(fence=4)

    fleet.edit(schedule=[{"depth": 1}])
    await fleet.passes(1)

    assert (fleet.document.fence, fleet.document.version) == (4, 1)


async def test_a_lease_that_was_deleted_cannot_freeze_pushes() -> None:
    fleet = await (await Fleet().start()).passes(1)
    fleet.tuning = fleet.a_leader(fence=1)

    fleet.edit(schedule=[{"depth": 1}])
    await fleet.passes(1)

    assert (fleet.document.fence, fleet.document.version) == (4, 1)


async def test_a_probe_of_a_dead_leader_is_ended_by_the_next() -> None:
    fleet = await (await Fleet().start()).passes(1)
    while not fleet.pool.get("probe"):
        await fleet.passes(1)

    fleet.tuning = fleet.a_leader(fence=4)
    fleet.prometheus.error = SourceTimeout("down")
    await fleet.passes(8)

    assert [row.depth for row in fleet.document.table] == [2]
    assert "probe" not in fleet.pool


@pytest.mark.parametrize("kind", ["configmaps", "pods"])
async def test_a_write_that_fails_is_made_up_for(kind: str) -> None:
    fleet = await (await Fleet().start()).passes(1)
    fleet.edit(schedule=[{"depth": 1}])

    fleet.faults.add(500, verb="apply", path=kind)
    await fleet.passes(3)

    value = f"{fleet.document.fence}-{fleet.document.version}"
    assert [row.depth for row in fleet.document.table] == [1]
    for pod in PODS:
        assert fleet.store.get(POD, "llm", pod)["metadata"]["annotations"][ANNOTATION] == value


async def test_a_push_that_a_leader_did_not_finish_is_finished_by_the_next() -> None:
    fleet = await (await Fleet().start()).passes(30)
    fleet.edit(schedule=[{"depth": 1}])
    fleet.faults.add(500, verb="apply", path="pods", times=len(PODS))
    await fleet.passes(1)

    fleet.tuning = fleet.a_leader(fence=4)
    await fleet.passes(1)

    value = f"{fleet.document.fence}-{fleet.document.version}"
    assert [row.depth for row in fleet.document.table] == [1]
    for pod in PODS:
        assert fleet.store.get(POD, "llm", pod)["metadata"]["annotations"][ANNOTATION] == value


# Engines refuse the text depth; the text border and the time without a zone ended the tuner's pass.
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"table": [{"depth": "2"}]}, id="depth-is-text"),
        pytest.param({"table": [{"maxRequests": "8", "depth": 2}, {"depth": 0}]}, id="border-is-text"),
        pytest.param({"issuedAt": "2126-01-01T00:00:00"}, id="no-zone"),
        pytest.param(None, id="not-json"),
    ],
)
async def test_a_schedule_broken_by_hand_is_put_back_as_a_newer_version(
    change: dict[str, object] | None,
) -> None:
    fleet = await (await Fleet().start()).passes(30)
    good = fleet.document
    newer = json.loads(good.to_json()) | {"version": good.version + 5}

    fleet.spoil("{not json" if change is None else json.dumps(newer | change))
    await fleet.passes(1)

    assert (fleet.document.table, fleet.document.version) == (good.table, good.version + 1)
    assert len(fleet.events("ScheduleRestored")) == 1


async def test_a_schedule_wound_back_by_hand_is_put_back_since_engines_refuse_older_versions() -> None:
    fleet = await Fleet().start()
    first = fleet.document.to_json()
    await fleet.passes(30)
    good = fleet.document

    fleet.spoil(first)
    await fleet.passes(1)

    assert (fleet.document.table, fleet.document.version) == (good.table, good.version + 1)


async def test_a_new_leader_puts_the_table_of_status_in_place_of_a_broken_schedule() -> None:
    fleet = await (await Fleet().start()).passes(30)
    good = fleet.document
    fleet.tuning = fleet.a_leader(fence=9)

    fleet.spoil("")
    fleet.spoil("[]")
    await fleet.passes(1)

    assert (fleet.document.table, fleet.document.fence) == (good.table, 9)


@pytest.mark.fault("verl-project/verl#7543", "kserve/kserve#3696")
async def test_a_metric_that_pods_no_longer_show_holds_the_schedule_and_is_named() -> None:
    fleet = await (await Fleet().start()).passes(30)
    before = fleet.document

    fleet.prometheus.renamed = ("vllm:inter_token_latency_seconds_sum",)
    await fleet.passes(8)

    condition = fleet.condition("MetricsAvailable")
    assert fleet.document == before
    assert (condition["status"], condition["reason"]) == ("False", "MetricsMissing")
    assert "do not show vllm:inter_token_latency_seconds" in condition["message"]
    assert fleet.pool["state"] == "SafeHold"
    assert len(fleet.events("MetricsMissing")) == 1


async def test_an_answer_that_nobody_foresaw_is_a_fault_of_its_source_and_the_next_pass_reads_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = await (await Fleet().start()).passes(2)

    fleet.prometheus.error = ZeroDivisionError("division by zero")
    await fleet.passes(1)

    assert fleet.condition("MetricsAvailable")["status"] == "False"
    assert "ZeroDivisionError" in fleet.pool["lastDecision"]["reason"]
    assert "reading metrics source default failed" in caplog.text
    fleet.prometheus.error = None
    await fleet.passes(4)
    assert fleet.condition("MetricsAvailable")["status"] == "True"


async def test_a_pass_that_fails_does_not_end_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client, stop, lists = DirectClient(Store()), asyncio.Event(), 0

    async def broken(*_: object) -> list[Object]:
        nonlocal lists
        lists += 1
        if lists > 3:  # a pass asks for three kinds
            stop.set()
        raise ZeroDivisionError

    monkeypatch.setattr(client, "list", broken)
    configuration = a_configuration(tuning={"scrapeIntervalSeconds": 1})
    events = EventRecorder(client, instance="test")
    async with asyncio.timeout(10):
        await TuningPass(client, {}, configuration, events, Figures(), fence=3).run(stop)

    assert caplog.text.count("this tuning pass failed") == 2


class LostSchedule:
    """The answer to the next write of the schedule is lost: after it was ``written``, or before."""

    def __init__(self, fleet: Fleet, *, written: bool) -> None:
        self.apply, self.written = fleet.client.apply, written
        self.waits = True
        fleet.client.apply = self  # type: ignore[method-assign, assignment]

    async def __call__(self, kind: Kind, body: Object, *, manager: str, force: bool = True) -> Object:
        lost = self.waits and body["metadata"]["name"].endswith("-schedule")
        if lost and not self.written:
            self.waits = False
            raise Unavailable("429")
        answer = await self.apply(kind, body, manager=manager, force=force)
        if lost:
            self.waits = False
            raise Unavailable("no answer")
        return answer


@pytest.mark.parametrize("written", [True, False])
async def test_a_push_whose_answer_is_lost_is_counted_and_told_once(written: bool) -> None:
    fleet = await (await Fleet().start()).passes(1)
    fleet.edit(schedule=[{"depth": 1}])

    lost = LostSchedule(fleet, written=written)
    await fleet.passes(3)

    assert not lost.waits
    assert ([row.depth for row in fleet.document.table], fleet.document.version) == ([1], 2)
    assert len(fleet.events("SchedulePushed")) == 1
    assert len(fleet.tuning._pools["llm", "chat", "main"].memory.pushes) == 1


async def test_a_probe_whose_answer_is_lost_ends_with_the_table_from_before() -> None:
    fleet = await (await Fleet().start()).passes(1)
    before = fleet.document.table

    lost = LostSchedule(fleet, written=True)
    while lost.waits:
        await fleet.passes(1)
    assert fleet.document.table != before
    fleet.prometheus.error = SourceTimeout("down")
    await fleet.passes(8)

    assert fleet.document.table == before
    assert (len(fleet.events("ProbeStarted")), len(fleet.events("ProbeEnded"))) == (1, 1)


async def test_pods_that_may_not_be_annotated_cost_no_push_and_no_status() -> None:
    fleet = await (await Fleet().start()).passes(1)
    fleet.faults.add(403, verb="apply", path="pods", times=1000)

    fleet.edit(schedule=[{"depth": 1}])
    await fleet.passes(1)
    assert len(fleet.events("SchedulePushed")) == 1
    fleet.edit(schedule=[{"depth": 1}], paused=True)
    await fleet.passes(1)

    assert "paused" in fleet.pool["lastDecision"]["reason"]
    fleet.faults.waiting.clear()
    await fleet.passes(1)
    for pod in PODS:
        assert fleet.store.get(POD, "llm", pod)["metadata"]["annotations"][ANNOTATION] == "3-2"


async def test_a_resource_made_again_under_its_name_inherits_nothing() -> None:
    fleet = await (await Fleet().start()).passes(30)
    assert fleet.document.table[0].depth == 5
    fleet.store.delete(SPECULATIVE_DEPLOYMENT, "llm", "chat")
    depth = {"initial": 1, "max": 3}
    again = a_resource(**fleet.spec, speculation={"method": "ngram", "depth": depth})
    fleet.store.create(SPECULATIVE_DEPLOYMENT, again)
    await fleet.reconcile()

    await fleet.passes(1)

    assert ([row.depth for row in fleet.document.table], fleet.document.version) == ([1], 1)
    assert fleet.events("ScheduleRestored") == []
    assert fleet.tuning._pools["llm", "chat", "main"].memory.pushes == ()


async def test_a_broken_schedule_deeper_than_a_new_depth_max_is_put_back_once_with_the_initial_depth() -> (
    None
):
    fleet = await (await Fleet().start()).passes(30)
    assert fleet.document.table[0].depth == 5
    live = fleet.resource
    live["spec"]["speculation"]["depth"] = {"initial": 2, "max": 3}
    live["spec"]["tuning"] = {"mode": "Observe"}  # nothing else writes a schedule
    fleet.store.replace(SPECULATIVE_DEPLOYMENT, live)

    fleet.spoil("{not json")
    await fleet.passes(1)
    assert (fleet.document.max_depth, [row.depth for row in fleet.document.table]) == (3, [2])
    await fleet.passes(3)

    assert len(fleet.events("ScheduleRestored")) == 1


@pytest.mark.parametrize("deleted", [False, True])
async def test_engines_have_as_long_to_follow_a_schedule_that_was_put_back_as_one_that_was_pushed(
    deleted: bool,
) -> None:
    fleet = await (await Fleet().start()).passes(40)

    if deleted:
        fleet.store.delete(CONFIG_MAP, "llm", "chat-main-active-schedule")
        await fleet.reconcile()
    else:
        fleet.spoil("{not json")
    await fleet.passes(1)

    assert len(fleet.events("ScheduleRestored")) == 1
    assert "fault" not in fleet.pool


async def test_what_is_remembered_is_no_drift_to_reconcile() -> None:
    fleet = await (await Fleet().start()).passes(1)
    events = EventRecorder(fleet.client, instance="test")
    reconciler = Reconciler(fleet.client, a_configuration(), events, Figures(), fence=3)
    await reconciler.reconcile(Key("llm", "chat"))
    await fleet.passes(30)
    assert fleet.memory["data"]["memory.json"]
    before = fleet.client.calls["apply", "Deployment"]

    await reconciler.reconcile(Key("llm", "chat"))

    assert fleet.client.calls["apply", "Deployment"] == before


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"labels": {"specfleet.dev/deployment": None, "specfleet.dev/pool": "edited"}},
        {"ownerReferences": None},
    ],
    ids=["data", "labels", "owner"],
)
async def test_a_memory_edited_by_hand_is_written_over_and_stops_nothing(metadata: Object) -> None:
    fleet = await (await Fleet().start()).passes(30)
    patch = {"metadata": metadata, "data": {"memory.json": "{}"}}
    fleet.store.merge_patch(CONFIG_MAP, "llm", "chat-main-tuning", patch, "kubectl-edit")

    fleet.edit(schedule=[{"depth": 1}])
    await fleet.passes(1)

    assert [row.depth for row in fleet.document.table] == [1]
    found = fleet.memory
    learnt = from_json(found["data"]["memory.json"])
    assert learnt is not None and learnt.windows
    assert found["metadata"]["labels"]["specfleet.dev/deployment"] == "chat"
    assert found["metadata"]["labels"]["specfleet.dev/pool"] == "main"
    owners = found["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == [fleet.resource["metadata"]["uid"]]


async def test_an_object_of_somebody_else_in_place_of_the_memory_is_left_alone_and_stops_no_pin() -> None:
    fleet = await Fleet().start()
    foreign = fleet.store.create(
        CONFIG_MAP, {"metadata": {"name": "chat-main-tuning", "namespace": "llm"}, "data": {"theirs": "1"}}
    )

    fleet.edit(schedule=[{"depth": 1}])
    await fleet.passes(45)
    fleet.edit(schedule=[{"depth": 1}], paused=True)
    await fleet.passes(1)

    assert [row.depth for row in fleet.document.table] == [1]
    assert "paused" in fleet.pool["lastDecision"]["reason"]
    assert fleet.memory == foreign
    await fleet.reconcile()
    assert fleet.condition("Degraded")["reason"] == "NameConflict"
    assert "chat-main-tuning" in fleet.condition("Degraded")["message"]


async def test_status_goes_on_while_what_is_learnt_cannot_be_written() -> None:
    fleet = await (await Fleet(tuning={"mode": "Observe"}).start()).passes(1)
    fleet.faults.add(403, verb="apply", path="configmaps", times=1000)
    await fleet.passes(45)

    fleet.edit(mode="Observe", paused=True)
    await fleet.passes(1)

    assert "paused" in fleet.pool["lastDecision"]["reason"]


@pytest.mark.parametrize("first, second", [("a", "a-b"), ("a-b", "a")])
async def test_two_pools_whose_names_meet_do_not_take_each_others_memory(first: str, second: str) -> None:
    fleet, pools = Fleet(), {"a": "b-c", "a-b": "c"}
    events = EventRecorder(fleet.client, instance="test")
    reconciler = Reconciler(fleet.client, a_configuration(), events, Figures(), fence=3)
    for name in (first, second):
        fleet.store.create(SPECULATIVE_DEPLOYMENT, a_resource(name, pools=(pools[name],)))
        await reconciler.reconcile(Key("llm", name))

    await fleet.tuning.run_once(START)
    for resource in await read_fleet(fleet.client, ("llm",)):
        for view in resource.pools:
            await save(fleet.client, view, Memory())
    for name in (first, second):
        await reconciler.reconcile(Key("llm", name))

    (owner,) = fleet.store.get(CONFIG_MAP, "llm", "a-b-c-tuning")["metadata"]["ownerReferences"]
    assert owner["name"] == first
    reasons = {
        name: next(
            one["reason"]
            for one in fleet.store.get(SPECULATIVE_DEPLOYMENT, "llm", name)["status"]["conditions"]
            if one["type"] == "Degraded"
        )
        for name in pools
    }
    assert reasons[second] == "NameConflict"
    assert reasons[first] != "NameConflict"


@in_fake_time
async def test_a_pass_that_hangs_is_seen_and_one_that_has_ended_is_not() -> None:
    fleet, stop, answer = await Fleet().start(), asyncio.Event(), asyncio.Event()

    async def hang(*_: object, **__: object) -> list[Series]:
        await answer.wait()
        return []

    fleet.prometheus.query = hang  # type: ignore[method-assign]
    running = asyncio.create_task(fleet.tuning.run(stop))
    await asyncio.sleep(400)
    hanging = fleet.tuning.running_seconds
    stop.set()
    answer.set()
    await running

    assert hanging == pytest.approx(400, abs=1)
    assert fleet.tuning.running_seconds == 0.0

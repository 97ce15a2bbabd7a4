"""The whole tuner against a pod with a known truth: it finds the best depth, returns, and stays calm."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.unit.tuning.bench import CROWD, FREE, REPETITIVE, Bench, Cost, Traffic, some_settings

from specfleet.api.configuration import TuningPace
from specfleet.api.schedule import Row, Table, depth_for, flat
from specfleet.tuning.decision import EndProbe, Hold, Probe, Push
from specfleet.tuning.evidence import Evidence

SEEDS = range(2)
COSTS = {
    "knee-at-14": Cost(),
    "no-knee": Cost(knee=80, per_request=0.0003),
    "early-knee": Cost(knee=4, overhead=0.002),
    "dear-drafts": Cost(draft=0.008, per_depth=0.002),
    "linear": Cost(base=0.012, knee=3, overhead=0.03),
}
MINUTE = 60.0
# Free text on a CPU: an n-gram drafter hardly ever proposes, and a draft costs next to nothing.
HARDLY = Traffic(users=1, chance=0.3, draft_share=0.05)
FLAT = Cost(base=0.10, knee=40, overhead=0.02, draft=0.001, per_depth=0.0003)
# The same with compiled layers: rows of drafts cost little at batch 1, and only those that are drafted.
COMPILED = Cost(base=0.04, knee=4.5, overhead=0.004, per_request=0.002, draft=0.0002, per_depth=0.00005)
# A step of vLLM on a CPU is dearer at depth 5 even where it hardly ever drafts.
VLLM_CPU = Cost(base=0.065, knee=40, overhead=0.005, draft=0.004, per_depth=0.0012)
DEMO = TuningPace(
    scrape_interval_seconds=3,
    push_cooldown_seconds=30,
    probe_seconds=10,
    probe_unknown_interval_seconds=15,
    probe_known_interval_seconds=90,
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
@pytest.mark.parametrize("traffic", [REPETITIVE, FREE, CROWD], ids=["repetitive", "free", "crowd"])
def test_it_settles_on_a_depth_within_five_percent_of_the_best(
    traffic: Traffic, cost: Cost, seed: int
) -> None:
    bench = Bench(traffic, cost=cost, seed=seed).run(15 * MINUTE)

    assert bench.share_of_best >= 0.95


@pytest.mark.parametrize("seed", SEEDS)
def test_one_user_with_repetitive_text_is_at_depth_three_or_more_within_five_minutes(seed: int) -> None:
    bench = Bench(REPETITIVE, seed=seed).run(5 * MINUTE)

    assert bench.depth >= 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
def test_after_other_traffic_repetitive_text_is_back_at_depth_three_within_five_minutes(
    cost: Cost, seed: int
) -> None:
    bench = Bench(REPETITIVE, cost=cost, seed=seed).run(10 * MINUTE)
    for traffic in (FREE, CROWD):
        bench.traffic = traffic
        bench.run(12 * MINUTE)

    bench.traffic = REPETITIVE
    bench.run(5 * MINUTE)

    assert bench.depth >= 3
    assert len(bench.decisions(Push)) <= 6


@pytest.mark.fault("TRT-LLM#12905")
@pytest.mark.parametrize("seed", SEEDS)
def test_from_depth_zero_a_return_of_easy_text_at_the_same_load_is_noticed(seed: int) -> None:
    bench = Bench(REPETITIVE, cost=COSTS["dear-drafts"], seed=seed).run(10 * MINUTE)
    bench.traffic = FREE
    bench.run(15 * MINUTE)
    assert bench.depth == 0

    bench.traffic = REPETITIVE
    bench.run(5 * MINUTE)

    assert bench.depth >= 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_collapse_of_acceptance_is_noticed_in_a_minute_and_made_good_in_ten(seed: int) -> None:
    bench = Bench(REPETITIVE, cost=COSTS["dear-drafts"], settings=some_settings(scrape=10.0), seed=seed)
    bench.run(10 * MINUTE)
    assert bench.depth == 5

    bench.traffic = replace(REPETITIVE, chance=0.05)
    collapsed = bench.now
    bench.run(MINUTE)

    assert bench.memory.jumped_at is not None
    assert bench.memory.jumped_at >= collapsed
    bench.run(9 * MINUTE)
    assert bench.share_of_best >= 0.95


@pytest.mark.fault("vllm#41838", "sglang#28771")
@pytest.mark.parametrize("seed", SEEDS)
def test_acceptance_that_decays_over_hours_takes_the_depth_down_with_it(seed: int) -> None:
    bench = Bench(REPETITIVE, cost=COSTS["dear-drafts"], seed=seed).run(15 * MINUTE)
    assert bench.depth >= 3

    for lost in range(1, 18):
        bench.traffic = replace(REPETITIVE, chance=0.9 - 0.05 * lost)
        bench.run(10 * MINUTE)

    assert bench.depth == 0
    assert bench.share_of_best >= 0.95


@pytest.mark.fault("vllm#50851", "snowflakedb/ArcticInference#185", "llama.cpp#25908")
@pytest.mark.parametrize("seed", SEEDS)
def test_under_load_a_pool_that_is_no_faster_with_drafts_stops_them_though_most_are_accepted(
    seed: int,
) -> None:
    accepted = replace(REPETITIVE, chance=0.75)
    bench = Bench(accepted, cost=COSTS["early-knee"], seed=seed).run(15 * MINUTE)
    assert bench.depth >= 2

    bench.traffic = replace(accepted, users=16)
    bench.run(20 * MINUTE)

    assert bench.depth == bench.best_depth() == 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("traffic", [REPETITIVE, FREE, CROWD], ids=["repetitive", "free", "crowd"])
def test_steady_traffic_on_a_noisy_machine_makes_no_flapping(traffic: Traffic, seed: int) -> None:
    bench = Bench(traffic, seed=seed, drift=0.01).run(15 * MINUTE)
    settled = len(bench.decisions(Push))

    bench.run(60 * MINUTE)

    assert len(bench.decisions(Push)) - settled <= 2
    assert bench.share_of_best >= 0.95


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pace", [TuningPace(), DEMO], ids=["default", "demo"])
def test_where_depths_hardly_differ_a_drifting_machine_is_no_reason_to_push(
    pace: TuningPace, seed: int
) -> None:
    bench = Bench(HARDLY, cost=FLAT, settings=some_settings(pace=pace), seed=seed, restless=0.1)
    bench.run(30 * MINUTE)

    assert len(bench.decisions(Push)) <= 1
    assert bench.share_of_best >= 0.98


@pytest.mark.fault("vllm#26504")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cost", [COMPILED, FLAT], ids=["compiled", "flat"])
@pytest.mark.parametrize("pace", [TuningPace(), DEMO], ids=["default", "demo"])
def test_drafts_that_cost_next_to_nothing_are_not_given_up_for_free_text(
    pace: TuningPace, cost: Cost, seed: int
) -> None:
    bench = Bench(REPETITIVE, cost=cost, settings=some_settings(pace=pace), seed=seed, restless=0.1)
    bench.run(10 * MINUTE)
    # 1.05 tokens a step.
    bench.traffic = Traffic(users=1, chance=0.35, draft_share=0.1)
    before, start = len(bench.decisions(Push)), bench.now
    bench.run(30 * MINUTE)

    assert bench.depth > 0
    assert bench.lost_since(start) <= 0.02
    assert len(bench.decisions(Push)) - before <= 1


@pytest.mark.fault("vllm#26504")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pace", [TuningPace(), DEMO], ids=["default", "demo"])
@pytest.mark.parametrize("extra", [0.1, 0.2])
def test_drafts_that_cost_more_than_they_bring_are_given_up_and_not_taken_up_again(
    extra: float, pace: TuningPace, seed: int
) -> None:
    dear = replace(COMPILED, draft=extra * 0.044)
    free = Traffic(users=1, chance=0.35, draft_share=0.06)
    bench = Bench(free, cost=dear, settings=some_settings(pace=pace), seed=seed, restless=0.1)
    bench.run(10 * MINUTE)
    assert bench.depth == 0
    before = len(bench.decisions(Push))

    bench.run(60 * MINUTE)

    assert bench.depth == 0
    assert len(bench.decisions(Push)) - before <= 2


@pytest.mark.parametrize("seed", range(8, 16))
def test_where_drafts_stop_to_pay_within_a_demo_the_depth_is_within_five_percent_of_the_best(
    seed: int,
) -> None:
    """vLLM's demo: 100 s of free text after repetitive text, where depth 0 is 8 % better than depth 5."""
    bench = Bench(REPETITIVE, cost=VLLM_CPU, settings=some_settings(pace=DEMO), seed=seed, restless=0.05)
    bench.run(150)
    assert bench.depth == 5

    bench.traffic = Traffic(users=1, chance=0.45, draft_share=0.06)
    bench.run(100)

    assert bench.share_of_best >= 0.95


@pytest.mark.parametrize("seed", range(4))
def test_a_demo_with_a_drifting_machine_reaches_depth_three_within_150_seconds(seed: int) -> None:
    bench = Bench(REPETITIVE, cost=FLAT, settings=some_settings(pace=DEMO), seed=seed, restless=0.1)
    bench.run(150)

    assert bench.depth >= 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_demo_is_back_in_its_last_phase_and_pushes_six_times_at_most(seed: int) -> None:
    bench = Bench(REPETITIVE, cost=COSTS["knee-at-14"], settings=some_settings(pace=DEMO), seed=seed)
    bench.restless = 0.1
    for traffic in (REPETITIVE, FREE, CROWD):
        bench.traffic = traffic
        bench.run(4 * MINUTE)

    bench.traffic = REPETITIVE
    bench.run(5 * MINUTE)

    assert bench.depth >= 3
    bench.run(8 * MINUTE)
    assert len(bench.decisions(Push)) <= 6


@pytest.mark.fault("jundot/omlx#2077")
def test_probes_take_a_small_part_of_the_time_once_all_is_known() -> None:
    bench = Bench(REPETITIVE).run(20 * MINUTE)
    before = len(bench.decisions(Probe))

    bench.run(60 * MINUTE)

    assert len(bench.decisions(Probe)) - before <= 12


@pytest.mark.fault("jundot/omlx#2077")
def test_every_probe_goes_back_to_the_table_or_to_a_better_one() -> None:
    bench = Bench(FREE).run(60 * MINUTE)

    open_probe: Table | None = None
    for _, outcome in bench.outcomes:
        match outcome.decision:
            case Probe():
                open_probe = outcome.memory.probe.back_to if outcome.memory.probe else None
            case EndProbe(table=table):
                assert table == open_probe
                open_probe = None
            case Push():
                open_probe = None
    assert open_probe is None or bench.memory.probe is not None


def test_a_probe_lasts_no_longer_than_probe_seconds_and_three_scrapes() -> None:
    bench = Bench(CROWD).run(60 * MINUTE)

    started = None
    for at, outcome in bench.outcomes:
        if isinstance(outcome.decision, Probe):
            started = at
        elif started is not None and not isinstance(outcome.decision, Hold):
            assert at - started <= 25 + 3 * 15 + 15
            started = None


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda e: replace(e, query_fault="down", intervals=()), id="outage"),
        pytest.param(lambda e: replace(e, reporting=frozenset(), intervals=()), id="stale"),
    ],
)
def test_without_data_nothing_is_pushed_and_the_state_says_so(broken: object) -> None:
    bench = Bench(REPETITIVE).run(10 * MINUTE)
    while bench.memory.probe is not None:
        bench.step()
    before = bench.document

    bench.broken = broken  # type: ignore[assignment]
    bench.run(30 * MINUTE)

    assert bench.document == before
    assert bench.outcomes[-1][1].state == "SafeHold"


def test_after_an_outage_three_good_intervals_come_before_any_action() -> None:
    bench = Bench(REPETITIVE).run(45.0)
    bench.broken = lambda evidence: replace(evidence, query_fault="down", intervals=())
    bench.run(2 * MINUTE)
    bench.broken = lambda evidence: evidence

    states = [(bench.step(), bench.outcomes[-1][1].state)[1] for _ in range(4)]

    assert states[:2] == ["SafeHold", "SafeHold"]
    assert states[2] != "SafeHold"


def test_no_traffic_changes_nothing() -> None:
    bench = Bench(REPETITIVE).run(10 * MINUTE)
    while bench.memory.probe is not None:
        bench.step()
    before = bench.document

    bench.traffic = Traffic(users=0, chance=0.5)
    bench.run(60 * MINUTE)

    assert bench.document == before


@pytest.mark.fault("vllm#57053")
def test_an_engine_that_ignores_its_schedule_is_found_out_and_left_alone() -> None:
    bench = Bench(REPETITIVE, obeys=lambda table, running: 2).run(10 * MINUTE)
    version = bench.document.version

    assert bench.memory.fault is not None
    assert bench.memory.fault.reason == "ScheduleNotEffective"
    bench.run(15 * MINUTE)
    assert bench.document.version <= version + 1
    assert bench.document.table == flat(2)


def test_an_engine_that_never_sees_its_schedule_is_found_out() -> None:
    bench = Bench(REPETITIVE, ignores_pushes=True).run(5 * MINUTE)

    assert bench.memory.fault is not None
    assert bench.memory.fault.reason == "ScheduleNotApplied"


def test_a_fault_is_cleared_once_the_engine_follows_again() -> None:
    bench = Bench(REPETITIVE, ignores_pushes=True).run(5 * MINUTE)

    bench.ignores_pushes = False
    bench.run(5 * MINUTE)

    assert bench.memory.fault is None
    assert bench.depth > 2


def test_low_kv_headroom_lowers_depth_at_once_and_stops_probes() -> None:
    bench = Bench(REPETITIVE).run(10 * MINUTE)
    assert bench.depth == 5

    bench.kv_usage = 0.93
    bench.run(MINUTE)

    assert bench.depth <= 1
    probes = len(bench.decisions(Probe))
    bench.run(20 * MINUTE)
    assert len(bench.decisions(Probe)) == probes


def test_a_fresh_queue_is_not_probed_and_a_standing_one_is() -> None:
    bench = Bench(CROWD).run(120.0)
    assert bench.decisions(Probe) == []

    bench.run(5 * MINUTE)

    assert bench.decisions(Probe) != []


def test_a_standing_queue_is_probed_however_late_its_first_tokens_are() -> None:
    def late(evidence: Evidence) -> Evidence:
        first = evidence.intervals[0]
        counts = replace(first.counts, first_token_buckets={2.0: 0.0, math.inf: 50.0})
        return replace(evidence, intervals=(replace(first, counts=counts),))

    bench = Bench(CROWD, broken=late).run(8 * MINUTE)

    assert bench.decisions(Probe) != []


def test_from_depth_zero_looks_go_on_in_a_standing_queue_that_fills_the_kv_cache() -> None:
    bench = Bench(CROWD, cost=COSTS["early-knee"]).run(20 * MINUTE)
    assert bench.depth == 0

    bench.kv_usage = 0.93
    before = len(bench.decisions(Probe))
    bench.run(20 * MINUTE)

    assert len(bench.decisions(Probe)) > before


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_pushes_than_allowed_within_an_hour(most: int) -> None:
    bench = Bench(REPETITIVE, settings=some_settings(most=most))
    for traffic in (REPETITIVE, FREE, CROWD, REPETITIVE, FREE):
        bench.traffic = traffic
        bench.run(10 * MINUTE)

    assert len(bench.decisions(Push)) <= most


def test_two_pushes_are_a_cool_down_apart_unless_traffic_has_changed() -> None:
    bench = Bench(CROWD, cost=COSTS["no-knee"]).run(60 * MINUTE)

    times = [at for at, _ in bench.decisions(Push)]
    jumped = bench.memory.jumped_at or 0.0
    assert all(later - earlier >= 120.0 or jumped > earlier for earlier, later in pairwise(times))


def test_after_scaling_nothing_is_pushed_for_five_minutes() -> None:
    bench = Bench(REPETITIVE, replicas=1)
    bench.step()
    bench.replicas = 2
    scaled = bench.now
    bench.run(10 * MINUTE)

    (first, _), *_ = bench.decisions(Push)
    assert first - scaled >= 300.0
    assert any("was scaled to 2 pods" in outcome.decision.reason for _, outcome in bench.outcomes)


def test_low_kv_headroom_does_not_wait_for_scaling_to_settle() -> None:
    bench = Bench(REPETITIVE, replicas=1)
    bench.step()
    bench.replicas, bench.kv_usage = 2, 0.93
    bench.run(2 * MINUTE)

    assert bench.depth <= 1


def test_one_push_moves_the_load_and_leaves_what_it_knows_nothing_of_near() -> None:
    bench = Bench(REPETITIVE).run(5 * MINUTE)

    assert depth_for(bench.table, 1) == 5
    assert depth_for(bench.table, 16) <= 3


def test_a_pin_is_pushed_in_the_next_pass_and_nothing_else_afterwards() -> None:
    pin = (Row(4, 5), Row(None, 0))
    bench = Bench(REPETITIVE, settings=some_settings(pin=pin)).run(30 * MINUTE)

    assert [at for at, _ in bench.decisions(Push)] == [1_000_015.0]
    assert bench.document.table == pin


def test_a_pause_ends_a_running_probe_and_freezes_the_schedule() -> None:
    bench = Bench(REPETITIVE).run(45.0)
    assert bench.memory.probe is not None

    bench.settings = some_settings(paused=True)
    bench.run(30 * MINUTE)

    assert bench.document.table == flat(2)
    assert bench.decisions(Push) == []


def test_the_reason_of_a_push_has_the_numbers() -> None:
    bench = Bench(REPETITIVE).run(5 * MINUTE)

    (_, push), *_ = bench.decisions(Push)

    assert isinstance(push, Push)
    for word in ("depth 2 -> 5", "E_2", "E_5", " ms", "%", "table 5"):
        assert word in push.reason


def test_a_fingerprint_that_changes_starts_a_new_baseline() -> None:
    bench = Bench(REPETITIVE).run(10 * MINUTE)
    pushes = bench.memory.pushes

    def renamed(evidence: Evidence) -> Evidence:
        return replace(evidence, fingerprints=frozenset({"g"}))

    bench.broken = renamed
    bench.step()

    assert bench.memory.fingerprint == "g"
    assert {window.at for window in bench.memory.windows} == {bench.now}
    assert bench.memory.pushes == pushes


def test_a_rollout_with_two_fingerprints_is_not_tuned() -> None:
    bench = Bench(REPETITIVE)
    bench.broken = lambda evidence: replace(evidence, fingerprints=frozenset({"f", "g"}))

    bench.run(10 * MINUTE)

    assert bench.document.version == 1
    assert "rollout" in bench.outcomes[-1][1].decision.reason


def test_a_queue_that_is_empty_for_a_moment_is_still_a_standing_one() -> None:
    bench = Bench(CROWD)
    for i in range(24):
        bench.traffic = replace(CROWD, users=24 if i % 2 else 14)
        bench.step()

    assert bench.decisions(Probe) != []


def test_an_objective_that_no_depth_meets_is_said_in_the_reason() -> None:
    bench = Bench(REPETITIVE)
    objectives = replace(bench.settings.objectives, time_per_output_token_seconds=0.001)
    bench.settings = replace(bench.settings, objectives=objectives)

    bench.run(10 * MINUTE)
    while bench.memory.probe is not None:
        bench.step()

    assert "ms a token is over 1 ms" in bench.step().decision.reason

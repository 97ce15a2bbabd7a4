"""Hard-off when something else happens meanwhile: no traffic, other hardware, a refusal, another proposer."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.tuning.bench import Bench, some_settings
from tests.unit.tuning.test_hard_off import TAXED, USELESS
from tests.unit.tuning.test_restart import IN_PLACE, SOME, a_block, estimates

from specfleet.api.schedule import flat
from specfleet.tuning.decision import HardOff, Hold, LoadProposer, Push
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.hard_off import advised, considered, due, judged, reload
from specfleet.tuning.memory import Memory
from specfleet.tuning.settings import PoolSettings
from specfleet.tuning.unloaded import Judged, Unloaded
from specfleet.tuning.windows import Window

HOUR = 3600.0
FOUND = Judged(9 * HOUR, 8 * HOUR, 0.15, 0.11, 0.2, 4.0, 12.0, 1, 0.047, 0.040, hoped_since=8 * HOUR)
TRIAL = Unloaded("", 0.0, 1200.0, "tries it", flat(5), trial=True)
MEASURED = tuple(Window(60.0 * i, 0, 10.0, 10.0, 0.04, 100.0, loaded=False) for i in range(5))


def test_a_judgement_goes_with_the_load_that_it_was_made_of() -> None:
    memory = Memory(profile=(a_block(9 * HOUR),), judged=FOUND)

    assert judged(SOME, memory, estimates(), 9 * HOUR + 1.0).judged is None


def test_while_the_proposer_is_out_its_load_ages_and_the_judgement_stands() -> None:
    memory = Memory(profile=(a_block(9 * HOUR),), judged=FOUND, unloaded=TRIAL)

    assert judged(SOME, memory, estimates(), 9 * HOUR + 1.0).judged == FOUND


LOSS = {"judged": replace(FOUND, saved=-0.04), "windows": MEASURED, "queue_since": 1.0}


@pytest.mark.parametrize("known", [{}, {"judged": FOUND}, LOSS], ids=["no-load", "no-steps", "loss"])
def test_a_trial_ends_after_three_hours_at_a_low_load_and_after_a_day_at_any(known: dict[str, Any]) -> None:
    memory = Memory(unloaded=TRIAL, **known)
    ends = [
        reload(IN_PLACE, memory, estimates(), hours * HOUR, calm=calm)
        for hours, calm in ((2.9, True), (3.0, False), (3.0, True), (24.0, False))
    ]

    assert [isinstance(one, LoadProposer) for one in ends] == [False, False, True, True]


def test_a_trial_that_shows_no_loss_is_not_ended() -> None:
    memory = Memory(unloaded=TRIAL, judged=replace(FOUND, saved=-0.01), windows=MEASURED)

    assert reload(IN_PLACE, memory, estimates(), 30 * HOUR, calm=True) is None


def test_other_hardware_during_a_pause_voids_what_was_measured_and_not_that_there_is_no_proposer() -> None:
    memory = Memory("f", unloaded=TRIAL, without="old", tried_at=5.0, windows=MEASURED, judged=FOUND)
    evidence = Evidence(None, frozenset({"new"}))

    found = considered(SOME, evidence, memory)

    assert (found.unloaded, found.without, found.fingerprint) == (TRIAL, "new", "")
    assert (found.windows, found.judged) == ((), None)
    assert considered(SOME, evidence, found) == found


def test_another_image_allows_no_new_trial_within_the_week() -> None:
    memory = Memory("f", tried_at=8 * HOUR, restore=flat(3))

    found = considered(SOME, Evidence(None, frozenset({"g"})), memory)

    assert (found.fingerprint, found.tried_at, found.restore) == ("g", 8 * HOUR, flat(3))
    assert due(SOME, replace(found, judged=FOUND), estimates(), 9 * HOUR) is None


@pytest.mark.parametrize(
    ("changed", "restarts"), [({}, True), ({"actuator": "fixed"}, False), ({"held": True}, False)]
)
def test_only_pods_that_may_be_changed_are_restarted(changed: dict[str, Any], restarts: bool) -> None:
    found = due(replace(SOME, **changed), Memory(judged=FOUND), estimates(), 9 * HOUR)

    assert isinstance(found, HardOff) == restarts


def test_what_is_only_hoped_for_is_tried_and_not_advised() -> None:
    memory = Memory(judged=replace(FOUND, since=9 * HOUR - 60.0))

    assert advised(SOME, memory, 9 * HOUR) is None
    assert isinstance(due(SOME, memory, estimates(), 9 * HOUR), HardOff)


def test_an_engine_of_one_depth_is_not_told_to_write_a_mode_that_is_refused_there() -> None:
    recommend = some_settings(mode="Recommend")
    said = [advised(one, Memory(judged=FOUND), 9 * HOUR) for one in (recommend, fixed(recommend))]

    assert ["mode Enforce" in (one or "") for one in said] == [True, False]
    assert all("write speculation.method none" in (one or "") for one in said)


def fixed(settings: PoolSettings) -> PoolSettings:
    return replace(settings, actuator="fixed")


def in_force(**settings: Any) -> Bench:
    """A pool whose pods have just come back without the proposer; the table was 5 at any load."""
    bench = Bench(USELESS, cost=TAXED, settings=replace(SOME, **settings)).run(60.0)
    unloaded = replace(TRIAL, since=bench.now, pause=HOUR, trial=False)
    bench.memory = replace(bench.memory, unloaded=unloaded)
    bench.loaded = False
    return bench.run(120.0)


def test_another_proposer_gets_the_table_from_before_as_far_as_it_goes() -> None:
    bench = in_force()
    assert bench.table == flat(0)

    bench.settings = replace(SOME, proposer="another", max_depth=3)
    held = bench.step().decision
    bench.broken = lambda evidence: replace(evidence, fingerprints=frozenset({"g"}))
    bench.loaded = True
    bench.step()

    assert isinstance(held, Hold) and held.kind == "Rollout"
    assert bench.table == flat(3)


def test_until_the_proposer_is_there_nothing_is_pushed_and_no_pod_is_blamed() -> None:
    bench = in_force()
    bench.memory = replace(bench.memory, unloaded=replace(TRIAL, pause=0.0, trial=False))
    assert isinstance(bench.step().decision, LoadProposer)

    # Pods without the proposer have no plug-in, so they report no version.
    bench.loaded, bench.broken = False, without_version
    bench.run(300.0)

    assert all(isinstance(one.decision, Hold) for _, one in bench.outcomes[-20:])
    assert bench.memory.fault is None
    bench.loaded, bench.broken = True, lambda evidence: evidence
    decision = bench.step().decision
    assert isinstance(decision, Push) and decision.table == flat(5)


def without_version(evidence: Evidence) -> Evidence:
    intervals = (replace(one, version=None, version_at_start=None) for one in evidence.intervals)
    return replace(evidence, intervals=tuple(intervals), versions={})


def test_pods_that_start_with_their_table_come_back_with_the_one_from_before() -> None:
    """Another table in the meantime would roll them once more."""
    bench = in_force(actuator="rollout")

    assert bench.memory.without
    assert bench.table[0].depth > 0
    assert not [at for at, _ in bench.decisions(Push) if at > bench.now - 120.0]

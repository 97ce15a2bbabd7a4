"""Is a pushed table followed, where only stock counters say so? design/tuning.md, section 9."""

from dataclasses import replace
from datetime import UTC, datetime

from tests.unit.tuning.test_attribution import POD, stock

from specfleet.api.configuration import TuningPace
from specfleet.api.objectives import EffectiveObjectives, EffectiveTuning
from specfleet.api.schedule import Document, flat
from specfleet.tuning.evidence import Evidence, usable
from specfleet.tuning.interval import PodInterval
from specfleet.tuning.memory import Memory, PushFault
from specfleet.tuning.settings import PoolSettings
from specfleet.tuning.verify import verified

VERSION = (1, 1)
DOCUMENT = Document(1, 1, 4, flat(4), datetime.fromtimestamp(0.0, UTC))
SETTINGS = PoolSettings(
    objectives=EffectiveObjectives(None, None, None, 0.1),
    tuning=EffectiveTuning("Enforce", False, "default", 6, None),
    pace=TuningPace(),
    initial_depth=4,
    max_depth=4,
    max_requests=16,
)


def fault_of(interval: PodInterval) -> PushFault | None:
    pods = frozenset({POD})
    evidence = Evidence(DOCUMENT, frozenset({"f"}), pods, pods, intervals=(interval,))
    return verified(Memory(), usable(evidence), DOCUMENT, SETTINGS).fault


def reporting(interval: PodInterval) -> PodInterval:
    return replace(interval, version=VERSION, version_at_start=VERSION)


def test_drafts_of_the_tables_depth_are_no_fault() -> None:
    assert fault_of(reporting(stock(draft_tokens=4000))) is None


def test_drafts_that_are_too_short_for_the_table_show_an_engine_that_ignores_it() -> None:
    fault = fault_of(reporting(stock(draft_tokens=1000)))

    assert fault is not None
    assert fault.reason == "ScheduleNotEffective"
    assert "drafted 1000 tokens where 4000 were scheduled" in fault.message


def test_drafts_that_are_too_long_show_it_as_well() -> None:
    read = reporting(stock(draft_tokens=6000))
    pods = frozenset({POD})
    used = usable(Evidence(DOCUMENT, frozenset({"f"}), pods, pods, intervals=(read,)))

    once = verified(Memory(), used, DOCUMENT, SETTINGS)
    twice = verified(once, used, DOCUMENT, SETTINGS)

    assert once.fault is None
    assert twice.fault is not None
    assert "drafted 6000 tokens where 4000 were allowed" in twice.fault.message


def test_an_engine_without_its_plug_in_says_why_it_follows_no_schedule() -> None:
    late = replace(stock(draft_tokens=4000), start=600.0, end=610.0, not_live="engine_version")

    fault = fault_of(late)

    assert fault is not None
    assert fault.reason == "ScheduleNotApplied"
    assert "the plug-in does not know this version of vLLM" in fault.message


def test_no_word_of_an_answer_reaches_status_but_the_plug_ins_own() -> None:
    late = replace(stock(draft_tokens=4000), start=600.0, end=610.0, not_live="<b>surprise</b>")

    fault = fault_of(late)

    assert fault is not None
    assert "surprise" not in fault.message

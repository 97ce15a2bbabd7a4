"""One query for each family of engines, and how a large answer is split: design/tuning.md, section 3.1."""

import re
from dataclasses import dataclass, field

import pytest

from specfleet.engines.metrics_sglang import SGLANG
from specfleet.engines.metrics_vllm import BUILTIN, VLLM
from specfleet.telemetry.errors import AnswerTooLarge
from specfleet.telemetry.fleet import MOST_SERIES, Fleet, FleetReader
from specfleet.telemetry.queries import fleet_query
from specfleet.telemetry.source import Series

SCOPE = 'specfleet_dev_pool!=""'
TEAMS = [f"team-{number}" for number in range(4)]
FLEET = {(team, "chat-0"): VLLM for team in TEAMS}


@dataclass
class Source:
    """Answers with ``series`` for each namespace; more than ``most`` in one answer are refused."""

    series: int = 1
    most: float = float("inf")
    asked: list[str] = field(default_factory=list)

    async def query(self, promql: str, at: float) -> list[Series]:
        self.asked.append(promql)
        found = re.search(r'namespace=~"([^"]*)"', promql)
        names = found[1].split("|") if found else TEAMS
        if self.series * len(names) > self.most:
            raise AnswerTooLarge("the answer passes the cap")
        return [Series({"namespace": name}, ()) for name in names for _ in range(self.series)]


async def read(reader: FleetReader, fleet: Fleet, at: float) -> list[Series]:
    found: list[Series] = []
    await reader.read(fleet, at, found.extend)
    return found


async def test_one_query_serves_all_pools_of_a_family_whatever_their_number() -> None:
    source = Source()

    await read(FleetReader(source, SCOPE, 15.0), FLEET, 0.0)

    (asked,) = source.asked
    assert asked.endswith(f",{SCOPE}}}[45s]")
    assert "namespace" not in asked


async def test_each_family_has_its_own_query_and_is_asked_only_where_it_runs() -> None:
    source = Source()
    mixed = {("a", "one"): BUILTIN, ("b", "two"): VLLM, ("c", "three"): SGLANG}

    await read(FleetReader(source, "", 15.0), mixed, 0.0)

    assert [("vllm:" in text, "sglang:" in text) for text in source.asked] == [(True, False), (False, True)]


async def test_an_answer_of_too_many_series_is_split_by_namespace_at_the_next_pass() -> None:
    source = Source(series=MOST_SERIES // 3)
    reader = FleetReader(source, "", 15.0)

    first = await read(reader, FLEET, 0.0)
    second = await read(reader, FLEET, 15.0)

    assert len(source.asked) == 1 + 2
    assert 'namespace=~"team-0|team-2"' in source.asked[1]
    assert sorted(s.labels["namespace"] for s in first) == sorted(s.labels["namespace"] for s in second)


async def test_an_answer_that_is_refused_as_too_large_is_split_at_once() -> None:
    source = Source(series=10, most=25)

    reader = FleetReader(source, "", 15.0)

    found = await read(reader, FLEET, 0.0)

    assert len(found) == 40
    assert len(source.asked) == 1 + 2

    await read(reader, FLEET, 15.0)

    assert len(source.asked) == 1 + 2 + 2


async def test_parts_are_taken_one_by_one_before_the_next_is_asked_for() -> None:
    source = Source(series=10, most=25)
    reader = FleetReader(source, "", 15.0)
    asked_when_taken = []

    await reader.read(FLEET, 0.0, lambda _: asked_when_taken.append(len(source.asked)))

    assert asked_when_taken == [2, 3]  # the first query was refused


async def test_one_namespace_that_is_too_large_is_an_error_and_no_partial_answer() -> None:
    with pytest.raises(AnswerTooLarge):
        await read(FleetReader(Source(series=10, most=5), "", 15.0), FLEET, 0.0)


async def test_parts_that_come_back_empty_after_a_refusal_are_no_series_and_no_failure() -> None:
    source = Source(series=10, most=25)
    reader = FleetReader(source, "", 15.0)
    whole = source.query

    async def emptied(promql: str, at: float) -> list[Series]:
        found = await whole(promql, at)  # raises for the whole fleet
        return found if source.series == 1 else []

    source.query = emptied  # type: ignore[method-assign]

    assert await read(reader, FLEET, 0.0) == []

    source.series = 1
    assert len(await read(reader, FLEET, 15.0)) == len(TEAMS)
    assert "namespace" not in source.asked[-1]


async def test_a_fleet_that_has_shrunk_is_read_in_one_query_again() -> None:
    source = Source(series=10, most=25)
    reader = FleetReader(source, "", 15.0)
    await read(reader, FLEET, 0.0)

    source.asked.clear()
    await read(reader, FLEET, 15.0)
    source.series = 1
    await read(reader, FLEET, 30.0)
    await read(reader, FLEET, 45.0)

    assert "namespace" not in source.asked[-1]


def test_names_are_asked_for_whole_so_that_no_created_twin_matches() -> None:
    found = re.search(r'__name__=~"([^"]*)"', fleet_query([VLLM, SGLANG], "", 5.0))
    assert found is not None

    assert re.fullmatch(found[1], "vllm:generation_tokens_total")
    assert not re.fullmatch(found[1], "vllm:generation_tokens_created")
    assert "*" not in found[1] and "." not in found[1]

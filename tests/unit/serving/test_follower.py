"""Following a file: what is accepted, what is counted, and that nothing ever raises."""

import json
import logging
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specfleet_serving.follower import ScheduleFollower
from specfleet_serving.schedule import Reason


def a_schedule(version: int, depth: int = 1, fence: int = 1, **fields: Any) -> str:
    body = {"format": 1, "version": version, "fence": fence, "maxDepth": 5, "table": [{"depth": depth}]}
    return json.dumps(body | fields)


class Bench:
    """A follower on a file, with its refusals counted."""

    def __init__(self, path: Path | None) -> None:
        self.refused: Counter[Reason] = Counter()
        self.follower = ScheduleFollower(path, 3, 5, lambda reason: self.refused.update([reason]))

    def look(self) -> None:
        self.follower.poll()
        self.follower.swap()


def test_without_a_file_the_initial_depth_is_in_force_as_version_0() -> None:
    bench = Bench(None)

    assert bench.follower.in_force.version == 0
    assert bench.follower.depth_for(100) == 3
    assert not bench.refused


def test_a_mounted_file_is_in_force_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(a_schedule(12, depth=5))

    bench = Bench(path)

    assert bench.follower.in_force.version == 12
    assert bench.follower.depth_for(1) == 5


def test_an_accepted_file_waits_for_the_swap_between_two_steps(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(a_schedule(1, depth=1))
    bench = Bench(path)
    path.write_text(a_schedule(2, depth=2))

    bench.follower.poll()

    assert bench.follower.depth_for(1) == 1
    bench.follower.swap()
    assert bench.follower.depth_for(1) == 2


def test_the_content_counts_and_not_the_time_of_change(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(a_schedule(1, depth=1))
    os.utime(path, (1, 1))
    bench = Bench(path)
    path.write_text(a_schedule(2, depth=2))
    os.utime(path, (1, 1))

    bench.look()

    assert bench.follower.in_force.version == 2


def test_the_swapped_link_of_a_config_map_is_followed(tmp_path: Path) -> None:
    def publish(name: str, text: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "schedule.json").write_text(text)
        (tmp_path / "..data_tmp").symlink_to(name)
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    publish("..2026_1", a_schedule(1, depth=1))
    (tmp_path / "schedule.json").symlink_to("..data/schedule.json")
    bench = Bench(tmp_path / "schedule.json")

    publish("..2026_2", a_schedule(2, depth=2))
    bench.look()

    assert bench.follower.in_force.version == 2
    assert not bench.refused


def test_a_refused_file_is_counted_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(a_schedule(5))
    bench = Bench(path)
    path.write_text("{")

    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            bench.look()

    assert bench.refused == {Reason.NOT_JSON: 1}
    assert len(caplog.records) == 1
    assert "version 5 stays in force" in caplog.text


def test_a_file_that_goes_and_comes_back_is_one_refusal_and_no_old_version(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(a_schedule(5, depth=4))
    bench = Bench(path)
    path.unlink()
    bench.look()
    bench.look()
    path.write_text(a_schedule(5, depth=4))

    bench.look()

    assert bench.refused == {Reason.FILE_GONE: 1}
    assert bench.follower.in_force.version == 5


def test_a_directory_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    assert bench.refused == {Reason.UNREADABLE: 1}
    assert bench.follower.in_force.version == 0


def test_a_file_larger_than_a_config_map_is_refused_without_being_parsed(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_bytes(b" " * (1024 * 1024 + 1) + a_schedule(1).encode())

    assert Bench(path).refused == {Reason.UNREADABLE: 1}


@pytest.mark.parametrize(("initial", "deepest"), [(6, 5), (-1, 5)])
def test_an_initial_depth_that_the_engine_cannot_do_is_an_error(initial: int, deepest: int) -> None:
    with pytest.raises(ValueError, match="initial depth"):
        ScheduleFollower(None, initial, deepest, lambda _: None)


GOOD = st.builds(a_schedule, st.integers(0, 6), st.integers(0, 5), st.integers(0, 3)).map(str.encode)
BAD = st.sampled_from([a_schedule(9, depth=6), a_schedule(9, format=2), "{", "[]", "null"]).map(str.encode)
FILES = st.lists(st.none() | GOOD | BAD | st.binary(max_size=20), max_size=12)


@settings(deadline=None)
@given(FILES)
def test_after_any_files_the_last_good_one_is_in_force(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes | None]
) -> None:
    path = tmp_path_factory.mktemp("schedule") / "schedule.json"
    bench = Bench(path)
    expected = (0, 0, 3)
    for content in contents:
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content)

        bench.look()

        # A model of the contract: only files that GOOD makes are good, and they must step up.
        if content in _ALL_GOOD and _ALL_GOOD[content][:2] > expected[:2]:
            expected = _ALL_GOOD[content]
        document = bench.follower.in_force
        assert (document.fence, document.version, bench.follower.depth_for(7)) == expected


_ALL_GOOD = {
    a_schedule(version, depth, fence).encode(): (fence, version, depth)
    for version in range(7)
    for depth in range(6)
    for fence in range(4)
}

"""Which arm of the replays stands for a settled schedule."""

from dev.demo.plan import Phase
from dev.demo.replay import settled_arms

ALONE = Phase("alone", "one user", "free", 1, 10.0, 40)
CROWD = Phase("crowd", "many users", "mixed", 20, 10.0, 40)
DEPTHS = (0, 1, 2, 3, 5)


def test_rows_that_the_load_cannot_reach_make_no_other_arm() -> None:
    settled = {"alone": [{"maxRequests": 2, "depth": 3}, {"depth": 0}]}

    assert settled_arms(DEPTHS, [ALONE], settled)["alone"].name == "depth-3"


def test_a_table_of_two_depths_within_the_load_is_an_arm_of_its_own() -> None:
    table = [{"maxRequests": 8, "depth": 3}, {"depth": 1}]

    arm = settled_arms(DEPTHS, [CROWD], {"crowd": table})["crowd"]

    assert (arm.name, arm.table) == ("settled-crowd", table)


def test_a_depth_that_is_not_pinned_is_an_arm_of_its_own() -> None:
    assert settled_arms(DEPTHS, [ALONE], {"alone": [{"depth": 4}]})["alone"].name == "settled-alone"


def test_two_phases_with_equal_schedules_share_an_arm() -> None:
    again = Phase("again", "one user again", "free", 1, 10.0, 40)

    found = settled_arms(DEPTHS, [ALONE, again], {"alone": [{"depth": 4}], "again": [{"depth": 4}]})

    assert {arm.name for arm in found.values()} == {"settled-alone"}

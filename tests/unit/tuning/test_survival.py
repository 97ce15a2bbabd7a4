"""Survival and expected tokens: design/tuning.md, sections 3.5 and 4."""

import pytest

from specfleet.tuning.interval import Counts
from specfleet.tuning.survival import Survival


def some_counts(
    depth: int, steps: float, accepted: tuple[float, ...], drafted: tuple[float, ...] = ()
) -> Counts:
    drafted = drafted or (steps,) * len(accepted)
    return Counts(
        sequence_steps={depth: steps},
        draft_positions=dict(enumerate(drafted, 1)),
        accepted_positions=dict(enumerate(accepted, 1)),
    )


@pytest.mark.fault("vllm#9565")
def test_e2_accepted_positions_are_prefix_products_already() -> None:
    survival = Survival().plus(some_counts(3, 1000, (800, 500, 300)))

    assert survival.by_position() == pytest.approx((0.80, 0.50, 0.30))
    assert survival.tokens_per_step(3) == pytest.approx(2.60)


def test_e4_steps_in_which_nothing_was_proposed_count_for_tokens_per_step() -> None:
    # The numbers of a real n-gram server: 38 drafts in 99 decode events, 59 accepted tokens.
    survival = Survival().plus(some_counts(2, 99, (38, 21), drafted=(38, 38)))

    assert survival.tokens_per_step(2) == pytest.approx(1 + 59 / 99)
    assert survival.drafts_per_step(2) == pytest.approx(77 / 99, abs=0.02)


def test_each_position_is_divided_by_the_steps_that_could_reach_it() -> None:
    shallow = some_counts(1, 900, (450,))
    deep = some_counts(3, 100, (50, 40, 30))

    survival = Survival().plus(shallow).plus(deep)

    assert survival.accepted_share(1) == pytest.approx(0.5)
    assert survival.accepted_share(3) == pytest.approx(0.3)


def test_one_interval_adds_at_most_1500_steps() -> None:
    survival = Survival().plus(some_counts(2, 6000, (3000, 1500)))

    assert survival.reached == pytest.approx({1: 1500, 2: 1500})
    assert survival.by_position() == pytest.approx((0.5, 0.25))


def test_where_nothing_is_known_the_first_position_takes_the_prior() -> None:
    assert Survival().accepted_share(1) == 0.60


def test_half_is_forgotten_after_two_minutes_of_traffic() -> None:
    survival = Survival().plus(some_counts(1, 1000, (500,))).forgotten(120.0, traffic=True)

    assert survival.reached[1] == pytest.approx(500)
    assert survival.accepted_share(1) == pytest.approx(0.5)


def test_without_traffic_acceptance_stays_known_for_minutes_but_not_for_an_hour() -> None:
    survival = Survival().plus(some_counts(1, 1000, (500,)))

    assert survival.forgotten(600.0, traffic=False).known(1)
    assert not survival.forgotten(3600.0, traffic=False).known(1)


def test_an_unvisited_position_is_expected_below_the_one_before_and_is_not_known() -> None:
    survival = Survival().plus(some_counts(2, 1000, (800, 560)))

    assert survival.accepted_share(3) == pytest.approx(0.56 * 0.7 * 0.98)
    assert not survival.known(3)
    assert survival.known(2)


def test_few_samples_make_uncertain_and_many_do_not() -> None:
    # Design effect 2: sd of E_1 = sqrt(2 * (0.25 + 1 / n) / n), against E_0 = 1 that of ln E_1 = sd / 1.5.
    few = Survival().plus(some_counts(1, 80, (40,)))
    many = Survival(reached={1: 80000.0}, drafted={1: 80000.0}, accepted={1: 40000.0})

    assert few.uncertainty(1, 0) == pytest.approx((2 * (0.25 + 1 / 80) / 80) ** 0.5 / 1.5)
    assert many.uncertainty(1, 0) == pytest.approx(0.00167, abs=1e-5)


def test_positions_that_two_depths_share_make_them_hardly_more_uncertain() -> None:
    survival = Survival().plus(some_counts(3, 2000, (1800, 1620, 20)))

    assert survival.uncertainty(3, 2) < 0.2 * survival.uncertainty(2, 0)


def test_p11_depth_zero_alone_leaves_acceptance_unknown_and_not_zero() -> None:
    survival = Survival().plus(Counts(sequence_steps={0: 5000}))

    assert not survival.known(1)
    assert survival.by_position() == ()
    assert survival.known(0)

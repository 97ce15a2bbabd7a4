"""What is drawn before a run. Values: design/simulator.md, sections 3 and 4."""

import numpy as np
import pytest

from specfleet.simulator.acceptance import CHAT, CODE, Acceptance, draw_text, recorded
from specfleet.simulator.layout import OUTCOMES
from specfleet.simulator.state import Requests
from specfleet.simulator.traffic import Traffic, draw_requests

CALM = Acceptance(regimes=False, collapse=False, drift=0.0)


def requests(traffic: Traffic, seconds: int = 3600, rate: float = 5.0) -> Requests:
    text = draw_text(CALM, seconds, np.random.default_rng(1))
    return draw_requests(traffic, np.full(seconds, rate), text, np.random.default_rng(2))


def test_profiles_are_those_of_the_design_and_deeper_positions_fall_on() -> None:
    survivals = Acceptance().survivals()

    assert survivals[0, :5] == pytest.approx(CODE)
    assert survivals[1, :5] == pytest.approx(CHAT)
    assert (np.diff(survivals, axis=1) <= 0).all()


def test_a_weak_draft_is_accepted_less_the_deeper_it_is() -> None:
    ratio = Acceptance(weak=0.55).survivals() / Acceptance().survivals()

    assert ratio[0, :3] == pytest.approx([0.55, 0.55**1.3, 0.55**1.6])


def test_an_adversarial_draft_has_five_percent_at_the_first_position() -> None:
    assert Acceptance(ceiling=0.05).survivals()[:, 0] == pytest.approx([0.05] * 3)


def test_a_collapse_takes_three_quarters_of_the_first_position_for_twenty_minutes() -> None:
    factor = draw_text(Acceptance(), 4 * 3600, np.random.default_rng(1)).factor
    start = int(0.55 * 4 * 3600)

    assert (factor[:start] == 1).all()
    assert factor[start, :3] == pytest.approx([0.25, 0.25**1.5, 0.25**2])
    assert (factor[start + 1199, 0], factor[start + 1200, 0]) == (0.25, 1.0)


def test_in_a_regime_one_kind_takes_seven_tenths_of_the_requests() -> None:
    mix = draw_text(Acceptance(drift=0.0, collapse=False), 6 * 3600, np.random.default_rng(1)).mix

    assert mix[0] == pytest.approx([0.2, 0.6, 0.2])
    assert mix[-1].max() == pytest.approx(0.7)


def test_a_slow_decay_halves_survival_in_its_time() -> None:
    acceptance = Acceptance(collapse=False, halves_in_seconds=3600.0)

    assert draw_text(acceptance, 3601, np.random.default_rng(1)).factor[3600, 0] == pytest.approx(0.5)


def test_a_replay_accepts_what_was_recorded() -> None:
    replay = recorded([[0, 2, 2, 3], [1, 0]])

    assert replay.survivals()[0, :3] == pytest.approx([0.75, 0.75, 0.25])
    assert replay.survivals()[1, 0] == pytest.approx(0.5)
    assert replay.spread == 0.0


def test_shares_that_do_not_add_up_to_one_are_refused() -> None:
    with pytest.raises(ValueError, match="add up to 1"):
        Acceptance(mix=(0.2, 0.6, 0.3))


def test_the_base_traffic_has_five_and_a_half_prompt_tokens_per_output_token() -> None:
    drawn = requests(Traffic())

    assert drawn.prompt.sum() / drawn.output.sum() == pytest.approx(5.5, rel=0.05)
    assert drawn.prompt.max() <= 24_000
    assert drawn.output.min() >= 8


def test_a_day_of_two_hours_goes_from_18_percent_to_the_peak_and_back() -> None:
    rates = Traffic(peak=0.9, burst=1.0).rates(7201, 6.0, np.random.default_rng(1))

    assert rates[[0, 3600, 7200]] == pytest.approx([0.18 * 5.4, 5.4, 0.18 * 5.4])
    assert rates[1800] == pytest.approx(5.4 * (0.18 + 0.82 * 0.5**1.3))


def test_bursts_hold_for_ninety_seconds_in_ten_minutes() -> None:
    rates = Traffic(shape="steady", burst=1.5).rates(500_000, 1.0, np.random.default_rng(1))

    assert set(rates) == {1.0, 1.5}
    assert (rates == 1.5).mean() == pytest.approx(0.15, abs=0.015)


def test_a_step_of_load_comes_in_one_second() -> None:
    traffic = Traffic(shape="steps", steps=((0.0, 0.5), (100.0, 1.3)), burst=1.0)

    rates = traffic.rates(200, 6.0, np.random.default_rng(1))

    assert (rates[99], rates[100]) == (pytest.approx(3.0), pytest.approx(7.8))


def test_answers_to_one_prompt_arrive_together_and_share_it() -> None:
    drawn = requests(Traffic(copies=3))

    assert len(np.unique(drawn.arrival)) == len(drawn.arrival) / 3
    assert (drawn.shared[1::3] == drawn.prompt[1::3]).all()
    assert (drawn.shared[0::3] == 0).all()


def test_aborted_requests_end_early_and_are_no_completions() -> None:
    drawn = requests(Traffic(aborted=0.2))
    gone = drawn.outcome == OUTCOMES.index("abort")

    assert gone.mean() == pytest.approx(0.2, abs=0.02)
    assert drawn.output[gone].mean() < 0.6 * drawn.output[~gone].mean()

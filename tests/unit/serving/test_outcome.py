"""What an answer tells of its drafts. The figures are those of vLLM's own test of the same shape."""

from specfleet_serving.active import Output
from specfleet_serving.outcome import Level, Outcome


def an_outcome(
    max_depth: int, *steps: tuple[int, int], level: Level = "summary", choices: int = 1
) -> Outcome:
    outcome = Outcome(max_depth, choices, level)
    for drafted, accepted in steps:
        outcome.count(Output("one", (1,), "a", None, (), drafted, accepted))
    return outcome


def test_the_summary_has_vllms_names_and_meanings() -> None:
    assert an_outcome(3, (3, 2), (3, 0)).summary() == {
        "mean_acceptance_length": 2.0,
        "draft_acceptance_rate": 1 / 3,
        "acceptance_histogram": [1, 0, 1, 0],
        "num_spec_steps": 2,
        "num_accepted_draft_tokens": 2,
        "num_draft_tokens": 6,
        "num_spec_tokens": 3,
    }


def test_the_detailed_form_has_each_step_beside() -> None:
    summary = an_outcome(2, (2, 1), (0, 0), level="detailed").summary()

    assert summary is not None
    # A step without a draft is none of speculation's.
    assert (summary["per_step_accepted"], summary["per_step_drafted"]) == ([1], [2])


def test_several_choices_or_no_proposer_tell_nothing() -> None:
    assert an_outcome(3, (3, 2), choices=2).summary() is None
    assert an_outcome(0).summary() is None


def test_an_answer_without_drafts_accepted_none() -> None:
    summary = an_outcome(2).summary()

    assert summary is not None
    assert (summary["mean_acceptance_length"], summary["draft_acceptance_rate"]) == (1.0, 0.0)

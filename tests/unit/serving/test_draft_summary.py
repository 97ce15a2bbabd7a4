"""What an answer tells of its drafts. The figures are those of vLLM's own test of the same shape."""

from specfleet_serving.active import Output
from specfleet_serving.draft_summary import DraftSummary, Level


def a_summary(
    max_depth: int, *steps: tuple[int, int], level: Level = "summary", choices: int = 1
) -> DraftSummary:
    summary = DraftSummary(max_depth, choices, level)
    for drafted, accepted in steps:
        summary.count(Output("one", (1,), "a", None, (), drafted, accepted))
    return summary


def test_the_summary_has_vllms_names_and_meanings() -> None:
    assert a_summary(3, (3, 2), (3, 0)).figures() == {
        "mean_acceptance_length": 2.0,
        "draft_acceptance_rate": 1 / 3,
        "acceptance_histogram": [1, 0, 1, 0],
        "num_spec_steps": 2,
        "num_accepted_draft_tokens": 2,
        "num_draft_tokens": 6,
        "num_spec_tokens": 3,
    }


def test_the_detailed_form_has_each_step_beside() -> None:
    figures = a_summary(2, (2, 1), (0, 0), level="detailed").figures()

    assert figures is not None
    # A step without a draft is none of speculation's.
    assert (figures["per_step_accepted"], figures["per_step_drafted"]) == ([1], [2])


def test_several_choices_or_no_proposer_tell_nothing() -> None:
    assert a_summary(3, (3, 2), choices=2).figures() is None
    assert a_summary(0).figures() is None


def test_an_answer_without_drafts_accepted_none() -> None:
    figures = a_summary(2).figures()

    assert figures is not None
    assert (figures["mean_acceptance_length"], figures["draft_acceptance_rate"]) == (1.0, 0.0)

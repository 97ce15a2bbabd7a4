"""Drafts that are hardly ever accepted: no depth can pay, at no load, so no day's load is needed to judge it.

A step of depth 1 brings at most S_1 tokens more. In the worked example of design/tuning.md, section 5, to
draft one token takes 8 % of a step, and a loaded proposer another 8 %, before anything is verified; a
larger batch only makes verifying dearer. Acceptance is that of the day, not of the moment: a collapse of
minutes does not count. A drafter that proposes only now and then looks its drafts up in the text. They
change with the text and cost next to nothing, so `hard_off` judges them by the load.
"""

from specfleet.tuning.decision import HardOff
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.memory import Memory
from specfleet.tuning.restart import repaid_in_queue, soon_caught_up
from specfleet.tuning.settings import PoolSettings
from specfleet.tuning.unloaded import next_pause

# S_1 under which a proposer does not fit its model, and the tokens that it wins are worth no more than the
# time of drafting. Weights that fit give .3 and more even for hard text; .07 was seen of a target with
# rotated weights (vllm-project/vllm-ascend#7038).
HARDLY_ACCEPTED = 0.1
# Source: design/tuning.md, section 12, "Collapse".
LEAST_DRAFTS = 2000.0
LEAST_SECONDS = 180.0
SURE = 2.0  # standard deviations
NEARLY_ALWAYS = 0.9  # of the steps propose something: the drafter is a model
# At a low load a day of the tax repays two restarts, and a quarter of one does not; in a queue minutes do.
LEAST_PAUSE_SECONDS = 24 * 3600.0


def is_rejected(memory: Memory) -> bool:
    """Say whether hardly a first draft of the last day was accepted, by enough drafts and minutes."""
    loaded = sum(one.seconds for one in memory.profile if one.loaded)
    usual = memory.usual
    return (
        loaded >= LEAST_SECONDS
        and usual.drafted.get(1, 0.0) >= LEAST_DRAFTS
        and usual.drafted_share(1) >= NEARLY_ALWAYS
        and usual.accepted_share(1) + SURE * usual.error(1) < HARDLY_ACCEPTED
    )


def off_if_rejected(settings: PoolSettings, memory: Memory, estimates: Estimates) -> HardOff | None:
    """Unload such a proposer at the first low load, or in a queue that has stood for more than an hour.

    Without a trial: that would show what is known.
    """
    if not is_rejected(memory):
        return None
    if not (soon_caught_up(settings, memory, estimates) or repaid_in_queue(settings, memory)):
        return None
    pause = max(LEAST_PAUSE_SECONDS, next_pause(memory.last_pause, settings.proposer))
    return HardOff(f"{why_rejected(memory)}; tried again in {pause / 3600.0:.0f} h", pause)


def why_rejected(memory: Memory) -> str:
    """Say it in words and numbers, for status."""
    usual = memory.usual
    return (
        f"{usual.accepted_share(1):.1%} of {usual.drafted.get(1, 0.0):.0f} first drafts were accepted, "
        f"surely less than {HARDLY_ACCEPTED:.0%}: no depth pays at any load"
    )

"""Verdicts on canaries, pure: minutes of two slices -> evidence -> roll back, accept, or go on.

`judge.judge` is the one entry: it pairs each minute of the canary with the same minute of the control and of
the active slice (`blocks`), adds it to e-values that may be looked at every minute (`mixture` for time and
throughput, `counts` for missed limits and failed requests), and watches for what needs no test (`trips`). How
noisy a comparison is comes from equal slices (`noise`), never from the canary: a regression would inflate its
own noise and hide behind it. Source: design/tuning.md, section 10.2.
"""

from specfleet.tuning.verdict.blocks import SliceMinute
from specfleet.tuning.verdict.judge import (
    Accept,
    Canary,
    Guards,
    Minute,
    NoVerdict,
    RollBack,
    Undecided,
    Verdict,
    alpha_per_guard,
    judge,
)
from specfleet.tuning.verdict.noise import Noise, dispersion_of, noise_of

__all__ = [
    "Accept",
    "Canary",
    "Guards",
    "Minute",
    "NoVerdict",
    "Noise",
    "RollBack",
    "SliceMinute",
    "Undecided",
    "Verdict",
    "alpha_per_guard",
    "dispersion_of",
    "judge",
    "noise_of",
]

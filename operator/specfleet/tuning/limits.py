"""Physical limits: what no engine can have done is a fault of the data, and is dropped (trap P19).

Source: design/tuning.md, section 11. Survival is checked on accepted counts, which can only fall from one
position to the next: with drafts of variable length S_i itself may rise, since deep positions are proposed
only where the match is long.
"""

from specfleet.tuning.interval import Counts, PodInterval

MIN_TOKEN_SECONDS = 0.0002
MAX_TOKEN_SECONDS = 10.0
MAX_SHARE = 1.02
SLACK_COUNTS = 16.0  # counters of one step may fall on both sides of a scrape
MOST_RANKS = 16  # data-parallel ranks of one pod; each has steps of its own


def violation(interval: PodInterval) -> str | None:
    """Name the limit that an interval breaks; None: it may be used."""
    counts = interval.counts
    if interval.not_numbers:
        return f"{interval.not_numbers[0]} is no number"
    if interval.seconds <= 0:
        return "time runs backwards"
    if interval.kv_usage is not None and not 0.0 <= interval.kv_usage <= 1.0 + 1e-6:
        return "KV use is outside 0..1"
    if sum(counts.step_seconds.values()) > 1.5 * interval.seconds * MOST_RANKS + 5.0:
        return "steps took longer than the interval"
    return _tokens_violation(counts) or _survival_violation(interval)


def _tokens_violation(counts: Counts) -> str | None:
    tokens = counts.decode_tokens
    if tokens is not None and tokens < -SLACK_COUNTS:
        return "more first tokens than tokens"
    if tokens and tokens > SLACK_COUNTS and counts.inter_token_seconds is not None:
        seconds = counts.inter_token_seconds / tokens
        if not MIN_TOKEN_SECONDS <= seconds <= MAX_TOKEN_SECONDS:
            return "time per output token is outside 0.2 ms..10 s"
    return None


def _survival_violation(interval: PodInterval) -> str | None:
    counts = interval.counts
    accepted, drafted = counts.accepted_positions, counts.draft_positions
    drafting_steps = sum(count for depth, count in counts.sequence_steps.items() if depth)
    # Engines have both series at 0 from their start: without them "nothing accepted" is not known.
    if drafting_steps and not (accepted and drafted):
        return "it decodes at a depth and has no counters of drafts"
    tokens, proposed = counts.accepted_tokens, counts.draft_tokens
    if tokens is not None and proposed is not None and tokens > MAX_SHARE * proposed + SLACK_COUNTS:
        return "more tokens are accepted than drafted"
    # Counts of two scrapes need not agree within one interval.
    comparable = interval.aligned and bool(drafted)
    for position, count in accepted.items():
        if comparable and count > MAX_SHARE * drafted.get(position, 0.0) + SLACK_COUNTS:
            return "more tokens are accepted than drafted"
        if position > 1 and count > MAX_SHARE * accepted.get(position - 1, 0.0) + SLACK_COUNTS:
            return "a deeper position is accepted more often than the one before"
    return None

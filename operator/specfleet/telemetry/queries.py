"""The fixed queries: one text for all pools together, never one per pool.

Each is a range selector, sent as an instant query, so that the answer is raw samples with their own time
stamps (trap P3). Source: design/tuning.md, sections 3.1 and 3.2. Query B (shares of buckets) is not among
them: the only buckets that a rule or status reads, those of the first token, come with query A.
"""

WINDOW_SCRAPES = 3

_ENGINE = (
    "spec_decode_num_drafts_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
    "spec_decode_num_accepted_tokens_per_pos_total",
    "generation_tokens_total",
    "num_preemptions_total",
    "request_success_total",
    "(inter_token_latency|request_queue_time)_seconds_(sum|count)",
    "time_to_first_token_seconds_(count|bucket)",
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "cache_config_info",
)
_SCHEDULE = (
    "schedule_version",
    "schedule_rejected_total",
    "steps_total",
    "step_seconds_total",
    "sequence_steps_total",
    "draft_positions_total",
)


def fleet_queries(scope: str, scrape_seconds: float) -> dict[str, str]:
    """Give the queries of one pass by the name that status shows. ``scope`` is a label matcher, or empty."""
    suffix = f",{scope}" if scope else ""
    window = f"[{round(WINDOW_SCRAPES * scrape_seconds)}s]"
    return {
        "A (engine)": f'{{__name__=~"vllm:({"|".join(_ENGINE)})"{suffix}}}{window}',
        "C (schedule)": f'{{__name__=~"specfleet_({"|".join(_SCHEDULE)})"{suffix}}}{window}',
    }

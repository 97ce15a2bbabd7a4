"""Which metric feeds which field of an interval. Names and meanings: design/contracts.md.

Ratio gauges (accept length, hit rate) are never read: some engines leave the last value standing (P12).
Inter-token latency counts output events, so only its sum, decode seconds, is used (E1).
"""

TOTALS = {
    "vllm:spec_decode_num_drafts_total": "drafts",
    "vllm:spec_decode_num_draft_tokens_total": "draft_tokens",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted_tokens",
    "vllm:generation_tokens_total": "generation_tokens",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:time_to_first_token_seconds_count": "first_tokens",
    "vllm:inter_token_latency_seconds_sum": "inter_token_seconds",
    "vllm:inter_token_latency_seconds_count": "inter_token_events",
    "vllm:request_queue_time_seconds_sum": "queue_seconds",
    "vllm:request_queue_time_seconds_count": "queued_requests",
}
COMPLETIONS = "vllm:request_success_total"
COMPLETED_REASONS = frozenset({"stop", "length"})  # abort and error are no completions

# metric -> (field, label, what to add: vLLM's positions start at 0, survival's at 1: trap E3)
BY_LABEL = {
    "specfleet_steps_total": ("steps", "depth", 0),
    "specfleet_step_seconds_total": ("step_seconds", "depth", 0),
    "specfleet_sequence_steps_total": ("sequence_steps", "depth", 0),
    "specfleet_draft_positions_total": ("draft_positions", "position", 1),
    "vllm:spec_decode_num_accepted_tokens_per_pos_total": ("accepted_positions", "position", 1),
}
BUCKETS = {"vllm:time_to_first_token_seconds_bucket": "first_token_buckets"}
RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
KV_USAGE = "vllm:kv_cache_usage_perc"
CACHE_INFO = "vllm:cache_config_info"
CACHE_TOKENS = "kv_cache_size_tokens"
VERSION = "specfleet_schedule_version"

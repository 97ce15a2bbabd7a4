"""vLLM's metrics, which the built-in and the simulated engine show too, and those of a schedule's follower.

Names and meanings: vLLM 0.32 and 0.33 as released; two traps shape them. Inter-token latency has one
observation for each request and step that gave output, not for each token (E1). Accepted tokens by position
are prefix counts from position 0 (E2, E3). Source: reference/engines.md, section 2.4; design/contracts.md.
"""

from specfleet.engines.metrics import Count, Level, Metric, MetricDictionary

COMPLETED = frozenset({"stop", "length"})  # abort and error are no completions

VLLM_METRICS = (
    Metric("vllm:num_requests_running", "gauge", "requests that decode or prefill", level=Level("running")),
    Metric("vllm:num_requests_waiting", "gauge", "requests in the queue", level=Level("waiting")),
    Metric(
        "vllm:kv_cache_usage_perc",
        "gauge",
        "used share of the KV cache, 0 to 1 in spite of its name",
        level=Level("kv_usage", over_ranks="mean"),
        formerly=("vllm:gpu_cache_usage_perc",),
    ),
    Metric(
        "vllm:cache_config_info",
        "gauge",
        "always 1; the size of the KV cache in tokens is a label",
        labels=("kv_cache_size_tokens",),
        level=Level("kv_capacity_tokens", label="kv_cache_size_tokens"),
    ),
    Metric(
        "vllm:generation_tokens_total",
        "counter",
        "output tokens, counted step by step",
        counts=(Count("generation_tokens"),),
    ),
    Metric(
        "vllm:prompt_tokens_total",
        "counter",
        "prompt tokens, each prompt once, cached ones included",
        counts=(Count("prompt_tokens"),),
    ),
    Metric(
        "vllm:prompt_tokens_cached_total",
        "counter",
        "those of them that were found in the prefix cache",
        counts=(Count("cached_prompt_tokens"),),
    ),
    Metric(
        "vllm:inter_token_latency_seconds",
        "histogram",
        "seconds between two outputs of a request: its sum is decode time, its count decode events",
        counts=(Count("inter_token_seconds", "_sum"), Count("inter_token_events", "_count")),
    ),
    Metric(
        "vllm:time_to_first_token_seconds",
        "histogram",
        "seconds from arrival to the first token",
        labels=("le",),
        counts=(Count("first_tokens", "_count"), Count("first_token_buckets", "_bucket", by="le")),
    ),
    Metric(
        "vllm:request_queue_time_seconds",
        "histogram",
        "seconds in the queue, once a request has left it",
        counts=(Count("queue_seconds", "_sum"), Count("queued_requests", "_count")),
    ),
    Metric(
        "vllm:request_success_total",
        "counter",
        "ended requests; a client that went away is in none of the reasons",
        labels=("finished_reason",),
        counts=(Count("completions", only=("finished_reason", COMPLETED)),),
    ),
    Metric(
        "vllm:num_preemptions_total",
        "counter",
        "requests that lost their KV cache to others",
        counts=(Count("preemptions"),),
    ),
    Metric(
        "vllm:spec_decode_num_drafts_total",
        "counter",
        "drafts verified, for each request and step; a step without a proposal is none (E4)",
        need="speculating",
        counts=(Count("drafts"),),
    ),
    Metric(
        "vllm:spec_decode_num_draft_tokens_total",
        "counter",
        "tokens proposed",
        need="speculating",
        counts=(Count("draft_tokens"),),
    ),
    Metric(
        "vllm:spec_decode_num_accepted_tokens_total",
        "counter",
        "tokens accepted, without the bonus token, with those that a stop or the length limit cut (E4)",
        need="speculating",
        counts=(Count("accepted_tokens"),),
    ),
    Metric(
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        "counter",
        "drafts accepted up to that position at least",
        need="speculating",
        labels=("position",),
        counts=(Count("accepted_positions", by="position", shift=1),),
    ),
)

SCHEDULE_METRICS = (
    Metric(
        "specfleet_schedule_version",
        "gauge",
        "version of the schedule in force; absent where none is",
        need="never",
        labels=("fence",),
    ),
    Metric(
        "specfleet_steps_total",
        "counter",
        "decode steps at each scheduled depth",
        need="schedule",
        labels=("depth",),
        counts=(Count("steps", by="depth"),),
    ),
    Metric(
        "specfleet_step_seconds_total",
        "counter",
        "seconds of those steps",
        need="schedule",
        labels=("depth",),
        counts=(Count("step_seconds", by="depth"),),
    ),
    Metric(
        "specfleet_sequence_steps_total",
        "counter",
        "requests that decoded, summed over those steps",
        need="schedule",
        labels=("depth",),
        counts=(Count("sequence_steps", by="depth"),),
    ),
    Metric(
        "specfleet_draft_positions_total",
        "counter",
        "drafts that proposed a position",
        need="drafts",
        labels=("position",),
        counts=(Count("draft_positions", by="position", shift=1),),
    ),
)
# vLLM's own count of accepted tokens holds what was cut afterwards, and is read at another moment.
PLUGIN_METRICS = (
    Metric(
        "specfleet_accepted_positions_total",
        "counter",
        "drafts of which the request got the token at a position",
        need="drafts",
        labels=("position",),
        counts=(Count("delivered_positions", by="position", shift=1),),
    ),
    Metric(
        "specfleet_schedule_live",
        "gauge",
        "1: the schedule file is followed; 0: it is not, for the reason in the label",
        need="never",
        labels=("reason",),
    ),
)
NOT_SCRAPED = "not_scraped"
# Only these words reach status; all but the last are those that the plug-in has in its label.
NOT_LIVE = {
    "engine_version": "the plug-in does not know this version of vLLM",
    "engine_internals": "this vLLM lacks what the plug-in relies on",
    "no_startup_schedule": "vLLM has no schedule from its start: with data parallelism it drops it",
    "no_file_named": "the plug-in was not told where the schedule file is",
    "plugin_failed": "the plug-in failed: see the engine's log",
    NOT_SCRAPED: "none of its series specfleet_* is there: is the second port of the pod scraped?",
}

VLLM = MetricDictionary("vLLM", "vllm:", "engine", (*VLLM_METRICS, *SCHEDULE_METRICS, *PLUGIN_METRICS))
BUILTIN = MetricDictionary(
    "the built-in engine", "vllm:", "engine", (*VLLM_METRICS, *SCHEDULE_METRICS), follows_schedule=True
)

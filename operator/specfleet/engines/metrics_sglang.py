"""SGLang's metrics: other names, other meanings, and no counter of drafts.

Inter-token latency has one observation for each *token*, so its count is the rate of output while
``generation_tokens_total`` moves only when a request ends (E5). Depth is the number of steps: SGLang's count
of draft tokens includes the current one, and its accept rate divides by the configured depth (E6).
Names: released collector of 0.5.23. Source: reference/engines.md, section 3.3.
"""

from specfleet.engines.metrics import Count, Level, Metric, MetricDictionary

SGLANG_METRICS = (
    Metric(
        "sglang:num_running_reqs",
        "gauge",
        "requests that decode, in all and by priority",
        level=Level("running", parts_by="priority"),
    ),
    Metric(
        "sglang:num_queue_reqs",
        "gauge",
        "requests in the queue, in all and by priority",
        level=Level("waiting", parts_by="priority"),
    ),
    Metric(
        "sglang:token_usage",
        "gauge",
        "used share of the KV cache, 0 to 1",
        level=Level("kv_usage", over_ranks="mean"),
    ),
    Metric(
        "sglang:max_total_num_tokens",
        "gauge",
        "size of the KV cache in tokens",
        level=Level("kv_capacity_tokens"),
    ),
    Metric("sglang:gen_throughput", "gauge", "moves whenever the sticky gauges are written", sticky=True),
    Metric(
        "sglang:spec_num_steps",
        "gauge",
        "steps of the proposer, which is the depth; 0 without speculation",
        level=Level("depth", over_ranks="mean", steady=True),
        sticky=True,
    ),
    Metric(
        "sglang:spec_accept_length",
        "gauge",
        "tokens of a decode step, bonus token included; 0 without speculation",
        level=Level("accepted_length", over_ranks="mean"),
        sticky=True,
    ),
    Metric(
        "sglang:inter_token_latency_seconds",
        "histogram",
        "seconds of a token after the first, one observation for each; begins with the first such token",
        need="never",
        counts=(
            Count("inter_token_seconds", "_sum"),
            Count("generation_tokens", "_count"),
        ),
    ),
    Metric(
        "sglang:time_to_first_token_seconds",
        "histogram",
        "seconds from arrival to the first token",
        need="finished",
        labels=("is_streaming", "le"),
        counts=(
            Count("first_tokens", "_count"),
            Count("generation_tokens", "_count"),
            Count("first_token_buckets", "_bucket", by="le"),
        ),
    ),
    Metric(
        "sglang:queue_time_seconds",
        "histogram",
        "seconds in the queue, once a request has left it",
        need="finished",
        counts=(Count("queue_seconds", "_sum"), Count("queued_requests", "_count")),
    ),
    Metric(
        "sglang:generation_tokens_total",
        "counter",
        "output tokens, added when their request ends",
        need="finished",
        labels=("is_streaming",),
        counts=(Count("finished_tokens"),),
    ),
    Metric(
        "sglang:num_requests_total",
        "counter",
        "ended requests, without a reason",
        need="finished",
        labels=("is_streaming",),
        counts=(Count("completions"),),
    ),
    Metric(
        "sglang:spec_verify_calls_total",
        "counter",
        "decode steps of ended requests that verified a draft; begins with the first",
        need="never",
        counts=(Count("finished_verifications"),),
    ),
    Metric(
        "sglang:num_retracted_reqs",
        "gauge",
        "there from the start, and a sign that the counter after it still has its name",
    ),
    Metric(
        "sglang:num_retracted_requests_total",
        "counter",
        "requests that lost their KV cache to others; begins with the first",
        need="never",
        counts=(Count("preemptions"),),
    ),
)

SGLANG = MetricDictionary(
    label="SGLang",
    prefix="sglang:",
    # Tensor-parallel ranks show the same work again where all of them were told to.
    rank_label="dp_rank",
    metrics=SGLANG_METRICS,
    refreshed="sglang:gen_throughput",
)

"""Plug-in for a stock vLLM: its depth of speculation follows specfleet's schedule file while it serves.

vLLM looks the depth of a step up in a list of its scheduler. A subclass of the scheduler, given to vLLM as
`--scheduler-cls`, swaps that list between two steps; nothing of vLLM is patched. The scheduler lives in the
engine-core process, away from the API server, so specfleet's own metrics have a port of their own there.

    PYTHONPATH=FOLDER SPECFLEET_SCHEDULE_FILE=FILE SPECFLEET_METRICS_PORT=9404 \\
      vllm serve MODEL --scheduler-cls specfleet_vllm.scheduler.SpecfleetAsyncScheduler \\
      --speculative-config '{..., "num_speculative_tokens_per_batch_size": [every depth that may be used]}'

Source: reference/engines.md, section 2.3; design/contracts.md, "Schedule file" and "Metrics".
"""

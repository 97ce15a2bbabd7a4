"""The demo: one deployment under a changing load, tuned by what Prometheus measures, then judged by replays.

`python -m dev.demo` installs the chart, applies an example, drives four phases of load (`load`), records what
pods and status say (`recorder`), cuts Prometheus off once (`outage`), replays each phase's prompts with
pinned depths (`replay`), and ends with figures (`figures`), a report and a picture. Nothing tells the
operator what comes.
"""

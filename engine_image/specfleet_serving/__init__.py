"""What every engine of specfleet shares: HTTP, the schedule file, metrics and the step loop.

A request enters through the OpenAI-compatible server, waits in a core (`core.Core`), and leaves as a
stream of text. One thread runs the loop: read the schedule, pick the depth, let the core take one step,
trim, count and hand out what it gave. The built-in and the simulated engine differ in their core only.
"""

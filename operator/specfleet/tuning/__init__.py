"""The tuner's rules, pure: what pods did -> what is known -> one decision with its reason.

`interval.PodInterval` comes in from telemetry, `decide.decide` is the one entry, `memory.Memory` is all that
lasts from pass to pass. `survival` and `cost` estimate, `optimise` builds the best table, `floors` limits it,
`probes` says what to try, `verify` watches the engine follow. The package `verdict` judges canaries.
Source: design/tuning.md.
"""

"""The built-in engine: one model on torch and transformers, requests in a batch, exact speculation.

A request becomes a `Sequence` (data). The `Scheduler` (policy) decides which sequences read their prompt or
decode next, and takes KV blocks from the `BlockPool` (resource). A `Proposer` drafts, the
`TargetModel` runs all rows of the step in one forward pass over the `KVCache`, and `verify` keeps what the
target would have said itself. `EngineCore` joins them behind the `Core` protocol of `specfleet_serving`,
which owns time, text, metrics and HTTP. Only `load` and `forward` know transformers; `kernels` puts faster
layers into a model that they loaded.
"""

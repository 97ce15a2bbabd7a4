"""The simulated engine: no model and no torch, real waiting in real time by a cost model.

For fleets on small machines and for a first look at the operator without a GPU. HTTP, schedule file, metrics,
queueing, KV cache and drain are those of a real engine; the text is filler, and acceptance is drawn. The same
prompt gives the same greedy text whatever the depth, and the time of a step follows design/tuning.md, section
5.
"""

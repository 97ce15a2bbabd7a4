"""The simulated engine: no model and no torch, real waiting in real time by a cost model."""

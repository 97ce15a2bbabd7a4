"""How a model computes on this processor: the same numbers as transformers, with fewer and faster operators.

`speed_up` is called once for each loaded model. It asks `capability` which kernel fits the processor and the
type of the weights, puts a `linear` of that kind in the place of every linear layer, and a `LeanLayer` in the
place of every decoder layer whose structure it knows. A model on another device, or of an unknown structure,
stays as transformers built it. Nothing else in the engine knows which kernel is in use.
"""

from specfleet_engine.kernels.replace import speed_up

__all__ = ["speed_up"]

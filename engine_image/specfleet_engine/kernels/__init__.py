"""How a model computes on this processor: the same numbers as transformers, with fewer and faster operators.

`speed_up` is called once for each loaded model and takes the best that fits processor, weights and structure:
the compiled decoder layer of `layer.cpp` for the instruction set at hand (`native`, `build`); else a
`LeanLayer` of few torch operators over the linear layers that suit the processor (`layers`, `linear`,
`capability`); else, for decoder layers of unknown structure, those linear layers alone. A model on another
device stays as transformers built it. Heads of proposers take their linear layers from `linear_maker`.
Nothing else in the engine knows which of them is in use.
"""

from specfleet_engine.kernels.layers import window_of
from specfleet_engine.kernels.replace import linear_maker, speed_up

__all__ = ["linear_maker", "speed_up", "window_of"]

"""What a draft is drawn from and judged by is a law, whatever numbers the proposer calculates in."""

import numpy as np
import pytest
import torch

from specfleet_engine.proposers.drawing import Drawing, Vocabulary, draw_next
from specfleet_engine.sequence import Sequence
from specfleet_serving.core import Request, Sampling

SIZE = 4096
TEMPERATURE = 0.7


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("top_k", [0, 300])
def test_the_law_of_a_draft_is_that_of_its_logits(dtype: torch.dtype, top_k: int) -> None:
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=(1, SIZE))).to(dtype)
    sampling = Sampling(max_tokens=9, temperature=TEMPERATURE, top_k=top_k, seed=3)
    drawing = Drawing()

    draw_next(logits, [Sequence(Request("one", (1, 2), sampling), 64)], [drawing], Vocabulary(SIZE))

    weights = np.exp(logits[0].double().numpy() / TEMPERATURE)
    # Ties with the last that is kept stay.
    weights[weights < np.sort(weights)[-top_k]] = 0
    (law,) = drawing.laws
    assert law.dtype is torch.float32
    assert law.numpy() == pytest.approx(weights / weights.sum(), rel=1e-5)
    assert law.double().sum().item() == pytest.approx(1, abs=1e-5)

"""The rotary positions of a head against those of transformers' own Llama."""

from typing import Any

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from specfleet_engine.proposers.rotary import Rotary

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({}, id="no-theta-is-10000"),
        pytest.param({"rope_theta": 500_000.0}, id="theta"),
        pytest.param({"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 4.0}}, id="linear"),
        pytest.param({"rope_theta": 500_000.0, "rope_scaling": LLAMA3}, id="llama3"),
        pytest.param({"rope_parameters": {"rope_theta": 500_000.0, **LLAMA3}}, id="llama3-in-new-keys"),
    ],
)
def test_states_are_turned_as_llama_turns_them(config: dict[str, Any]) -> None:
    settings = {**config.get("rope_scaling", {}), **config.get("rope_parameters", {})}
    theta = config.get("rope_theta") or settings.get("rope_theta") or 10_000.0
    kind = settings.get("rope_type") or settings.get("type") or "default"
    parameters = {**settings, "rope_type": kind, "rope_theta": theta}
    parameters.pop("type", None)
    reference = LlamaRotaryEmbedding(
        LlamaConfig(hidden_size=128, num_attention_heads=4, rope_parameters=parameters)
    )
    positions = torch.tensor([0, 1, 7, 300, 9000])
    query, key = torch.randn(5, 4, 32), torch.randn(5, 2, 32)

    ours = Rotary(config, 32, torch.device("cpu")).turn(positions, query, key)

    cosine, sine = reference(query, positions[None])
    theirs = apply_rotary_pos_emb(query.transpose(0, 1)[None], key.transpose(0, 1)[None], cosine, sine)
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other[0].transpose(0, 1), atol=1e-5)


def test_a_scaling_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="rotary scaling 'dynamic' is not served"):
        Rotary({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, 32, torch.device("cpu"))

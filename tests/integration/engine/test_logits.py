"""The logits are those of transformers' own attention, for each kind of model and each mix of rows."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.integration.engine.checkpoints import KINDS, VOCABULARY, save_random
from tests.integration.engine.driving import greedy
from transformers import AutoModelForCausalLM

from specfleet_engine.batch import Rows, build_batch
from specfleet_engine.forward import TargetModel
from specfleet_engine.kernels import replace
from specfleet_engine.kernels.capability import cpu_flags
from specfleet_engine.load import load_model
from specfleet_engine.sequence import Sequence

LENGTHS = (70, 33, 48, 5)
# How many tokens of each text go through in each pass. The first text is read in two chunks while the others
# decode or are verified with 4, 4 and 1 rows; the blocks are 16 tokens.
PASSES = ((40, 28, 44, 4), (27, 1, 4, 1), (3, 4, 0, 0))


def texts() -> list[Sequence]:
    """Sequences in blocks that lie apart and out of order, as after some traffic."""
    blocks = np.random.default_rng(5).permutation(20).tolist()
    sequences = []
    for number, length in enumerate(LENGTHS):
        tokens = np.random.default_rng(number).integers(3, VOCABULARY, size=length)
        sequence = Sequence(greedy(f"r{number}", tokens.tolist(), 5), 512)
        sequence.blocks = [blocks.pop() for _ in range(5)]
        sequences.append(sequence)
    return sequences


def read(model: TargetModel, sequences: list[Sequence]) -> dict[str, torch.Tensor]:
    """Logits at every position, pass by pass through one cache."""
    kv = model.new_cache(20)
    logits: dict[str, list[torch.Tensor]] = {sequence.id: [] for sequence in sequences}
    for counts in PASSES:
        rows = []
        for sequence, count in zip(sequences, counts, strict=True):
            if count:
                tokens = sequence.tokens[sequence.written : sequence.written + count]
                # All but the first are judged as drafts, so that each position gets a line of logits.
                rows.append(Rows(sequence, sequence.written, tokens, drafts=count - 1))
                sequence.written += count
        batch = build_batch(rows, kv)
        lines = model.run(batch, batch.rows)
        for row, part in zip(batch.rows, lines.split([len(row.tokens) for row in batch.rows]), strict=True):
            logits[row.sequence.id].append(part)
    return {name: torch.cat(parts) for name, parts in logits.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_any_mix_of_rows_gives_the_logits_of_transformers(tmp_path: Path, kind: str) -> None:
    folder = save_random(tmp_path, kind, layers=3)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    sequences = texts()

    with torch.inference_mode():
        ours = read(load_model(folder, torch.float32), sequences)

    assert [sequence.written for sequence in sequences] == [
        sum(counts) for counts in zip(*PASSES, strict=True)
    ]
    for sequence in sequences:
        with torch.inference_mode():
            whole = theirs(input_ids=torch.from_numpy(sequence.tokens[None, : sequence.written])).logits[0]
        assert torch.allclose(ours[sequence.id], whole, atol=2e-5, rtol=0)


@pytest.mark.fault("vllm#18783")
@pytest.mark.parametrize("flags", [cpu_flags(), frozenset()], ids=["this-processor", "torch"])
def test_what_a_failed_request_left_in_a_block_reaches_nobody(
    llama: Path, flags: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The compiled layer reads a sequence's own tokens only; torch reads whole blocks and masks.
    monkeypatch.setattr(replace, "cpu_flags", lambda: flags)
    model = load_model(llama, torch.float32)
    kv = model.new_cache(4)
    kv.keys.fill_(torch.nan)
    kv.values.fill_(torch.nan)
    long, short = Sequence(greedy("long", [5] * 40, 5), 512), Sequence(greedy("short", [9, 8, 7], 5), 512)
    long.blocks, short.blocks = [0, 1, 2], [3]

    with torch.inference_mode():
        batch = build_batch([Rows(long, 0, long.tokens), Rows(short, 0, short.tokens)], kv)
        logits = model.run(batch, batch.rows)
        # Plain decode reads both in one table, which is padded for the short one.
        both = build_batch([Rows(long, 40, long.tokens[:1]), Rows(short, 3, short.tokens[:1])], kv)
        more = model.run(both, both.rows)

    assert logits.isfinite().all()
    assert more.isfinite().all()

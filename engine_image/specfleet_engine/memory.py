"""How many KV blocks the given memory buys, what the largest step takes, and whether all of it is there.

A system hands memory out before it has any: without a look at the start, a pod would be ready, and killed
under its first full load.
"""

from pathlib import Path
from typing import Protocol

import torch

from specfleet_engine.adjust import EDIT_BYTES
from specfleet_engine.cache import BLOCK_SIZE, blocks_for
from specfleet_engine.errors import KVCacheTooSmall, MemoryMissing
from specfleet_engine.sampling import LINE_BYTES_PER_TOKEN, lines_at_once
from specfleet_serving.core import Limits

__all__ = ["affordable_blocks", "check_memory", "free_bytes", "largest_step_bytes"]

_MIB = 1 << 20


def affordable_blocks(bytes_per_token: int, max_model_len: int, max_num_seqs: int, kv_cache_mib: int) -> int:
    """Blocks that the memory buys, but not more than all sequences at their longest can use.

    ``bytes_per_token`` has all that lies in a slot: KV and features of the target, and what the proposer
    keeps. Raises KVCacheTooSmall if one longest sequence does not fit.
    """
    bytes_per_block = bytes_per_token * BLOCK_SIZE
    affordable = kv_cache_mib * _MIB // bytes_per_block
    needed = blocks_for(max_model_len)
    if affordable < needed:
        wanted = -(-needed * bytes_per_block // _MIB)
        raise KVCacheTooSmall(
            f"a KV cache of {kv_cache_mib} MiB holds {affordable * BLOCK_SIZE} tokens, fewer than the "
            f"{max_model_len} of one sequence: give --kv-cache-mib {wanted} or more, or lower --max-model-len"
        )
    return min(affordable, needed * max_num_seqs)


class Lines(Protocol):
    """The part of `TargetModel` that says how large a line of logits is, and a layer's KV."""

    vocabulary_size: int
    device: torch.device

    @property
    def logits_bytes_per_row(self) -> int: ...

    @property
    def layer_bytes_per_token(self) -> int: ...


def largest_step_bytes(model: Lines, limits: Limits, *, draws: bool) -> int:
    """What a step takes when the batch is full: for logits and what is sampled from them, or in attention.

    Attention gathers what a group of sequences sees, of one layer, and no more than the layer has.
    Every sequence verifies drafts of the largest depth with all that a request may ask for: penalties,
    top_k, top_p, log-probabilities. ``draws``: the drafts come with their distributions.
    """
    size, fp32 = model.vocabulary_size, 4
    drafts = limits.max_num_seqs * limits.max_depth
    lines = limits.max_num_seqs + drafts
    # A sequence's lines are judged together.
    in_work = min(lines, max(lines_at_once(size, model.device), limits.max_depth + 1))
    edits = fp32 * size + EDIT_BYTES * min(limits.max_model_len, size)
    line = max(LINE_BYTES_PER_TOKEN * size, edits)
    laws = drafts * size * fp32 if draws else 0
    sampled = lines * model.logits_bytes_per_row + laws + in_work * line
    return max(sampled, limits.kv_tokens * model.layer_bytes_per_token)


def check_memory(kv_bytes: int, step_bytes: int, free: int) -> None:
    """Raise MemoryMissing if the KV cache and the largest step do not fit into ``free`` bytes."""
    if kv_bytes + step_bytes > free:
        raise MemoryMissing(
            f"the KV cache takes {kv_bytes // _MIB} MiB and the largest step, all requests sampled, "
            f"{step_bytes // _MIB} MiB, but {free // _MIB} MiB are free: give more memory, or lower "
            f"--kv-cache-mib, --max-num-seqs or --max-depth"
        )


def free_bytes(
    device: torch.device, cgroup: Path = Path("/sys/fs/cgroup"), meminfo: Path = Path("/proc/meminfo")
) -> int:
    """Bytes that may still be taken: of the GPU, or of the machine and its cgroup (version 2 or 1)."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    available = _numbers(meminfo)["MemAvailable:"] * 1024
    limits = (
        _left(cgroup, "memory.max", "memory.current", ""),
        _left(cgroup / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    )
    return min([available, *(limit for limit in limits if limit is not None)])


def _left(folder: Path, limit: str, usage: str, prefix: str) -> int | None:
    try:
        most, used = (folder / limit).read_text().strip(), int((folder / usage).read_text())
        statistics = _numbers(folder / "memory.stat")
    except OSError:
        return None
    # Files that were read, such as the weights, count as used and are given up when memory gets short.
    cached = sum(statistics.get(f"{prefix}{kind}", 0) for kind in ("inactive_file", "active_file"))
    return None if most == "max" else int(most) - used + cached


def _numbers(file: Path) -> dict[str, int]:
    lines = (line.split() for line in file.read_text(encoding="ascii").splitlines())
    return {line[0]: int(line[1]) for line in lines}

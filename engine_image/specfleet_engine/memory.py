"""How many KV blocks the given memory buys."""

from specfleet_engine.cache import BLOCK_SIZE, blocks_for
from specfleet_engine.errors import KVCacheTooSmall

__all__ = ["affordable_blocks"]

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

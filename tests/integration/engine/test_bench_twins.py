"""The bench's twins: whole engines by one fork each, whose weights lie in the same memory."""

from contextlib import ExitStack
from pathlib import Path

from dev.bench.arms import start_twins


def shared_kib(pid: int) -> int:
    """Memory that a process has written, or its parent before the fork, and others have too."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Shared_Dirty:"))


def test_twins_answer_alike_share_their_weights_and_end_together(smollm2: Path, tmp_path: Path) -> None:
    flags = {"plain": [], "ngram": ["--method", "ngram", "--max-depth", "4"]}
    with ExitStack() as ending:
        plain, ngram = start_twins(flags, smollm2, tmp_path, ending)
        ngram.set_depth(4, 4)
        done = [engine.measure_steps(["Once upon a time"], 8) for engine in (plain, ngram)]
        shared = [shared_kib(engine.server.pid) for engine in (plain, ngram)]

    assert [one["tokens"] for one in done] == [8, 8]
    # SmolLM2 in bfloat16 is 257 MiB.
    assert min(shared) > 257 << 10
    assert not any(Path(f"/proc/{engine.server.pid}").exists() for engine in (plain, ngram))

"""The command line of a check, as an engine's pod gives it."""

from pathlib import Path


def arguments(model: Path, head: Path) -> list[str]:
    """Ask for an EAGLE head under vLLM 0.32."""
    return [
        *("--model", str(model)),
        *("--proposer", str(head)),
        *("--method", "eagle"),
        *("--engine", "vllm"),
        *("--engine-version", "0.32.0"),
        *("--max-model-len", "512"),
        *("--max-num-seqs", "8"),
        *("--max-depth", "3"),
    ]

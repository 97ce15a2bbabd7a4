"""The image of every pod's first container: a static program that waits, made here without any registry."""

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

from devcluster.binaries import go_build, source_key
from devcluster.configuration import PAUSE_IMAGE, RUNTIME_SOCKET
from devcluster.sandbox import Sandbox
from devcluster.settings import Settings

CTR = ("ctr", "--address", RUNTIME_SOCKET, "--namespace", "k8s.io")


def provide(settings: Settings, sandbox: Sandbox) -> None:
    """Import the image into the container runtime unless it is there; waits for the runtime to answer."""
    socket = settings.run / "containerd" / "containerd.sock"
    sandbox.wait(socket.exists, "container runtime", 30.0)
    if PAUSE_IMAGE in sandbox.run([*CTR, "images", "list", "--quiet"]).split():
        return
    archive = settings.run / "pause.tar"
    archive.write_bytes(archive_of(_program(settings).read_bytes()))
    sandbox.run([*CTR, "images", "import", str(archive)])
    archive.unlink()


def _program(settings: Settings) -> Path:
    sources = settings.repository / "dev" / "images" / "pause"
    binary = settings.cache / "pause" / source_key([sources / "main.go"]) / "pause"
    if not binary.is_file():
        binary.parent.mkdir(parents=True, exist_ok=True)
        partial = binary.with_suffix(f".{os.getpid()}")
        go_build(sources, "main.go", partial)
        partial.rename(binary)
    return binary


def archive_of(program: bytes) -> bytes:
    """Write an image of one program as a Docker archive. Equal programs give equal bytes."""
    layer = _tar({"pause": program})
    configuration = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
    return _tar(
        {
            "config.json": json.dumps(configuration).encode(),
            "layer.tar": layer,
            "manifest.json": json.dumps(manifest).encode(),
        }
    )


def _tar(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.mode = 0o755
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()

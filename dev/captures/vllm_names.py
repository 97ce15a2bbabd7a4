"""Note which names a release of vLLM has where the plug-in and the operator rely on some, from its source.

    python -m dev.captures.vllm_names FOLDER

``FOLDER`` holds the package ``vllm`` of a release: an installed one, or an unpacked source archive. Nothing
of it is run. Only names are kept, in tests/fixtures/vllm/.
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "vllm"
CLASSES = (
    ("v1/core/sched/scheduler.py", "Scheduler"),
    ("v1/core/sched/async_scheduler.py", "AsyncScheduler"),
    ("v1/core/sched/output.py", "SchedulerOutput"),
    ("v1/request.py", "Request"),
    ("v1/outputs.py", "ModelRunnerOutput"),
    ("v1/engine/__init__.py", "EngineCoreOutput"),
    ("v1/engine/__init__.py", "EngineCoreOutputs"),
    ("config/scheduler.py", "SchedulerConfig"),
)
METRICS = ("v1/metrics/loggers.py", "v1/spec_decode/metrics.py")


def main() -> int:
    """Write the names of one release; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    version = _version(folder)
    if version is None:
        print(f"vllm_names: {folder} has neither vllm-*.dist-info nor PKG-INFO", file=sys.stderr)
        return 1
    package = folder / "vllm"
    found = {
        "classes": {name: _names(_class(package / file, name)) for file, name in CLASSES},
        "metrics": sorted({one for file in METRICS for one in _metrics(package / file)}),
    }
    FIXTURES.mkdir(exist_ok=True)
    text = json.dumps(found, indent=1, sort_keys=True)
    (FIXTURES / f"names-{version}.json").write_text(f"{text}\n", encoding="utf-8")
    return 0


def _version(folder: Path) -> str | None:
    for file in (*folder.glob("vllm-*.dist-info/METADATA"), folder / "PKG-INFO"):
        if file.exists() and (found := re.search(r"^Version: ([0-9.]+)", file.read_text(), re.MULTILINE)):
            return found[1]
    return None


def _class(file: Path, name: str) -> ast.ClassDef:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return found


def _names(body: ast.ClassDef) -> dict[str, Sequence[str]]:
    """Give methods with their parameters, and fields: of the class, and of ``self``."""
    methods = {
        one.name: [a.arg for a in one.args.args[1:]] for one in body.body if isinstance(one, ast.FunctionDef)
    }
    fields = {
        one.target.id
        for one in body.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    fields |= {
        one.attr
        for one in ast.walk(body)
        if isinstance(one, ast.Attribute)
        and isinstance(one.ctx, ast.Store)
        and isinstance(one.value, ast.Name)
        and one.value.id == "self"
    }
    return {
        "fields": sorted(fields),
        **{f"{name}()": parameters for name, parameters in sorted(methods.items())},
    }


def _metrics(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and re.fullmatch(r"vllm:[a-z0-9_]+", str(node.value)):
            yield str(node.value)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Provide a Kubernetes cluster and the project's images in it; see README.md beside this file."""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from devcluster import binaries, requirements
from devcluster.choice import Choice, Kind, choose_here
from devcluster.errors import ClusterError
from devcluster.images import present, provide
from devcluster.kind import KindCluster
from devcluster.lifecycle import LocalCluster
from devcluster.recipes import RECIPES, given_images
from devcluster.settings import DEFAULT_NAME, Settings, default_settings
from devcluster.shell import say


def up(choice: Choice, settings: Settings) -> Path:
    """Make the chosen cluster run; answer its kubeconfig."""
    if choice.kind is Kind.LOCAL:
        LocalCluster(settings).up()
    elif choice.kind is Kind.KIND:
        KindCluster(settings).up()
    return kubeconfig(choice, settings)


def kubeconfig(choice: Choice, settings: Settings) -> Path:
    """Answer where the chosen cluster's access lies. Raises ClusterError when there is no cluster."""
    if choice.kubeconfig:
        return choice.kubeconfig
    path = KindCluster(settings).kubeconfig if choice.kind is Kind.KIND else settings.kubeconfig
    if not path.is_file():
        raise ClusterError("no cluster runs; start it with `make cluster`")
    return path


def down(choice: Choice, settings: Settings, *, images: bool) -> None:
    """Remove the chosen cluster; one that was given is left alone."""
    if choice.kind is Kind.LOCAL:
        LocalCluster(settings).down(images=images)
    elif choice.kind is Kind.KIND:
        KindCluster(settings).down()
    say(
        "the given cluster is left as it is"
        if choice.kind is Kind.GIVEN
        else f"{choice.kind.value} cluster deleted"
    )


def build(choice: Choice, settings: Settings, names: list[str], target: Path) -> None:
    """Put images into the chosen cluster; write every reference that holds there to the target."""
    recipes = [RECIPES[name] for name in names or RECIPES]
    before: dict[str, str] = json.loads(target.read_text(encoding="utf-8")) if target.is_file() else {}
    if choice.kind is Kind.GIVEN:
        references = dict(given_images(os.environ, (recipe.name for recipe in recipes)))
    elif choice.kind is Kind.KIND:
        references = before | KindCluster(settings).provide(recipes)
    else:
        sandbox, ranges = LocalCluster(settings).sandbox()
        built = provide(settings, sandbox, ranges, recipes)
        there = present(sandbox)
        references = {name: image for name, image in before.items() if f"docker.io/{image}" in there} | built
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(references, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default=DEFAULT_NAME, help="clusters of different names stand side by side")
    parser.add_argument("--local", action="store_true", help="use the local cluster, whatever else there is")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="say what this machine lacks for it")
    commands.add_parser("up", help="make it run; prints the kubeconfig's path")
    ending = commands.add_parser("down", help="remove it")
    ending.add_argument("--images", action="store_true", help="the local cluster's copies of images too")
    commands.add_parser("status", help="the local cluster's programs, as JSON")
    commands.add_parser("kubeconfig", help="print the kubeconfig's path")
    commands.add_parser("bin", help="print a folder with kubectl and helm")
    building = commands.add_parser("build", help="build images and load them; prints the file of references")
    building.add_argument("image", nargs="*", help=f"of {', '.join(RECIPES)}; all by default")
    building.add_argument("--references", type=Path, help="write there, not to build/images.json")
    given = parser.parse_args(arguments)
    if given.command == "build" and (unknown := set(given.image) - set(RECIPES)):
        parser.error(f"no image {', '.join(sorted(unknown))}; there are {', '.join(RECIPES)}")
    return given


def main(arguments: list[str]) -> int:
    """Run one command; answer the exit status."""
    given = parse(arguments)
    settings = default_settings(given.name)
    # As an interrupt: what has begun is undone or left so that the next call goes on with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        choice = Choice(Kind.LOCAL) if given.local else choose_here()
        match given.command:
            case "check":
                if choice.kind is Kind.LOCAL:
                    requirements.check(settings)
            case "up":
                print(up(choice, settings))
            case "down":
                down(choice, settings, images=given.images)
            case "status":
                print(json.dumps(LocalCluster(settings).status(), indent=1))
            case "kubeconfig":
                print(kubeconfig(choice, settings))
            case "bin":
                print(binaries.tools_folder(settings))
            case "build":
                target = given.references or settings.repository / "build" / "images.json"
                build(choice, settings, given.image, target)
                print(target)
    except ClusterError as error:
        print(f"cluster: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"cluster: {given.command} was interrupted; the same command goes on", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Command line of the development cluster; see README.md beside this file."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from devcluster import binaries
from devcluster.errors import ClusterError
from devcluster.lifecycle import LocalCluster
from devcluster.settings import DEFAULT_NAME, default_settings


def main() -> int:
    """Run one command; answer the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default=DEFAULT_NAME)
    parser.add_argument("command", choices=["up", "down", "status"])
    given = parser.parse_args()
    settings = default_settings(given.name)
    cluster = LocalCluster(settings)
    try:
        if given.command == "up":
            cluster.up()
            print(settings.kubeconfig)
        elif given.command == "down":
            cluster.down()
        else:
            print(cluster.status())
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

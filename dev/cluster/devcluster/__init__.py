"""A one-node Kubernetes of real programs, for tests and the demo where neither kind nor Docker is at hand.

``lifecycle`` joins the parts. ``settings`` names every folder and address, ``configuration`` and ``programs``
say in pure functions what is to run, ``binaries`` and ``packages`` bring the programs, ``sandbox`` and
``cgroups`` keep all of it off the host. ``builder`` makes the project's images and ``images`` moves them into
the cluster. ``choice`` decides between a given cluster, ``kind`` and this one.

Standard library only: it runs before the project's own environment exists.
"""

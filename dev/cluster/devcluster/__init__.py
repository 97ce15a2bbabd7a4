"""A one-node Kubernetes of real programs, for tests and the demo on a machine that has neither kind nor Docker.

``lifecycle`` joins the parts. ``settings`` names every folder and address, ``configuration`` and ``programs`` say in
pure functions what is to run, ``binaries`` and ``packages`` bring the programs, ``sandbox`` makes the namespaces and
cgroups that keep all of it off the host, and ``processes`` starts and ends what runs there. ``images`` builds the
project's images and moves them into the cluster. ``choice`` decides between a given cluster, kind and this one.

Standard library only: it runs before the project's own environment exists.
"""

"""Bring the local cluster up, tell how it is, take it down. Each call may be repeated."""

import fcntl
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from devcluster import (
    addons,
    binaries,
    certificates,
    cgroups,
    configuration,
    packages,
    pause,
    probes,
    requirements,
)
from devcluster.api import ApiServer
from devcluster.errors import ClusterError
from devcluster.programs import Plan, Program, plan
from devcluster.record import Record, read_record, write_record
from devcluster.sandbox import HOLDER, Sandbox, host_networks
from devcluster.settings import Ranges, Settings, free_ranges
from devcluster.shell import say

CONTROL_PLANE_SECONDS = 60.0
NODE_SECONDS = 60.0


class LocalCluster:
    """One cluster of the given name on this host."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._record_path = settings.state / "record.json"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one tool at a time change any cluster: they share address slots and host folders."""
        self.settings.cache.mkdir(parents=True, exist_ok=True)
        with (self.settings.cache / "cluster.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def up(self) -> None:
        """Make the cluster run: at once if it does, by starting what is missing, else anew."""
        requirements.check(self.settings)
        packages.install(packages.CLUSTER_PACKAGES)
        kube = binaries.kube_folder(self.settings)
        with self._locked():
            record = read_record(self._record_path)
            if record is not None and self._repair(record, plan(self.settings, record.ranges, kube)):
                return
            self._down(record)
            say(f"start local cluster {self.settings.name}")
            ranges = free_ranges(host_networks())
            self._create(Record(ranges.slot), plan(self.settings, ranges, kube))

    def _repair(self, record: Record, wanted: Plan) -> bool:
        """Start what has ended in a cluster of this very plan; answer whether the cluster then works."""
        sandbox = Sandbox(self.settings, record)
        if record.fingerprint != wanted.fingerprint or not sandbox.is_alive(HOLDER):
            return False
        everything = (*wanted.foundation, *wanted.workers)
        ended = [program.name for program in everything if not sandbox.is_alive(program.name)]
        if ended:
            say(f"start what has ended: {', '.join(ended)}")
        try:
            self._start(sandbox, record, wanted)
        except ClusterError as error:
            say(f"the running cluster cannot be repaired and is made anew: {error}")
            return False
        return True

    def _create(self, record: Record, wanted: Plan) -> None:
        settings, ranges = self.settings, record.ranges
        shutil.rmtree(settings.logs, ignore_errors=True)
        settings.run.mkdir(parents=True)
        certificates.make_certificates(settings.pki, certificates.identities(settings.name, ranges))
        for name, text in configuration.configuration_files(settings, ranges).items():
            path = settings.configuration / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        record.fingerprint = wanted.fingerprint
        sandbox = Sandbox(settings, record)
        write_record(self._record_path, record)
        sandbox.create()
        write_record(self._record_path, record)
        self._start(sandbox, record, wanted)

    def _start(self, sandbox: Sandbox, record: Record, wanted: Plan) -> None:
        """Start what does not run, in order, wait until the cluster serves, and give access to it."""
        api = ApiServer(self.settings, record.ranges)
        self._spawn_missing(sandbox, record, wanted.foundation)
        pause.provide(self.settings, sandbox)
        sandbox.wait(api.is_ready, "ready API server", CONTROL_PLANE_SECONDS)
        self._spawn_missing(sandbox, record, wanted.workers)
        for path, body in addons.dns_objects(record.ranges):
            if api.get(path) is None:
                api.apply(path, body)
        node = f"/api/v1/nodes/{self.settings.name}"
        sandbox.wait(lambda: probes.is_ready_node(api.get(node)), "ready node", NODE_SECONDS)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        sandbox.wait(lambda: api.get(account) is not None, "default service account", NODE_SECONDS)
        # Asked through the Service address: this shows CoreDNS and kube-proxy working.
        server = record.ranges.dns_service
        name = "kubernetes.default.svc.cluster.local"
        sandbox.wait(
            lambda: probes.resolve(name, server) == record.ranges.api_service,
            "cluster DNS",
            CONTROL_PLANE_SECONDS,
        )
        registry = configuration.registry_url(record.ranges)
        sandbox.wait(lambda: probes.answers(f"{registry}/v2/"), "image registry", 10.0)
        self._write_kubeconfig(record.ranges)

    def _write_kubeconfig(self, ranges: Ranges) -> None:
        """Write the access, also where an interrupted start left none. Whole: programs read it meanwhile."""
        partial = self.settings.kubeconfig.with_suffix(".new")
        access = configuration.kubeconfig(self.settings, ranges, "admin")
        partial.write_text(json.dumps(access, indent=1), encoding="utf-8")
        partial.replace(self.settings.kubeconfig)

    def _spawn_missing(self, sandbox: Sandbox, record: Record, programs: Sequence[Program]) -> None:
        for program in programs:
            if not sandbox.is_alive(program.name):
                sandbox.start(program.name, program.command)
                write_record(self._record_path, record)

    def down(self, *, images: bool = False) -> None:
        """End the cluster and remove all it left on the host; its copies of images too when asked."""
        with self._locked():
            self._down(read_record(self._record_path))
            if images:
                shutil.rmtree(self.settings.store, ignore_errors=True)

    def _down(self, record: Record | None) -> None:
        if record is None:
            # A state folder removed by hand must not leave its processes for ever.
            cgroups.end(self.settings.cgroup)
        else:
            Sandbox(self.settings, record).destroy()
        shutil.rmtree(self.settings.run, ignore_errors=True)
        self.settings.kubeconfig.unlink(missing_ok=True)
        self._record_path.unlink(missing_ok=True)

    def status(self) -> dict[str, str]:
        """Answer each program's state and whether the cluster as a whole serves; empty when there is none."""
        record = read_record(self._record_path)
        if record is None:
            return {}
        sandbox = Sandbox(self.settings, record)
        states = {name: "running" if sandbox.is_alive(name) else "ended" for name in record.processes}
        api = ApiServer(self.settings, record.ranges)
        states["node"] = (
            "ready" if probes.is_ready_node(api.get(f"/api/v1/nodes/{self.settings.name}")) else "not ready"
        )
        return states

    def sandbox(self) -> tuple[Sandbox, Ranges]:
        """Answer the running cluster's inside. Raises ClusterError when there is none."""
        record = read_record(self._record_path)
        if record is None:
            raise ClusterError(
                f"local cluster {self.settings.name} does not run; start it with `make cluster`"
            )
        return Sandbox(self.settings, record), record.ranges

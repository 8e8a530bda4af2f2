#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `fashion_mnist` under other projects' launchers, and over several hosts. The hosts are
network namespaces, which do not share memory, joined by a virtual Ethernet link."""

import json
import os
import pathlib
import shutil
import subprocess
import time
import unittest

import programs
from slow_link import SlowLink

SECONDS = 60  # time limit; a run takes less than 10 s
HOSTS = {f"mirrorflow-{os.getpid()}-{i}": f"10.77.0.{i}" for i in (1, 2)}
SLOW_ADDRESSES = {host: f"10.77.1.{i}" for i, host in enumerate(HOSTS, 1)}
PEERS = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"),
                     "mirrorflow/peers/bin")

# Runs a command in an environment where, according to /sys, eth0 belongs to an RDMA device.
# `ip netns exec` has created a mount namespace.
WITH_RDMA = ("sh", "-ec", """
mkdir -p net
mount --bind /sys/class/net net
mount -t tmpfs rdma /sys/class
mkdir -p /sys/class/net /sys/class/infiniband/mlx5_0/device/net/eth0
mount --bind net /sys/class/net
exec "$@"
""", "sh")


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, timeout=SECONDS)


def remove_hosts():
    for host in HOSTS:
        ip("netns", "del", host)


def add_hosts():
    """Creates the two namespaces. Returns the reason if it cannot."""
    remove_hosts()
    a, b = HOSTS
    for words in (["netns", "add", a], ["netns", "add", b],
                  ["-n", a, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns",
                   b],
                  *(["-n", h, "addr", "add", f"{HOSTS[h]}/24", "dev", "eth0"] for h in HOSTS),
                  *(["-n", h, "link", "set", d, "up"] for h in HOSTS for d in ("lo", "eth0"))):
        result = ip(*words)
        if result.returncode != 0:
            return f"ip {' '.join(words)}: {result.stderr.strip()}"
    while any("state UP" not in ip("-n", h, "link", "show", "eth0").stdout for h in HOSTS):
        time.sleep(0.01)
    return ""


class LaunchersTest(programs.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        command = cls.command("one", "--replicas=2")
        subprocess.run(command, cwd=cls.root, check=True, timeout=SECONDS, capture_output=True)
        cls.cannot_add_hosts = add_hosts()
        cls.addClassCleanup(remove_hosts)

    @staticmethod
    def command(name, *flags):
        return [programs.FASHION_MNIST, *programs.TRAIN_TINY, "--model=mlp", f"--loss_log={name}.log",
                f"--save_variables={name}.safetensors", *flags]

    def needs_hosts(self):
        if self.cannot_add_hosts:
            self.skipTest(self.cannot_add_hosts)

    def read(self, name):
        return [(self.root / f"{name}.{e}").read_bytes() for e in ("log", "safetensors")]

    def losses(self, name):
        return [float(l.split()[1]) for l in (self.root / f"{name}.log").read_text().splitlines()]

    def run_launcher(self, *command, **options):
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True,
                              timeout=SECONDS, **options)

    def check_same_bits(self, result, source):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count(f"cluster from {source}: 2 workers"), 2, result.stderr)
        self.assertTrue(self.read("one") == self.read("two"), "the bits differ")

    def check_same_losses(self):
        for a, b in zip(self.losses("one"), self.losses("two"), strict=True):
            self.assertLess(abs(a - b), 1e-4 * a)

    def test_mpirun(self):
        self.assertIsNotNone(shutil.which("mpirun"),
                             "openmpi-bin is not installed; run tools/setup")
        # Called by name: if it were called by a path such as /bin/mpirun, it would treat the folder
        # as its installation.
        result = self.run_launcher(
            "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", "--bind-to", "none",
            *self.command("two", "--replicas=1"))
        self.check_same_bits(result, "Open MPI")

    def test_torchrun(self):
        torchrun = PEERS / "torchrun"
        if not torchrun.exists():
            self.skipTest("no torchrun; tests/benchmark/peers/setup installs it")
        result = self.run_launcher(
            str(torchrun), "--standalone", "--no-python", "--nproc_per_node=2",
            *self.command("two", "--replicas=1"))
        self.check_same_bits(result, "torchrun")

    def test_launcher_over_two_hosts(self):
        self.needs_hosts()
        hosts = ",".join(f"{h}={a}:1" for h, a in HOSTS.items())
        runs = []
        for _ in range(2):
            result = self.run_launcher(
                programs.MIRRORFLOW, "launch", f"--hosts={hosts}", "--rsh=ip netns exec {host}",
                "--", *self.command("two", "--replicas=1"))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("TCP on eth0, authenticated but not encrypted: the network must be "
                          "trusted", result.stderr)
            self.check_same_losses()
            runs.append(self.read("two"))
        self.assertTrue(runs[0] == runs[1], "two runs differ")

    def start_on(self, host, *command):
        return subprocess.Popen(
            ["ip", "netns", "exec", host, *command], cwd=self.root, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "MIRRORFLOW_SECRET_FILE": str(self.root / "secret")})

    def start_by_spec(self, *flags, prefix=(), addresses=HOSTS):
        """Starts a worker on each host, without a launcher. `prefix` comes before its command."""
        self.write("secret", "0123456789abcdef0123456789abcdef")
        (self.root / "secret").chmod(0o600)
        spec = ",".join(f"{a}:2222" for a in addresses.values())
        return [self.start_on(h, *prefix,
                              *self.command("two", "--replicas=1", f"--cluster_spec={spec}",
                                            f"--task_index={i}", *flags))
                for i, h in enumerate(HOSTS)]

    def run_by_spec(self, *flags, prefix=(), addresses=HOSTS):
        """Runs a worker on each host. Returns exit codes and messages."""
        results = []
        for worker in self.start_by_spec(*flags, prefix=prefix, addresses=addresses):
            _, err = worker.communicate(timeout=SECONDS)
            results.append((worker.returncode, err))
        return results

    def test_cluster_spec_over_two_hosts(self):
        self.needs_hosts()
        for code, err in self.run_by_spec():
            self.assertEqual(code, 0, err)
            self.assertIn("cluster from --cluster_spec: 2 workers", err)
        self.check_same_losses()

    def test_shared_memory_over_two_hosts_is_a_usage_error(self):
        self.needs_hosts()
        for code, err in self.run_by_spec("--collective=shared_memory"):
            self.assertEqual(code, programs.USAGE, err)
            self.assertIn("shared_memory: expected all workers on one host", err)

    def test_rdma_is_chosen_only_without_a_secret(self):
        self.needs_hosts()
        for prefix, flags, said in (
                ((), (), "over TCP on eth0, authenticated but not encrypted"),
                (("env", "-u", "MIRRORFLOW_SECRET_FILE"), ("--insecure",),
                 "over UCX on eth0, neither authenticated nor encrypted")):
            with self.subTest(said):
                results = self.run_by_spec(*flags, prefix=(*WITH_RDMA, *prefix))
                for code, err in results:
                    self.assertEqual(code, 0, err)
                self.assertIn(said, results[0][1])

    def test_link_that_goes_down_ends_both_hosts(self):
        self.needs_hosts()
        host = next(iter(HOSTS))
        workers = self.start_by_spec("--steps=1000000000", "--checkpoint_dir=cut",
                                     "--checkpoint_every=20", "--heartbeat_timeout=2s")
        self.addCleanup(lambda: [w.kill() for w in workers])
        self.addCleanup(lambda: ip("-n", host, "link", "set", "eth0", "up"))
        programs.wait_until(lambda: any((self.root / "cut").glob("step-*")), "a checkpoint")
        self.assertEqual(ip("-n", host, "link", "set", "eth0", "down").returncode, 0)
        begin = time.monotonic()
        errs = [worker.communicate(timeout=SECONDS)[1] for worker in workers]
        # Without heartbeats, UCX and TCP would notice the loss only after minutes.
        self.assertLess(time.monotonic() - begin, 2 + 8)
        for worker, err in zip(workers, errs):
            self.assertEqual(worker.returncode, programs.CLUSTER, err)
        last = [err.splitlines()[-1] for err in errs]
        for err, loss in zip(last, (r"worker 1 \(process \d+ on .*\) is lost",
                                    r"worker 0 \(process \d+ on .*\) is lost according to worker 1")):
            self.assertRegex(err, rf"ERROR UNAVAILABLE (step \d+: )?{loss}")  # or between two steps
        ip("-n", host, "link", "set", "eth0", "up")

        # The newest checkpoint contains nothing from the interrupted step.
        steps = max(int(p.name[5:]) for p in (self.root / "cut").glob("step-*"))
        for code, err in self.run_by_spec(f"--steps={steps}", "--checkpoint_dir=whole",
                                          "--checkpoint_every=20"):
            self.assertEqual(code, 0, err)
        name = f"step-{steps:09}/variables.safetensors"
        self.assertTrue((self.root / "cut" / name).read_bytes() ==
                        (self.root / "whole" / name).read_bytes(), "the variables differ")

    def check_slow_link(self, *flags, delay, loss=0.0, protection):
        """Checks that training over a slow link gives the same bits as training without it. Returns
        the link."""
        self.needs_hosts()
        for code, err in self.run_by_spec(*flags):
            self.assertEqual(code, 0, err)
        expected = self.read("two")
        try:
            link = SlowLink(SLOW_ADDRESSES, delay, loss)
        except OSError as error:
            self.skipTest(str(error))
        with link:
            results = self.run_by_spec(*flags, addresses=SLOW_ADDRESSES)
        for code, err in results:
            self.assertEqual(code, 0, err)
            self.assertNotIn("is lost", err)
        self.assertIn(f"over TCP on slow, {protection}", results[0][1])
        self.assertTrue(self.read("two") == expected, "the bits differ")
        return link

    def test_round_trip_of_200_ms_with_loss(self):
        link = self.check_slow_link("--steps=10", delay=0.1, loss=0.01,
                                    protection="authenticated but not encrypted")
        self.assertGreater(link.dropped, 0)

    def test_round_trip_of_a_second_with_certificates(self):
        names = ",".join(f"IP:{a}" for a in (*HOSTS.values(), *SLOW_ADDRESSES.values()))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=workers", "-addext",
                        f"subjectAltName={names}", "-keyout", "key.pem", "-out", "cert.pem"],
                       cwd=self.root, check=True, capture_output=True, timeout=SECONDS)
        (self.root / "key.pem").chmod(0o600)
        self.check_slow_link("--tls_cert=cert.pem", "--tls_key=key.pem", "--tls_ca=cert.pem",
                             "--steps=1", delay=0.5, protection="authenticated and encrypted")

    def test_only_the_given_address_listens(self):
        self.needs_hosts()
        self.write("secret", "0123456789abcdef0123456789abcdef")
        (self.root / "secret").chmod(0o600)
        host, address = next(iter(HOSTS.items()))
        environment = {"cluster": {"worker": [f"{a}:2223" for a in HOSTS.values()]},
                       "task": {"type": "worker", "index": 0}}
        worker = self.start_on(host, "env", f"TF_CONFIG={json.dumps(environment)}",
                               *self.command("two", "--replicas=1"))
        try:
            deadline = time.monotonic() + SECONDS
            listening = []
            while not listening and time.monotonic() < deadline:
                out = self.run_launcher("ip", "netns", "exec", host, "ss", "-Hltn").stdout
                listening = [line.split()[3] for line in out.splitlines()]
            self.assertEqual(listening, [f"{address}:2223"])
        finally:
            worker.kill()
            worker.communicate(timeout=SECONDS)


if __name__ == "__main__":
    programs.main()

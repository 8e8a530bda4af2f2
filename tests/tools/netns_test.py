#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/netns, and a benchmark between the namespaces that it creates."""

import os
import subprocess
import unittest

import programs

NAMESPACES = os.path.abspath("tools/netns")
HOSTS = [f"mirrorflow-test-{os.getpid()}-{i}=10.79.0.{i + 1}" for i in range(2)]
NAMES = [host.partition("=")[0] for host in HOSTS]
SECONDS = 120


def namespaces(*args):
    return subprocess.run([NAMESPACES, *args], capture_output=True, text=True, timeout=SECONDS)


class UsageTest(unittest.TestCase):

    def test_help_shows_commands(self):
        result = namespaces("help")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, "^Creates two network namespaces")
        self.assertIn("ip netns exec NAME PROGRAM", result.stdout)

    def test_wrong_arguments_are_reported(self):
        for args in ([], ["make"], ["rate"], ["rate", "fast"], ["create", "a=10.0.0.1"],
                     ["create", "a", "b"], ["delete", "-a=10.0.0.1", "b=10.0.0.2"]):
            with self.subTest(args=args):
                result = namespaces(*args)
                self.assertEqual(result.returncode, programs.USAGE)
                self.assertIn("expected create, delete, rate RATE or help", result.stderr)


class NamespacesTest(programs.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.created = namespaces("create", *HOSTS)
        cls.addClassCleanup(namespaces, "delete", *HOSTS)

    def setUp(self):
        super().setUp()
        if self.created.returncode != 0:
            self.skipTest(self.created.stderr.strip())

    def queues(self):
        return [subprocess.run(["tc", "-n", name, "qdisc", "show", "dev", "veth0"],
                               capture_output=True, text=True, check=True).stdout
                for name in NAMES]

    def test_rate_limits_both_directions_until_it_is_none(self):
        if namespaces("rate", "2gbit", *HOSTS).returncode != 0:
            self.skipTest("this kernel has no tbf")
        for queue in self.queues():
            self.assertIn("tbf", queue)
            self.assertIn("rate 2Gbit", queue)
        for _ in range(2):
            self.assertEqual(namespaces("rate", "none", *HOSTS).returncode, 0)
            for queue in self.queues():
                self.assertNotIn("tbf", queue)

    def test_step_is_measured_between_namespaces(self):
        result = subprocess.run(
            [programs.MIRRORFLOW, "bench", "step", "--model=mlp", "--batch_size=4", "--workers=2",
             "--replicas=1", "--rounds=7", f"--hosts={','.join(HOSTS)}",
             "--rsh=ip netns exec {host}"],
            cwd=self.root, capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, "(?m)^step/mlp +mirrorflow +replicas=2 ")
        self.assertIn("mirrorflow in one process / mirrorflow = ", result.stdout)


if __name__ == "__main__":
    unittest.main()

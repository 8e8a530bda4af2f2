#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The results of workers over TCP do not depend on timing, on the thread that moves the data, or on
how the replicas are divided among workers."""

import os
import random
import time

import programs
import tcp_link
from programs import own
from tcp_link import ACCEPTING, CONNECTING

STEPS = 20
WORKERS = 3  # two values have the same sum in any order
TRAIN = ["--collective=tcp", f"--steps={STEPS}", "--global_batch_size=20"]
CORES = sorted(os.sched_getaffinity(0))


def unchanged(sender, header, frame):
    return frame


def late(slow_end, seed):
    """Delays the frames of one end by up to 3 ms each."""
    generator = random.Random(seed)

    def on_frame(sender, header, frame):
        if sender == slow_end:
            time.sleep(generator.uniform(0, 0.003))
        return frame
    return on_frame


class TcpWorkersTest(programs.WorkersTestCase):

    def train_through(self, on_frame, name, cores_of_others):
        """Trains through the link. Worker 0 can use all cores. If the other workers can use
        fewer cores, worker 0 has some cores for itself."""
        link = tcp_link.TcpLink(on_frame)
        self.addCleanup(link.close)
        self.check_all_succeed(self.run_workers(
            lambda *args: {**own(*args), **link.environment}, WORKERS,
            [*TRAIN, "--model=mlp", "--replicas=1", *self.files_of(name)],
            options_of=lambda rank: {"preexec_fn": lambda: os.sched_setaffinity(
                0, CORES if rank == 0 else cores_of_others)}))

    def test_bits_depend_neither_on_time_nor_on_the_thread_that_moves_data(self):
        self.train_through(unchanged, "first", CORES)
        for what, on_frame, cores in (
                ("again", unchanged, CORES),
                ("with a core for data on worker 0", unchanged, CORES[:1]),
                ("with late data of the ends that accept", late(ACCEPTING, 1), CORES),
                ("with late data of the ends that connect", late(CONNECTING, 2), CORES),
                ("with both", late(CONNECTING, 3), CORES[:1])):
            with self.subTest(what):
                self.train_through(on_frame, "other", cores)
                self.assertTrue(self.read("first") == self.read("other"), "the bits differ")

    def test_hosts_and_replicas_give_the_same_losses(self):
        for model in ("mlp", "cnn"):
            for workers, replicas in ((1, 4), (2, 2), (4, 1)):
                self.check_all_succeed(self.run_workers(
                    own, workers, [*TRAIN, f"--model={model}", f"--replicas={replicas}",
                                   f"--loss_log={workers}.log"]))
            one = self.losses("1")
            self.assertEqual(len(one), STEPS)
            for workers in (2, 4):
                with self.subTest(f"{model}, {workers} workers"):
                    for a, b in zip(one, self.losses(workers), strict=True):
                        self.assertLess(abs(a - b), 1e-4 * a)


if __name__ == "__main__":
    programs.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that every worker ends soon if something is wrong with one worker's data, memory or
variables, and that its exit code says whether it was at fault."""

import errno
import os
import re
import resource
import signal
import subprocess
import time

import programs
from programs import BAD_INPUT, CLUSTER, MIRRORFLOW, NUMERIC, RESOURCES, USAGE, own

# This takes less than half a second on an idle machine, and minutes if the failure is not reported.
SOON = 15
TRAIN = ["--model=mlp", "--replicas=1"]
ENDLESS = ["--epochs=100000", "--steps=100000000"]


class WorkerErrorsTest(programs.WorkersTestCase):

    def checkpoints(self, directory):
        """Returns the steps of the checkpoints, and checks that each checkpoint is complete."""
        subprocess.run([MIRRORFLOW, "checkpoint", directory], cwd=self.root, check=True,
                       capture_output=True)
        return sorted(int(p.name.removeprefix("step-"))
                      for p in (self.root / directory).glob("step-*"))

    def run_soon(self, *args, **kwargs):
        begin = time.monotonic()
        results = self.run_workers(*args, **kwargs)
        self.assertLess(time.monotonic() - begin, SOON)
        return results

    def check_one_fails(self, results, rank, exit_code, *parts):
        """Checks that worker `rank` fails through its own fault and that the other one names it."""
        self.check_all_fail(results[rank:rank + 1], exit_code, *parts)
        others = results[:rank] + results[rank + 1:]
        self.check_all_fail(others, CLUSTER, f"worker {rank}")

    def test_copy_that_differs_ends_all_workers(self):
        differs = (r"ERROR DATA_LOSS step 6: variable 'dense/kernel' differs between replicas; "
                   r"expected one checksum, got (\w{8}) on ranks 0, 2 and (\w{8}) on rank 1")
        flip = {"MIRRORFLOW_FAILPOINTS": "check_replicas/flip=error@1#3"}
        # Workers that share memory have only one copy.
        flags = [*TRAIN, "--collective=tcp", "--steps=10", "--check_replicas=2",
                 "--checkpoint_every=1"]
        results = self.run_workers(lambda *args: {**own(*args), **flip}, 3,
                                   [*flags, "--checkpoint_dir=drift"])
        self.check_all_fail(results, NUMERIC)
        last = [result.stderr.splitlines()[-1] for result in results]
        checksums = re.fullmatch(differs, last[0])
        self.assertTrue(checksums, last[0])
        self.assertNotEqual(checksums[1], checksums[2])
        self.assertEqual(last, 3 * last[:1])
        self.assertEqual(self.checkpoints("drift"), [4, 5])

        launched = subprocess.run(
            [MIRRORFLOW, "launch", "-n", "3", "--", programs.FASHION_MNIST, *programs.TRAIN_TINY,
             *flags, "--checkpoint_dir=launched"], cwd=self.root, env={**os.environ, **flip},
            text=True, capture_output=True, timeout=self.SECONDS, check=False)
        self.assertEqual(launched.returncode, NUMERIC, launched.stderr)
        self.assertRegex(launched.stderr, differs)
        self.assertEqual(self.checkpoints("launched"), [4, 5], launched.stderr)

    def test_copies_do_not_differ(self):
        for collective in ("tcp", "ucx", "shared_memory"):
            self.check_all_succeed(self.run_workers(
                own, 2, [*TRAIN, f"--collective={collective}", "--check_replicas=1"]))
        result = self.run_program(programs.FASHION_MNIST, *programs.TRAIN_TINY,
                                  "--check_replicas=-1")
        self.check_all_fail([result], USAGE, "--check_replicas: out of range")

    def test_loss_that_is_not_finite_ends_all_workers_at_the_same_step(self):
        for collective in ("tcp", "ucx", "shared_memory"):
            results = self.run_workers(
                own, 2, [*TRAIN, "--learning_rate=1e30", f"--collective={collective}",
                         f"--checkpoint_dir={collective}", "--checkpoint_every=1"])
            self.check_all_fail(results, NUMERIC, "OUT_OF_RANGE", ": the loss is not finite")
            steps = [int(re.search(r"step (\d+)", result.stderr.splitlines()[-1])[1])
                     for result in results]
            self.assertEqual(steps[0], steps[1])
            self.assertEqual(self.checkpoints(collective)[-1], steps[0] - 1)

    def test_bad_data_of_one_worker_is_named(self):
        images = "train_images_idx3_ubyte"
        self.write_data("missing", **{images: None})
        self.write_data("empty", **{images: b""})
        self.write_data("folder", **{images: None})
        (self.root / "folder/train-images-idx3-ubyte").mkdir()
        self.write_data("unreadable", **{images: None})
        (self.root / "unreadable/train-images-idx3-ubyte").symlink_to("train-images-idx3-ubyte")
        for rank, folder, parts in (
                (1, "nowhere", ("nowhere: no such directory",)),
                (1, "missing", ("missing: ", "expected train-images-idx3-ubyte")),
                (1, "empty", ("empty/train-images-idx3-ubyte: ", "the file is empty")),
                (1, "folder", ("folder/train-images-idx3-ubyte: ", "got a directory")),
                (1, "unreadable", ("unreadable/train-images-idx3-ubyte: ",
                                   os.strerror(errno.ELOOP))),
                (0, "empty", ("empty/train-images-idx3-ubyte: ", "the file is empty"))):
            with self.subTest(f"{folder} on worker {rank}"):
                results = self.run_soon(
                    own, 2, TRAIN, lambda r: [f"--data_dir={folder}"] if r == rank else [])
                self.check_one_fails(results, rank, BAD_INPUT, *parts)

    def test_stale_copy_of_the_data_of_one_worker_ends_all(self):
        rows = programs.ROWS["train"]
        self.write_data("stale", train_labels_idx1_ubyte=programs.labels(
            [(i + 1) % 10 for i in range(rows)]))
        results = self.run_soon(own, 2, TRAIN, lambda r: ["--data_dir=stale"] if r == 1 else [])
        self.check_all_fail(results, CLUSTER, "INVALID_ARGUMENT dataset: worker 1 does not match "
                            "worker 0 in its first batch; expected ")
        for result in results:
            self.assertNotIn("accuracy", result.stdout)

    def test_lack_of_memory_on_one_worker_is_named(self):
        rows, limit = 10_000_000, 4 << 30  # bytes
        for name, header in (("images-idx3", programs.idx([rows, 28, 28], b"")),
                             ("labels-idx1", programs.idx([rows], b""))):
            self.write(f"huge/train-{name}-ubyte", header)
            os.truncate(self.root / f"huge/train-{name}-ubyte",
                        len(header) + rows * (784 if name == "images-idx3" else 1))
        # Only the worker that needs the memory hits the limit.
        results = self.run_soon(
            own, 2, [*TRAIN, "--collective=tcp"],
            lambda r: ["--data_dir=huge"] if r == 1 else [],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.check_one_fails(results, 1, RESOURCES, "huge/train-images-idx3-ubyte: ",
                             f"cannot allocate {rows * 784} bytes")

    def test_lack_of_file_descriptors_is_named(self):
        # Worker 0 serves the coordination service, which needs more.
        few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))}
        results = self.run_soon(own, 2, [*TRAIN, "--collective=ucx"],
                                options_of=lambda rank: few if rank == 1 else {})
        self.check_one_fails(results, 1, RESOURCES, "UCX: ", "ulimit -n")

    def test_second_job_leaves_the_checkpoints_of_the_first_alone(self):
        flags = [*TRAIN, "--checkpoint_dir=shared", "--checkpoint_every=5"]
        first = self.start_workers(own, 2, [*flags, *ENDLESS])
        self.addCleanup(lambda: [worker.kill() for worker in first])
        begin = time.monotonic()
        while not list((self.root / "shared").glob("step-*")):
            self.assertLess(time.monotonic() - begin, self.SECONDS)
            time.sleep(0.02)
        lock = (self.root / "shared/lock").read_text().splitlines()[0]
        second = self.run_soon(own, 2, [*flags, "--checkpoint_lock_timeout=5s"])
        owner = f"shared: in use by process {first[0].pid} on {os.uname().nodename} since "
        self.check_all_fail(second, CLUSTER, owner)
        self.assertEqual((self.root / "shared/lock").read_text().splitlines()[0], lock)
        for worker in first:
            self.assertIsNone(worker.poll())
        first[1].send_signal(signal.SIGTERM)
        for result in self.results_of(first):
            self.assertEqual(result.returncode, 75, result.stderr)
        self.assertEqual(len(self.checkpoints("shared")), 2)


if __name__ == "__main__":
    programs.main()

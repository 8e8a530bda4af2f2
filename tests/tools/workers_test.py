#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `fashion_mnist` as several processes, which find each other as their launcher specifies."""

import json
import os
import pathlib
import socket
import subprocess
import time
import unittest

import programs
from programs import CLUSTER, MIRRORFLOW, free_port, own

SECONDS = 60  # time limit; a run takes less than 10 s
GRAPH = (
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } attr {"
    " key: 'shape' value { shape { dim { size: -1 } dim { size: 2 } } } } }\n"
    + programs.node("square", "Mul", "x", "x", T="DT_FLOAT") + programs.VERSIONS)
ENDLESS = ["--epochs=100000", "--steps=100000000"]


def tf_config(rank, size, port):
    addresses = [f"127.0.0.1:{port + i}" for i in range(size)]
    return {"TF_CONFIG": json.dumps(
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": str(rank)}})}


def torchrun(rank, size, port):
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(port)}


def open_mpi(rank, size, port):
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": str(size),
            "OMPI_MCA_orte_hnp_uri": f"{port}.0;tcp://192.0.2.1:35467"}


def slurm(rank, size, port):
    return {"SLURM_JOB_ID": str(port), "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank),
            "SLURM_NTASKS": str(size), "SLURM_STEP_NODELIST": "node7"}


class WorkersTest(programs.WorkersTestCase):

    def train_alone(self, name, *flags):
        subprocess.run([programs.FASHION_MNIST, *programs.TRAIN_TINY, *flags, *self.files_of(name)],
                       cwd=self.root, check=True, timeout=SECONDS, capture_output=True)

    def test_two_workers_compute_what_two_replicas_compute(self):
        for model in ("mlp", "cnn"):
            with self.subTest(model):
                flags = [f"--model={model}"]
                self.train_alone("one", *flags, "--replicas=2")
                for name, collective in (("two", "ucx"), ("again", "tcp")):
                    results = self.run_workers(own, 2, [
                        *flags, "--replicas=1", f"--collective={collective}", *self.files_of(name)])
                    self.check_all_succeed(results)
                    self.assertRegex(results[0].stdout, r"^test_accuracy=")
                    self.assertEqual(results[1].stdout, "")
                for a, b in zip(self.losses("one"), self.losses("two"), strict=True):
                    self.assertLess(abs(a - b), 1e-4 * a)
                self.assertTrue(self.read("two") == self.read("again"), "the bits differ")

    def test_ways_to_exchange_values_differ_as_documented(self):
        flags = ["--model=mlp", "--replicas=1", "--collective=tcp"]

        def train(name, *more):
            results = self.run_workers(own, 3, [*flags, *more, *self.files_of(name)])
            self.check_all_succeed(results)
            return results

        train("direct")
        # With direct exchange, the values, their order and the bits do not depend on bucket sizes.
        train("one_bucket", "--bucket_bytes=100000000")
        train("each", "--bucket_bytes=1")
        for name in ("one_bucket", "each"):
            self.assertTrue(self.read("direct") == self.read(name), f"{name}: the bits differ")
        for name, flag, difference in (("ring", "--ring_from=3", 1e-4),
                                       ("narrow", "--wire_dtype=bfloat16", 2e-2)):
            for run in (name, "again"):
                train(run, flag)
            self.assertTrue(self.read(name) == self.read("again"), f"{flag}: two runs differ")
            self.assertFalse(self.read("direct") == self.read(name), f"{flag} changes nothing")
            for a, b in zip(self.losses("direct"), self.losses(name), strict=True):
                self.assertLess(abs(a - b), difference * a)
        self.assertRegex(train("tuned", "--autotune")[0].stderr, r"measured between hosts: \S+ us")

    def test_shared_memory_gives_the_bits_of_one_process(self):
        # Includes workers with 1 and 3 replicas, and fewer rows than replicas.
        for replicas, rows in (((1, 1), 10), ((1, 3), 10), ((3, 1), 7), ((1, 1), 1)):
            with self.subTest(f"{replicas} replicas, {rows} rows"):
                flags = ["--model=mlp", f"--global_batch_size={rows}"]
                self.train_alone("one", *flags, f"--replicas={sum(replicas)}")
                self.check_all_succeed(self.run_workers(
                    own, 2, [*flags, "--collective=shared_memory", *self.files_of("two")],
                    lambda rank: [f"--replicas={replicas[rank]}"]))
                self.assertTrue(self.read("one") == self.read("two"), "the bits differ")

    def test_nothing_is_left_of_killed_workers(self):
        def files():
            return {os.path.join(d, name) for d in ("/dev/shm", "/tmp") for name in os.listdir(d)}
        before = files()
        workers = self.start_endless_workers()
        self.wait_for_endless_steps()
        for worker in workers:
            self.assertIsNone(worker.poll())
            worker.kill()
            worker.communicate(timeout=SECONDS)
        # Other programs, such as compilers, also use these directories briefly.
        programs.wait_until(lambda: not files() - before, "the end of shared files")

    def start_endless_workers(self, *flags, port=None):
        (self.root / "endless.log").unlink(missing_ok=True)
        port = port or free_port()
        workers = [subprocess.Popen(
            [programs.FASHION_MNIST, *programs.TRAIN_TINY, "--model=mlp", "--replicas=1", *ENDLESS,
             "--loss_log=endless.log", *flags], cwd=self.root,
            env={**os.environ, **own(rank, 2, port)},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for rank in range(2)]
        for worker in workers:
            self.assertIn("cluster from", worker.stderr.readline())
        return workers

    def wait_for_endless_steps(self):
        log = self.root / "endless.log"
        programs.wait_until(lambda: log.exists() and log.read_text().count("\n") >= 5, "5 steps")

    def test_survivor_of_a_killed_worker_ends_at_once(self):
        # Kills the worker in the middle of training, or while the workers connect.
        for seconds, flags, killed in ((None, (), 1), (None, (), 0),
                                       (None, ("--collective=ucx",), 1),
                                       (None, ("--collective=tcp",), 1),
                                       (None, ("--collective=tcp",), 0),
                                       (0.01, (), 1), (0.05, (), 1), (0.1, (), 1), (0.1, (), 0)):
            with self.subTest(f"worker {killed} after {seconds} s {flags}"):
                workers = self.start_endless_workers("--connect_timeout=10s", *flags)
                if seconds is None:
                    self.wait_for_endless_steps()
                else:
                    time.sleep(seconds)
                workers[killed].kill()
                begin = time.monotonic()
                survivor = workers[1 - killed]
                _, err = survivor.communicate(timeout=SECONDS)
                self.assertLess(time.monotonic() - begin, 15 if seconds else 5)
                self.assertEqual(survivor.returncode, CLUSTER, err)
                expected = "(worker|rank) 1" if killed == 1 else "coordination service|rank 0"
                self.assertRegex(err.splitlines()[-1], expected)
                workers[killed].communicate(timeout=SECONDS)

    def test_workers_use_the_instruction_set_that_all_have(self):
        narrow = {"ONEDNN_MAX_CPU_ISA": "AVX2"}
        flags = ["--model=cnn", "--replicas=1"]
        for name, of_rank in (("some", lambda rank: narrow if rank == 1 else {}),
                              ("all", lambda _: narrow)):
            results = self.run_workers(
                lambda rank, size, port: {**own(rank, size, port), **of_rank(rank)}, 2,
                [*flags, *self.files_of(name)])
            self.check_all_succeed(results)
        self.assertTrue(self.read("some") == self.read("all"), "the bits differ")

    def test_external_coordinator_serves_all_workers(self):
        port = free_port()
        coordinator = subprocess.Popen(
            [MIRRORFLOW, "coordinator", f"--bind=127.0.0.1:{port}", "--num_workers=2"],
            stderr=subprocess.PIPE, text=True)
        self.assertIn("coordinating 2 workers", coordinator.stderr.readline())
        results = self.run_workers(
            own, 2, ["--model=mlp", "--replicas=1", f"--external_coordinator=127.0.0.1:{port}"])
        self.check_all_succeed(results)
        _, err = coordinator.communicate(timeout=SECONDS)
        self.assertEqual(coordinator.returncode, 0, err)

    def test_external_coordinator_says_why_the_job_has_failed(self):
        port = free_port()
        command = [MIRRORFLOW, "coordinator", f"--bind=127.0.0.1:{port}", "--num_workers=2"]
        missing = subprocess.run([*command, "--connect_timeout=300ms"], capture_output=True,
                                 text=True, timeout=SECONDS)
        self.assertEqual(missing.returncode, CLUSTER, missing.stderr)
        self.assertIn("missing worker 0, 1", missing.stderr)

        coordinator = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.assertIn("coordinating 2 workers", coordinator.stderr.readline())
        external = f"--external_coordinator=127.0.0.1:{port}"
        differ = self.run_workers(own, 2, ["--model=mlp", "--replicas=1", external],
                                  lambda rank: [f"--seed={rank}"])
        self.check_all_fail(differ, CLUSTER, "seed = 0", "seed = 1")
        time.sleep(2)  # longer than the difference is remembered
        workers = self.start_endless_workers(external, port=port)
        self.wait_for_endless_steps()
        workers[1].kill()
        for worker in workers:
            worker.communicate(timeout=SECONDS)
        lines = [coordinator.stderr.readline() for _ in range(2)]
        self.assertRegex("".join(lines), r"coordinator: the workers have ended: worker 1 .* is lost")
        coordinator.kill()
        coordinator.communicate(timeout=SECONDS)

    def test_late_worker_learns_of_a_difference_between_the_others(self):
        port = free_port()
        workers = []
        for rank, seed in enumerate((1, 2, 1)):
            if rank == 2:
                time.sleep(0.5)
            workers.append(subprocess.Popen(
                [programs.FASHION_MNIST, *programs.TRAIN_TINY, "--model=mlp", "--replicas=1",
                 f"--seed={seed}"], cwd=self.root, env={**os.environ, **own(rank, 3, port)},
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        for worker in workers:
            _, err = worker.communicate(timeout=SECONDS)
            self.assertEqual(worker.returncode, CLUSTER, err)
            self.assertIn("seed = 2", err.splitlines()[-1])

    def test_missing_worker_is_named_with_its_address(self):
        ports = [free_port(), free_port()]
        spec = f"--cluster_spec=127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
        results = self.run_workers(
            lambda *_: {}, 1, ["--model=mlp", "--replicas=1", spec, "--connect_timeout=7s"],
            lambda rank: ["--task_index=0"])
        self.check_all_fail(results, CLUSTER, "missing worker 1")
        self.assertIn(f"missing worker 1 (127.0.0.1:{ports[1]}); 5 s", results[0].stderr)

    def test_workers_with_different_numbers_of_replicas_agree(self):
        results = self.run_workers(own, 2, ["--model=mlp", "--loss_log={worker}.losses"],
                                   lambda rank: [f"--replicas={3 - 2 * rank}"])
        for result in results:
            self.assertEqual(result.returncode, 0, result.stderr)
        logs = [(self.root / f"{rank}.losses").read_text() for rank in range(2)]
        self.assertEqual(len(logs[0].splitlines()), 4)
        self.assertEqual(logs[0], logs[1])

    def test_each_launcher_is_recognised(self):
        losses = set()
        for launcher, source in ((own, "MIRRORFLOW_NUM_WORKERS"), (tf_config, "TF_CONFIG"),
                                 (torchrun, "RANK and WORLD_SIZE"), (open_mpi, "Open MPI"),
                                 (slurm, "SLURM step")):
            with self.subTest(launcher.__name__):
                results = self.run_workers(
                    launcher, 2, ["--model=mlp", "--replicas=1", *self.files_of("each")])
                for result in results:
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertIn(f"cluster from {source}", result.stderr)
                losses.add(self.read("each")[0])
        self.assertEqual(len(losses), 1)

    def test_cluster_spec_has_precedence(self):
        ports = [free_port(), free_port()]
        spec = f"--cluster_spec=127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
        results = self.run_workers(lambda *_: {"RANK": "7"}, 2, ["--model=mlp", "--replicas=1", spec],
                                   lambda rank: [f"--task_index={rank}"])
        for result in results:
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("cluster from --cluster_spec: 2 workers", result.stderr)

    def test_workers_that_differ_fail_before_the_first_step(self):
        for flag, values, parts in (
                ("model", ("mlp", "cnn"), ("differ", "variable dense/kernel", "variable conv2d/")),
                ("learning_rate", ("0.01", "0.02"), ("differ", "worker 1")),
                ("global_batch_size", ("10", "20"), ("dataset", "worker 1 does not match worker 0", "pipeline")),
                ("seed", ("7", "8"), ("differ", "seed", "7", "8", "worker 1")),
                ("wire_dtype", ("float", "bfloat16"), ("differ", "wire_dtype", "worker 1"))):
            with self.subTest(flag):
                results = self.run_workers(own, 2, ["--model=mlp", "--replicas=1"],
                                           lambda rank: [f"--{flag}={values[rank]}"])
                self.check_all_fail(results, CLUSTER, *parts)

    def test_world_sizes_that_differ_are_named(self):
        results = self.run_workers(lambda rank, _, port: own(rank, 2 + rank, port), 2,
                                   ["--model=mlp", "--replicas=1"])
        self.check_all_fail(results, CLUSTER, "number of workers = 2", "number of workers = 3")

    def test_builds_that_differ_are_named(self):
        other = self.root / "other_build"
        other.write_bytes(pathlib.Path(programs.FASHION_MNIST).read_bytes() + b"another build")
        other.chmod(0o755)
        port = free_port()
        workers = [subprocess.Popen(
            [program, *programs.TRAIN_TINY, "--model=mlp", "--replicas=1"], cwd=self.root,
            env={**os.environ, **own(rank, 2, port)}, stderr=subprocess.PIPE, text=True)
            for rank, program in enumerate((programs.FASHION_MNIST, other))]
        for worker in workers:
            _, err = worker.communicate(timeout=SECONDS)
            self.assertEqual(worker.returncode, CLUSTER, err)
            self.assertRegex(err.splitlines()[-1],
                             r"worker \d has `build = \w+ of \d+ bytes`, worker \d has `build = \w+ of")

    def test_script_of_a_slurm_job_is_warned_about_srun(self):
        environment = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}
        result = self.run_workers(lambda *_: environment, 1, ["--model=mlp"])[0]
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, "WARNING: SLURM_NTASKS is 2.* with srun")
        self.assertRegex(result.stdout, "^test_accuracy=")

    def test_run_computes_on_all_workers_what_one_process_computes(self):
        self.write("graph.pbtxt", GRAPH)
        self.write("x.npy", programs.floats([5, 2], *range(10)))
        run = [MIRRORFLOW, "run", "--graph=graph.pbtxt", "--feed=x=x.npy", "--fetch=square"]
        alone = self.run_program(*run, "--replicas=2").stdout
        self.assertIn("square = float<5,2>{", alone)
        port = free_port()
        workers = [subprocess.Popen(
            [*run, "--fetch=square=square{worker}.npy", "--fetch=x=shared.npy", "--replicas=1"],
            cwd=self.root, env={**os.environ, **own(rank, 2, port)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
        for rank, worker in enumerate(workers):
            out, err = worker.communicate(timeout=SECONDS)
            self.assertEqual(worker.returncode, 0, err)
            self.assertEqual(out, "" if rank > 0 else alone)
        both = [(self.root / f"square{rank}.npy").read_bytes() for rank in range(2)]
        self.assertEqual(both[0], both[1])
        self.assertTrue((self.root / "shared.npy").read_bytes().endswith(
            (self.root / "x.npy").read_bytes()[-40:]))

    def test_strangers_change_nothing(self):
        flags = ["--model=mlp", "--replicas=1", "--steps=4000", "--epochs=4000"]
        self.check_all_succeed(self.run_workers(own, 2, [*flags, *self.files_of("quiet")]))
        port = free_port()
        workers = [subprocess.Popen(
            [programs.FASHION_MNIST, *programs.TRAIN_TINY, *flags, *self.files_of("disturbed")],
            cwd=self.root, env={**os.environ, **own(rank, 2, port)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
        self.assertIn("cluster from", workers[0].stderr.readline())
        strangers = self.disturb(port)
        programs.wait_until(lambda: (self.root / "disturbed.log").exists(), "training begins")
        second = subprocess.run(
            [programs.FASHION_MNIST, *programs.TRAIN_TINY, *flags, "--connect_timeout=2s"],
            cwd=self.root, env={**os.environ, **own(1, 2, port)}, text=True, capture_output=True,
            timeout=SECONDS)
        self.assertNotEqual(second.returncode, 0)
        errs = []
        for worker in workers:
            errs.append(worker.communicate(timeout=SECONDS)[1])
            self.assertEqual(worker.returncode, 0, errs[-1])
        # The log has one line a minute per host. The strangers are on one host and stayed for less
        # than a minute.
        self.assertEqual(errs[0].count("coordination: ipv4:127.0.0.1:"), 1, errs[0])
        for stranger in strangers:
            stranger.close()
        self.assertTrue(self.read("quiet") == self.read("disturbed"), "the bits differ")

    @staticmethod
    def disturb(port):
        """Connects to the coordination service and sends garbage, a 4 GiB frame, or nothing."""
        strangers = []
        for hello in (b"\0garbage\xff" * 1000, b"", b"P",
                      b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\0\0\0\0\0\1") * 8:
            deadline = time.monotonic() + SECONDS
            while True:
                try:
                    stranger = socket.create_connection(("127.0.0.1", port))
                    break
                except ConnectionRefusedError:
                    assert time.monotonic() < deadline
            strangers.append(stranger)
            try:
                stranger.sendall(hello)
            except OSError:
                pass  # the service has hung up
        return strangers

    def test_missing_worker_is_named_at_the_deadline(self):
        # Enough time for worker 1 to reach worker 0's service on a busy machine.
        results = self.run_workers(lambda rank, _, port: own(rank, 3, port), 2,
                                   ["--model=mlp", "--replicas=1", "--connect_timeout=3s"])
        self.check_all_fail(results, CLUSTER, "missing worker 2")

    def test_worker_that_cannot_start_fails_the_others(self):
        results = self.run_workers(own, 2, ["--model=mlp", "--replicas=1"],
                                   lambda rank: ["--data_dir=nowhere"] if rank == 1 else [])
        self.assertEqual(results[1].returncode, programs.BAD_INPUT, results[1].stderr)
        self.check_all_fail(results[:1], CLUSTER, "worker 1 has left the cluster")

    def test_mistakes_of_the_environment_are_usage_errors(self):
        for environment, variable in (
                ({"TF_CONFIG": "{"}, "TF_CONFIG"),
                ({"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, '
                               '"task": {"type": "worker", "index": 1}}'}, "TF_CONFIG"),
                ({"RANK": "0"}, "WORLD_SIZE"),
                ({"MIRRORFLOW_CLUSTER": "slurm"}, "MIRRORFLOW_CLUSTER"),
                ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "5"},
                 "no secret")):
            with self.subTest(variable):
                results = self.run_workers(lambda *_: environment, 1, ["--model=mlp"])
                self.check_all_fail(results, programs.USAGE, variable)

    def test_taken_port_is_waited_for(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            results = self.run_workers(lambda *_: own(0, 2, port), 1,
                                       ["--model=mlp", "--connect_timeout=1s"])
            self.check_all_fail(results, CLUSTER, f"127.0.0.1:{port}")
            waiting = self.start_workers(lambda rank, *_: own(rank, 2, port), 2,
                                         ["--model=mlp", "--replicas=1"])
            while "waiting for the address" not in (line := waiting[0].stderr.readline()):
                self.assertTrue(line, "worker 0 has ended")
        self.check_all_succeed(self.results_of(waiting))

    def test_address_that_no_wait_makes_usable_is_a_usage_error(self):
        bind = "--bind=[fe80::1]:4000"  # names no network device
        results = self.run_workers(lambda *_: own(0, 2, 4000), 1,
                                   ["--model=mlp", "--insecure", bind])
        self.check_all_fail(results, programs.USAGE, "[fe80::1]:4000: cannot listen")
        coordinator = subprocess.run(
            [MIRRORFLOW, "coordinator", bind, "--num_workers=2", "--insecure"],
            capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(coordinator.returncode, programs.USAGE, coordinator.stderr)
        self.assertIn("[fe80::1]:4000: cannot listen", coordinator.stderr)

    def test_open_secret_is_a_usage_error(self):
        self.write("secret", "0123456789abcdef0123456789abcdef")
        (self.root / "secret").chmod(0o644)
        results = self.run_workers(own, 1, ["--model=mlp", "--strategy=multi_worker",
                                            "--secret_file=secret"])
        self.check_all_fail(results, programs.USAGE, "--secret_file", "mode 0644")

    def test_missing_secret_or_certificate_is_a_usage_error(self):
        self.write("cert.pem", "no certificate")
        for flags in (["--secret_file=none"],
                      ["--tls_cert=cert.pem", "--tls_key=none", "--tls_ca=cert.pem"]):
            with self.subTest(flags):
                results = self.run_workers(own, 1, ["--model=mlp", "--strategy=multi_worker",
                                                    *flags])
                self.check_all_fail(results, programs.USAGE, "ERROR NOT_FOUND", "none")


if __name__ == "__main__":
    programs.main()

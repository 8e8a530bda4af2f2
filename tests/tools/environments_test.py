#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training in environments unlike a developer's machine.

Each row of ENVIRONMENTS sets up one environment and states the outcome of training in it, alone and
as two workers under `mirrorflow launch`: the losses of an undisturbed run, or an exit code and a
word of the message. Nothing may hang, crash or silently train something else.
"""

import concurrent.futures
import dataclasses
import os
import re
import shutil
import subprocess

import programs
from programs import FASHION_MNIST, MIRRORFLOW, RESOURCES, USAGE

CORES = sorted(os.sched_getaffinity(0))
# A user with the system's limits that can read everything that root can read.
USER = ("setpriv --reuid=65534 --clear-groups --inh-caps=+dac_override --ambient-caps=+dac_override"
        if os.getuid() == 0 else "")


@dataclasses.dataclass
class Outcome:
    code: int = 0
    word: str = ""  # on standard error
    losses: bool = True  # whether the run writes the losses of an undisturbed run

    def __post_init__(self):
        self.losses = self.losses and self.code in (0, RESOURCES)


WORKS = Outcome()
NO_OUTPUT = Outcome(RESOURCES, "standard output")  # trains, then reports the error
NO_ERRORS = Outcome(RESOURCES)  # cannot report the error anywhere


def fails(code, word):
    return Outcome(code, word, losses=False)


TF_WORKERS = '{"cluster": {"worker": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"]}, "task": %s}'

# Name, shell commands before the program, variables, outcome alone and under launch.
ENVIRONMENTS = [
    ("no home", "unset HOME", {}, WORKS, WORKS),
    ("home that is no folder", "", {"HOME": "/dev/null"}, WORKS, WORKS),
    ("home that is read-only", "", {"HOME": "/proc"}, WORKS, WORKS),
    ("no variables", 'exec env -i "$@"', {}, WORKS, WORKS),
    ("no folder for temporary files", "unset TMPDIR", {"TEST_TMPDIR": ""}, WORKS, WORKS),
    ("temporary files in a missing folder", "", {"TMPDIR": "/nowhere"}, WORKS, WORKS),
    ("temporary files that do not fit", "", {"TMPDIR": "/dev/full"}, WORKS, WORKS),
    ("unknown locale", "", {"LANG": "xx_XX.UTF-8", "LC_ALL": "none"}, WORKS, WORKS),
    ("locale with decimal commas", "", {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "tr"}, WORKS, WORKS),
    ("odd time zone", "", {"TZ": "Nowhere/Land", "SOURCE_DATE_EPOCH": "-1"}, WORKS, WORKS),
    ("variables that are not UTF-8", "", {b"ODD\xff": b"\xfe\xff"}, WORKS, WORKS),
    ("no PATH", "", {"PATH": ""}, WORKS, WORKS),
    ("missing folder of libraries", "", {"LD_LIBRARY_PATH": "/nowhere:"}, WORKS, WORKS),
    ("missing library to preload", "", {"LD_PRELOAD": "/nowhere.so"}, WORKS, WORKS),
    ("proxies", "", {v: "http://127.0.0.1:1" for v in ("http_proxy", "https_proxy", "grpc_proxy",
                                                       "HTTP_PROXY", "all_proxy")}, WORKS, WORKS),
    ("files without permissions", "umask 777", {}, WORKS, WORKS),
    ("ignored signals", "trap '' CHLD PIPE HUP XFSZ USR1", {}, WORKS, WORKS),
    # OpenMP, a dependency of oneDNN.
    *((variable, "", {variable: value}, WORKS, WORKS) for variable, value in (
        ("OMP_PROC_BIND", "true"), ("OMP_PLACES", "cores"), ("GOMP_CPU_AFFINITY", "0"),
        ("OMP_NUM_THREADS", "1"), ("OMP_THREAD_LIMIT", "1"), ("OMP_WAIT_POLICY", "active"),
        ("OMP_STACKSIZE", "1"), ("KMP_AFFINITY", "compact"), ("OMP_SCHEDULE", "nonsense"))),
    ("one core", f'exec taskset -c {CORES[-1]} "$@"', {}, WORKS, WORKS),
    ("deleted working folder", "mkdir gone; cd gone; rmdir ../gone", {},
     fails(USAGE, "losses"), fails(USAGE, "working directory")),
    ("error file that is a pipe", "mkfifo errors", {"MIRRORFLOW_ERROR_FILE": "errors"}, WORKS,
     WORKS),
    # gRPC variables, which affect only jobs with several workers.
    *((f"gRPC polls by {name}", "", {"GRPC_POLL_STRATEGY": name}, WORKS,
       fails(USAGE, "GRPC_POLL_STRATEGY")) for name in ("none", "nothing", "", "none,poll")),
    ("gRPC polls by epollex or poll", "", {"GRPC_POLL_STRATEGY": "epollex,poll"}, WORKS, WORKS),
    # Standard streams.
    ("no input", "exec <&-", {}, WORKS, WORKS),
    ("no output", "exec >&-", {}, NO_OUTPUT, NO_OUTPUT),
    ("full output", "exec >/dev/full", {}, NO_OUTPUT, NO_OUTPUT),
    # The launched workers print one line about the cluster.
    ("no errors", "exec 2>&-", {}, WORKS, NO_ERRORS),
    ("full errors", "exec 2>/dev/full", {}, WORKS, NO_ERRORS),
    ("no streams", "exec <&- >&- 2>&-", {}, NO_ERRORS, NO_ERRORS),
    # Limits.
    ("128 files", "ulimit -n 128", {}, WORKS, WORKS),
    # Worker 0 also needs descriptors for callers that it has to refuse.
    ("64 files", "ulimit -n 64", {}, WORKS, fails(RESOURCES, "ulimit -n")),
    *((f"{count} files", f"ulimit -n {count}", {}, WORKS, fails(RESOURCES, "ulimit -n"))
      for count in (12, 14, 15, 16, 17)),
    ("no space in files", "ulimit -f 0", {}, fails(RESOURCES, "ulimit -f"),
     fails(RESOURCES, "ulimit -f")),
    ("small data", "ulimit -d 10000", {}, fails(RESOURCES, "ulimit -d"),
     fails(RESOURCES, "ulimit -d")),
    ("small stack that can grow", "ulimit -S -s 64", {}, WORKS, WORKS),
    ("small stack", "ulimit -s 64", {}, fails(RESOURCES, "ulimit -s"),
     fails(RESOURCES, "ulimit -s")),
    ("large stack", "ulimit -s unlimited", {}, WORKS, WORKS),
    ("small address space", "ulimit -v 100000", {}, fails(RESOURCES, "ulimit -v"),
     fails(RESOURCES, "ulimit -v")),
    ("few threads", f'exec {USER} bash -c \'ulimit -u 1; exec "$@"\' bash "$@"', {},
     fails(RESOURCES, "ulimit -u"), fails(RESOURCES, "ulimit -u")),
    # Variables left over from other launchers. Those of `mirrorflow launch` take precedence.
    ("batch script of SLURM", "", {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"},
     Outcome(0, "srun"), WORKS),
    ("step of SLURM in mpiexec", "", {
        "PMI_RANK": "0", "PMI_SIZE": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1",
        "SLURM_NTASKS": "4", "SLURM_STEP_NODELIST": "n[1-4]"},
     fails(USAGE, "MIRRORFLOW_CLUSTER"), WORKS),
    ("rank without a size", "", {"PMIX_RANK": "1"}, Outcome(0, "PMIX_RANK"), WORKS),
    ("parameter server", "", {"TF_CONFIG": TF_WORKERS % '{"type": "ps", "index": 0}'},
     fails(USAGE, "TF_CONFIG"), WORKS),
    ("cluster with parameter servers", "", {
        "TF_CONFIG": TF_WORKERS % '{"type": "worker", "index": 0}'},
     Outcome(0, "cluster.ps"), WORKS),
    ("malformed TF_CONFIG", "", {"TF_CONFIG": "\xff{"}, fails(USAGE, "TF_CONFIG"), WORKS),
]


class EnvironmentsTest(programs.ProgramTest):

    def run_in(self, name, shell, variables, command, folder=None):
        """Runs the command in a separate folder. Returns its result and the losses."""
        folder = os.fsencode(folder or self.root / name.replace(" ", "_"))
        os.makedirs(folder)
        environment = {**os.environb, **{os.fsencode(k): os.fsencode(v)
                                         for k, v in variables.items()}}
        result = subprocess.run(
            ["/bin/sh", "-c", f'{shell}\nexec "$@"', "sh", *command], cwd=folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=programs.SECONDS, check=False)
        losses = None
        if os.path.exists(folder + b"/losses"):
            with open(folder + b"/losses", "rb") as file:
                losses = file.read()
        shutil.rmtree(folder)
        return result, losses

    def commands(self):
        """Returns the commands that train with two replicas, alone and launched."""
        train = [FASHION_MNIST, *programs.TRAIN_TINY, f"--data_dir={self.root}/good", "--model=mlp",
                 "--loss_log=losses"]
        return ([*train, "--replicas=2"], [MIRRORFLOW, "launch", "-n", "2", "--", *train,
                                           "--replicas=1"])

    def test_training_works_or_says_why_it_cannot(self):
        undisturbed, expected = self.run_in("undisturbed", "", {}, self.commands()[0])
        self.assertEqual(undisturbed.returncode, 0, undisturbed.stderr)
        with concurrent.futures.ThreadPoolExecutor(max_workers=3) as pool:
            runs = []
            for name, shell, variables, *outcomes in ENVIRONMENTS:
                for how, command, outcome in zip(("alone", "launched"), self.commands(), outcomes,
                                                 strict=True):
                    runs.append((f"{name}, {how}", outcome, pool.submit(
                        self.run_in, f"{name} {how}", shell, variables, command)))
        for name, outcome, run in runs:
            with self.subTest(name):
                result, losses = run.result()
                self.assertEqual(result.returncode, outcome.code, result.stderr)
                self.assertIn(outcome.word.encode(), result.stderr)
                if outcome.losses:
                    self.assertEqual(losses, expected)

    def test_names_that_are_not_utf_8(self):
        _, expected = self.run_in("named", "", {}, self.commands()[0])
        for command in self.commands():
            command = [*command, b"--save_variables=\xe9\xff.safetensors"]
            result, losses = self.run_in("", "", {}, command, os.fsencode(self.root) + b"/caf\xe9")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(losses, expected)
        missing, _ = self.run_in("missing", "", {}, [MIRRORFLOW, "launch", "-n", "2", "--",
                                                     b"./no\xff"])
        self.assertEqual(missing.returncode, 127, missing.stderr)
        self.assertIn(b"cannot run './no\xff'", missing.stderr)
        failed, _ = self.run_in("failed", "", {}, [*self.commands()[1], b"--data_dir=/no\xff"])
        self.assertEqual(failed.returncode, programs.BAD_INPUT, failed.stderr)

    def cores_seen(self, shell, variables):
        result, _ = self.run_in("devices", shell, variables, [MIRRORFLOW, "devices"])
        return int(re.search(rb"usable by this process: (\d+)", result.stdout)[1])

    def test_openmp_pinning_hides_no_core_but_pinning_by_the_user_does(self):
        all_cores = self.cores_seen("", {})
        for variables in ({}, {"OMP_PROC_BIND": "true"}, {"OMP_PLACES": "cores"},
                          {"OMP_PROC_BIND": "close", "OMP_PLACES": "{0}"},
                          {"GOMP_CPU_AFFINITY": str(CORES[0])}):
            with self.subTest(variables):
                self.assertEqual(self.cores_seen("", variables), all_cores)
                self.assertEqual(
                    self.cores_seen(f'exec taskset -c {CORES[-1]} "$@"', variables), 1)
                # A child of the launcher inherits its cores.
                result, _ = self.run_in("nproc", "", variables, [
                    MIRRORFLOW, "launch", "-n", "2", "--", "taskset", "-cp", "0"])
                expected = subprocess.run(["taskset", "-cp", "0"], check=False,
                                          capture_output=True).stdout.split(b":")[-1]
                for line in result.stdout.splitlines():
                    self.assertEqual(line.split(b":")[-1].strip(), expected.strip())

    def test_output_of_workers_that_cannot_be_written_is_an_error_of_launch(self):
        echo = [MIRRORFLOW, "launch", "-n", "2", "--", "sh", "-c", "echo out; echo err >&2"]
        quiet = [MIRRORFLOW, "launch", "-n", "2", "--", "true"]
        for shell, word in (("exec >/dev/full", b"standard output"), ("exec >&-", b"standard out"),
                            ("exec 2>/dev/full", b""), ("exec 2>&-", b"")):
            with self.subTest(shell):
                result, _ = self.run_in("echo", shell, {}, echo)
                self.assertEqual(result.returncode, RESOURCES, result.stderr)
                self.assertIn(word, result.stderr)
                # No output was lost.
                self.assertEqual(self.run_in("quiet", shell, {}, quiet)[0].returncode, 0)
        # The log exceeds the file size limit.
        result, _ = self.run_in("log", "ulimit -f 1", {}, [
            MIRRORFLOW, "launch", "-n", "2", "--log_dir=logs", "--", "sh", "-c", "seq 1000"])
        self.assertEqual(result.returncode, RESOURCES, result.stderr)
        self.assertIn(b"--log_dir", result.stderr)
        # The exit code of a failed worker takes precedence, because it says more.
        result, _ = self.run_in("fails", "exec >/dev/full", {}, [
            MIRRORFLOW, "launch", "-n", "2", "--", "sh", "-c", "echo out; exit 7"])
        self.assertEqual(result.returncode, 7, result.stderr)

    def test_log_dir_of_another_user_is_refused(self):
        if os.getuid() != 0:
            self.skipTest("only root can give a directory away")
        theirs = self.root / "theirs"
        theirs.mkdir()
        os.chown(theirs, 65534, 65534)
        result = subprocess.run([MIRRORFLOW, "launch", "--log_dir=theirs", "--", "true"],
                                cwd=self.root, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, USAGE, result.stderr)
        self.assertIn("--log_dir: theirs: ", result.stderr)
        self.assertEqual(list(theirs.iterdir()), [])

    def test_pipe_in_place_of_an_output_file_never_blocks(self):
        train = self.commands()[0]
        result, _ = self.run_in("error", "mkfifo errors", {"MIRRORFLOW_ERROR_FILE": "errors"},
                                [*train, "--steps=-1"])
        self.assertEqual(result.returncode, USAGE, result.stderr)
        self.assertIn(b"WARNING: MIRRORFLOW_ERROR_FILE: errors: not a regular file", result.stderr)
        self.assertRegex(result.stderr.splitlines()[-1], rb"^ERROR INVALID_ARGUMENT --steps: ")
        for log in ("all.log", "worker_0.out", "worker_1.err"):
            with self.subTest(log):
                result, _ = self.run_in("log", f"mkdir logs; mkfifo logs/{log}", {}, [
                    MIRRORFLOW, "launch", "-n", "2", "--log_dir=logs", "--", "true"])
                self.assertEqual(result.returncode, USAGE, result.stderr)
                self.assertIn(f"--log_dir: logs/{log}: not a regular file".encode(), result.stderr)
        result, _ = self.run_in("events", "mkdir saved; mkfifo saved/events.jsonl", {},
                                [*train, "--checkpoint_dir=saved", "--checkpoint_every=1"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count(b"WARNING: events are not recorded"), 1)

    def test_limit_on_data_is_named_wherever_it_is_reached(self):
        for kibibytes in (10000, 15000, 20000, 26000, 30000, 34000, 38000):
            with self.subTest(kibibytes):
                result, _ = self.run_in("data", f"ulimit -d {kibibytes}", {},
                                        [*self.commands()[0], "--replicas=1"])
                self.assertEqual(result.returncode, RESOURCES, result.stderr)
                self.assertIn(b"ulimit -d", result.stderr)

    def test_limit_on_files_ends_a_job_with_its_own_code(self):
        # Losses of many steps, a large checkpoint, and a table of epochs do not fit.
        train = [*self.commands()[0], "--steps=400", "--epochs=100"]
        result, losses = self.run_in("losses", "ulimit -f 1", {}, train)
        self.assertEqual(result.returncode, RESOURCES, result.stderr)
        self.assertRegex(result.stderr, b"losses: .*`ulimit -f`")
        self.assertEqual(len(losses), 512)
        result, _ = self.run_in("checkpoint", "ulimit -f 100", {}, [
            *self.commands()[0], "--checkpoint_dir=saved", "--checkpoint_every=1"])
        self.assertEqual(result.returncode, RESOURCES, result.stderr)
        self.assertIn(b"ulimit -f", result.stderr)

    def test_duration_out_of_range_names_its_flag(self):
        train = self.commands()[0]
        for flag in ("connect_timeout", "heartbeat_timeout", "progress_timeout",
                     "prepare_timeout", "collective_timeout"):
            for value in ("0", "-1s", "1ns"):
                with self.subTest(flag, value=value):
                    result, _ = self.run_in("time", "", {}, [*train, f"--{flag}={value}"])
                    self.assertEqual(result.returncode, USAGE, result.stderr)
                    self.assertIn(f"--{flag}: out of range".encode(), result.stderr)
        for flag in ("--start_timeout=0", "--start_timeout=-1s", "--grace=-1s"):
            with self.subTest(flag):
                result, _ = self.run_in("launch", "", {}, [
                    MIRRORFLOW, "launch", flag, "-n", "2", "--", "true"])
                self.assertEqual(result.returncode, USAGE, result.stderr)
                self.assertIn(f"{flag.split('=')[0]}: out of range".encode(), result.stderr)
        result, _ = self.run_in("coordinator", "", {}, [
            MIRRORFLOW, "coordinator", "--bind=127.0.0.1:0", "--num_workers=1",
            "--connect_timeout=-1s"])
        self.assertEqual(result.returncode, USAGE, result.stderr)

    def test_infinite_durations_work(self):
        expected = self.run_in("finite", "", {}, self.commands()[0])[1]
        flags = [f"--{name}_timeout=inf" for name in ("connect", "heartbeat", "progress", "prepare",
                                                      "collective")]
        launch = self.commands()[1]
        launch[2:2] = ["--grace=inf", "--start_timeout=inf"]
        result, losses = self.run_in("infinite", "", {}, [*launch, "--collective=tcp", *flags])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(losses, expected)

    def test_every_command_reports_output_that_it_cannot_write(self):
        for command in ([FASHION_MNIST, "--help"], [MIRRORFLOW, "--help"], [MIRRORFLOW, "ops"],
                        [MIRRORFLOW, "devices"], [MIRRORFLOW, "failpoints"]):
            with self.subTest(command[1]):
                for shell in ("exec >/dev/full", "exec >&-"):
                    result, _ = self.run_in("command", shell, {}, command)
                    self.assertEqual(result.returncode, RESOURCES, result.stderr)
                    self.assertIn(b"standard output", result.stderr)

    def test_strategy_that_ignores_the_other_workers_is_one_warning(self):
        train = [*self.commands()[1], "--strategy=mirrored"]
        result, _ = self.run_in("mirrored", "", {}, train)
        self.assertEqual(result.returncode, 0, result.stderr)
        warnings = [l for l in result.stderr.splitlines() if b"WARNING" in l]
        self.assertEqual(len(warnings), 1, result.stderr)
        self.assertIn(b"MultiWorkerMirroredStrategy", warnings[0])
        result, _ = self.run_in("separate", "", {"MIRRORFLOW_CLUSTER": "none"}, train)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn(b"WARNING", result.stderr)


if __name__ == "__main__":
    programs.main()

# SPDX-License-Identifier: Apache-2.0
"""Code shared by the tests of our programs: input files and checks of results."""

import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from xml.sax.saxutils import quoteattr

FASHION_MNIST = os.path.abspath("tools/fashion_mnist")
MIRRORFLOW = os.path.abspath("tools/mirrorflow")

USAGE, BAD_INPUT, CLUSTER, RESOURCES, NUMERIC = 2, 3, 4, 5, 6
# Omits the time, the job and the worker from lines; log_format_test.py tests these.
os.environ["MIRRORFLOW_LOG_FORMAT"] = "plain"

SECONDS = 60  # time limit; programs take about 1 s, or several on a busy machine

# Control characters, except tabs and \n. No program may print those that come from files or
# other processes.
CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")

ROWS = {"train": 40, "t10k": 20}
# Flags of a short training run with the dataset of ProgramTest.
TRAIN_TINY = ["--data_dir=good", "--global_batch_size=10", "--steps=4", "--seed=7",
              "--log_format=off"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(condition, what):
    """Waits until the condition is true. Fails with `what` if it is not true within 90 s."""
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, f"waited 90 s for {what}"
        time.sleep(0.01)


def own(rank, size, port):
    """Returns the variables that describe a worker's cluster to Mirrorflow."""
    return {"MIRRORFLOW_NUM_WORKERS": str(size), "MIRRORFLOW_WORKER_INDEX": str(rank),
            "MIRRORFLOW_COORDINATOR": f"127.0.0.1:{port}"}


def idx(dims, contents):
    """Returns an IDX file of bytes."""
    return bytes([0, 0, 8, len(dims)]) + b"".join(struct.pack(">I", d) for d in dims) + contents


def images(rows, size=28):
    return idx([rows, size, size], bytes(7 * i % 256 for i in range(rows * size * size)))


def labels(values):
    return idx([len(values)], bytes(values))


def npy(descr, shape, elements):
    """Returns the bytes of an npy file."""
    dims = ", ".join(str(d) for d in shape) + ("," if len(shape) == 1 else "")
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + elements


def floats(shape, *values):
    return npy("<f4", shape, struct.pack(f"<{len(values)}f", *values))


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _crc32c_of_byte(crc):
    for _ in range(8):
        crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc


CRC32C = [_crc32c_of_byte(byte) for byte in range(256)]


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ CRC32C[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


def node(name, op, *inputs, **types):
    """Returns a GraphDef node as text. `types` holds its dtype attributes."""
    parts = [f'name: "{name}" op: "{op}"', *(f'input: "{i}"' for i in inputs)]
    parts += [f'attr {{ key: "{k}" value {{ type: {v} }} }}' for k, v in types.items()]
    return f"node {{ {' '.join(parts)} }}\n"


VERSIONS = "versions { producer: 1087 }\n"


class ProgramTest(unittest.TestCase):
    """Runs our programs in a separate directory that holds a small dataset."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        cls.root = pathlib.Path(cls.temporary.name)
        cls.write_data("good")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def write(cls, name, contents):
        path = cls.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())

    @classmethod
    def write_data(cls, folder, **changed):
        """Writes a small Fashion-MNIST. `changed` replaces file contents; None omits a file."""
        for split, rows in ROWS.items():
            files = {
                f"{split}-images-idx3-ubyte": images(rows),
                f"{split}-labels-idx1-ubyte": labels([i % 10 for i in range(rows)]),
            }
            for name, contents in files.items():
                contents = changed.get(name.replace("-", "_"), contents)
                if contents is not None:
                    cls.write(f"{folder}/{name}", contents)

    def files(self):
        return {str(p.relative_to(self.root)) for p in self.root.rglob("*")}

    def run_program(self, *command, new_files=(), **options):
        before = self.files()
        result = subprocess.run(command, cwd=self.root, timeout=SECONDS, text=True, check=False,
                                errors="replace", capture_output=True, **options)
        self.assertEqual(self.files() - before, set(new_files), "files that the program left")
        self.assertNotRegex(result.stdout + result.stderr, CONTROL)
        return result

    def check_fails(self, program, args, exit_code, code, where, what="", **options):
        with self.subTest(" ".join(args)):
            result = self.run_program(program, *args, **options)
            last = result.stderr.splitlines()[-1] if result.stderr else ""
            self.assertEqual(result.returncode, exit_code, last)  # negative: killed by a signal
            self.assertRegex(last, rf"^ERROR {code} {re.escape(where)}: .*{re.escape(what)}")
            return result

    def check_training_fails(self, args, *expected, **options):
        """Runs training with `args` added to, or instead of, the flags of a successful run."""
        good = ["--data_dir=good", "--model=mlp", "--replicas=2", "--steps=3",
                "--global_batch_size=10"]
        return self.check_fails(FASHION_MNIST, good + args, *expected, **options)

    def check_inspect_fails(self, name, contents, what, code="INVALID_ARGUMENT"):
        self.write(name, contents)
        self.check_fails(MIRRORFLOW, ["inspect", name], BAD_INPUT, code, name, what)


class WorkersTestCase(ProgramTest):
    """Runs `fashion_mnist` as several workers."""

    SECONDS = 60  # time limit; a run takes less than 10 s

    def files_of(self, name):
        """Returns flags that make worker 0 write its losses and variables."""
        return [f"--loss_log={name}.log", f"--save_variables={name}.safetensors"]

    def read(self, name):
        return [(self.root / f"{name}.{e}").read_bytes() for e in ("log", "safetensors")]

    def losses(self, name):
        return [float(l.split()[1]) for l in (self.root / f"{name}.log").read_text().splitlines()]

    def start_workers(self, launcher, workers, common=(), of_worker=lambda rank: (),
                      options_of=lambda rank: {}, **options):
        """Starts the workers, with the environment launcher(rank, workers, port)."""
        port = free_port()
        started = []
        for rank in range(workers):
            command = [FASHION_MNIST, *TRAIN_TINY, *common, *of_worker(rank)]
            environment = {**os.environ, **launcher(rank, workers, port)}
            started.append(subprocess.Popen(
                command, cwd=self.root, env=environment, text=True, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, **options, **options_of(rank)))
        return started

    def results_of(self, workers):
        """Waits for the workers and returns their results, by rank."""
        results = []
        for worker in workers:
            out, err = worker.communicate(timeout=self.SECONDS)
            results.append(subprocess.CompletedProcess(worker.args, worker.returncode, out, err))
        return results

    def run_workers(self, *args, **kwargs):
        return self.results_of(self.start_workers(*args, **kwargs))

    def check_all_fail(self, results, exit_code, *parts):
        for rank, result in enumerate(results):
            with self.subTest(f"worker {rank}"):
                self.assertEqual(result.returncode, exit_code, result.stderr)
                last = result.stderr.splitlines()[-1]
                self.assertRegex(last, r"^ERROR ")
                for part in parts:
                    self.assertIn(part, last)

    def check_all_succeed(self, results):
        for result in results:
            self.assertEqual(result.returncode, 0, result.stderr)


class Recorder(unittest.TextTestResult):
    """Records the outcome of each test case."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.outcomes = {}

    def stopTest(self, test):
        super().stopTest(test)
        skipped = any(t is test for t, _ in self.skipped)
        failed = any(getattr(t, "test_case", t) is test for t, _ in self.failures + self.errors)
        self.outcomes[test.id()] = "failure" if failed else "skipped" if skipped else ""


def main():
    """Runs the tests of the main module. Reports each case to Bazel, so tools/test counts all cases
    and lists the skipped ones."""
    program = unittest.main(
        testRunner=unittest.TextTestRunner(resultclass=Recorder), exit=False, module="__main__")
    if path := os.environ.get("XML_OUTPUT_FILE"):
        cases = "".join(
            f'<testcase name={quoteattr(name.removeprefix("__main__."))}>'
            f"{f'<{outcome}/>' if outcome else ''}</testcase>"
            for name, outcome in program.result.outcomes.items())
        pathlib.Path(path).write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    sys.exit(not program.result.wasSuccessful())

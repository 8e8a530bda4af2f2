# SPDX-License-Identifier: Apache-2.0
"""Runs programs under a time limit, either to their end or in turns. Used by run.py."""

import collections
import glob
import importlib.util
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import threading
import time

OK, FAILED, SKIPPED = "ok", "FAILED", "skipped"
# `stage` names the row; `of` is the stage that made it.
Row = collections.namedtuple("Row", "stage result what seconds of", defaults=(0.0, "GPU"))


class Ended(collections.namedtuple("Ended", "code output")):
    """`code` is None if the time limit was reached."""

    def last_line(self):
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else "no output"

    def json_lines(self):
        return [json.loads(line) for line in self.output.splitlines() if line.startswith("{")]

    def why(self, seconds):
        if self.code is None:
            return f"did not finish within {seconds:.0f} s"
        return f"exited with {self.code}: {self.last_line()}"


def kill_group(process):
    """Kills a program and its children. Each program leads its own process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run_all(commands, seconds, log, environments, cwd):
    """Runs the commands in parallel and returns an Ended for each. Also writes their output to the
    log."""
    started = []
    for command, environment in zip(commands, environments):
        output = open(pathlib.Path(cwd) / f"output.{len(started)}", "w+b")
        started.append((subprocess.Popen([str(word) for word in command], stdout=output,
                                         stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                         env=environment, cwd=cwd, start_new_session=True),
                        output))
    deadline = time.monotonic() + seconds
    ended = []
    for process, output in started:
        try:
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
        kill_group(process)
        output.seek(0)
        text = output.read()
        output.close()
        log.write(text)
        log.flush()
        ended.append(Ended(code, text.decode(errors="replace")))
    return ended


def run(command, seconds, log, env, cwd):
    return run_all([command], seconds, log, [env], cwd)[0]


def row_of_tests(name, ended, results, log):
    """Returns the row of the GoogleTest programs that have written these JSON files."""
    ran, failed, figures = 0, [], []
    for path in results:
        if not path.exists():
            continue
        for suite in json.loads(path.read_text())["testsuites"]:
            for test in suite["testsuite"]:
                if test.get("result") == "SUPPRESSED":
                    continue
                ran += 1
                if test.get("failures"):
                    failed.append(f"{suite['name']}.{test['name']}")
                    continue
                figures += [f"{test['name'].rpartition('/')[2]} {key} {test[key]}" for key in test
                            if key.startswith(("accuracy", "largest"))]
    stopped = [e for e in ended if e.code is None]
    if failed:
        log.write(("\n".join(["failed:"] + failed) + "\n").encode())
        return Row(name, FAILED, f"{len(failed)} of {ran} tests failed; the first is {failed[0]}")
    if stopped:
        return Row(name, FAILED, f"{len(stopped)} of {len(ended)} processes did not finish in time")
    for e in ended:
        if e.code != 0:
            return Row(name, FAILED, e.why(0))
    if ran == 0:
        return Row(name, FAILED, "no test matches")
    return Row(name, OK, ", ".join([f"{ran} tests"] + figures))


class Served:
    """A program that takes a turn for each line of input and prints JSON at the end."""

    def __init__(self, name, command, environment, cwd, log):
        self.name = name
        self._lines = queue.Queue()
        self._said = []
        self._late = False
        self._process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         env=environment, cwd=cwd, start_new_session=True)
        self._errors = collections.deque(maxlen=20)
        for target, stream in (self._read, "stdout"), (self._read_errors, "stderr"):
            threading.Thread(target=target, args=(getattr(self._process, stream), log),
                             daemon=True).start()

    def _read(self, stream, log):
        for line in stream:
            self._lines.put(line.decode(errors="replace").rstrip("\n"))
        self._lines.put(None)

    def _read_errors(self, stream, log):
        for line in stream:
            self._errors.append(line.decode(errors="replace").rstrip("\n"))
            if not log.closed:
                log.write(line)

    def _next(self, deadline):
        """Returns the next line of output, or None at its end or at the deadline."""
        try:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            self._late = True
            return None
        if line is None:
            self._lines.put(None)
        return line

    def wait_for(self, word, deadline):
        while (line := self._next(deadline)) is not None:
            if line == word:
                return True
        self.end()
        return False

    def turn(self, deadline):
        try:
            self._process.stdin.write(b"turn\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return False
        return self.wait_for("done", deadline)

    def finish(self, deadline):
        """Closes the input and returns the measurements."""
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        lines = []
        while (line := self._next(deadline)) is not None:
            if line.startswith("{"):
                lines.append(json.loads(line))
        return lines

    def why_not(self):
        if self._late:
            return "did not finish in time"
        time.sleep(0.1)  # to receive the last lines of its output
        said = [line for line in self._errors if line.strip()]
        return said[-1] if said else f"exited with {self._process.poll()}"

    def end(self):
        kill_group(self._process)


def take_turns(programs, rounds, deadline):
    """Takes turns, in reverse order every other round; returns the number of complete rounds. The
    rounds stop if a program ends or is late."""
    order = list(programs)
    for done in range(rounds):
        for program in order:
            if time.monotonic() > deadline or not program.turn(deadline + 5):
                return done
        order.reverse()
    return rounds


def _library_folders():
    """Returns the folders of the CUDA libraries: the toolkit's, and those of PyTorch's packages."""
    folders = []
    for root in os.environ.get("CUDA_HOME"), "/usr/local/cuda":
        if root:
            folders += [f"{root}/lib64", f"{root}/extras/CUPTI/lib64"]
    packages = importlib.util.find_spec("nvidia")
    for place in (packages.submodule_search_locations or []) if packages else []:
        folders += sorted(glob.glob(f"{place}/*/lib"))
    return [folder for folder in folders if os.path.isdir(folder)]


def our_environment(work, data, libraries):
    folders = [str(libraries)] + _library_folders()
    if os.environ.get("LD_LIBRARY_PATH"):
        folders.append(os.environ["LD_LIBRARY_PATH"])
    kernels = work / "kernels"
    kernels.mkdir()
    return dict(os.environ, LD_LIBRARY_PATH=":".join(folders), FASHION_MNIST_DIR=str(data),
                MIRRORFLOW_KERNEL_CACHE=str(kernels))


def peers_environment(work):
    """Returns the original environment, with caches that start empty."""
    return dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(work / "inductor"),
                TRITON_CACHE_DIR=str(work / "triton"), PYTHONUNBUFFERED="1")


def missing_libraries(binary, environment):
    if shutil.which("ldd") is None:
        return []
    listed = subprocess.run(["ldd", binary], env=environment, capture_output=True, text=True,
                            check=False)
    return sorted({line.split()[0] for line in listed.stdout.splitlines() if "not found" in line})


def find_program(name, environment):
    """Searches the path, then the folders where toolkits install the program."""
    found = shutil.which(name)
    if found:
        return found
    roots = [environment.get("CUDA_HOME"), "/usr/local/cuda"]
    for root in filter(None, roots):
        for path in f"{root}/bin/{name}", f"{root}/compute-sanitizer/{name}":
            if os.access(path, os.X_OK):
                return path
    return next(iter(sorted(glob.glob(f"/opt/nvidia/*/**/{name}", recursive=True))), None)

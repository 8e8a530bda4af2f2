#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks Mirrorflow on this machine's GPU and measures it next to its peers.

    ./run --only=checks          # tests and figures: ten minutes at most
    ./run --only=benchmarks      # training steps next to the peers: ten minutes at most
    ./run --only="gpt2 8"        # some stages
    ./run --dry-run              # the stages, how long each may take, and what it needs

Needs a driver, the CUDA toolkit (or PyTorch's CUDA packages), Python 3, and PyTorch and JAX for the
peers. Each stage has its own time limit. Continues after a failed stage, and ends with a table of
all stages and gates. Writes gpu_check.json and gpu_check.log to the folder --out, by default this
one. Keeps existing results of the same program, unless their stage runs again. The exit code is 0
if every stage is ok; a missed gate is a result, not a failure.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gates
import processes
from processes import OK, FAILED, SKIPPED, Row

# Ops whose kernels share memory between threads, or write to positions taken from data.
MEMCHECK_OPS = ("AddV2 ArgMax AvgPool BiasAddGrad Cumsum DynamicStitch FusedBatchNormV3 GatherV2 "
                "LogSoftmax MatMul Max MaxPool MaxPoolGrad Mean MirrorPad Prod ResourceApplyAdam "
                "ScatterNd Slice Softmax SparseSoftmaxCrossEntropyWithLogits Sum TopKV2 Transpose "
                "UnsortedSegmentSum").split()
RACECHECK_OPS = ("ArgMax BiasAddGrad Cumsum FusedBatchNormV3 LogSoftmax Mean MaxPoolGrad Softmax "
                 "SparseSoftmaxCrossEntropyWithLogits Sum TopKV2 Transpose").split()
MAX_SHARDS = 12
LEAST_ROUNDS, ROUNDS = 7, 11
# Counts per step that `bench` reports.
STEP_COUNTS = "copies_in", "graph_launches", "copies_out", "waits"
# Seconds that a peer needs in addition to its --seconds, to start and to give up on a variant.
PEER_START_SECONDS = 8

# A stage ends after `seconds`. The stages of one kind take ten minutes at most.
CHECKS, BENCHMARKS = "checks", "benchmarks"
Stage = collections.namedtuple("Stage", "kind name seconds needs run")


class Check:
    """State that the stages share."""

    def __init__(self, work, log, environment):
        self.work, self.log, self.environment = work, log, environment
        self.binary = HERE / "gpu_check"
        self.bench_lines = []  # all measurements
        self.gpus = None

    def run(self, command, seconds, **options):
        return processes.run(command, seconds, self.log, env=self.environment, cwd=self.work,
                             **options)


def find_gpus(check, seconds):
    missing = processes.missing_libraries(check.binary, check.environment)
    if missing:
        return [Row("GPU", FAILED, "missing libraries: " + ", ".join(missing))]
    result = check.run([check.binary, "gpus"], seconds)
    if result.code != 0:
        return [Row("GPU", FAILED, "no GPU: " + result.last_line())]
    check.gpus = json.loads(result.output.splitlines()[-1])["gpus"]
    first = check.gpus[0]
    return [Row("GPU", OK, f"{len(check.gpus)} x {first['name']}, capability "
                           f"{first['capability']}, {first['memory_bytes'] / 2**30:.0f} GiB")]


def tests(name, patterns, shards=1, under=()):
    """Returns a stage that runs the tests that match `patterns`, in up to `shards` processes."""

    def run(check, seconds):
        count = min(shards, os.cpu_count() or 1)
        results = [check.work / f"{name.replace(' ', '_')}.{i}.json" for i in range(count)]
        commands = [[*under, check.binary, "--gtest_filter=" + ":".join(patterns),
                     f"--gtest_output=json:{result}"] for result in results]
        environments = [dict(check.environment, GTEST_TOTAL_SHARDS=str(count),
                             GTEST_SHARD_INDEX=str(i)) for i in range(count)]
        ended = processes.run_all(commands, seconds, check.log, environments, check.work)
        return [processes.row_of_tests(name, ended, results, check.log)]

    return run


def has_tests(binary, pattern, environment):
    listed = subprocess.run([binary, "--gtest_list_tests", "--gtest_filter=" + pattern],
                            env=environment, capture_output=True, text=True, check=False)
    return listed.returncode == 0 and "\n  " in listed.stdout


def sanitizer(tool, ops):
    def run(check, seconds):
        program = processes.find_program("compute-sanitizer", check.environment)
        if program is None:
            return [Row(tool, SKIPPED, "no compute-sanitizer in the toolkit or on the path")]
        under = [program, "--tool", tool, "--error-exitcode", "9"]
        # Libraries make calls whose errors they expect.
        under += ["--report-api-errors", "no"] if tool == "memcheck" else []
        patterns = [f"*EveryCudaKernel.*/{op}" for op in ops]
        return tests(tool, patterns, shards=2, under=under)(check, seconds)

    return run


def bench(model, batch, precision):
    """Returns a stage where our program, PyTorch and JAX take turns."""
    name = f"{model} {batch} {precision}"

    def run(check, seconds):
        deadline = time.monotonic() + seconds
        our_flags = [f"--model={model}", f"--precision={precision}", f"--batch_size={batch}",
                     "--serve"]
        peer_flags = [f"--model={model}", f"--precision={precision}", "--serve"]
        if model in gates.EQUAL_WEIGHTS:
            case = check.work / f"{model}_{batch}.npz"
            our_flags.append(f"--case_file={case}")
            peer_flags.append(f"--case={case}")
        else:
            peer_flags.append(f"--batch={batch}")
        served = {}
        rows = []
        try:
            program = processes.Served("mirrorflow", [check.binary, "bench", *our_flags],
                                       check.environment, check.work, check.log)
            served["mirrorflow"] = program
            if not program.wait_for("ready", deadline):
                return [Row(name + ": mirrorflow", FAILED, program.why_not())]
            # A quarter of the time is reserved for the turns.
            ready_by = deadline - seconds / 4
            preparation = max(1.0, ready_by - PEER_START_SECONDS - time.monotonic())
            for peer in "torch", "jax":
                served[peer] = processes.Served(
                    peer, [sys.executable, HERE / "peers" / f"gpu_{peer}_peer.py", *peer_flags,
                           f"--seconds={preparation:.0f}"],
                    processes.peers_environment(check.work / name.replace(" ", "_")), check.work,
                    check.log)
            for peer in "torch", "jax":
                if not served[peer].wait_for("ready", ready_by):
                    rows.append(Row(f"{name}: {peer}", SKIPPED, served.pop(peer).why_not()))
            rounds = processes.take_turns(list(served.values()), ROUNDS, deadline - 5)
            for program in served.values():
                lines = program.finish(deadline)
                rows += [row_of_line(name, line, rounds) for line in lines]
                check.bench_lines += lines
                if not lines:
                    rows.append(Row(f"{name}: {program.name}", FAILED, program.why_not()))
            return rows + gates.loss_rows(name, check.bench_lines, (model, batch, precision))
        finally:
            for program in served.values():
                program.end()

    return run


def row_of_line(stage, line, rounds):
    name = f"{stage}: {line['name']}"
    if "skipped" in line:
        return Row(name, SKIPPED, line["skipped"])
    what = f"{line['median_ms']:.4g} ms ({line['q1_ms']:.4g} to {line['q3_ms']:.4g})"
    if line.get("peak_memory") is not None:
        what += f", {line['peak_memory'] / 2**20:.0f} MiB"
    if "device_memory" in line:
        what += f" of {line['device_memory'] / 2**20:.0f} MiB taken"
    if "host_us" in line:
        what += f", host {line['host_us']:.3g} µs"
    counts = {key: line[key] for key in STEP_COUNTS if key in line}
    if counts:
        what += "; a step: " + ", ".join(f"{n} {key.replace('_', ' ')}" for key, n in counts.items())
    if any(n > 1 for n in counts.values()):
        return Row(name, FAILED, f"{what}; expected at most 1 of each")
    if rounds < LEAST_ROUNDS:
        return Row(name, FAILED, f"{what}; {rounds} rounds, expected {LEAST_ROUNDS}")
    return Row(name, OK, what)


def warm_start(check, seconds):
    """Measures the first step of a process whose kernels another process has already compiled."""
    deadline = time.monotonic() + seconds
    command = [check.binary, "bench", "--model=mlp", "--batch_size=64", "--precision=tf32",
               "--rounds=1", "--round_ms=1"]
    for _ in range(2):  # twice if no earlier stage has filled the cache
        ended = check.run(command, max(1.0, deadline - time.monotonic()))
        if ended.code != 0:
            return [Row("warm start", FAILED, ended.why(seconds))]
        line = next(line for line in ended.json_lines() if line["name"] == gates.OURS)
        if line["compilations"] == 0:
            break
    what = f"first step {line['first_step_ms']:.4g} ms"
    if line["compilations"] != 0:
        return [Row("warm start", FAILED, f"{what}; {line['compilations']} kernels were compiled, "
                                          "expected all in the cache")]
    check.bench_lines.append(dict(line, name=gates.WARM))
    return [Row("warm start", OK, what)]


def figures(check, seconds):
    """Measures the figures of our program that need no peer."""
    ended = check.run([check.binary, "figures"], seconds)
    if ended.code != 0:
        return [Row("figures", FAILED, ended.why(seconds))]
    lines = ended.json_lines()
    check.bench_lines += lines
    return [Row("figures", OK, ", ".join(f"{line['figure']} {statistics.median(line['values']):.4g}"
                                         for line in lines))]


def stages_of(check):
    kernel_tests = ["*EveryCudaKernel*", "*RandomInputs*", "CudaRandomTest*",
                    "CudaReplicaIndexTest*"]
    gpu, sanitizer_too = "a GPU", "a GPU, compute-sanitizer"
    peers = "a GPU, PyTorch, JAX"
    stages = [
        # Most of the time goes to NVRTC: 25 ms for a simple kernel, 200 ms for one of attention.
        Stage(CHECKS, "kernels", 150, gpu, tests("kernels", kernel_tests, shards=MAX_SHARDS)),
        Stage(CHECKS, "strategies", 60, gpu,
              tests("strategies", ["*LogicalGpus*", "*StrategyEquality*"], shards=4)),
        Stage(CHECKS, "training", 60, gpu, tests("training", ["*FashionMnistTraining*"], shards=2)),
        Stage(CHECKS, "figures", 30, gpu, figures),
        Stage(CHECKS, "memcheck", 120, sanitizer_too, sanitizer("memcheck", MEMCHECK_OPS)),
        Stage(CHECKS, "racecheck", 120, sanitizer_too, sanitizer("racecheck", RACECHECK_OPS)),
        Stage(BENCHMARKS, "mlp 64", 80, peers, bench("mlp", 64, "tf32")),
        Stage(BENCHMARKS, "warm start", 10, gpu, warm_start),
        Stage(BENCHMARKS, "cnn 64", 70, peers, bench("cnn", 64, "tf32")),
        Stage(BENCHMARKS, "mlp 256", 50, peers, bench("mlp", 256, "tf32")),
        Stage(BENCHMARKS, "gpt2 8", 140, peers, bench("gpt2", 8, "bf16")),
        Stage(BENCHMARKS, "transformer 8", 100, peers, bench("transformer", 8, "tf32")),
        Stage(BENCHMARKS, "resnet50 64 tf32", 60, peers, bench("resnet50", 64, "tf32")),
        Stage(BENCHMARKS, "resnet50 64 bf16", 60, peers, bench("resnet50", 64, "bf16")),
    ]
    # Compares steps that run as CUDA graphs with steps that do not, if the program has such tests.
    if has_tests(check.binary, "*GraphCapture*", check.environment):
        stages.insert(2, Stage(CHECKS, "graph capture", 30, gpu,
                               tests("graph capture", ["*GraphCapture*"])))
    return stages


def choose(stages, only):
    """Returns the stages with these names or kinds, or all if `only` is empty. Raises ValueError
    for unknown names."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    unknown = names - {s.name for s in stages} - {s.kind for s in stages}
    if unknown:
        raise ValueError(f"--only: expected any of {', '.join(s.name for s in stages)}, {CHECKS}, "
                         f"{BENCHMARKS}, got {', '.join(sorted(unknown))}")
    return [s for s in stages if not names or s.name in names or s.kind in names]


def plan(stages):
    """Returns the table of --dry-run."""
    lines = [("stage", "seconds", "kind", "needs")]
    lines += [(s.name, str(s.seconds), s.kind, s.needs) for s in stages]
    for kind in CHECKS, BENCHMARKS:
        total = sum(s.seconds for s in stages if s.kind == kind)
        if total:
            lines.append((f"all {kind}", str(total), "", ""))
    return gates.aligned(lines)


def run_stages(check, stages, budget):
    rows = []
    for stage in stages:
        seconds = budget or stage.seconds
        began = time.monotonic()
        if check.gpus is None:
            made = [Row(stage.name, SKIPPED, "no GPU")]
        else:
            print(f"-- {stage.name}: up to {seconds:.0f} s", flush=True)
            try:
                made = stage.run(check, seconds)
            except Exception as error:  # any error; the other stages still run
                made = [Row(stage.name, FAILED, f"{type(error).__name__}: {error}")]
        took = time.monotonic() - began
        rows += [row._replace(seconds=took, of=stage.name) for row in made]
        for line in check.bench_lines:
            line.setdefault("stage", stage.name)
    return rows


def earlier_results(path, program, stages):
    """Returns the rows and lines of an earlier run of this program, without those of `stages`."""
    try:
        before = json.loads(path.read_text())
    except (OSError, ValueError):
        return [], []
    if before.get("program") != program:
        return [], []
    again = {"GPU"} | {stage.name for stage in stages}
    return ([Row(**row) for row in before["stages"] if row["of"] not in again],
            [line for line in before["measured"] if line["stage"] not in again])


def unpack(work):
    """Unpacks the op test cases into the folder where the tests look for them."""
    with tarfile.open(HERE / "cases.tar.gz") as cases:
        cases.extractall(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float,
                        help="time limit in seconds for each stage, instead of its own")
    parser.add_argument("--dry-run", action="store_true", help="list the stages and exit")
    parser.add_argument("--only", default="",
                        help=f"comma-separated stage names, {CHECKS} or {BENCHMARKS}")
    parser.add_argument("--out", type=pathlib.Path, default=HERE,
                        help="folder for the result and the log")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, open(args.out / "gpu_check.log", "ab") as log:
        work = pathlib.Path(work)
        check = Check(work, log, processes.our_environment(work, HERE / "data", HERE / "lib"))
        try:
            stages = choose(stages_of(check), args.only)
        except ValueError as error:
            parser.error(str(error))
        if args.dry_run:
            print(plan(stages))
            return 0
        unpack(work)
        rows = find_gpus(check, 15.0)
        rows += run_stages(check, stages, args.budget)
    result_file = args.out / "gpu_check.json"
    program = hashlib.sha256(check.binary.read_bytes()).hexdigest()
    kept_rows, kept_lines = earlier_results(result_file, program, stages)
    all_rows, lines = rows + kept_rows, check.bench_lines + kept_lines
    verdicts = gates.verdicts(lines)
    result = {"program": program, "machine": platform.node() and platform.platform(),
              "gpus": check.gpus, "stages": [row._asdict() for row in all_rows], "gates": verdicts,
              "measured": lines}
    result_file.write_text(json.dumps(result, indent=1) + "\n")
    print(gates.table(all_rows, verdicts))
    return 0 if all(row.result == OK for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

// SPDX-License-Identifier: Apache-2.0
//
// The command `mirrorflow bench`, and its benchmarks by file. C1 … C25 are the performance goals
// that `mirrorflow bench gates` measures.
#ifndef MIRRORFLOW_TOOLS_BENCH_BENCHMARKS_H_
#define MIRRORFLOW_TOOLS_BENCH_BENCHMARKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/bench/bench_report.h"
#include "tools/bench/worker_hosts.h"
#include "tools/flags/command_line.h"

// Defined in step.cc, for all benchmarks.
ABSL_DECLARE_FLAG(int, rounds);

namespace mirrorflow {

struct TrainingCase;

// Implements `mirrorflow bench WHAT`; `args` are the words after `bench`.
//   step       one training step of --model with --batch_size examples per replica on --replicas
//   gates      all performance goals, including those against other frameworks, as one table
//   allreduce  an all-reduce of two replicas, against Gloo
//   overhead   the cost of a step and of a node that compute almost nothing; allocations of a step
//   serving    requests per second and latency of inference, beside other frameworks
//   compile    time from a graph to plans, by nodes and by replicas
//   graphs     time from a file of many nodes to a result
//   startup    time from process start to the end of the first step, ours and the peers'
//   memory     peak memory of the process that `startup` times
//   peer       the process that `startup` and `memory` start: trains and reports its progress
// --json=FILE also writes one JSON object per line to the file.
// On error, `*code` is the exit code of the program.
absl::Status Bench(const std::vector<std::string>& args, ExitCode* code);

// all_reduce.cc: an all-reduce of two replicas, of one process (C11) or of two, on one host (C13)
// or on two (C14).
//
// Measures sizes from 4 bytes to 25 MB over --transport, in turns with Gloo's algorithms on the
// same cores and --hosts. Goals are against the fastest of these.
absl::Status BenchAllReduce(Report* report);
absl::Status CheckAllReduceFlags();
absl::Status CheckAllReduceWorkers();
// The all-reduce benchmark on one transport each: threads, processes with shared memory, and TCP
// between two network namespaces.
absl::Status BenchAllReduceOfThreads(Report* report);
absl::Status BenchAllReduceOfProcesses(Report* report);
absl::Status BenchAllReduceOverTcp(const Link& link, Report* report);

// compile.cc: the time to compile a graph to plans.
//
// Measures the time per node, and its growth with the number of nodes (C19).
absl::Status BenchCompileNodes(Report* report);
// Compares the time to compile the training of `model` for 8 replicas with that for 1 and 2 (C20).
absl::Status BenchCompileReplicas(absl::string_view model, Report* report);
// Runs both, the second for --model.
absl::Status BenchCompile(Report* report);

// data_reading.cc: rows per second of input pipelines beside tf.data and PyTorch's DataLoader, on
// one core with one thread and on two with two. tests/benchmark/peers/data_peer.py describes the
// tasks. Needs the peers, which also write the files.
absl::Status BenchData(Report* report);

// fault_tolerance.cc: training of two workers
absl::Status BenchCheckpoints(Report* report);  // with and without checkpoints (C23)
absl::Status BenchHeartbeats(Report* report);   // and heartbeats, and what they carry (C24)

// gates.cc: all performance goals as one Markdown table, below the machine, the versions and the
// settings. A goal that cannot be measured, for example because a peer is not installed, has a row
// with the reason and does not end the run.
absl::Status BenchGates(Report* report);
absl::Status CheckGatesFlags();
// Returns a table of the gates that --only names, or of all.
Report GatesReport();

// graphs.cc: the costs of a large graph on its way from a file to a result.
struct GraphCost {
  int64_t nodes = 0;
  double load_ms = 0;     // to read, parse and validate it
  double session_ms = 0;  // to copy it into a session and lay out its variables
  double compile_ms = 0;
  double run_ms = 0;
  int64_t peak_bytes = 0;  // of resident memory, above that before the measurement

  double total_ms() const { return load_ms + session_ms + compile_ms + run_ms; }
};

// Measures a graph of about `nodes` nodes, which it writes to a temporary file and removes. `shape`
// is "chain": each node is a function of the one before; "wide": products of one value, added up in
// pairs; "equal": identical nodes of one value, added up in pairs; or "functions": function calls,
// nested half as deep as there are nodes.
absl::StatusOr<GraphCost> MeasureGraph(absl::string_view shape, int64_t nodes);

// `mirrorflow bench graphs`: measures graphs of up to --max_nodes nodes. Time and memory should
// grow in proportion to the nodes.
absl::Status BenchGraphs(Report* report);
// Checks the flag of BenchGraphs.
absl::Status CheckGraphsFlag();

// hooks.cc: compares the communication hooks, for the case that the flags name: the time of a
// training step of several workers, the bytes that each sends, and how far the loss falls in the
// same steps.
absl::Status BenchHooks(Report* report);

// kernels.cc: matrix products and convolutions as steps of a session, against direct calls of the
// library that computes them, on one core.
absl::Status BenchProducts(Report* report);      // C3: against oneDNN, and the peak of the core
absl::Status BenchConvolutions(Report* report);  // C4: with both gradients, against oneDNN, Eigen

// mirrorflow_peer.cc: what this program does when a benchmark has started it (start_peers.h), as
// `bench peer` and `bench allreduce_peer`.
absl::Status TrainAsPeer(Report* report);
absl::Status AllReduceAsPeer(Report* report);

// overhead.cc: the cost of a step and of a node that compute almost nothing, the packing of a
// plan's memory, and the allocations of a step.
absl::Status BenchDispatch(Report* report);     // C1
absl::Status BenchFixedCost(Report* report);    // C2
absl::Status BenchArena(Report* report);        // C16
absl::Status BenchSteadyState(Report* report);  // C17
absl::Status BenchOverhead(Report* report);     // all of them

// overlap.cc: how much of a step is exposed communication.
//
// Measures the share of training steps in which the compute lanes start collectives, wait for them
// or do their part of them (C15).
absl::Status BenchExposed(const TrainingCase& training, Report* report);

// Measures how much longer a step takes on two workers than on one worker with the same batch. The
// workers have a network namespace each. The result is a percentage of the time that an all-reduce
// of the gradients alone takes over the same link (C15b).
absl::Status BenchExposedOverTcp(const TrainingCase& training, const Link& link, Report* report);

// Draws a typical step as a chart: for each replica the work of its compute lane, and its
// collectives in flight.
absl::StatusOr<std::string> DrawStepTimeline(const TrainingCase& training);

// recovery.cc: from SIGKILL of one of four local workers to the first step after it. Compares a
// restart of that worker alone, which the others wait for, with a restart of the job (C25).
absl::Status BenchRecovery(Report* report);
// Runs as a worker of these jobs, as `bench recovery_peer`.
absl::Status RecoverAsPeer(Report* report);

// serving.cc: requests per second and latency of single-example inference, compared with ONNX
// Runtime and TensorFlow.
//
// Measures an MLP, a CNN and an LSTM for each client count in --threads, alternating between
// Mirrorflow and --peers. Mirrorflow clients are threads that call one step concurrently. Peer
// clients are processes, because Python threads contend for the GIL. All sides use one core per
// client, and a client sends its next request when it has the answer to the last one. The logits of
// all sides must agree to within 1e-4 before timing starts.
//
// `empty_call` is what a Python call costs on a graph that computes almost nothing. A peer's
// latency includes it; a C++ server would pay less.
absl::Status BenchServing(Report* report);
absl::Status CheckServingFlags();

// startup.cc: the start-up time and memory of whole training processes, ours and the peers'.
absl::Status BenchStartup(Report* report);  // C21: until the first step has run; the fastest peer
absl::Status BenchMemory(Report* report);   // C18: peak resident memory; the smallest peer
absl::Status BenchWorkersStartup(Report* report);  // C13b: start-up time of several workers

// step.cc: the time of a training step, here and in other frameworks.
//
// The measurements of a case. If the case leaves out passes, our second side runs without them; if
// it has several workers, our second side is one process with the same replicas.
struct StepRounds {
  Rounds rounds;
  std::vector<Implementation> sides;            // ours first
  std::map<std::string, absl::Status> missing;  // peers that could not be measured, and why
};

// Measures the case here and with `peers` (tensorflow, torch, jax), in turns. All start with the
// same weights and the same batch. The workers of each side run on `hosts`. A peer that does not
// start, or whose first losses differ from ours (FailedPrecondition), is listed in `missing`.
absl::StatusOr<StepRounds> MeasureStep(const TrainingCase& training,
                                       const std::vector<std::string>& peers,
                                       const WorkerHosts& hosts = {});

// Returns the case that the flags name, with so many replicas by default.
absl::StatusOr<TrainingCase> TrainingCaseFromFlags(int replicas);
// Measures the case that the flags name.
absl::Status BenchStep(Report* report);
// Checks the flags of BenchStep.
absl::Status CheckStepFlags();
absl::Status CheckStepWorkers();
absl::Status CheckStepSides();  // those of the workers, and --peers

// trainer.cc: what Trainer, with a progress bar, TensorBoard and a metric, costs beside a loop that
// only runs the step. Trains mlp with batches of 64 rows on one replica and on two, in turns with
// that loop.
absl::Status BenchTrainer(Report* report);

// update.cc: how much faster a reduction inside the update is than an all-reduce followed by an
// update (C12). Runs gradient descent on two replicas of one process, with gradients of 1 MB and 25
// MB, in turns.
absl::Status BenchUpdate(Report* report);

// simulated_workers.cc: what thousands of workers cost the coordination service. They run in
// threads of this process, and the service in a process of its own. Doubles their number up to
// `max_workers`. Returns Unavailable if any worker fails.
inline constexpr int kFirstSimulatedWorkers = 125;
absl::Status BenchSimulatedWorkers(int max_workers, Report* report);

// world_sizes.cc: what a worker costs as the world grows, over TCP on this machine: time from start
// to the end of the first step, memory, and TCP connections. With --simulated,
// BenchSimulatedWorkers.
absl::Status BenchWorldSizes(Report* report);
absl::Status CheckWorldSizesFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_BENCHMARKS_H_

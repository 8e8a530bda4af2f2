// SPDX-License-Identifier: Apache-2.0
//
// The `mirrorflow bench` command and its benchmarks, by file. C1 … C25 are the performance goals
// that `mirrorflow bench gates` measures.
#ifndef MIRRORFLOW_TOOLS_BENCH_BENCHMARKS_H_
#define MIRRORFLOW_TOOLS_BENCH_BENCHMARKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/bench/bench_report.h"
#include "tools/bench/step_sides.h"
#include "tools/bench/worker_hosts.h"
#include "tools/flags/command_line.h"

// Defined in step.cc, for all benchmarks.
ABSL_DECLARE_FLAG(int, rounds);

namespace mirrorflow {

struct TrainingCase;

// Implements `mirrorflow bench WHAT`; `args` are the words after `bench`.
//   step       one training step of --model with --batch_size examples per replica on --replicas,
//              or one inference step of the TensorFlow graph in the file --graph
//   inference  the inference steps of all graph files in --models, for each of --batch_sizes
//   kernels    individual inference kernels, compared with oneDNN
//   gates      all performance goals, including those against other frameworks, as one table
//   allreduce  an all-reduce of two replicas, compared with Gloo
//   overhead   the cost of steps and nodes that compute almost nothing; allocations per step
//   serving    requests per second and latency of inference, compared with other frameworks
//   compile    time from a graph to plans, by number of nodes and replicas
//   graphs     time from a file with many nodes to a result
//   startup    time from process start to the end of the first step, compared with the peers
//   memory     peak memory of the process that `startup` times
//   peer       the process that `startup` and `memory` start: trains and reports its progress
// --json=FILE also writes one JSON object per line to the file.
// On error, `*code` is the exit code of the program.
absl::Status Bench(const std::vector<std::string>& args, ExitCode* code);

// all_reduce.cc: an all-reduce of two replicas in one process (C11), or in two processes on one
// host (C13) or on two hosts (C14).
//
// Measures sizes from 4 bytes to 25 MB over --transport, alternating with Gloo's algorithms on the
// same cores and --hosts. The goals compare with the fastest of these algorithms.
absl::Status BenchAllReduce(Report* report);
absl::Status CheckAllReduceFlags();
absl::Status CheckAllReduceWorkers();
// Run the all-reduce benchmark on one transport: between threads, between processes with shared
// memory, and over TCP between two network namespaces.
absl::Status BenchAllReduceOfThreads(Report* report);
absl::Status BenchAllReduceOfProcesses(Report* report);
absl::Status BenchAllReduceOverTcp(const Link& link, Report* report);

// compile.cc: the time to compile a graph to plans.
//
// Measures the time per node, and how it grows with the number of nodes (C19).
absl::Status BenchCompileNodes(Report* report);
// Compares the compile time of the training step of `model` for 8 replicas with 1 and 2 replicas
// (C20).
absl::Status BenchCompileReplicas(absl::string_view model, Report* report);
// Runs BenchCompileNodes, and BenchCompileReplicas for --model.
absl::Status BenchCompile(Report* report);

// data_reading.cc: rows per second of input pipelines, compared with tf.data and PyTorch's
// DataLoader, with one thread on one core and two threads on two cores. data_peer.py in
// tests/benchmark/peers describes the tasks. Requires the peers, which also write the files.
absl::Status BenchData(Report* report);

// fault_tolerance.cc: the speed of training on two workers
absl::Status BenchCheckpoints(Report* report);  // with and without checkpoints (C23)
absl::Status BenchHeartbeats(Report* report);   // with and without heartbeats (C24)

// gates.cc: prints the machine, the versions and the settings, followed by all performance goals as
// one Markdown table. A goal that cannot be measured, for instance because a peer is not installed,
// gets a row with the reason and does not end the run.
absl::Status BenchGates(Report* report);
absl::Status CheckGatesFlags();
// Returns a table of the gates that --only names, by default all.
Report GatesReport();

// graphs.cc: the costs of each stage that takes a large graph from a file to a result.
struct GraphCost {
  int64_t nodes = 0;
  double load_ms = 0;     // to read, parse and validate the file
  double session_ms = 0;  // to copy the graph into a session and lay out its variables
  double compile_ms = 0;
  double run_ms = 0;
  int64_t peak_bytes = 0;  // increase in peak resident memory

  double total_ms() const { return load_ms + session_ms + compile_ms + run_ms; }
};

// Measures a graph of about `nodes` nodes, which it writes to a temporary file and removes. `shape`
// is "chain" (each node takes the previous one), "wide" (products of one value, summed in pairs),
// "equal" (identical nodes of one value, summed in pairs) or "functions" (function calls, nested
// `nodes` / 2 deep).
absl::StatusOr<GraphCost> MeasureGraph(absl::string_view shape, int64_t nodes);

// `mirrorflow bench graphs`: measures graphs of up to --max_nodes nodes. Time and memory should
// grow in proportion to the nodes.
absl::Status BenchGraphs(Report* report);
// Checks the flag of BenchGraphs.
absl::Status CheckGraphsFlag();

// hooks.cc: compares the communication hooks for the case that the flags name, by the training step
// time of several workers, the bytes that each worker sends, and how far the loss falls in the same
// number of steps.
absl::Status BenchHooks(Report* report);

// inference.cc: the inference step of a TensorFlow graph on one core, here and in other frameworks.
//
// Measures the step of the file --graph that --fetch selects, with the variables in --variables and
// the feeds in --feed or random feeds of --batch_size rows, in turns with --peers (tensorflow,
// onnxruntime). The results of all sides must agree to within a relative 1e-3 before timing starts.
// On error, `*code` is the exit code.
absl::Status BenchGraphStep(Report* report, ExitCode* code);
absl::Status CheckGraphStepFlags();
// Measures all graph files in --models with each of --batch_sizes, and prints a table of the ratios
// at the end. A graph or peer that fails gets a row with the reason and does not end the run.
absl::Status BenchInference(Report* report);
absl::Status CheckInferenceFlags();

// kernels.cc: matrix products and convolutions as steps of a session, compared with direct calls to
// the library that computes them, on one core.
absl::Status BenchProducts(Report* report);  // C3: against oneDNN and the core's peak
// C4: with both gradients, against oneDNN and Eigen.
absl::Status BenchConvolutions(Report* report);
// Measures matrix products and convolutions with constant weights, as in inference, against
// oneDNN's direct algorithms, which get their weights in oneDNN's preferred layout. The inputs are
// in the cache. Also prints what fraction of the core's peak each side reaches. This is based on
// the operations of the direct algorithm, so Winograd's algorithm can exceed 1.
absl::Status BenchInferenceKernels(Report* report);

// mirrorflow_peer.cc: `bench peer` and `bench allreduce_peer`, which benchmarks start as processes
// (start_peers.h).
absl::Status TrainAsPeer(Report* report);
absl::Status AllReduceAsPeer(Report* report);

// overhead.cc: the cost of steps and nodes that compute almost nothing, how tightly a plan's memory
// is packed, and the allocations per step.
absl::Status BenchDispatch(Report* report);     // C1
absl::Status BenchFixedCost(Report* report);    // C2
absl::Status BenchArena(Report* report);        // C16
absl::Status BenchSteadyState(Report* report);  // C17
absl::Status BenchOverhead(Report* report);     // all of them

// overlap.cc: how much of a step is exposed communication.
//
// Measures the fraction of a training step that the compute lanes spend on starting collectives,
// waiting for them and doing their part of them (C15).
absl::Status BenchExposed(const TrainingCase& training, Report* report);

// Measures how much longer a step takes on two workers than on one worker with the same batch, as a
// percentage of the time that an all-reduce of the gradients alone takes over the same link (C15b).
// Each worker has its own network namespace.
absl::Status BenchExposedOverTcp(const TrainingCase& training, const Link& link, Report* report);

// Draws a typical step as a chart that shows, for each replica, the work of its compute lane and
// its collectives in flight.
absl::StatusOr<std::string> DrawStepTimeline(const TrainingCase& training);

// recovery.cc: the time from SIGKILL of one of four local workers to the end of the next step.
// Compares a restart of that worker alone, which the others wait for, with a restart of the job
// (C25).
absl::Status BenchRecovery(Report* report);
// Implements `bench recovery_peer`: runs as a worker of these jobs.
absl::Status RecoverAsPeer(Report* report);

// serving.cc: requests per second and latency of single-example inference, compared with ONNX
// Runtime and TensorFlow.
//
// Measures an MLP, a CNN and an LSTM for each client count in --threads, alternating between
// Mirrorflow and --peers. Mirrorflow clients are threads that call one step concurrently. Peer
// clients are processes, because Python threads contend for the GIL. All sides use one core per
// client, and each client sends its next request once it has received the answer to the last one.
// The logits of all sides must agree to within 1e-4 before timing starts.
//
// `empty_call` is what a Python call costs on a graph that computes almost nothing. A peer's
// latency includes it; a C++ server would pay less.
absl::Status BenchServing(Report* report);
absl::Status CheckServingFlags();

// startup.cc: the start-up time and memory of whole training processes, compared with the peers.
//
// C21: the time until the first step has run, against the fastest peer.
absl::Status BenchStartup(Report* report);
// C18: peak resident memory, against the smallest peer.
absl::Status BenchMemory(Report* report);
// C13b: the start-up time of several workers.
absl::Status BenchWorkersStartup(Report* report);

// step.cc: the time of a training step, here and in other frameworks.
//
// Measures the case with Mirrorflow and with `peers` (tensorflow, torch, jax), in turns. A case
// that skips passes has a second Mirrorflow side, which runs without those passes. A case with
// several workers has a second side that runs the same replicas in a single process. All start with
// the same weights and the same batch. The workers of each side run on `hosts`. A peer that does
// not start, or whose first losses differ from Mirrorflow's (FailedPrecondition), is listed in
// `missing`.
absl::StatusOr<StepRounds> MeasureStep(const TrainingCase& training,
                                       const std::vector<std::string>& peers,
                                       const WorkerHosts& hosts = {});

// Returns the case that the flags name, with `replicas` replicas by default.
absl::StatusOr<TrainingCase> TrainingCaseFromFlags(int replicas);
// Measures the case that the flags name.
absl::Status BenchStep(Report* report);
// Checks the flags of BenchStep.
absl::Status CheckStepFlags();
absl::Status CheckStepWorkers();
absl::Status CheckStepSides();  // the flags of the workers, and --peers

// trainer.cc: the overhead of Trainer, with a progress bar, TensorBoard and a metric, over a loop
// that only runs the step. Trains mlp with batches of 64 rows on one replica and on two,
// alternating with that loop.
absl::Status BenchTrainer(Report* report);

// update.cc: how much faster a reduction inside the update is than an all-reduce followed by an
// update (C12). Runs gradient descent on two replicas of one process with gradients of 1 MB and
// 25 MB, alternating between the two methods.
absl::Status BenchUpdate(Report* report);

// simulated_workers.cc: what thousands of workers cost the coordination service. The workers are
// threads of this process, and the service runs in a separate process. Doubles the number of
// workers up to `max_workers`. Returns Unavailable if any worker fails.
inline constexpr int kFirstSimulatedWorkers = 125;
absl::Status BenchSimulatedWorkers(int max_workers, Report* report);

// world_sizes.cc: the cost per worker as the world grows, over TCP on this machine: time from start
// to the end of the first step, memory, and TCP connections. With --simulated, runs
// BenchSimulatedWorkers instead.
absl::Status BenchWorldSizes(Report* report);
absl::Status CheckWorldSizesFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_BENCHMARKS_H_

// SPDX-License-Identifier: Apache-2.0
//
// The benchmarks of `mirrorflow bench`, by file. C1 … C24 are the performance goals that
// `mirrorflow bench gates` measures. graphs.h, overlap.h and step.h have those with results of
// their own.
#ifndef MIRRORFLOW_TOOLS_BENCH_BENCHMARKS_H_
#define MIRRORFLOW_TOOLS_BENCH_BENCHMARKS_H_

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tools/bench/bench_report.h"
#include "tools/bench/network_namespaces.h"

// Defined in step.cc, for all benchmarks.
ABSL_DECLARE_FLAG(int, rounds);

namespace mirrorflow {

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

// hooks.cc: compares the communication hooks, for the case that the flags name: the time of a
// training step of several workers, the bytes that each sends, and how far the loss falls in the
// same steps.
absl::Status BenchHooks(Report* report);

// kernels.cc: matrix products and convolutions as steps of a session, against direct calls of the
// library that computes them, on one core.
absl::Status BenchProducts(Report* report);      // C3: against oneDNN, and the peak of the core
absl::Status BenchConvolutions(Report* report);  // C4: with both gradients, against oneDNN, Eigen

// overhead.cc: the cost of a step and of a node that compute almost nothing, the packing of a
// plan's memory, and the allocations of a step.
absl::Status BenchDispatch(Report* report);     // C1
absl::Status BenchFixedCost(Report* report);    // C2
absl::Status BenchArena(Report* report);        // C16
absl::Status BenchSteadyState(Report* report);  // C17
absl::Status BenchOverhead(Report* report);     // all of them

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

// trainer.cc: what Trainer, with a progress bar, TensorBoard and a metric, costs beside a loop that
// only runs the step. Trains mlp with batches of 64 rows on one replica and on two, in turns with
// that loop.
absl::Status BenchTrainer(Report* report);

// update.cc: how much faster a reduction inside the update is than an all-reduce followed by an
// update (C12). Runs gradient descent on two replicas of one process, with gradients of 1 MB and 25
// MB, in turns.
absl::Status BenchUpdate(Report* report);

// world_sizes.cc: what a worker costs as the world grows, over TCP on this machine: time from start
// to the end of the first step, memory, and TCP connections.
absl::Status BenchWorldSizes(Report* report);
absl::Status CheckWorldSizesFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_BENCHMARKS_H_

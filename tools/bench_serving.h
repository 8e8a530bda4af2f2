// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench serving`: requests per second and latency of single-example inference, compared
// with ONNX Runtime and TensorFlow.
#ifndef MIRRORFLOW_TOOLS_BENCH_SERVING_H_
#define MIRRORFLOW_TOOLS_BENCH_SERVING_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// Measures an MLP, a CNN and an LSTM for each client count in --threads, alternating between
// Mirrorflow and --peers. Mirrorflow clients are threads that call one step concurrently. Peer
// clients are processes, because Python threads contend for the GIL. All sides use one core per
// client, and a client sends its next request when it has the answer to the last one. The logits of
// all sides must agree to within 1e-4 before timing starts.
//
// `empty_call` is the time of a call from Python to a graph that computes almost nothing. It is
// part of a peer's latency; a C++ server would pay less.
absl::Status BenchServing(Report* report);
// Checks the flags that BenchServing reads.
absl::Status CheckServingFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_SERVING_H_

// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench data`: rows per second of input pipelines beside tf.data and PyTorch's
// DataLoader, on one core with one thread and on two with two.
#ifndef MIRRORFLOW_TOOLS_BENCH_DATA_H_
#define MIRRORFLOW_TOOLS_BENCH_DATA_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// tests/benchmark/peers/data_peer.py describes the tasks. Needs the peers, which also write the
// files.
absl::Status BenchData(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_DATA_H_

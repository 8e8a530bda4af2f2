// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/core/status.h"
#include "nlohmann/json.hpp"
#include "tools/bench/benchmarks.h"
#include "tools/bench/peer_process.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/statistics.h"
#include "tools/bench/training_case.h"
#include "tools/flags/command_line.h"

ABSL_FLAG(int, max_workers, 0,
          "bench world_sizes: number of workers of the largest job; 0: 16, or 2000 if simulated");
ABSL_FLAG(bool, simulated, false,
          "bench world_sizes: measure the coordination service with at least 125 simulated workers "
          "instead");

namespace mirrorflow {
namespace {

constexpr int kRounds = 7;
constexpr int64_t kGlobalBatch = 64;  // equal for all jobs, so their feeds have the same size
constexpr int kMaxRealWorkers = kGlobalBatch;
constexpr int kMaxSimulatedWorkers = 16'000;

int MaxWorkers() {
  const int given = absl::GetFlag(FLAGS_max_workers);
  if (given != 0) return given;
  return absl::GetFlag(FLAGS_simulated) ? 2000 : 16;
}

// The figures of a job; each is the maximum over its workers.
struct Figures {
  double first_step_ms = 0;
  int64_t peak_bytes = 0;
  int connections = 0;
};

absl::StatusOr<Figures> MeasureJob(int workers) {
  MF_ASSIGN_OR_RETURN(const auto job, StartTraining({.model = "mlp",
                                                     .batch_size = kGlobalBatch / workers,
                                                     .workers = workers,
                                                     .collective = CollectiveKind::kTcp}));
  Figures figures = {.first_step_ms = job->start().first_step_ms};
  for (int worker = 0; worker < workers; ++worker) {
    MF_ASSIGN_OR_RETURN(const int64_t bytes, job->PeakBytes(worker));
    MF_ASSIGN_OR_RETURN(const int connections, job->NumConnections(worker));
    figures.peak_bytes = std::max(figures.peak_bytes, bytes);
    figures.connections = std::max(figures.connections, connections);
  }
  return figures;
}

// Measures several jobs. Returns the median time, and the maximum of the other figures.
absl::StatusOr<Figures> MeasureJobs(int workers) {
  std::vector<double> times;
  Figures all;
  for (int round = 0; round < kRounds; ++round) {
    MF_ASSIGN_OR_RETURN(const Figures job, MeasureJob(workers));
    times.push_back(job.first_step_ms);
    all.peak_bytes = std::max(all.peak_bytes, job.peak_bytes);
    all.connections = std::max(all.connections, job.connections);
  }
  all.first_step_ms = Quantile(times, 0.5);
  return all;
}

}  // namespace

absl::Status CheckWorldSizesFlags() {
  if (absl::GetFlag(FLAGS_simulated)) {
    return CheckFlagRange("max_workers", MaxWorkers(), kFirstSimulatedWorkers,
                          kMaxSimulatedWorkers);
  }
  return CheckFlagRange("max_workers", MaxWorkers(), 1, kMaxRealWorkers);
}

absl::Status BenchWorldSizes(Report* report) {
  if (absl::GetFlag(FLAGS_simulated)) return BenchSimulatedWorkers(MaxWorkers(), report);
  MF_RETURN_IF_ERROR(MeasureJob(1).status());  // reads files from disk
  int64_t alone = 0;
  for (int workers = 1; workers <= MaxWorkers(); workers *= 2) {
    MF_ASSIGN_OR_RETURN(const Figures job, MeasureJobs(workers));
    if (workers == 1) alone = job.peak_bytes;
    const double peak_mb = static_cast<double>(job.peak_bytes) / 1e6;
    const double added_mb = static_cast<double>(job.peak_bytes - alone) / 1e6;
    report->AddLine(
        absl::StrFormat("world_sizes  workers=%-3d first_step_ms=%-6.0f peak_mb=%.1f (%+.1f) "
                        "connections=%d",
                        workers, job.first_step_ms, peak_mb, added_mb, job.connections),
        {{"case", "world_sizes"},
         {"workers", workers},
         {"first_step_ms", job.first_step_ms},
         {"peak_bytes", job.peak_bytes},
         {"connections", job.connections}});
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow

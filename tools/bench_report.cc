// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_report.h"

#include <cstdio>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/file.h"

ABSL_FLAG(std::string, json, "", "bench: write one JSON object a line to this file");

namespace mirrorflow {

void Report::Add(absl::string_view name, int replicas, int64_t batch_size, const Timing& timing,
                 const Implementation& of) {
  std::printf(
      "%-20s %-10s replicas=%d batch_size=%-4d median_ms=%.4f min_ms=%.4f iqr_ms=%.4f rounds=%d "
      "discarded=%d\n",
      std::string(name).c_str(), of.name.c_str(), replicas, static_cast<int>(batch_size),
      timing.median_ms, timing.min_ms, timing.iqr_ms, timing.rounds, timing.discarded);
  absl::StrAppendFormat(&json_,
                        "{\"case\": \"%s\", \"implementation\": \"%s\", \"version\": \"%s\", "
                        "\"replicas\": %d, \"batch_size_per_replica\": %d, \"median_ms\": %.6f, "
                        "\"min_ms\": %.6f, \"iqr_ms\": %.6f, \"rounds\": %d}\n",
                        name, of.name, of.version, replicas, batch_size, timing.median_ms,
                        timing.min_ms, timing.iqr_ms, timing.rounds);
}

void Report::AddFigure(absl::string_view name, double value, double bound) {
  std::printf("%-28s %.4g (at most %.4g) %s\n", std::string(name).c_str(), value, bound,
              value <= bound ? "met" : "missed");
  absl::StrAppendFormat(&json_, "{\"case\": \"%s\", \"value\": %.6g, \"at_most\": %.6g}\n", name,
                        value, bound);
}

void Report::AddRatio(absl::string_view name, int replicas, int64_t batch_size,
                      absl::string_view peer, const Ratio& ratio) {
  std::printf("%-20s %s / mirrorflow = %.3f (90 %%: %.3f to %.3f)\n", std::string(name).c_str(),
              std::string(peer).c_str(), ratio.median, ratio.low, ratio.high);
  Remember(name, replicas, batch_size, peer, ratio);
}

void Report::Remember(absl::string_view name, int replicas, int64_t batch_size,
                      absl::string_view peer, const Ratio& ratio) {
  absl::StrAppendFormat(&json_,
                        "{\"case\": \"%s\", \"peer\": \"%s\", \"replicas\": %d, "
                        "\"batch_size_per_replica\": %d, \"ratio\": %.6g, \"low\": %.6g, "
                        "\"high\": %.6g}\n",
                        name, peer, replicas, batch_size, ratio.median, ratio.low, ratio.high);
}

void Report::AddGraph(absl::string_view shape, const GraphCost& cost) {
  const double nodes = static_cast<double>(cost.nodes);
  std::printf(
      "graphs/%-6s nodes=%-8lld load_ms=%.1f session_ms=%.1f compile_ms=%.1f run_ms=%.2f "
      "us_a_node=%.2f bytes_a_node=%.0f\n",
      std::string(shape).c_str(), static_cast<long long>(cost.nodes), cost.load_ms, cost.session_ms,
      cost.compile_ms, cost.run_ms, cost.total_ms() * 1e3 / nodes,
      static_cast<double>(cost.peak_bytes) / nodes);
  absl::StrAppendFormat(&json_,
                        "{\"case\": \"graphs/%s\", \"nodes\": %d, \"load_ms\": %.6g, "
                        "\"session_ms\": %.6g, \"compile_ms\": %.6g, \"run_ms\": %.6g, "
                        "\"peak_bytes\": %d}\n",
                        shape, cost.nodes, cost.load_ms, cost.session_ms, cost.compile_ms,
                        cost.run_ms, cost.peak_bytes);
}

absl::Status Report::Write() const {
  const std::string path = absl::GetFlag(FLAGS_json);
  if (path.empty()) return absl::OkStatus();
  return WriteFileAtomically(path, {json_});
}

}  // namespace mirrorflow

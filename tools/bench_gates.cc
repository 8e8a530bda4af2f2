// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_gates.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/status.h"
#include "tools/bench_step.h"

ABSL_DECLARE_FLAG(int, rounds);

namespace mirrorflow {
namespace {

// How many times as long as we a peer must take at least.
struct Gate {
  const char* name;
  const char* peer;  // null: the fastest
  double ratio;
};

struct GatedCase {
  const char* model;
  int64_t batch_size;
  int replicas;
  std::vector<Gate> gates;
};

const std::vector<GatedCase>& Cases() {
  static const auto* const cases = new std::vector<GatedCase>{
      {"mlp", 64, 1, {{"C5", nullptr, 1.08}}},
      {"mlp", 256, 1, {{"C5", nullptr, 1.03}}},
      {"big", 64, 1, {{"C5", nullptr, 1.05}}},
      {"big", 16, 1, {{"C5", nullptr, 1.15}}},
      {"cnn", 64, 1, {{"C7", nullptr, 1.10}}},
      {"mlp", 64, 2, {{"C9", "tensorflow", 1.6}, {"C9b", "torch", 3.3}}},
      {"mlp", 256, 2, {{"C9", "tensorflow", 1.1}, {"C9b", "torch", 1.6}}},
      {"cnn", 64, 2, {{"C9", "tensorflow", 1.18}, {"C9b", "torch", 2.0}}},
      {"big", 64, 2, {{"C9", "tensorflow", 1.5}, {"C9b", "torch", 1.8}}},
      {"big", 16, 2, {{"C9", "tensorflow", 2.2}, {"C9b", "torch", 2.8}}},
  };
  return *cases;
}

// Weak scaling: one replica against two with a batch each; 1 would be perfect.
constexpr struct {
  const char* model;
  int64_t batch_size;
} kScaled[] = {{"mlp", 64}, {"mlp", 256}, {"cnn", 64}, {"big", 64}};
constexpr double kWeakScaling = 0.88;

// A line of the table.
void PrintRow(absl::string_view gate, absl::string_view what, double ours_ms,
              absl::string_view other, double other_ms, const Ratio& ratio, double bound) {
  const std::string row = absl::StrFormat(
      "| %s | %s | %.3f ms | %s %.3f ms | %.2f (%.2f to %.2f) | %.2f | %s |\n", gate, what, ours_ms,
      other, other_ms, ratio.median, ratio.low, ratio.high, bound, Verdict(ratio, bound));
  std::fputs(row.c_str(), stdout);
  std::fflush(stdout);
}

absl::Status MeasureCase(const GatedCase& gated, Report* report) {
  std::vector<std::string> peers = {"tensorflow", "torch"};
  if (gated.replicas == 1) peers.emplace_back("jax");
  MF_ASSIGN_OR_RETURN(const StepRounds measured,
                      MeasureStep({gated.model, gated.batch_size, gated.replicas}, peers));
  std::vector<double> medians;
  for (size_t side = 0; side < measured.sides.size(); ++side) {
    medians.push_back(TimingOf(measured.rounds, static_cast<int>(side)).median_ms);
  }
  const std::string what = absl::StrCat(gated.model, " ", gated.batch_size, ", ", gated.replicas,
                                        gated.replicas == 1 ? " replica" : " replicas");
  for (const Gate& gate : gated.gates) {
    size_t side = std::min_element(medians.begin() + 1, medians.end()) - medians.begin();
    for (size_t k = 1; k < measured.sides.size(); ++k) {
      if (gate.peer != nullptr && measured.sides[k].name == gate.peer) side = k;
    }
    const Ratio ratio = RatioOf(measured.rounds.ms[side], measured.rounds.ms[0]);
    PrintRow(gate.name, what, medians[0], measured.sides[side].name, medians[side], ratio,
             gate.ratio);
    report->Remember(absl::StrCat("step/", gated.model), gated.replicas, gated.batch_size,
                     measured.sides[side].name, ratio);
  }
  return absl::OkStatus();
}

absl::Status MeasureScaling(absl::string_view model, int64_t batch_size) {
  MF_ASSIGN_OR_RETURN(TrainingStep one, PrepareTraining({std::string(model), batch_size, 1}));
  MF_ASSIGN_OR_RETURN(TrainingStep two, PrepareTraining({std::string(model), batch_size, 2}));
  auto side = [](TrainingStep& t) { return SideOf([&t] { return t.step.Run(t.feeds).status(); }); };
  MF_ASSIGN_OR_RETURN(const Rounds rounds,
                      MeasureInTurns({side(one), side(two)},
                                     {.rounds = absl::GetFlag(FLAGS_rounds), .canary_threads = 2}));
  PrintRow("C10", absl::StrCat(model, " ", batch_size, ", 1 to 2 replicas"),
           TimingOf(rounds, 1).median_ms, "1 replica", TimingOf(rounds, 0).median_ms,
           RatioOf(rounds.ms[0], rounds.ms[1]), kWeakScaling);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchGates(Report* report) {
  std::puts("| gate | case | mirrorflow | other | ratio (90 %) | at least | |");
  std::puts("| --- | --- | --- | --- | --- | --- | --- |");
  for (const GatedCase& gated : Cases()) MF_RETURN_IF_ERROR(MeasureCase(gated, report));
  for (const auto& scaled : kScaled) {
    MF_RETURN_IF_ERROR(MeasureScaling(scaled.model, scaled.batch_size));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow

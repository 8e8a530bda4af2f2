// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "framework/graph/variable_handle.h"
#include "nlohmann/json.hpp"
#include "tools/bench/benchmarks.h"
#include "tools/bench/graph_case.h"
#include "tools/bench/machine.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/step_sides.h"
#include "tools/flags/graph_flags.h"
#include "tools/flags/step_flags.h"

ABSL_FLAG(std::string, models, "",
          "bench inference: folder of the graph files (.pb, .pbtxt) to measure; "
          "tests/benchmark/peers/export_models.py writes some");
ABSL_FLAG(std::vector<std::string>, batch_sizes, {},
          "bench inference: batch sizes to measure; default: 1,4,32");
ABSL_DECLARE_FLAG(std::vector<std::string>, peers);

namespace mirrorflow {
namespace {

constexpr double kTolerance = 1e-3;  // relative to the largest absolute value of a fetch
constexpr int64_t kMaxBatchSize = std::numeric_limits<int32_t>::max();

std::string TensorName(const Output& output) {
  return absl::StrCat(output.node->name(), ":", output.index);
}

// Runs the step once, and writes the case that inference.py in tests/benchmark/peers describes.
absl::StatusOr<std::unique_ptr<CaseFile>> WriteCase(const GraphCase& of, ReadyStep& ready) {
  std::map<std::string, Tensor> arrays;
  const std::set<std::string> read = VariablesReadBy(of.step);
  for (const Node* node : of.graph.Nodes()) {
    if (node->op().role != OpRole::kVariable || !read.contains(VariableName(*node))) continue;
    MF_ASSIGN_OR_RETURN(arrays[absl::StrCat("variable/", node->name())],
                        ready.session->ReadVariable(VariableName(*node)));
  }
  MF_ASSIGN_OR_RETURN(const StepOutputs fetches, ready.step.Run(of.feeds));
  for (size_t i = 0; i < of.feeds.size(); ++i) {
    arrays[absl::StrCat("feed/", TensorName(of.step.feeds[i]))] = of.feeds[i];
  }
  for (size_t i = 0; i < of.step.fetches.size(); ++i) {
    arrays[absl::StrCat("fetch/", TensorName(of.step.fetches[i]))] = fetches[i];
  }
  for (const Operation& target : of.step.targets) {
    arrays[absl::StrCat("target/", target.node->name())] = Tensor::Scalar(int32_t{0});
  }
  return CaseFile::Write(arrays);
}

absl::Status CheckDifferences(const StepSelection& step, const PeerProcess& peer) {
  for (const Output& fetch : step.fetches) {
    const std::string name = TensorName(fetch);
    const auto found = peer.start().differences.find(name);
    const double difference = found != peer.start().differences.end()
                                  ? found->second
                                  : std::numeric_limits<double>::quiet_NaN();
    if (difference <= kTolerance) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        name, ": differs from Mirrorflow's; expected a relative difference of at most ", kTolerance,
        ", got ", difference));
  }
  return absl::OkStatus();
}

// Returns an error if the peers cannot run the step.
absl::Status CheckForPeers(const std::string& path, const StepSelection& step) {
  if (absl::EndsWith(path, ".txt") && !absl::EndsWith(path, ".pb.txt")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a GraphDef; expected .pb or .pbtxt with --peers"));
  }
  if (step.targets.empty() || !absl::c_linear_search(absl::GetFlag(FLAGS_peers), "onnxruntime")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the step runs ", step.targets[0].node->name(),
      " for its side effects, which ONNX Runtime does not support; use --fetch to select what to "
      "compute"));
}

absl::StatusOr<ReadyStep> PrepareWithout(const GraphCase& of,
                                         const std::vector<std::string>& without) {
  OneDeviceStrategy::Options options{
      .threads_per_replica = absl::GetFlag(FLAGS_threads_per_replica).value_or(1),
      .max_bytes = MaxBytesOfFlags()};
  options.compile.disabled_passes.insert(without.begin(), without.end());
  MF_ASSIGN_OR_RETURN(auto strategy, OneDeviceStrategy::Create(options));
  return PrepareGraph(of, std::move(strategy));
}

// Measures the graph file in turns with --peers. On error, `*code` is the exit code.
absl::StatusOr<StepRounds> MeasureInference(const std::string& path, int64_t batch_size,
                                            ExitCode* code) {
  MF_ASSIGN_OR_RETURN(const GraphCase of, ReadGraphCase(path, batch_size, code));
  const std::vector<std::string> peers = absl::GetFlag(FLAGS_peers);
  if (!peers.empty()) MF_RETURN_IF_ERROR(CheckForPeers(path, of.step));
  const int threads = absl::GetFlag(FLAGS_threads_per_replica).value_or(1);
  const PinnedTo cores(0, threads);
  MF_ASSIGN_OR_RETURN(ReadyStep ready, Annotate(PrepareWithout(of, {}), path));
  MF_ASSIGN_OR_RETURN(const auto file, Annotate(WriteCase(of, ready), path));
  StepSides sides(absl::GetFlag(FLAGS_rounds), /*canary_threads=*/threads);
  sides.Add({}, MakeSide([&] { return ready.step.Run(of.feeds).status(); }));
  ReadyStep other;
  if (const std::vector<std::string> without = absl::GetFlag(FLAGS_without); !without.empty()) {
    MF_ASSIGN_OR_RETURN(other, Annotate(PrepareWithout(of, without), path));
    sides.Add(WithoutPasses(without), MakeSide([&] { return other.step.Run(of.feeds).status(); }));
  }
  for (const std::string& name : peers) {
    sides.AddPeer(
        name,
        StartPeer(absl::StrCat("inference_", name), {path, absl::StrCat(threads), file->path()}),
        [&](const PeerProcess& peer) { return CheckDifferences(of.step, peer); });
  }
  return sides.Measure();
}

std::string ModelName(const std::string& path) { return std::filesystem::path(path).stem(); }

std::string CaseName(const std::string& path) {
  return absl::StrCat("inference/", ModelName(path));
}

absl::StatusOr<std::vector<int64_t>> BatchSizesFromFlags() {
  MF_ASSIGN_OR_RETURN(
      std::vector<int64_t> sizes,
      ParseFlagIntegers("batch_sizes", absl::GetFlag(FLAGS_batch_sizes), 1, kMaxBatchSize));
  if (sizes.empty()) sizes = {1, 4, 32};
  return sizes;
}

// Returns the graph files in --models, sorted.
absl::StatusOr<std::vector<std::string>> GraphFiles() {
  const std::string folder = absl::GetFlag(FLAGS_models);
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = file.path();
    if (absl::EndsWith(path, ".pb") || absl::EndsWith(path, ".pbtxt")) files.push_back(path);
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat("--models=", folder, ": ", error.message()));
  }
  if (files.empty()) {
    return absl::NotFoundError(
        absl::StrCat("--models=", folder, ": no graph files; expected .pb or .pbtxt"));
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The table of `bench inference`: a row for each model and batch size, and a column for the time of
// each side.
class RatioTable {
 public:
  explicit RatioTable(std::vector<std::string> peers) : peers_(std::move(peers)) {}

  void Add(const std::string& model, int64_t batch_size,
           const absl::StatusOr<StepRounds>& measured) {
    std::vector<std::string> cells = {model, absl::StrCat(batch_size)};
    cells.push_back(measured.ok() ? FormatMedian(measured->rounds, 0) : kNotMeasured);
    for (const std::string& peer : peers_) cells.push_back(RatioOfPeer(peer, measured));
    rows_.push_back(Row(cells));
  }

  void Print() const {
    std::vector<std::string> head = {"model", "batch", "ours"};
    for (const std::string& peer : peers_) head.push_back(absl::StrCat(peer, " / ours (90 %)"));
    PrintLine("");
    PrintLine(Row(head));
    PrintLine(Row(std::vector<std::string>(head.size(), "---")));
    for (const std::string& row : rows_) PrintLine(row);
  }

 private:
  static constexpr char kNotMeasured[] = "not measured";

  static std::string Row(const std::vector<std::string>& cells) {
    return absl::StrCat("| ", absl::StrJoin(cells, " | "), " |");
  }

  static std::string RatioOfPeer(const std::string& peer,
                                 const absl::StatusOr<StepRounds>& measured) {
    if (!measured.ok()) return "";
    const auto& sides = measured->sides;
    const auto side = std::ranges::find(sides, peer, &Implementation::name);
    if (side == sides.end()) return kNotMeasured;
    const std::vector<std::vector<double>>& ms = measured->rounds.ms;
    const Estimate ratio = RatioOf(ms[side - sides.begin()], ms[0]);
    return absl::StrCat(FormatNumber(ratio.median), " (", FormatNumber(ratio.low), " to ",
                        FormatNumber(ratio.high), ")");
  }

  std::vector<std::string> peers_;
  std::vector<std::string> rows_;
};

void ReportMissing(const std::string& name, int64_t batch_size, absl::string_view side,
                   const absl::Status& why, Report* report) {
  report->AddLine(
      absl::StrCat(name, " batch_size=", batch_size, " ", side, " not measured: ", why.message()),
      {{"case", name},
       {"implementation", side},
       {"batch_size_per_replica", batch_size},
       {"not_measured", why.message()}});
}

}  // namespace

absl::Status BenchGraphStep(Report* report, ExitCode* code) {
  const std::string path = absl::GetFlag(FLAGS_graph);
  const int64_t batch_size = absl::GetFlag(FLAGS_batch_size);
  MF_ASSIGN_OR_RETURN(const StepRounds measured, MeasureInference(path, batch_size, code));
  for (const auto& [peer, why] : measured.missing) return why;
  ReportSteps(CaseName(path), /*replicas=*/1, batch_size, measured, report);
  return absl::OkStatus();
}

absl::Status CheckGraphStepFlags() {
  MF_RETURN_IF_ERROR(CheckPeersFlag({"onnxruntime", "tensorflow"}));
  constexpr char kWhat[] = "not supported for graph files, which run on one core";
  if (absl::GetFlag(FLAGS_replicas) != 1) MF_RETURN_IF_ERROR(CheckDefaults({"replicas"}, kWhat));
  MF_RETURN_IF_ERROR(
      CheckDefaults({"model", "workers", "optimizer", "hook", "trace", "svg", "hosts"}, kWhat));
  return CheckGraphFlags();
}

absl::Status BenchInference(Report* report) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> batch_sizes, BatchSizesFromFlags());
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> files, GraphFiles());
  RatioTable table(absl::GetFlag(FLAGS_peers));
  for (const std::string& path : files) {
    const std::string name = CaseName(path);
    for (const int64_t batch_size : batch_sizes) {
      ExitCode code = kExitOk;
      const absl::StatusOr<StepRounds> measured = MeasureInference(path, batch_size, &code);
      table.Add(ModelName(path), batch_size, measured);
      if (!measured.ok()) {
        ReportMissing(name, batch_size, Implementation().name, measured.status(), report);
        continue;
      }
      for (const auto& [peer, why] : measured->missing) {
        ReportMissing(name, batch_size, peer, why, report);
      }
      ReportSteps(name, /*replicas=*/1, batch_size, *measured, report);
    }
  }
  table.Print();
  return absl::OkStatus();
}

absl::Status CheckInferenceFlags() {
  if (absl::GetFlag(FLAGS_models).empty()) {
    return absl::InvalidArgumentError("--models: missing; expected a folder of graph files");
  }
  MF_RETURN_IF_ERROR(BatchSizesFromFlags().status());
  return CheckGraphStepFlags();
}

}  // namespace mirrorflow

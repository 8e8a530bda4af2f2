// SPDX-License-Identifier: Apache-2.0
//
// Writes an event file with a value of each kind: `example_run DIRECTORY`. The tests that read it
// expect these values (tests/references/check_event_files.py, tests/tools/report_test.py).
#include <cstdio>
#include <string>
#include <vector>

#include "framework/graph/scope.h"
#include "ops/all/ops.h"
#include "train/summary/summary_writer.h"

namespace mirrorflow {
namespace {

constexpr int64_t kSteps = 100;
constexpr int64_t kFirstSecond = 1'800'000'000;  // the time of step 0; step n is n seconds later

absl::Status WriteRun(const std::string& directory) {
  MF_ASSIGN_OR_RETURN(auto writer, SummaryWriter::Open(directory));
  for (int64_t step = 0; step < kSteps; ++step) {
    const AddOptions at = {.walltime = absl::FromUnixSeconds(kFirstSecond + step)};
    MF_RETURN_IF_ERROR(writer->AddScalar("loss/train", 2.0 / (step + 1), step, at));
    MF_RETURN_IF_ERROR(writer->AddScalar("learning_rate", 0.1 * (1 - 0.01 * step), step, at));
    if (step % 10 != 9) continue;
    MF_RETURN_IF_ERROR(writer->AddScalar("loss/validation", 2.5 / (step + 1), step, at));
    MF_RETURN_IF_ERROR(writer->AddScalar("accuracy", 1 - 1.0 / (step + 1), step, at));
    std::vector<float> weights;
    for (int i = 0; i < 1000; ++i) weights.push_back(static_cast<float>(i % 10) * (step + 1));
    MF_RETURN_IF_ERROR(
        writer->AddHistogram("weights", Tensor::Vector<float>(weights), step, {.buckets = 10}));
  }
  // The image is red, with a green bottom row.
  std::vector<float> pixels;
  for (int row = 0; row < 4; ++row) {
    for (int column = 0; column < 6; ++column) {
      for (const float value : {row < 3 ? 1.f : 0.f, row < 3 ? 0.f : 1.f, 0.f}) {
        pixels.push_back(value);
      }
    }
  }
  MF_RETURN_IF_ERROR(writer->AddImage("picture", Tensor::Of<float>({4, 6, 3}, pixels), 7));
  MF_RETURN_IF_ERROR(writer->AddText("notes", "a **bold** word and <tags>", 3));
  Graph graph;
  Scope root(&graph);
  ops::Neg(root.WithName("minus"), ops::Placeholder(root.WithName("in"), DT_FLOAT, {2}));
  MF_RETURN_IF_ERROR(writer->AddGraph(graph));
  MF_RETURN_IF_ERROR(
      writer->AddHparams({{"adam", true}, {"batch", 64}, {"lr", 0.1}, {"loss", "mse"}},
                         {{"best_accuracy", 0.99}}, kSteps));
  return writer->Close();
}

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example_run DIRECTORY\n");
    return 2;
  }
  const absl::Status status = WriteRun(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace mirrorflow

int main(int argc, char** argv) { return mirrorflow::Main(argc, argv); }

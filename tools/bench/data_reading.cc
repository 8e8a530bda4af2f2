// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/status.h"
#include "mirrorflow.h"
#include "tools/bench/benchmarks.h"
#include "tools/bench/machine.h"
#include "tools/bench/start_peers.h"
#include "tools/bench/statistics.h"
#include "tools/bench/temporary_directory.h"

namespace mirrorflow {
namespace {

// Must match data_peer.py.
constexpr int64_t kCrop = 224, kImageBatch = 64, kBatch = 256, kFeatures = 100;
constexpr int kCheckedSteps = 3;

Dataset Images(const std::string& folder, int threads) {
  const auto to_float = [](Row* row) -> absl::Status {
    MF_ASSIGN_OR_RETURN((*row)[0], images::Rescale((*row)[0], 1.0 / 255));
    return absl::OkStatus();
  };
  return Dataset::FromImageFolder(absl::StrCat(folder, "/images"), {})
      .Map(augment::RandomCrop(kCrop, kCrop))
      .Map(augment::RandomFlip())
      .Map(to_float, {.num_parallel_calls = threads})
      .Batch(kImageBatch);
}

Dataset Table(const std::string& folder, int threads) {
  return Dataset::FromCsv(absl::StrCat(folder, "/table.csv"),
                          {.label = "label", .csv = {.num_threads = threads}})
      .Batch(kBatch);
}

Dataset Examples(const std::string& folder, int threads) {
  const auto as_it_is = [](Row*) { return absl::OkStatus(); };  // makes Map() start threads
  return Dataset::FromTFRecords({absl::StrCat(folder, "/examples.tfrecord")},
                                {.features = {FixedLenFeature{.name = "x", .shape = {kFeatures}},
                                              FixedLenFeature{.name = "label", .dtype = DT_INT64}}})
      .Map(as_it_is, {.num_parallel_calls = threads})
      .Batch(kBatch);
}

struct Task {
  const char* name;
  const char* what;
  Dataset (*make)(const std::string& folder, int threads);
  int checked_component;  // the component whose mean the peers print
  bool whole_passes;      // whether a step is a whole pass, which opens the file, not a batch
  int64_t rows_per_step;
};
constexpr Task kTasks[] = {
    {"jpeg", "JPEG, crop and flip", Images, 1, false, kImageBatch},
    {"csv", "CSV of 20 floats, each pass parsed anew", Table, 0, true, 50'000},
    {"tfrecord", "TFRecord of 100 floats", Examples, 0, false, kBatch},
};

double MeanOf(const Tensor& tensor) {
  const auto mean = [](auto values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  return tensor.dtype() == DT_FLOAT ? mean(tensor.flat<float>()) : mean(tensor.flat<int32_t>());
}

// Runs steps of Mirrorflow's pipeline, one pass after another.
class Pipeline {
 public:
  Pipeline(const Task& task, std::string folder, int threads)
      : task_(task), folder_(std::move(folder)), threads_(threads) {
    if (!task_.whole_passes) dataset_ = task_.make(folder_, threads_);
  }

  // Runs one step and returns the mean of the checked component of its last batch.
  absl::StatusOr<double> Step() {
    if (task_.whole_passes) {
      const Dataset dataset = task_.make(folder_, threads_);
      const auto batches = dataset.MakeIterator();
      SourceBatch batch, last;
      while (true) {
        MF_ASSIGN_OR_RETURN(const bool more, batches->Next(&batch));
        if (!more) return MeanOf(last.components[task_.checked_component]);
        last = batch;
      }
    }
    SourceBatch batch;
    for (bool more = false; !more;) {
      if (batches_ != nullptr) {
        MF_ASSIGN_OR_RETURN(more, batches_->Next(&batch));
      }
      if (!more) batches_ = dataset_.MakeIterator(epoch_++);
    }
    return MeanOf(batch.components[task_.checked_component]);
  }

  // Returns the milliseconds per step.
  absl::StatusOr<double> Run(double round_ms) {
    const PinnedTo cores(0, threads_);
    return MeanCallMs(round_ms, [this] { return Step().status(); });
  }

 private:
  const Task task_;
  const std::string folder_;
  const int threads_;
  Dataset dataset_;
  int64_t epoch_ = 0;
  std::unique_ptr<BatchSource> batches_;
};

absl::Status CheckEqual(const Task& task, const std::vector<double>& ours, const PeerProcess& peer,
                        absl::string_view name) {
  for (int step = 0; step < kCheckedSteps; ++step) {
    const double theirs = peer.start().losses[step];
    if (std::abs(theirs - ours[step]) <= 1e-5 * std::max(1.0, std::abs(theirs))) continue;
    return absl::InternalError(absl::StrFormat("%s: step %d of %s differs; expected %.9g, got %.9g",
                                               task.name, step, name, theirs, ours[step]));
  }
  return absl::OkStatus();
}

absl::Status MeasureTask(const Task& task, const std::string& folder, int threads, Report* report) {
  Pipeline pipeline(task, folder, threads);
  std::vector<double> values;
  {
    const PinnedTo cores(0, threads);
    for (int step = 0; step < kCheckedSteps; ++step) {
      MF_ASSIGN_OR_RETURN(values.emplace_back(), pipeline.Step());
    }
  }
  const std::string name =
      absl::StrCat(task.what, ", ", threads, threads == 1 ? " thread" : " threads");
  std::vector<Side> sides = {[&](double ms) { return pipeline.Run(ms); }};
  const std::vector<std::string> names = {"tf.data", "DataLoader"};
  for (const char* program : {"data_tensorflow", "data_torch"}) {
    MF_ASSIGN_OR_RETURN(auto peer, StartPeer(program, {task.name, absl::StrCat(threads), folder}));
    MF_RETURN_IF_ERROR(CheckEqual(task, values, *peer, program));
    sides.push_back(MakeSide(std::move(peer)));
  }
  MF_ASSIGN_OR_RETURN(
      const Rounds rounds,
      MeasureInTurns(sides, {.rounds = 9, .round_ms = 1000, .canary_threads = threads}));
  const auto rate = [&](size_t side) {
    const double rows =
        1e3 * static_cast<double>(task.rows_per_step) / Quantile(rounds.ms[side], 0.5);
    return absl::StrCat(FormatNumber(rows), " rows/s");
  };
  for (size_t peer = 0; peer < names.size(); ++peer) {
    report->Add({.what = absl::StrCat(name, ", ", names[peer], " / ours"),
                 .figure = RatioOf(rounds.ms[peer + 1], rounds.ms[0]),
                 .bound = 1,
                 .ours = rate(0),
                 .peer = absl::StrCat(names[peer], " ", rate(peer + 1))});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchData(Report* report) {
  const TemporaryDirectory folder;
  MF_RETURN_IF_ERROR(StartPeer("data_files", {"files", "1", folder.path()}).status());
  for (const Task& task : kTasks) {
    for (const int threads : {1, 2}) {
      MF_RETURN_IF_ERROR(MeasureTask(task, folder.path(), threads, report));
    }
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow

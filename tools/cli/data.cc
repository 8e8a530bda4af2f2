// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <type_traits>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/core/log_line.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "mirrorflow.h"
#include "tools/cli/commands.h"

ABSL_FLAG(int64_t, rows, 5, "data: how many rows to print");
ABSL_FLAG(int, data_threads, 1, "data: number of threads that read rows");
ABSL_FLAG(std::string, label, "", "data: the label column of a CSV file");
ABSL_FLAG(int64_t, skip_bad_records, 0,
          "data: skip up to this many damaged records; fail if there are more");
ABSL_FLAG(bool, shuffle, false, "data: read the rows in random order, as training does");

namespace mirrorflow {
namespace {

constexpr int64_t kBatch = 64;
constexpr absl::Duration kMeasured = absl::Seconds(2);

bool HasEnding(absl::string_view path, std::initializer_list<absl::string_view> endings) {
  return absl::c_any_of(endings, [&](absl::string_view ending) {
    return absl::EndsWithIgnoreCase(path, ending) ||
           absl::EndsWithIgnoreCase(path, absl::StrCat(ending, ".gz"));
  });
}

// Returns the names of the arrays that can be read, and warns about the other arrays. If no array
// can be read, returns the last array's error.
absl::StatusOr<std::vector<std::string>> ReadableArrays(const std::string& path) {
  MF_ASSIGN_OR_RETURN(const auto statuses, CheckNpz(path));
  std::vector<std::string> readable;
  absl::Status unreadable;
  for (const auto& [name, status] : statuses) {
    if (status.ok()) {
      readable.push_back(name);
      continue;
    }
    unreadable = status;
    PrintErrorLine(absl::LogSeverity::kWarning, absl::StrCat("skipped: ", unreadable.ToString()),
                   "WARNING: ");
  }
  if (readable.empty()) MF_RETURN_IF_ERROR(unreadable);
  return readable;
}

struct Opened {
  std::string kind;
  Dataset dataset;
};

absl::StatusOr<Opened> Open(const std::vector<std::string>& paths) {
  const std::string& path = paths[0];
  const auto all_have = [&](std::initializer_list<absl::string_view> endings) {
    return absl::c_all_of(paths, [&](auto& p) { return HasEnding(p, endings); });
  };
  std::error_code error;
  if (paths.size() == 1 && std::filesystem::is_directory(path, error)) {
    MF_ASSIGN_OR_RETURN(const ImageFolderFiles files, ListImageFolder(path));
    return Opened{absl::StrCat("image folder, ", files.classes.size(),
                               " classes: ", absl::StrJoin(files.classes, ", ")),
                  Dataset::FromImageFolder(path, {.channels = 3})};
  }
  if (all_have({".tfrecord", ".tfrecords"})) {
    return Opened{"TFRecord", Dataset::FromTFRecords(paths, {})};
  }
  if (all_have({".npy"})) return Opened{"npy", Dataset::FromNpy(paths)};
  if (paths.size() == 1 && HasEnding(path, {".csv"})) {
    CsvSource source = {.label = absl::GetFlag(FLAGS_label)};
    source.csv.skip_bad_records = absl::GetFlag(FLAGS_skip_bad_records);
    source.csv.num_threads = absl::GetFlag(FLAGS_data_threads);
    return Opened{"CSV", Dataset::FromCsv(path, source)};
  }
  if (paths.size() == 1 && HasEnding(path, {".npz"})) {
    MF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ReadableArrays(path));
    return Opened{absl::StrCat("npz: ", absl::StrJoin(names, ", ")), Dataset::FromNpz(path, names)};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "data: '", path, "': unknown format; expected an image folder, one .csv or .npz ",
      "file, or .npy or .tfrecord files"));
}

std::string NumberAt(const Tensor& t, int64_t i) {
  const auto text = [&]<typename T>(TypeTag<T>) -> std::string {
    if constexpr (std::is_same_v<T, bool>) {
      return t.flat<bool>()[i] ? "true" : "false";
    } else {
      return absl::StrCat(t.flat<T>()[i]);
    }
  };
  return DispatchDataType(t.dtype(), text, std::string("?"));
}

// Formats a batch of one row, such as `float[784] {0, 0.5, …}`.
std::string TextOf(const Tensor& batch) {
  constexpr int64_t kShown = 6;
  std::vector<std::string> numbers;
  for (int64_t i = 0; i < std::min(batch.num_elements(), kShown); ++i) {
    numbers.push_back(NumberAt(batch, i));
  }
  if (batch.num_elements() > kShown) numbers.push_back("…");
  const Shape row(batch.shape().dims().subspan(1));
  const std::string text = absl::StrJoin(numbers, ", ");
  if (row.rank() == 0) return text;
  return absl::StrCat(DataTypeName(batch.dtype()), row.ToString(), " {", text, "}");
}

absl::Status PrintRows(const Dataset& dataset) {
  const auto source = dataset.Take(absl::GetFlag(FLAGS_rows)).Prefetch(0).MakeIterator();
  int64_t number = 0;
  for (SourceBatch batch;; ++number) {
    MF_ASSIGN_OR_RETURN(const bool more, source->Next(&batch));
    if (!more) return absl::OkStatus();
    std::vector<std::string> texts;
    for (const Tensor& component : batch.components) texts.push_back(TextOf(component));
    PrintLine(absl::StrFormat("%6d  %s", number, absl::StrJoin(texts, " | ")));
  }
}

struct Rate {
  int64_t rows = 0;
  int64_t bytes = 0;
  absl::Duration time;
};

absl::StatusOr<Rate> Measure(const Dataset& dataset) {
  Rate rate;
  const MonotonicTime begin = MonotonicTime::Now();
  const auto source = dataset.MakeIterator();
  for (SourceBatch batch; MonotonicTime::Now() - begin < kMeasured;) {
    MF_ASSIGN_OR_RETURN(const bool more, source->Next(&batch));
    if (!more) break;
    rate.rows += batch.global_rows;
    for (const Tensor& component : batch.components) {
      rate.bytes += static_cast<int64_t>(component.bytes());
    }
  }
  rate.time = MonotonicTime::Now() - begin;
  return rate;
}

}  // namespace

absl::Status ShowData(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  if (args.empty()) {
    return absl::InvalidArgumentError("data: expected a file or a folder, got none");
  }
  const int threads = absl::GetFlag(FLAGS_data_threads);
  const int64_t bad = absl::GetFlag(FLAGS_skip_bad_records);
  MF_RETURN_IF_ERROR(CheckFlagRange("rows", absl::GetFlag(FLAGS_rows), 0));
  MF_RETURN_IF_ERROR(CheckFlagRange("data_threads", threads, 1, 1024));
  MF_RETURN_IF_ERROR(CheckFlagRange("skip_bad_records", bad, 0));
  *code = kExitBadInput;
  MF_ASSIGN_OR_RETURN(const Opened opened, Open(args));
  MF_RETURN_IF_ERROR(opened.dataset.status());
  const std::optional<int64_t> size = opened.dataset.size();
  PrintLine(absl::StrCat(absl::StrJoin(args, ", "), ": ", opened.kind, ", ",
                         size ? absl::StrCat(*size) : "an unknown number of", " rows"));
  Dataset dataset = opened.dataset.IgnoreErrors(bad);
  MF_RETURN_IF_ERROR(PrintRows(dataset));
  if (absl::GetFlag(FLAGS_shuffle)) {
    dataset = dataset.Shuffle(/*seed=*/1, {.buffer_size = dataset.size() ? 0 : 10'000});
  }
  dataset = dataset.Repeat();  // small datasets are read several times
  // Only Map() can set the number of threads.
  if (threads > 1) {
    dataset = dataset.Map([](Row*) { return absl::OkStatus(); }, {.num_parallel_calls = threads});
  }
  absl::StatusOr<Rate> rate = Measure(dataset.Batch(kBatch));
  // Rows with different shapes do not fit in one batch, so measure batches of one row.
  const bool ragged = absl::IsInvalidArgument(rate.status());
  if (ragged) rate = Measure(dataset.Batch(1));
  MF_RETURN_IF_ERROR(rate.status());
  const double seconds = std::max(absl::ToDoubleSeconds(rate->time), 1e-9);
  PrintLine(absl::StrFormat("%.4g rows/s, %.4g MB/s in batches of %d with %d thread%s",
                            static_cast<double>(rate->rows) / seconds,
                            static_cast<double>(rate->bytes) / seconds / 1e6, ragged ? 1 : kBatch,
                            threads, threads == 1 ? "" : "s"));
  *code = kExitOk;
  return absl::OkStatus();
}

}  // namespace mirrorflow

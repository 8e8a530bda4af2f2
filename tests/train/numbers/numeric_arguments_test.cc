// SPDX-License-Identifier: Apache-2.0
//
// Tests that every number that a user passes to train/ or a strategy is checked: NaN, infinities
// and values out of range are InvalidArgument errors that name the option. Optimizers have their
// own table in tests/train/optimizers/numeric_options_test.cc.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/train/numbers/header_numbers.h"
#include "tests/train/numbers/numeric_rows.h"

namespace mirrorflow {
namespace {

using ::testing::AnyOf;
using ::testing::UnorderedElementsAre;

std::vector<NumericRow> AllRows() {
  std::vector<NumericRow> rows = GraphRows();
  for (const auto& more : {DataRows(), TrainingRows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

// Runs the call on its own thread and returns its status. If it takes longer than 20 seconds,
// returns DeadlineExceeded and leaves the thread running.
absl::Status StatusInTime(const NumericRow& row, double value) {
  std::packaged_task<absl::Status()> task([row, value] { return row.status_with(value); });
  std::future<absl::Status> status = task.get_future();
  std::thread(std::move(task)).detach();
  if (status.wait_for(std::chrono::seconds(20)) == std::future_status::ready) return status.get();
  return absl::DeadlineExceededError("the call hangs");
}

// Maps headers whose numbers have no rows to the reasons.
const std::map<std::string, std::string>& ExemptHeaders() {
  static const auto* const headers = new std::map<std::string, std::string>({
      {"train/optimizers/", "numeric_options_test has rows for them"},
      {"train/regularizers.h", "numeric_options_test has rows for them"},
      {"train/numeric_options.h", "the checks themselves"},
      {"train/checkpoint/directory.h", "internal"},
      {"train/checkpoint/event_log.h", "internal"},
      {"train/checkpoint/manifest.h", "the contents of a file, which reading it checks"},
      {"train/checkpoint/state_dict.h", "values that callbacks save, which may be any"},
      {"train/data/batch_assembler.h", "internal"},
      {"train/data/value_streams.h", "internal"},
      {"train/data/dataset_base.h", "internal"},
      {"train/data/file_dataset.h", "internal"},
      {"train/data/loaded_rows.h", "internal"},
      {"train/data/parallel_rows.h", "internal"},
      {"train/data/prefetch.h", "internal"},
      {"train/data/row.h", "the number of a row, which the library passes to a function"},
      {"train/data/row_pipeline.h", "internal"},
      {"train/data/row_readers.h", "internal"},
      {"train/data/row_stream.h", "internal"},
      {"train/data/split_mix.h", "internal"},
      {"train/formats/csv_block.h", "internal"},
      {"train/formats/csv_plan.h", "internal"},
      {"train/formats/csv_scanner.h", "internal"},
      {"train/formats/decimal.h", "internal"},
      {"train/formats/gzip_reader.h", "internal"},
      {"train/formats/mapped_file.h", "internal"},
      {"train/formats/npy_header.h", "internal"},
      {"train/formats/text_reader.h", "internal"},
      {"train/formats/wire_format.h", "internal"},
      {"train/formats/zip.h", "internal"},
      {"train/layers/layer_support.h", "internal"},
      {"train/losses/reductions.h", "internal"},
      {"train/safetensors/safetensors_header.h", "internal"},
      {"train/safetensors/safetensors_json.h", "internal"},
      {"train/summary/tensor_summary.h", "internal; AddHistogramOptions has a row"},
      {"train/trainer/callback.h", "what the library tells a callback"},
      {"train/trainer/fit_loop.h", "internal"},
      {"train/trainer/fit_state.h", "internal"},
      {"train/trainer/monitoring/http_server.h", "internal"},
      {"train/trainer/monitoring/prometheus_text.h", "internal"},
      {"train/trainer/monitoring/run_monitor.h", "internal"},
      {"train/layers/sizes.h", "sizes of layers, which have rows"},
      {"train/summary/event.pb.h", "generated"},
      {"train/summary/hparams.pb.h", "generated"},
      {"distribute/strategy/devices.h", "internal; num_cpu_replicas has a row"},
      {"distribute/strategy/input_agreement.h", "internal"},
      {"distribute/strategy/mirrored_backend.h", "internal"},
      {"distribute/strategy/option_ranges.h", "the checks themselves"},
      {"train/trainer/progress.h", "what a loop reports; shown as it is"},
      {"train/trainer/progress_format.h", "internal"},
  });
  return *headers;
}

// Maps numbers that have no row to the reasons.
const std::map<std::string, std::string>& ExemptNumbers() {
  static const auto* const numbers = new std::map<std::string, std::string>({
      {"AugmentOptions.seed", "any integer seeds a generator"},
      {"CropOptions.seed", "any integer seeds a generator"},
      {"FlipOptions.seed", "any integer seeds a generator"},
      {"MixUpOptions.seed", "any integer seeds a generator"},
      {"Shuffle.seed", "any integer seeds a generator"},
      {"MirroredStrategy::Options.seed", "any integer seeds a generator"},
      {"OneDeviceStrategy::Options.seed", "any integer seeds a generator"},
      {"MakeIterator.epoch", "an epoch of any number has its own order"},
      {"OpenFiles.epoch", "an epoch of any number has its own order"},
      {"OpenShard.epoch", "an epoch of any number has its own order"},
      {"DirectoryLockOptions.timeout", "private to CheckpointManager, which checks lock_timeout"},
      {"DirectoryLockOptions.report_interval", "private to CheckpointManager"},
      {"DirectoryLockOptions.renewal", "private to CheckpointManager"},
      {"DirectoryLockOptions.lease", "private to CheckpointManager"},
      {"WithTimeouts.collective", "a default, which the strategies choose"},
      {"WithTimeouts.step", "a default, which the strategies choose"},
      {"Distribute.epoch", "an epoch of any number has its own order"},
      {"ConfusionMatrixOptions.ignore_class", "a class that no label may have"},
      {"SparseCrossEntropyOptions.ignore_class", "a class that no label may have"},
      {"PerplexityOptions.mask_token_id", "a class that no label may have"},
      {"PaddingMask.padding_id", "a class that no label may have"},
      {"CsvColumn.missing", "the value of a missing field, which may be NaN"},
      {"CsvOptions.missing", "the value of a missing field, which may be NaN"},
      {"CsvColumn.unknown", "the value of unknown text, which may be any"},
      {"AddScalar.value", "a value to show, which may be NaN"},
      {"AddScalar.step", "TensorBoard shows any step"},
      {"AddHistogram.step", "TensorBoard shows any step"},
      {"AddImage.step", "TensorBoard shows any step"},
      {"AddText.step", "TensorBoard shows any step"},
      {"AddHparams.step", "TensorBoard shows any step"},
      {"EventFileOptions.purge_step", "TensorBoard shows any step"},
      {"Purge.step", "TensorBoard shows any step"},
      {"EventsOfStep.step", "TensorBoard shows any step"},
      {"TfRecordOptions.max_record_bytes", "unsigned; 0 allows empty records"},
      {"CsvTable.num_rows", "a result"},
      {"CsvTable.num_bad_records", "a result"},
      {"CheckPixels.height", "from the image"},
      {"CheckPixels.width", "from the image"},
      {"ImageFolderFiles.labels", "a result"},
      {"TrainResult.steps", "a result"},
      {"TrainResult.loss", "a result"},
      {"TrainResult.median_step_ms", "a result"},
      {"TrainResult.median_host_us", "a result"},
      {"TrainResult.examples_per_s", "a result"},
      {"Status.step", "a parameter of on_step, which Fit calls"},
      {"Status.loss", "a parameter of on_step, which Fit calls"},
      {"MapNpyPart.offset", "internal"},
      {"MapNpyPart.size", "internal"},
      {"ReadNpyStream.size", "internal"},
      {"Monitor.min_delta", "internal"},
      {"ReadAt.i", "an index, as of an array; the caller knows size()"},
      {"TrainingPosition.num_workers", "of the run that saved a checkpoint, for a message"},
      {"TrainingPosition.num_replicas", "of the run that saved a checkpoint, for a message"},
      {"Gather.axis", "strategy_test checks it"},
  });
  return *numbers;
}

// Maps a number to the name that errors use instead of its own: an op's attribute, or a size as a
// whole.
const std::map<std::string, std::string>& OtherNames() {
  static const auto* const names = new std::map<std::string, std::string>({
      {"dilation_rate", "dilations"},
      {"dims", "permutation"},
      {"minval", "maxval: expected 2 or more"},
      {"num_shards", "shard"},
      {"output_padding", "out_backprop"},
      {"pool_size", "strides"},
      {"x", "offset"},
      {"y", "offset"},
  });
  return *names;
}

TEST(NumericArguments, ValuesOutOfRangeAreErrorsThatNameTheNumber) {
  for (const NumericRow& row : AllRows()) {
    const std::string name = row.name.substr(row.name.rfind('.') + 1);
    const auto other = OtherNames().find(name);
    for (const double value : row.bad) {
      const absl::Status status = StatusInTime(row, value);
      const auto names = [](const std::string& what) {
        return IsError(absl::StatusCode::kInvalidArgument, what);
      };
      EXPECT_THAT(status, AnyOf(names(name), names(absl::StrCat("got ", value)),
                                names(other == OtherNames().end() ? name : other->second)))
          << row.name << " = " << value;
    }
    for (const double value : row.good) {
      const absl::Status status = StatusInTime(row, value);
      EXPECT_TRUE(status.ok()) << row.name << " = " << value << ": " << status;
    }
  }
}

bool IsExempt(const std::string& header) {
  for (const auto& [prefix, why] : ExemptHeaders()) {
    if (absl::StartsWith(header, prefix)) return true;
  }
  return false;
}

TEST(NumericArguments, TableHasEveryNumberInTheHeaders) {
  std::set<std::string> in_table, found;
  for (const NumericRow& row : AllRows()) in_table.insert(row.name);
  std::vector<std::string> headers = {"distribute/cluster/join_options.h",
                                      "distribute/collective/exchange_options.h"};
  for (const char* const folder : {"train", "distribute/strategy"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".h") headers.push_back(entry.path().string());
    }
  }
  for (const std::string& header : headers) {
    if (IsExempt(header)) continue;
    std::stringstream text;
    text << std::ifstream(header).rdbuf();
    for (const std::string& number : NumbersOf(text.str())) {
      found.insert(number);
      EXPECT_EQ(in_table.count(number) + ExemptNumbers().count(number), 1u)
          << header << ": " << number << " has neither a row nor a reason for having none";
    }
  }
  EXPECT_GT(found.size(), 150u);
  for (const auto& [number, why] : ExemptNumbers()) {
    EXPECT_EQ(found.count(number), 1u) << number << " is exempt, but no header has it";
  }
}

TEST(NumericArguments, NumbersOfReturnsFieldsAndParameters) {
  EXPECT_THAT(NumbersOf(R"(
#include "a.h"
namespace a { namespace b {
enum class Mode { kFirst, kSecond };  // int zero = 0;
struct Options {
  int64_t steps = 0, more = 1;  // double not_this = 2;
  std::optional<double> limit = std::nullopt;
  std::string name = "double none = 1;";
  std::vector<double> values = {};
  Size2D strides{1};
  absl::Duration timeout = absl::Seconds(1);
};
class Owner {
 public:
  struct Options { int keep = 2; };
  explicit Owner(double rate) : rate_(rate) {}
  double rate() const { return rate_; }
 private:
  static constexpr int kMost = 3;
  double rate_ = 0;
};
Output Layer(const Scope& scope, std::map<int, int> m, int64_t units,
             double rate = 0.5, const Options& options = {});
inline int Own(int n) { int local = 1; return n + local; }
}})"),
              UnorderedElementsAre("Options.steps", "Options.limit", "Options.values",
                                   "Options.strides", "Options.timeout", "Owner::Options.keep",
                                   "Owner.rate", "Layer.units", "Layer.rate", "Own.n"));
}

}  // namespace
}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
//
// Progress: tells people, and their logs, how training goes. On a terminal a bar
//   Epoch  3/10   412/937 [########------------]  44%  18.2 ms/step  56.3k ex/s  eta 0:09  loss
//   0.31
// redrawn at most ten times a second, and one line for each finished epoch; elsewhere a line every
// ten seconds and one per epoch, as key=value or as JSON:
//   2026-01-05T12:00:10Z worker=0 epoch=3 step=412/937 ms_per_step=18.2 ex_per_s=56300 eta_s=9 …
//
// Rates are means over the epoch so far, of global examples (all replicas together); the first step
// of the run, which compiles and warms up, is left out of them. A metric that becomes NaN or
// infinite is reported at once. A step that shows nothing costs a clock reading and no allocation.
//
// One thread may use it at a time. Calls come in the order
// Start, then for each epoch BeginEpoch, Step …, EndEpoch, then Finish.
#ifndef MIRRORFLOW_TRAIN_PROGRESS_H_
#define MIRRORFLOW_TRAIN_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "train/progress_format.h"
#include "train/progress_host.h"

namespace mirrorflow {

// kAuto: kBar on a terminal and kText elsewhere for worker 0, kOff for the others.
enum class LogFormat { kAuto, kBar, kText, kJson, kOff };

// `auto`, `bar`, `text`, `json`, `off`: the values of --log_format.
absl::StatusOr<LogFormat> ParseLogFormat(absl::string_view name);

struct ProgressOptions {
  LogFormat format = LogFormat::kAuto;
  int worker = 0;
  std::optional<int64_t> epochs;  // nothing: not known
  absl::Duration line_interval = absl::Seconds(10);
  absl::Duration refresh_interval = absl::Milliseconds(100);
};

struct Metric {
  absl::string_view name;
  double value;
};

// What the banner says, where it is not empty or 0.
struct RunDescription {
  std::string version;
  std::string devices;
  std::string strategy;
  int replicas = 0;
  int64_t global_batch = 0;
  std::string per_replica_batch;  // text: replicas may differ
  int64_t parameters = 0;
  std::string precision;
  std::string checkpoint_dir;
  std::string log_dir;
};

struct RunResult {
  std::optional<Metric> best;
  std::string checkpoint;
};

class Progress {
 public:
  // `host` must live longer.
  Progress(ProgressHost& host, const ProgressOptions& options);
  ~Progress();  // leaves the terminal on a fresh line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Start(const RunDescription& run);
  // `epoch` counts from 1; without `steps` the length of the epoch is not known.
  void BeginEpoch(int64_t epoch, std::optional<int64_t> steps);
  // One more step is done, of `examples` global examples.
  void Step(int64_t examples, absl::Span<const Metric> metrics);
  // Adds `metrics` (of an evaluation, say) to those of the last step.
  void EndEpoch(absl::Span<const Metric> metrics = {});
  void Finish(const RunResult& result = {});
  // A line of the program's own, above the bar.
  void Log(absl::string_view line);

 private:
  struct Value {
    std::string name;
    double value;
    bool reported = false;  // as not finite
  };

  void SetMetrics(absl::Span<const Metric> metrics);
  void DrawBar(bool epoch_done);
  void WriteLine(std::vector<LogField> fields);  // adds the worker
  void AddStepFields(std::vector<LogField>* fields, bool epoch_done) const;
  void Warn(const std::string& warning);
  void Above(absl::string_view text);  // writes lines above the bar

  absl::Duration TimedSpan() const { return now_ - timed_from_; }

  ProgressHost& host_;
  const ProgressOptions options_;
  const LogFormat format_;

  absl::Duration now_;  // as of the last call
  absl::Duration started_, epoch_started_, timed_from_;
  std::optional<absl::Duration> last_shown_;
  bool any_step_ = false;     // of the run: the first is not timed
  bool bar_is_open_ = false;  // the cursor stands on the bar's line
  int64_t epoch_ = 0;
  std::optional<int64_t> steps_;
  int64_t step_ = 0;
  int64_t timed_steps_ = 0, timed_examples_ = 0;
  std::vector<Value> metrics_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_PROGRESS_H_

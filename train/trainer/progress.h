// SPDX-License-Identifier: Apache-2.0
//
// Progress shows training progress on a terminal or in a log. On a terminal, it draws a bar, at
// most ten times a second, and leaves one line for each finished epoch:
//  Epoch  3/10   412/937 [########------------]  44%  18.2 ms/step  56.3k ex/s  eta 0:09  loss 0.31
// Elsewhere, it writes a line every ten seconds and after each epoch, as key=value or as JSON:
//  2026-01-05T12:00:10Z worker=0 epoch=3 step=412/937 ms_per_step=18.2 ex_per_s=56300 eta_s=9 …
//
// Rates are means over the current epoch and count the examples of all replicas. They exclude the
// run's first step, which compiles and warms up. A metric that becomes NaN or infinite is reported
// immediately. If a call of Step displays nothing, it costs one clock reading and no allocation.
//
// Not thread-safe. Call Start first, then BeginEpoch, Step …, EndEpoch for each epoch, and Finish
// last.
#ifndef MIRRORFLOW_TRAIN_TRAINER_PROGRESS_H_
#define MIRRORFLOW_TRAIN_TRAINER_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "train/trainer/progress_format.h"
#include "train/trainer/progress_host.h"

namespace mirrorflow {

// How progress is shown: as a bar, as lines of key=value (kText) or JSON, or not at all. kAuto
// means kOff for all workers except worker 0. For worker 0, it means kBar on a terminal, and
// elsewhere kText or, if MIRRORFLOW_LOG_FORMAT=json, kJson.
enum class LogFormat { kAuto, kBar, kText, kJson, kOff };

// Parses a value of --log_format: `auto`, `bar`, `text`, `json` or `off`.
absl::StatusOr<LogFormat> ParseLogFormat(absl::string_view name);

struct ProgressOptions {
  LogFormat format = LogFormat::kAuto;
  int worker = 0;
  std::optional<int64_t> epochs;  // nullopt: unknown
  absl::Duration line_interval = absl::Seconds(10);
  absl::Duration refresh_interval = absl::Milliseconds(100);
};

struct NamedValue {
  absl::string_view name;
  double value;
};

// The contents of the banner that Start() shows. Values that are empty or 0 are omitted.
struct RunDescription {
  std::string version;
  std::string devices;
  std::string strategy;
  int replicas = 0;
  int64_t global_batch = 0;
  std::string per_replica_batch;  // a string, because replicas may differ
  int64_t parameters = 0;
  std::string precision;
  std::string checkpoint_dir;
  std::string log_dir;
};

// The values that Finish() shows, in addition to the duration of the run.
struct RunResult {
  std::optional<NamedValue> best;  // the best value of a metric
  std::string checkpoint;          // the path of the last checkpoint; empty: not shown
};

class Progress {
 public:
  // `host` must outlive the Progress.
  Progress(ProgressHost& host, const ProgressOptions& options);
  ~Progress();  // leaves the cursor on a new line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Start(const RunDescription& run);
  // Begins an epoch. `epoch` counts from 1. `steps` is the number of steps in the epoch, if known.
  // `done` is how many of them an earlier run has completed.
  void BeginEpoch(int64_t epoch, std::optional<int64_t> steps, int64_t done = 0);
  // Reports a completed step with `examples` examples on all replicas.
  void Step(int64_t examples, absl::Span<const NamedValue> metrics);
  // Ends the epoch. Shows `metrics`, such as a validation's, in addition to the last step's.
  void EndEpoch(absl::Span<const NamedValue> metrics = {});
  void Finish(const RunResult& result = {});
  // Writes `line` above the bar.
  void Log(absl::string_view line);

 private:
  struct Value {
    std::string name;
    double value;
    bool reported = false;  // a NaN or infinite value has been reported
  };

  void SetMetrics(absl::Span<const NamedValue> metrics);
  void DrawBar(bool epoch_done);
  void WriteLine(std::vector<LogField> fields);  // also adds the worker field
  std::vector<LogField> StepFields(bool epoch_done) const;
  void Warn(const std::string& warning);
  void Above(absl::string_view text);  // writes lines above the bar

  absl::Duration TimedSpan() const { return now_ - timed_from_; }

  ProgressHost& host_;
  const ProgressOptions options_;
  const LogFormat format_;

  absl::Duration now_;  // time of the last call
  absl::Duration started_, epoch_started_, timed_from_;
  std::optional<absl::Duration> last_shown_;
  bool any_step_ = false;     // this run has completed a step; the first step is not timed
  bool bar_is_open_ = false;  // the cursor is on the bar's line
  int64_t epoch_ = 0;
  std::optional<int64_t> steps_;
  int64_t step_ = 0;
  int64_t timed_steps_ = 0, timed_examples_ = 0;
  std::vector<Value> metrics_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_PROGRESS_H_

// SPDX-License-Identifier: Apache-2.0
//
// ProgressHost provides the clocks, the terminal and the output for the progress display. Tests
// substitute fakes.
#ifndef MIRRORFLOW_TRAIN_TRAINER_PROGRESS_HOST_H_
#define MIRRORFLOW_TRAIN_TRAINER_PROGRESS_HOST_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

class ProgressHost {
 public:
  virtual ~ProgressHost() = default;
  // Reads the wall clock, for timestamps.
  virtual absl::Time Now() = 0;
  // Reads a monotonic clock, for rates.
  virtual absl::Duration Uptime() = 0;
  // Returns whether the output is a terminal with a movable cursor.
  virtual bool IsTerminal() = 0;
  virtual bool UseColor() = 0;
  // Returns the terminal's current width, which may change at any time.
  virtual int Columns() = 0;
  // Writes `text` immediately, without buffering.
  virtual void Write(absl::string_view text) = 0;
};

// Returns a host that writes to standard error. TERM=dumb makes IsTerminal() false, and a non-empty
// NO_COLOR disables colour.
std::unique_ptr<ProgressHost> StderrHost();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_PROGRESS_HOST_H_

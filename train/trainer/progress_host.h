// SPDX-License-Identifier: Apache-2.0
//
// ProgressHost: the clocks, terminal and output that the progress display uses. Tests substitute
// fakes.
#ifndef MIRRORFLOW_TRAIN_TRAINER_PROGRESS_HOST_H_
#define MIRRORFLOW_TRAIN_TRAINER_PROGRESS_HOST_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

class ProgressHost {
 public:
  virtual ~ProgressHost() = default;
  // The wall clock, for time stamps.
  virtual absl::Time Now() = 0;
  // A monotonic clock, for rates.
  virtual absl::Duration Uptime() = 0;
  // Whether the output is a terminal that can move its cursor.
  virtual bool IsTerminal() = 0;
  virtual bool UseColor() = 0;
  // The current width of the terminal, which may change at any time.
  virtual int Columns() = 0;
  // Writes `text` immediately, without buffering.
  virtual void Write(absl::string_view text) = 0;
};

// Returns a host that writes to standard error. TERM=dumb makes IsTerminal() false, and a non-empty
// NO_COLOR disables colour.
std::unique_ptr<ProgressHost> StderrHost();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_PROGRESS_HOST_H_

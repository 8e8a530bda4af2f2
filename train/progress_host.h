// SPDX-License-Identifier: Apache-2.0
//
// ProgressHost: what the progress display sees of the world. Tests bring their own clock, terminal
// and sink.
#ifndef MIRRORFLOW_TRAIN_PROGRESS_HOST_H_
#define MIRRORFLOW_TRAIN_PROGRESS_HOST_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

class ProgressHost {
 public:
  virtual ~ProgressHost() = default;
  // The wall clock, for time stamps.
  virtual absl::Time Now() = 0;
  // A clock that never jumps, for rates.
  virtual absl::Duration Uptime() = 0;
  // Whether somebody watches: a terminal that can move its cursor.
  virtual bool IsTerminal() = 0;
  virtual bool UseColor() = 0;
  // Its width now; it may change at any time.
  virtual int Columns() = 0;
  // Shows `text` at once.
  virtual void Write(absl::string_view text) = 0;
};

// Standard error. TERM=dumb counts as no terminal; a NO_COLOR that is not empty forbids colour.
std::unique_ptr<ProgressHost> StderrHost();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_PROGRESS_HOST_H_

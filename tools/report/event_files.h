// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_REPORT_EVENT_FILES_H_
#define MIRRORFLOW_TOOLS_REPORT_EVENT_FILES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

// Adds the scalars, texts and hyperparameters of one of TensorBoard's event files, written by
// SummaryWriter, TensorFlow or PyTorch, each tag after `prefix`. A damaged record, or one that is
// cut short because the run has not ended, ends the file with a note.
void ReadEventFile(const std::string& path, absl::string_view prefix, RunData* run);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_EVENT_FILES_H_

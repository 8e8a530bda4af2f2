// SPDX-License-Identifier: Apache-2.0
//
// The variables of a session to and from a .safetensors file, by name.
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/session/session.h"

namespace mirrorflow {

// Writes every variable that has a value, slots of optimizers among them.
absl::Status SaveVariables(Session& session, absl::string_view path);

// Sets the variables that the file has a tensor for; others stay as they are, and tensors that no
// variable is called after are left alone (the graph may be a part of the one that was saved).
// InvalidArgument, and nothing is set, if a dtype or shape differs (it names up to 20) or no tensor
// belongs to any variable.
absl::Status LoadVariables(absl::string_view path, Session& session);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_H_

// SPDX-License-Identifier: Apache-2.0
//
// Saves a session's variables, by name, and its step count to a .safetensors file, and loads them:
// for inference, transfer learning, or use in Python. To save and resume the complete training
// state, use CheckpointManager.
//
//   MF_RETURN_IF_ERROR(SaveVariables(*session, path));
//   MF_RETURN_IF_ERROR(LoadVariables(path, *session).status());
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_VARIABLES_FILE_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_VARIABLES_FILE_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/session/session.h"
#include "train/safetensors/safetensors.h"

namespace mirrorflow {

// Writes every variable that has a value, including optimizer state, and Session::step(). All
// workers must call this, because the value of a metric's variable is a sum over all workers
// (VariableSynchronization::kOnRead). Only worker 0 writes the file. A crash leaves either the old
// or the new file.
// Errors: on worker 0, the system's error if the file cannot be written.
absl::Status SaveVariables(Session& session, absl::string_view path);

// Sets `contents` to what SaveVariables writes. Reuses the memory of tensors that `contents` has
// from an earlier call (Session::CopyVariable). All workers must call this, as for SaveVariables.
// Only worker 0 gets tensors.
absl::Status CollectVariables(Session& session, Safetensors* contents);

struct LoadOptions {
  // If true, the file must have a tensor for every model variable, and no other tensors. If false,
  // variables without a tensor keep their values, and tensors without a variable are ignored.
  //
  // Model variables are those that layers create: weights, and state such as the moving averages of
  // batch normalisation. Optimizer state and metric counters are loaded if the file has them;
  // otherwise, they keep their values.
  bool strict = true;
  // If true, and `strict` is also true, the file must have tensors for optimizer state and
  // counters, which training needs in order to resume.
  bool all_state = false;
  // If set, these variables must be in the file, instead of all model variables, and tensors
  // without a variable are ignored: for a session that uses part of a graph. Other variables are
  // loaded if the file has them with the right dtype and shape.
  std::optional<std::set<std::string>> required = std::nullopt;
  // Layers without an explicit name are numbered in order of creation: dense, dense_1, dense_2. If
  // the session and the file have different numbers of such layers, the same name may refer to
  // different layers, so loading fails, even without `strict`. If this option is true, loading
  // assumes that equal names mean the same layer.
  bool trust_numbered_names = false;
};

// Which variables LoadVariables has set, and which names have no counterpart. Each list is sorted.
struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;     // model variables that the file lacks
  std::vector<std::string> unexpected;  // tensors that are not variables of the session
  std::vector<std::string> kept_state;  // optimizer state and counters that the file lacks

  std::string ToString() const;
};

// Sets the session's variables from the file atomically: concurrent runs see either all new values
// or none. If the file has all variables, also restores the session's step, so training draws the
// same random numbers as an uninterrupted run. Optimizer or metric state in the file that the
// session does not have is ignored, and is not counted as unexpected.
//
// On an error, sets nothing. Returns the errors of ReadSafetensors; InvalidArgument if dtypes or
// shapes differ, if `strict` is set and names are missing or unexpected, if numbered names may
// refer to different layers, or if no tensor matches a variable; and Unimplemented if a variable's
// tensor has an unsupported dtype, such as an 8-bit float.
absl::StatusOr<LoadReport> LoadVariables(absl::string_view path, Session& session,
                                         const LoadOptions& options = {});

// Makes the checks of LoadVariables on `contents`, the contents of the file `path`, but sets
// nothing.
absl::StatusOr<LoadReport> MatchVariables(const Safetensors& contents, absl::string_view path,
                                          const Session& session, const LoadOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_VARIABLES_FILE_H_

// SPDX-License-Identifier: Apache-2.0
//
// StateDict: named values, such as counters, that an object must restore when training resumes, in
// addition to the session's variables (PyTorch's state_dict). A checkpoint contains the values of
// the trainer and its callbacks.
//
//   state.Set("best", best_);
//   MF_RETURN_IF_ERROR(state.Get("best", &best_));
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_STATE_DICT_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_STATE_DICT_H_

#include <concepts>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

class StateDict {
 public:
  // Sets an entry, replacing an earlier one with this name. A checkpoint stores numbers exactly;
  // after CheckpointManager::Restore, every worker has the value that worker 0 saved. Text can
  // contain any bytes.
  template <std::floating_point T>
  void Set(absl::string_view name, T value) {
    SetNumber(name, static_cast<double>(value));
  }
  template <std::integral T>
  void Set(absl::string_view name, T value) {
    SetInteger(name, static_cast<int64_t>(value));
  }
  void Set(absl::string_view name, absl::string_view text);
  void Set(absl::string_view name, const char* text) { Set(name, absl::string_view(text)); }
  // Sets a tensor, and shares its memory, which must not change until the checkpoint has been
  // written. Only worker 0 saves tensors, and only worker 0 gets them back: use
  // Session::AssignFromWorker0 to assign them to variables on every worker.
  void Set(absl::string_view name, Tensor value);

  bool Has(absl::string_view name) const;
  // Reads an entry. Returns NotFound if there is no entry `name`, and InvalidArgument if it has
  // another type; both errors include the name. Leaves `value` unchanged on an error.
  absl::Status Get(absl::string_view name, double* value) const;
  absl::Status Get(absl::string_view name, int64_t* value) const;
  absl::Status Get(absl::string_view name, bool* value) const;
  absl::Status Get(absl::string_view name, std::string* text) const;
  absl::Status Get(absl::string_view name, Tensor* value) const;

  // Adds the entries of `other`, with `prefix` before their names.
  void Merge(absl::string_view prefix, const StateDict& other);
  // Returns the entries whose names begin with `prefix`, with the prefix removed.
  StateDict WithPrefix(absl::string_view prefix) const;

  bool empty() const { return values_.empty() && tensors_.empty(); }
  // Returns the numbers and texts in their serialised form, which is UTF-8.
  const std::map<std::string, std::string>& values() const { return values_; }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }

  StateDict() = default;
  StateDict(std::map<std::string, std::string> values, std::map<std::string, Tensor> tensors)
      : values_(std::move(values)), tensors_(std::move(tensors)) {}

 private:
  void SetNumber(absl::string_view name, double value);
  void SetInteger(absl::string_view name, int64_t value);
  // Returns the serialised form of a value, or NotFound.
  absl::StatusOr<std::string> Find(absl::string_view name) const;

  std::map<std::string, std::string> values_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_STATE_DICT_H_

// SPDX-License-Identifier: Apache-2.0
//
// A form is a value computed only from constants and from variables that the step does not write:
//   - a copy of an operand in the layout that a kernel prefers (OperandForm, kernel.h), such as a
//     filter in oneDNN's blocked layout; or
//   - the output of a node whose inputs are all invariant (invariants.h), such as a filter times
//   the
//     scales of the batch normalisation after it.
// Forms makes each form when a step first needs it, and again only after a variable that it depends
// on has been written. All steps and replicas that read the same memory share the form. A form's
// memory is freed when the last plan that uses it is.
//
// Versions make forms safe: each write of a variable increments its version, under the session's
// exclusive lease, and a form records the sum of the versions that it was made from. Concurrent
// runs can need the same stale form; one of them makes it while the others wait.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_FORMS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_FORMS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/core/mutex.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {

class Device;
struct PlannedForm;
class Forms;

// One form, in memory.
class Form {
 public:
  std::byte* data() const { return memory_.get(); }

 private:
  friend class Forms;
  std::shared_ptr<std::byte> memory_;
  std::atomic<uint64_t> version_{0};  // the version of the source that it was made from; 0: none
  Mutex mutex_;                       // held while the form is made
};

class Forms {
 public:
  explicit Forms(size_t num_variables) : versions_(num_variables) {
    for (auto& version : versions_) version = 1;
  }

  // Records that a variable is about to be written, or has been. No run may be in progress that
  // uses the variable's forms.
  void MarkWritten(int variable) {
    versions_[variable].fetch_add(1, std::memory_order_relaxed);
    writes_.fetch_add(1, std::memory_order_release);
  }
  // Returns a number that every MarkWritten changes. If it is unchanged, so are all forms.
  uint64_t writes() const { return writes_.load(std::memory_order_acquire); }

  // The addresses of the variables that a form is computed from, as in PlannedForm::variables.
  using Sources = std::vector<const std::byte*>;

  // Returns the form, which may not have been made yet. Allocates its memory with `device` unless
  // another plan already uses the form.
  absl::StatusOr<std::shared_ptr<Form>> Get(const PlannedForm& planned, Sources sources,
                                            Device& device);
  // Returns whether the form is up to date.
  bool IsCurrent(const Form& form, const PlannedForm& planned) const {
    return form.version_.load(std::memory_order_acquire) == VersionOf(planned);
  }
  // Calls `make`, which writes the form's memory, unless the form is up to date.
  absl::Status Refresh(Form& form, const PlannedForm& planned,
                       absl::FunctionRef<absl::Status()> make);

  // Returns how many bytes all forms occupy.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Returns how often a form has been made.
  int64_t num_made() const { return num_made_.load(std::memory_order_relaxed); }

 private:
  // Returns the version that an up-to-date form has; at least 1.
  uint64_t VersionOf(const PlannedForm& planned) const;

  using Key = std::pair<Sources, std::string>;  // the sources and the form's key

  std::vector<std::atomic<uint64_t>> versions_;  // by variable, from 1
  std::atomic<uint64_t> writes_{1};
  // Shared with the forms, which can outlive this object.
  const std::shared_ptr<std::atomic<int64_t>> bytes_counter_ =
      std::make_shared<std::atomic<int64_t>>(0);
  std::atomic<int64_t>& bytes_ = *bytes_counter_;
  std::atomic<int64_t> num_made_{0};
  Mutex mutex_;
  std::map<Key, std::weak_ptr<Form>> forms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_FORMS_H_

// SPDX-License-Identifier: Apache-2.0
//
// Status helpers: macros like those of Abseil's newer status_macros.h, which Debian's Abseil lacks,
// a check for internal bugs, conversion of std::bad_alloc to a status, and a list of errors that
// becomes one status.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_STATUS_H_
#define MIRRORFLOW_FRAMEWORK_CORE_STATUS_H_

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns `status` with `where: ` prepended to its message and its payloads kept; OK stays OK.
// By convention, functions named With... attach a payload instead.
absl::Status Annotate(const absl::Status& status, absl::string_view where);
// Returns `value`, or its error with `where: ` prepended.
template <typename T>
absl::StatusOr<T> Annotate(absl::StatusOr<T> value, absl::string_view where) {
  if (!value.ok()) return Annotate(value.status(), where);
  return value;
}

namespace internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition) noexcept;
// Terminates the process because a caller misused a function that cannot return a status.
[[noreturn]] void Misused(absl::string_view what) noexcept;
}  // namespace internal

// Calls `work` and returns its Status or StatusOr, or ResourceExhausted if it throws
// std::bad_alloc. Mirrorflow's own code throws nothing, but the standard library throws when memory
// runs out, and an uncaught exception on one of our threads would end the process.
template <typename Work>
auto CatchOutOfMemory(Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("cannot allocate memory: not enough is free");
  }
}

// Collects errors into one status, one per line, for checks that continue after the first error.
class ErrorList {
 public:
  static constexpr size_t kMaxErrors = 20;

  // Drops errors after the first kMaxErrors.
  void Add(absl::string_view message) {
    if (!full()) messages_.emplace_back(message);
  }
  bool empty() const { return messages_.empty(); }
  // Returns true if Add() would drop further errors, so the check can stop.
  bool full() const { return messages_.size() >= kMaxErrors; }
  // Returns OK if the list is empty, and otherwise InvalidArgument with one error per line.
  absl::Status ToStatus() const;

 private:
  std::vector<std::string> messages_;
};

}  // namespace mirrorflow

// Returns from the function when `expr` (an absl::Status) is not OK.
#define MF_RETURN_IF_ERROR(expr)      \
  do {                                \
    absl::Status mf_status = (expr);  \
    if (!mf_status.ok()) [[unlikely]] \
      return mf_status;               \
  } while (false)

// Declares or assigns `lhs` from a StatusOr, or returns its error.
#define MF_ASSIGN_OR_RETURN(lhs, expr) \
  MF_ASSIGN_OR_RETURN_IMPL_(MF_CONCAT_(mf_status_or_, __LINE__), lhs, expr)

#define MF_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) [[unlikely]]                     \
    return std::move(tmp).status();               \
  lhs = std::move(tmp).value()

#define MF_CONCAT_(a, b) MF_CONCAT_INNER_(a, b)
#define MF_CONCAT_INNER_(a, b) a##b

// Terminates the process if `condition` is false. Only for invariants that hold unless Mirrorflow
// has a bug, never for external data.
#define MF_CHECK(condition) \
  ((condition) ? (void)0 : ::mirrorflow::internal::CheckFailed(__FILE__, __LINE__, #condition))

#endif  // MIRRORFLOW_FRAMEWORK_CORE_STATUS_H_

// SPDX-License-Identifier: Apache-2.0
//
// VariableStore reads and assigns a session's variables, and tracks which of them have a value. It
// is not thread-safe, except for states(). Before the session calls the store, it acquires
// exclusive access, finishes pending updates and connects the replicas.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_VARIABLE_STORE_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_VARIABLE_STORE_H_

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/tensor.h"
#include "framework/runtime/forms.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/variable_part.h"
#include "framework/workers/rank_exchange.h"

namespace mirrorflow {

class VariableStore {
 public:
  enum class State : char { kUnset, kSet, kIndeterminate };

  // How the workers of a memory domain use the regions that they share.
  struct Sharing {
    bool with_workers = false;  // whether other workers share regions with this one
    bool writes = true;         // whether this worker writes the shared regions
  };

  // All variables start uninitialised. `exchange` must outlive the store, and its replicas must
  // hold the regions of `layout`.
  VariableStore(VariableLayout layout, RankExchange& exchange, const Sharing& sharing);

  // The forms of the variables. They are stale after every change of a variable.
  const std::shared_ptr<Forms>& forms() const { return forms_; }

  const VariableLayout& layout() const { return layout_; }
  const VariableInfo& info(int variable) const { return layout_.variables()[variable]; }
  // Returns the index of a variable, or NotFound for an unknown name.
  absl::StatusOr<int> Find(absl::string_view name) const;

  // The states can be read from any thread. They change only under an exclusive lease.
  using States = absl::Span<const std::atomic<State>>;
  States states() const { return states_; }
  void MarkSet(absl::Span<const int> variables);
  // Records that a step failed with `cause` while it updated the variables.
  void MarkIndeterminate(absl::Span<const int> variables, const absl::Status& cause);
  // Returns FailedPrecondition if the variable has no value or is indeterminate.
  absl::Status CheckReadable(int variable) const {
    if (states_[variable] == State::kSet) [[likely]]
      return absl::OkStatus();
    return NotReadable(variable);
  }

  // Returns InvalidArgument for a variable that is synchronised on write.
  absl::Status CheckOnRead(int variable) const;
  // Returns InvalidArgument unless the value has the variable's dtype and shape.
  absl::Status CheckValue(int variable, const Tensor& value) const;

  // Returns whether Read communicates with other workers.
  bool ReadsOtherWorkers(int variable) const;
  // Copies the variable to `*value`, reusing its memory if it has the variable's dtype and shape.
  // For a variable that is synchronised on read, copies the sum over all ranks.
  absl::Status Read(int variable, Tensor* value) const;
  // Copies the value on local replica `replica`.
  absl::Status Read(int variable, int replica, Tensor* value) const;
  // Returns the non-zero parts of a variable that is synchronised on read, in rank order. Only
  // worker 0 receives parts.
  absl::StatusOr<std::vector<VariablePart>> ReadParts(int variable) const;

  // Returns whether assignments synchronise with other workers.
  bool shares_with_workers() const { return sharing_.with_workers; }
  struct Assignment {
    int variable = 0;
    Tensor value;
  };
  // Sets variables on all local replicas. For a variable that is synchronised on read, sets the sum
  // over all ranks. Changes nothing if a value does not match its variable's dtype and shape.
  absl::Status Assign(absl::Span<const Assignment> assignments);
  // Sets one variable, without waiting for workers that share its memory.
  absl::Status Set(int variable, const Tensor& value);
  // Sets variables on all workers to worker 0's values, which are keyed by name.
  absl::Status AssignFromWorker0(absl::Span<const int> variables,
                                 const std::map<std::string, Tensor>& values);
  // Sets each rank's part of a variable that is synchronised on read.
  absl::Status AssignPartsFromWorker0(int variable, absl::Span<const VariablePart> parts);
  // Records that every worker has computed the variables' values itself. Processors may round
  // differently, so the workers must take rank 0's values unless they assign other values first.
  void MarkInitial();
  // Returns the variables that the workers must still take from rank 0 or assign.
  const std::set<int>& initial() const { return initial_; }
  // Sets these variables to rank 0's values. All workers must call it.
  absl::Status TakeInitialValues();
  // Adds the variables in the other workers' initial() to this worker's. All workers must call it
  // after a failure, because some may have taken the values while others failed to.
  absl::Status AgreeOnInitial(MonotonicTime deadline);
  // Waits for the workers that share variables with this one, if any.
  absl::Status WaitForSharers();

 private:
  absl::Status NotReadable(int variable) const;
  // Sets the variables to rank 0's values, except those that are synchronised on read.
  absl::Status TakeValuesOfRank0(absl::Span<const int> variables);
  // Removes variables from initial().
  void MarkEqual(absl::Span<const int> variables);
  absl::Status CheckDeterminate(int variable) const;
  bool is_chief() const { return connection_.worker() == 0; }
  // Returns whether `replica` writes the variable, rather than another replica that shares its
  // copy.
  bool Writes(const Replica& replica, const VariableInfo& variable) const;

  const VariableLayout layout_;
  RankExchange& exchange_;
  LocalReplicas& replicas_;
  const Connection& connection_;
  const Sharing sharing_;
  std::vector<std::atomic<State>> states_;
  const std::shared_ptr<Forms> forms_;
  std::set<int> initial_;
  std::string indeterminate_cause_;  // the last error that left variables indeterminate
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_VARIABLE_STORE_H_

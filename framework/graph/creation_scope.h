// SPDX-License-Identifier: Apache-2.0
//
// CreationScope assigns all variables that are created on this thread during its lifetime to one
// strategy (Strategy::scope()).
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_CREATION_SCOPE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_CREATION_SCOPE_H_

#include <cstdint>

namespace mirrorflow {

// The attribute of a variable's handle that identifies the scope in which it was created; 0: none.
// It is valid only in this process and is not written to files. Handles of graphs from files lack
// it, so every strategy accepts them.
inline constexpr char kCreationScopeAttr[] = "_creation_scope";

class [[nodiscard]] CreationScope {
 public:
  // `owner` identifies the strategy; it must be positive.
  explicit CreationScope(int64_t owner);
  ~CreationScope();
  CreationScope(const CreationScope&) = delete;
  CreationScope& operator=(const CreationScope&) = delete;

  // Returns a new owner id, unique in this process.
  static int64_t NewOwner();
  // Returns the innermost owner on this thread; 0 if there is none.
  static int64_t Current();

 private:
  const int64_t outer_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_CREATION_SCOPE_H_

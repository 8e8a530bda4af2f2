// SPDX-License-Identifier: Apache-2.0
//
// CreationScope: says where variables are being created. A strategy's scope() is one; variables
// made inside are mirrored. The thread-local stack behind it is the only thread-local of the
// library.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_CREATION_SCOPE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_CREATION_SCOPE_H_

namespace mirrorflow {

// The attribute of a variable's handle that was created in no strategy's scope, in code that knows
// of scopes. Handles of imported graphs do not have it: they are mirrored.
inline constexpr char kOutsideScopeAttr[] = "_outside_scope";

class CreationScope {
 public:
  // `owner` is the strategy; only its identity counts.
  explicit CreationScope(const void* owner);
  ~CreationScope();
  CreationScope(const CreationScope&) = delete;
  CreationScope& operator=(const CreationScope&) = delete;

  // The innermost owner on this thread, or null.
  static const void* Current();

 private:
  const void* const outer_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_CREATION_SCOPE_H_

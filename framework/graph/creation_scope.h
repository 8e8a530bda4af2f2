// SPDX-License-Identifier: Apache-2.0
//
// CreationScope assigns all variables created on this thread during its lifetime to one strategy
// (Strategy::scope()).
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_CREATION_SCOPE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_CREATION_SCOPE_H_

#include <string>

namespace mirrorflow {

// The attribute of a variable's handle that names the strategy whose scope the variable was
// created in, such as `MirroredStrategy #1`; it is empty outside all scopes. The text form of a
// graph shows it in a comment. The name is valid only in this process, so it is not written to
// files, and readers drop it. Every strategy accepts handles without it.
inline constexpr char kCreationScopeAttr[] = "_creation_scope";

class [[nodiscard]] CreationScope {
 public:
  // `strategy` must be unique among the strategies of this process.
  explicit CreationScope(std::string strategy);
  ~CreationScope();
  CreationScope(const CreationScope&) = delete;
  CreationScope& operator=(const CreationScope&) = delete;

  // Returns the strategy of the innermost scope on this thread, or an empty string outside all
  // scopes.
  static const std::string& Current();

 private:
  std::string outer_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_CREATION_SCOPE_H_

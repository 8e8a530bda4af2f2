// SPDX-License-Identifier: Apache-2.0
//
// What is true of the lists that a loop carries, in every iteration and behind the last one: found
// by trial, as their elements' shape may be known only where the body pushes the first.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_LOOP_LISTS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_LOOP_LISTS_H_

#include <optional>
#include <vector>

#include "framework/compiler/compilation.h"
#include "framework/graph/list_info.h"

namespace mirrorflow {

// How often the loop runs at most, if that can be told; the bodies' values are inferred.
using LoopBoundFn = std::optional<int64_t> (*)(const Compilation& c, const Node& loop);

class LoopLists {
 public:
  // Given what the lists are at first; nothing for a value that is none.
  explicit LoopLists(std::vector<ListInfo> first);

  // What to try them with, and what they are if the last trial was enough.
  const std::vector<ListInfo>& arguments() const { return arguments_; }

  // Takes what the body made of arguments(). True if another trial is needed. InvalidArgument if
  // the elements of a list have several shapes.
  absl::StatusOr<bool> Refine(const std::vector<ListInfo>& results, std::optional<int64_t> bound);

  // What they are behind the loop, where its condition sees them too.
  const std::vector<ListInfo>& behind() const { return behind_; }

 private:
  const std::vector<ListInfo> first_;
  std::vector<ListInfo> arguments_;
  std::vector<ListInfo> behind_;
  std::vector<int64_t> growth_;  // elements more an iteration, at most
  int trials_ = 0;
  std::optional<int64_t> bound_;  // of the trials so far
  bool bound_changed_ = false;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_LOOP_LISTS_H_

// SPDX-License-Identifier: Apache-2.0
//
// LoopLists: infers static information about the lists that a loop carries. The information is true
// in every iteration and after the last one. LoopLists proceeds by trial, because the element shape
// may become known only when the body pushes the first element.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_LOOP_LISTS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_LOOP_LISTS_H_

#include <optional>
#include <vector>

#include "framework/compiler/compilation.h"
#include "framework/graph/list_info.h"

namespace mirrorflow {

// Returns the maximum number of iterations of the loop, if known. The values in the loop's bodies
// must already have been inferred.
using LoopBoundFn = std::optional<int64_t> (*)(const Compilation& c, const Node& loop);

class LoopLists {
 public:
  // `first` holds the initial lists, and an unknown list for each value that is not a list.
  explicit LoopLists(std::vector<ListInfo> first);

  // The arguments for the next trial. They are final if no other trial is needed.
  const std::vector<ListInfo>& arguments() const { return arguments_; }

  // Takes the body's results for arguments(). Returns true if another trial is needed.
  // InvalidArgument if the elements of a list have different shapes.
  absl::StatusOr<bool> Refine(const std::vector<ListInfo>& results, std::optional<int64_t> bound);

  // The lists after the loop. They also hold for the arguments of its condition.
  const std::vector<ListInfo>& after_loop() const { return after_loop_; }

 private:
  const std::vector<ListInfo> first_;
  std::vector<ListInfo> arguments_;
  std::vector<ListInfo> after_loop_;
  std::vector<int64_t> growth_;  // maximum number of elements added per iteration
  int trials_ = 0;
  std::optional<int64_t> bound_;  // the same in all trials so far
  bool bound_changed_ = false;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_LOOP_LISTS_H_

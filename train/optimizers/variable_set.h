// SPDX-License-Identifier: Apache-2.0
//
// Some of a model's variables, given by their handles or by a predicate on their names:
//
//   {.exclude_from_weight_decay = {dense.bias, norm.scale}}
//   {.exclude_from_weight_decay = [](absl::string_view name) {
//      return absl::EndsWith(name, "/bias");
//    }}
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_VARIABLE_SET_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_VARIABLE_SET_H_

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/core/status.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

class VariableSet {
 public:
  VariableSet() = default;                                                    // empty
  VariableSet(std::initializer_list<Output> handles) : handles_(handles) {}   // NOLINT: implicit
  VariableSet(std::vector<Output> handles) : handles_(std::move(handles)) {}  // NOLINT: likewise
  template <typename Predicate>
  requires std::is_invocable_r_v<bool, const Predicate&, absl::string_view> VariableSet(
      Predicate has_name)
      : has_name_(std::move(has_name)) {}  // NOLINT: likewise

  bool Contains(const Output& handle) const {
    return std::find(handles_.begin(), handles_.end(), handle) != handles_.end() ||
           (has_name_ != nullptr && has_name_(handle.node->name()));
  }

  // InvalidArgument, which begins with `where`, if a handle belongs to a graph other than `graph`.
  absl::Status CheckOwned(const Graph& graph, absl::string_view where) const {
    for (const Output& handle : handles_) {
      MF_RETURN_IF_ERROR(Annotate(graph.CheckOwns(handle), where));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<Output> handles_;
  std::function<bool(absl::string_view)> has_name_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_VARIABLE_SET_H_

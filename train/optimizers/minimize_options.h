// SPDX-License-Identifier: Apache-2.0
//
// The options of all optimizers: what happens to gradients and variables besides the update rule.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_MINIMIZE_OPTIONS_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_MINIMIZE_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/core/status.h"
#include "framework/graph/graph.h"
#include "train/optimizers/gradient_reduction.h"
#include "train/optimizers/loss_scale.h"

namespace mirrorflow {

// Some of a model's variables, given by their handles or by a predicate on their names:
//
//   {.exclude_from_weight_decay = {dense.bias, norm.scale}}
//   {.exclude_from_weight_decay = [](absl::string_view name) {
//      return absl::EndsWith(name, "/bias");
//    }}
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

struct LearningRateMultiplier {
  VariableSet variables;
  double multiplier = 1;
};

// The names and defaults are those of Keras' optimizers. 0 turns an option off where it is the
// default.
struct MinimizeOptions {
  // Handles of the variables to update. Empty: all trainable variables.
  std::vector<Output> variables = {};
  // Bounds on the gradients (clipping.h), at most one of them: on the absolute value of each
  // element, on the norm of each gradient, on the norm of all gradients together.
  double clipvalue = 0;
  double clipnorm = 0;
  double global_clipnorm = 0;
  // Reduces each gradient over the replicas (see Optimizer::ReduceGradients). Null: the compiler
  // inserts what the updates need.
  GradientReducer reduce = nullptr;
  // Before its update, variable -= learning_rate * weight_decay * variable. If unset, the
  // optimizer's own: the weight_decay of AdamW and Muon, otherwise 0.
  std::optional<double> weight_decay = std::nullopt;
  VariableSet exclude_from_weight_decay = {};
  // The first entry that has a variable multiplies the learning rate of its update and of its
  // weight decay.
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
  // Keeps a moving average of each updated variable (moving_average.h):
  //   average = ema_momentum * average + (1 - ema_momentum) * variable
  // after each update; the first average is the variable itself. With a positive
  // ema_overwrite_frequency N, every N steps the variable becomes its average.
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  // Only for Minimize. With N, every Nth step makes one update with the mean gradient over the rows
  // of N batches, as for one large batch. The other steps change no variable of the model and
  // reduce no gradient over the replicas (Keras' gradient_accumulation_steps). If the loss of one
  // of the N steps is not finite, none of them counts. Not with `reduce`.
  int64_t accumulate_steps = 1;
  // A scalar that weights a step: the number of rows, or of tokens, over which its loss is the
  // mean. By default, it is dimension 0 of the first placeholder of the loss that has this
  // dimension unknown. Without such a placeholder, all steps weigh the same.
  Output accumulate_weight = {};
  // Only for Minimize. Scales the loss, for gradients of half-precision values (loss_scale.h). A
  // step whose gradients are not all finite changes no variable.
  std::optional<LossScaleOptions> loss_scale = std::nullopt;
};

// InvalidArgument if an option is out of range, if several bounds are set, or if a value belongs to
// a graph other than `graph`, the one of the loss.
absl::Status CheckMinimizeOptions(const Graph& graph, const MinimizeOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_MINIMIZE_OPTIONS_H_

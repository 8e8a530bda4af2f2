// SPDX-License-Identifier: Apache-2.0
//
// MinimizeOptions: the options that all optimizers share. They control how gradients and variables
// are treated, apart from the update rule.
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

// A subset of a model's variables, given by their handles or by a predicate on their names:
//
//   {.exclude_from_weight_decay = {dense.bias, norm.scale}}
//   {.exclude_from_weight_decay = [](absl::string_view name) {
//      return absl::EndsWith(name, "/bias");
//    }}
class VariableSet {
 public:
  VariableSet() = default;                                                    // empty
  VariableSet(std::initializer_list<Output> handles) : handles_(handles) {}   // NOLINT: implicit
  VariableSet(std::vector<Output> handles) : handles_(std::move(handles)) {}  // NOLINT: implicit
  template <typename Predicate>
  requires std::is_invocable_r_v<bool, const Predicate&, absl::string_view> VariableSet(
      Predicate has_name)
      : has_name_(std::move(has_name)) {}  // NOLINT: implicit

  bool Contains(const Output& handle) const {
    return std::find(handles_.begin(), handles_.end(), handle) != handles_.end() ||
           (has_name_ != nullptr && has_name_(handle.node->name()));
  }

  // Returns InvalidArgument, prefixed with `where`, if a handle belongs to a graph other than
  // `graph`.
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

// A factor for the learning rate of some variables.
struct LearningRateMultiplier {
  VariableSet variables;
  double multiplier = 1;
};

// Names and defaults match Keras' optimizers. If an option's default is 0, 0 turns it off.
struct MinimizeOptions {
  // Handles of the variables to update. If empty, all trainable variables are updated.
  std::vector<Output> variables = {};
  // Gradient clipping (clipping.h), after the reduction; set at most one. `clipvalue` bounds the
  // absolute value of each element, `clipnorm` the Euclidean norm of each gradient, and
  // `global_clipnorm` the norm of all gradients together.
  double clipvalue = 0;
  double clipnorm = 0;
  double global_clipnorm = 0;
  // A communication hook: a function that reduces each gradient over the replicas
  // (communication_hooks.h, Optimizer::ReduceGradients). If null, the compiler inserts the
  // all-reduces that the updates need.
  GradientReducer reduce = nullptr;
  // Before each update, variable -= learning_rate * weight_decay * variable. If unset, the
  // optimizer's own default applies: the weight decay of AdamW or Muon, otherwise 0.
  std::optional<double> weight_decay = std::nullopt;
  VariableSet exclude_from_weight_decay = {};  // variables without weight decay
  // Multiplies the learning rate of a variable's update and weight decay by the multiplier of the
  // first entry that contains the variable.
  std::vector<LearningRateMultiplier> learning_rate_multipliers = {};
  // Whether to keep a moving average of each updated variable (moving_average.h). Each update then
  // also sets
  //   average = ema_momentum * average + (1 - ema_momentum) * variable.
  // After the first update, the average is the variable itself. If ema_overwrite_frequency is N >
  // 0, every Nth update also overwrites the variable with its average.
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  // Only for Minimize. If this is N > 1, every Nth step makes one update with the mean gradient
  // over the rows of N batches, as for one large batch. The other steps change no trainable
  // variable and reduce no gradients (Keras' gradient_accumulation_steps). If the loss of any of
  // the N steps is not finite, all N steps are discarded. Cannot be combined with `reduce`.
  int64_t accumulate_steps = 1;
  // A scalar that weights each accumulated step: the number of rows or tokens over which its loss
  // is averaged. Defaults to dimension 0 of the loss's first placeholder whose dimension 0 is
  // unknown when the graph is built. If no such placeholder exists, all steps have equal weight.
  Output accumulate_weight = {};
  // Only for Minimize. If set, multiplies the loss by a factor that keeps small half-precision
  // gradients from becoming 0 (loss_scale.h). A step whose gradients are not all finite changes no
  // trainable variable.
  std::optional<LossScaleOptions> loss_scale = std::nullopt;
};

// Returns InvalidArgument if an option is out of range, if options conflict, or if a value belongs
// to a graph other than `graph`, the graph of the loss.
absl::Status CheckMinimizeOptions(const Graph& graph, const MinimizeOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_MINIMIZE_OPTIONS_H_

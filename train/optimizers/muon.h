// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_MUON_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_MUON_H_

#include <optional>

#include "train/optimizers/adam.h"
#include "train/optimizers/minimize_options.h"

namespace mirrorflow {

// For the weight matrices of hidden layers: orthogonalises the momentum of each matrix, by
// Newton-Schulz iterations, and steps along the result:
//   m = momentum * m + gradient
//   x = m, or with nesterov: gradient + momentum * m
//   x /= |x| + 1e-7; then ns_steps times: x = a x + (b A + c A²) x, where A = x xᵀ
//   variable [n,m] -= learning_rate * x * rms_rate * sqrt(max(n, m))
// where |x| is the Euclidean norm of all elements, and a, b and c are muon_a, muon_b and muon_c.
// Adam updates all other variables: those that are not matrices, those in `exclude_layers` and, if
// exclude_embeddings is true, those whose names contain "embedding" in upper or lower case. Adam's
// learning rate is learning_rate * adam_lr_ratio. Put the variables of the output layer in
// `exclude_layers`. Both rules have decoupled weight decay (see AdamW).
// Errors: InvalidArgument from Minimize if an option is out of range: `momentum` must be in [0, 1],
// the betas in [0, 1), muon_a, muon_b and muon_c finite, and all other numbers finite and at least
// 0.
// Sources: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; Liu et
// al., "Muon is scalable for LLM training", 2025 (rms_rate); Keras' form.
class Muon final : public Adam {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double adam_beta1 = 0.9;
    double adam_beta2 = 0.999;
    double adam_weight_decay = 0.004;
    double epsilon = 1e-7;  // for Adam
    double weight_decay = 0.004;
    VariableSet exclude_layers = {};
    bool exclude_embeddings = true;
    double muon_a = 3.4445;
    double muon_b = -4.7750;
    double muon_c = 2.0315;
    double adam_lr_ratio = 1;
    double momentum = 0.95;
    int ns_steps = 5;  // Newton-Schulz iterations
    bool nesterov = true;
    // If nullopt, the update is learning_rate * x, without the factor rms_rate * sqrt(max(n, m)).
    std::optional<double> rms_rate = 0.2;
  };
  Muon() : Muon(Options()) {}
  explicit Muon(const Options& options);

 private:
  double weight_decay(const VariableUpdate& update) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;

  bool UsesAdam(const VariableUpdate& update) const;
  Term Orthogonalize(Term x, const Shape& shape) const;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_MUON_H_

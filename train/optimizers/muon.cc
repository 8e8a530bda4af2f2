// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "ops/matmul.h"
#include "train/optimizers/term.h"

namespace mirrorflow {

Muon::Muon(const Options& o)
    : Adam("Muon", {o.learning_rate, o.adam_beta1, o.adam_beta2, o.epsilon}, 0,
           {{"adam_beta1", o.adam_beta1, kBelowOne},
            {"adam_beta2", o.adam_beta2, kBelowOne},
            {"adam_weight_decay", o.adam_weight_decay, kNotNegative},
            {"epsilon", o.epsilon, kNotNegative},
            {"weight_decay", o.weight_decay, kNotNegative},
            {"muon_a", o.muon_a, kAnyNumber},
            {"muon_b", o.muon_b, kAnyNumber},
            {"muon_c", o.muon_c, kAnyNumber},
            {"adam_lr_ratio", o.adam_lr_ratio, kNotNegative},
            {"momentum", o.momentum, kFraction},
            {"ns_steps", o.ns_steps, kNotNegative},
            {"rms_rate", o.rms_rate.value_or(0), kNotNegative}}),
      options_(o) {}

bool Muon::UsesAdam(const VariableUpdate& u) const {
  return u.shape().rank() != 2 || options_.exclude_layers.Contains(u.variable()) ||
         (options_.exclude_embeddings &&
          absl::StrContains(absl::AsciiStrToLower(u.variable().node->name()), "embedding"));
}

double Muon::weight_decay(const VariableUpdate& u) const {
  return UsesAdam(u) ? options_.adam_weight_decay : options_.weight_decay;
}

Term Muon::Orthogonalize(Term x, const Shape& shape) const {
  const Scope& s = x.scope();
  const bool tall = shape.dim(0) > shape.dim(1);  // if so, A is xᵀ x, which is smaller than x xᵀ
  x = x / (Sqrt(SumOf(Square(x))) + 1e-7);
  for (int i = 0; i < options_.ns_steps; ++i) {
    const Term a = x.With(ops::MatMul(s, x, x, {.transpose_a = tall, .transpose_b = !tall}));
    const Term b = options_.muon_b * a + options_.muon_c * x.With(ops::MatMul(s, a, a));
    x = options_.muon_a * x + x.With(tall ? ops::MatMul(s, x, b) : ops::MatMul(s, b, x));
  }
  return x;
}

void Muon::Update(VariableUpdate& u, const Shared& shared) const {
  const Scope& s = u.scope();
  const VariableSet& excluded = options_.exclude_layers;
  if (absl::Status own = excluded.CheckOwned(s.graph(), "Muon: exclude_layers"); !own.ok()) {
    return s.Fail(std::move(own));
  }
  if (UsesAdam(u)) {
    Shared own = shared;
    if (options_.adam_lr_ratio != 1) own[0] = u.term(own[0]) * options_.adam_lr_ratio;
    return Adam::Update(u, own);
  }
  const Variable slot = u.Slot("momentum");
  const Term g = u.ReducedGradient();
  const Term m = options_.momentum * u.term(slot.value) + g;
  const Term x = Orthogonalize(options_.nesterov ? g + options_.momentum * m : m, u.shape());
  double scale = 1;
  if (options_.rms_rate.has_value()) {
    const int64_t longer = std::max(u.shape().dim(0), u.shape().dim(1));
    scale = *options_.rms_rate * std::sqrt(static_cast<double>(longer));
  }
  u.Assign(slot, m);
  u.Subtract(u.term(shared[0]) * scale * x);
}

}  // namespace mirrorflow

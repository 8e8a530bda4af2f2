// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_SUMMARY_HPARAMS_SUMMARY_H_
#define MIRRORFLOW_TRAIN_SUMMARY_HPARAMS_SUMMARY_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mirrorflow {

namespace proto {
class Summary;
}

// A hyperparameter's value, for example `true`, `64`, `0.1` or `"adam"`.
using HparamValue = std::variant<bool, int64_t, double, std::string>;
using Hparams = std::map<std::string, HparamValue>;
using HparamMetrics = std::map<std::string, double>;

// Returns the three values that TensorBoard's `hparams` plugin needs to recognise a successful run:
// the names of the hyperparameters and metrics, the run's hyperparameters, and its end. The metric
// values are not included; the plugin reads them from scalar events. Returns InvalidArgument for a
// name or text that is not UTF-8.
absl::StatusOr<proto::Summary> HparamsSummary(const Hparams& hparams, const HparamMetrics& metrics,
                                              absl::Time start, absl::Time end);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SUMMARY_HPARAMS_SUMMARY_H_

// SPDX-License-Identifier: Apache-2.0
//
// PrometheusText writes metrics in Prometheus' text format, version 0.0.4:
//
//   PrometheusText text(PrometheusText::Labels{{"job", "mnist"}, {"worker", "0"}});
//   text.AddCounter("mirrorflow_examples_total", "Examples of all steps.", 1280);
//   return text.Take();
#ifndef MIRRORFLOW_TRAIN_TRAINER_MONITORING_PROMETHEUS_TEXT_H_
#define MIRRORFLOW_TRAIN_TRAINER_MONITORING_PROMETHEUS_TEXT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mirrorflow {

class PrometheusText {
 public:
  static constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

  // Names and values. Values can contain any bytes.
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // `common` are the labels that every sample has.
  explicit PrometheusText(const Labels& common);

  // Add each metric only once. `help` is a sentence.
  void AddGauge(absl::string_view name, absl::string_view help, double value);
  void AddCounter(absl::string_view name, absl::string_view help, double value);
  // `bounds` has the buckets' inclusive upper bounds in ascending order, except for the last
  // bucket, which is unbounded. `counts` has the number of observations in each bucket, so it has
  // one element more than `bounds`.
  void AddHistogram(absl::string_view name, absl::string_view help, absl::Span<const double> bounds,
                    absl::Span<const uint64_t> counts, double sum);

  std::string Take() { return std::move(text_); }

 private:
  void AddHeader(absl::string_view name, absl::string_view help, absl::string_view type);
  // `more` is an additional label, in the format of common_, or empty.
  void AddSample(absl::string_view name, absl::string_view more, double value);

  const std::string common_;  // `name="value",…`
  std::string text_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_MONITORING_PROMETHEUS_TEXT_H_

// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/monitoring/prometheus_text.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/core/utf8.h"

namespace mirrorflow {
namespace {

// Returns the shortest text that parses to the same value.
std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return std::string(text, end);
}

// Escapes special characters, and replaces each byte that is not valid UTF-8 with U+FFFD: a single
// invalid byte would make Prometheus reject the whole text.
std::string Escaped(absl::string_view value, bool quotes) {
  std::string escaped;
  while (!value.empty()) {
    const size_t length = Utf8CharacterLength(value);
    const char c = value[0];
    if (length == 0) {
      escaped += "\xEF\xBF\xBD";  // the replacement character
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (c == '\\' || (quotes && c == '"')) {
      absl::StrAppend(&escaped, "\\", value.substr(0, 1));
    } else {
      absl::StrAppend(&escaped, value.substr(0, length));
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  return escaped;
}

std::string LabelText(const PrometheusText::Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    absl::StrAppend(&text, text.empty() ? "" : ",", name, "=\"", Escaped(value, /*quotes=*/true),
                    "\"");
  }
  return text;
}

}  // namespace

PrometheusText::PrometheusText(const Labels& common) : common_(LabelText(common)) {}

void PrometheusText::AddHeader(absl::string_view name, absl::string_view help,
                               absl::string_view type) {
  absl::StrAppend(&text_, "# HELP ", name, " ", Escaped(help, /*quotes=*/false), "\n# TYPE ", name,
                  " ", type, "\n");
}

void PrometheusText::AddSample(absl::string_view name, absl::string_view more, double value) {
  absl::StrAppend(&text_, name);
  if (!common_.empty() || !more.empty()) {
    const char* const comma = common_.empty() || more.empty() ? "" : ",";
    absl::StrAppend(&text_, "{", common_, comma, more, "}");
  }
  absl::StrAppend(&text_, " ", NumberText(value), "\n");
}

void PrometheusText::AddGauge(absl::string_view name, absl::string_view help, double value) {
  AddHeader(name, help, "gauge");
  AddSample(name, "", value);
}

void PrometheusText::AddCounter(absl::string_view name, absl::string_view help, double value) {
  AddHeader(name, help, "counter");
  AddSample(name, "", value);
}

void PrometheusText::AddHistogram(absl::string_view name, absl::string_view help,
                                  absl::Span<const double> bounds,
                                  absl::Span<const uint64_t> counts, double sum) {
  AddHeader(name, help, "histogram");
  const std::string bucket = absl::StrCat(name, "_bucket");
  uint64_t total = 0;
  for (size_t b = 0; b < counts.size(); ++b) {
    total += counts[b];
    const double bound = b < bounds.size() ? bounds[b] : HUGE_VAL;
    AddSample(bucket, LabelText({{"le", NumberText(bound)}}), static_cast<double>(total));
  }
  AddSample(absl::StrCat(name, "_sum"), "", sum);
  AddSample(absl::StrCat(name, "_count"), "", static_cast<double>(total));
}

}  // namespace mirrorflow

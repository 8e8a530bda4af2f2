// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/progress_format.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/json.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBarWidth = 20;
constexpr int kMinBarWidth = 5;

std::string TimeStamp(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

}  // namespace

std::string FormatClock(absl::Duration duration) {
  const int64_t s = std::max<int64_t>(absl::ToInt64Seconds(duration), 0);
  if (s < 3600) return absl::StrFormat("%d:%02d", s / 60, s % 60);
  return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
}

std::string FormatThreeDigits(double value) {
  int decimals = 2;
  for (double bound = 9.995; decimals > 0 && value >= bound; bound *= 10) --decimals;
  for (double bound = 0.9995; decimals < 6 && value > 0 && value < bound; bound /= 10) ++decimals;
  return absl::StrFormat("%.*f", decimals, value);
}

std::string FormatCount(double value) {
  constexpr struct {
    double unit;
    const char* name;
  } kUnits[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [unit, name] : kUnits) {
    if (value >= unit * 0.9995) return absl::StrCat(FormatThreeDigits(value / unit), name);
  }
  return FormatThreeDigits(value);
}

std::string FormatMetric(double value) {
  return std::isnan(value) ? "nan" : absl::StrFormat("%.4g", value);
}

LogField LogField::Number(absl::string_view key, absl::string_view number) {
  return {std::string(key), std::string(number), std::string(number)};
}

LogField LogField::String(absl::string_view key, absl::string_view value) {
  return {std::string(key), std::string(value), JsonQuote(value)};
}

LogField LogField::Metric(absl::string_view key, double value) {
  return {std::string(key), FormatMetric(value),
          std::isfinite(value) ? absl::StrFormat("%.9g", value) : "null"};
}

std::string TextLine(absl::Time time, absl::Span<const LogField> fields) {
  std::string line = TimeStamp(time);
  for (const LogField& field : fields) {
    if (field.text.empty()) continue;
    const bool plain = field.text.find_first_of(" =\"\\\t\r\n") == std::string::npos;
    absl::StrAppend(&line, " ", field.key, "=", plain ? field.text : JsonQuote(field.text));
  }
  return line;
}

std::string JsonLine(absl::Time time, absl::Span<const LogField> fields) {
  Json line = {{"time", TimeStamp(time)}};
  for (const LogField& field : fields) {
    if (!field.json.empty()) line[field.key] = ParseJson<Json>(field.json).value_or(nullptr);
  }
  return JsonText(line);
}

std::string BarLine(absl::string_view head, int64_t done, std::optional<int64_t> total,
                    absl::string_view tail, int columns) {
  const size_t limit = std::max(columns - 1, 1);
  std::string line(head);
  if (total) {
    const double share = *total == 0 ? 1 : std::clamp(1.0 * done / *total, 0.0, 1.0);
    // Show 100% only when all steps are done.
    const int percent = std::min<int>(std::lround(100 * share), share < 1 ? 99 : 100);
    const std::string percentage = absl::StrFormat(" %3d%%", percent);
    const int64_t room = static_cast<int64_t>(limit) - head.size() - percentage.size() -
                         tail.size() - 3;  // " [" and "]"
    if (room >= kMinBarWidth) {
      const int width = std::min<int64_t>(room, kBarWidth);
      const int filled = static_cast<int>(share * width);
      absl::StrAppend(&line, " [", std::string(filled, '#'), std::string(width - filled, '-'), "]");
    }
    line += percentage;
  }
  absl::StrAppend(&line, tail);
  if (line.size() > limit) line.resize(limit);
  return line;
}

}  // namespace mirrorflow

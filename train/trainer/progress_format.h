// SPDX-License-Identifier: Apache-2.0
//
// Pure functions that format the progress display: human-readable numbers, the bar, and log lines
// with fields as key=value or as JSON. progress.h decides what to show and when.
#ifndef MIRRORFLOW_TRAIN_TRAINER_PROGRESS_FORMAT_H_
#define MIRRORFLOW_TRAIN_TRAINER_PROGRESS_FORMAT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace mirrorflow {

// Formats whole seconds, rounded down: `0:09`, `12:34`, `1:02:03`.
std::string FormatClock(absl::Duration duration);
// Formats three significant digits without an exponent: `0.0182`, `18.2`, `1234`.
std::string FormatThreeDigits(double value);
// Formats three digits with a unit prefix: `56.3k`, `1.20M`.
std::string FormatCount(double value);
// Formats at most four significant digits: `0.3127`, `1e-07`, `nan`.
std::string FormatMetric(double value);

// A log field. If `text` or `json` is empty, lines in that format omit the field.
struct LogField {
  std::string key;
  std::string text;
  std::string json;  // a JSON value

  static LogField Number(absl::string_view key, absl::string_view number);
  static LogField String(absl::string_view key, absl::string_view value);
  static LogField Metric(absl::string_view key, double value);  // null in JSON unless finite
};

// Formats `2026-01-05T12:00:10Z worker=0 epoch=3`. Quotes values with spaces as JSON strings.
std::string TextLine(absl::Time time, absl::Span<const LogField> fields);
// Formats `{"time":"2026-01-05T12:00:10Z","worker":0,"epoch":3}`.
std::string JsonLine(absl::Time time, absl::Span<const LogField> fields);

// Formats `Epoch  3/10   412/937 [########------------]  44%  18.2 ms/step`. `head` is the text
// before the bar, `tail` the text after the percentage. Without a total, the line has neither bar
// nor percentage. The result has fewer than `columns` characters, so the terminal does not wrap it:
// BarLine first shrinks the bar, then cuts off the end of the line.
std::string BarLine(absl::string_view head, int64_t done, std::optional<int64_t> total,
                    absl::string_view tail, int columns);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_PROGRESS_FORMAT_H_

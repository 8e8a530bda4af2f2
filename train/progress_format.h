// SPDX-License-Identifier: Apache-2.0
//
// The texts of the progress display: numbers as people read them, the bar, and log lines whose
// fields come out as key=value or as JSON. Pure functions; progress.h decides what to show when.
#ifndef MIRRORFLOW_TRAIN_PROGRESS_FORMAT_H_
#define MIRRORFLOW_TRAIN_PROGRESS_FORMAT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace mirrorflow {

// `0:09`, `12:34`, `1:02:03`; whole seconds, rounded down.
std::string FormatClock(absl::Duration duration);
// Three significant digits and no exponent: `0.0182`, `18.2`, `1234`.
std::string FormatThreeDigits(double value);
// The same with a unit prefix: `56.3k`, `1.20M`.
std::string FormatCount(double value);
// At most four significant digits: `0.3127`, `1e-07`, `nan`.
std::string FormatMetric(double value);

// One field of a log line. An empty text or json leaves it out of that form.
struct LogField {
  std::string key;
  std::string text;
  std::string json;  // a JSON value

  static LogField Number(absl::string_view key, absl::string_view number);
  static LogField String(absl::string_view key, absl::string_view value);
  static LogField Metric(absl::string_view key, double value);  // JSON has no NaN: null
};

// `2026-01-05T12:00:10Z worker=0 epoch=3`, a text with spaces as a JSON string.
std::string TextLine(absl::Time time, absl::Span<const LogField> fields);
// `{"time":"2026-01-05T12:00:10Z","worker":0,"epoch":3}`
std::string JsonLine(absl::Time time, absl::Span<const LogField> fields);

// `Epoch  3/10   412/937 [########------------]  44%  18.2 ms/step` from its parts: `head` before
// the bar, `tail` after the percentage. Without a total there is neither bar nor percentage. The
// result has fewer than `columns` characters, or the terminal would wrap it: first the bar gives
// way, then the end.
std::string BarLine(absl::string_view head, int64_t done, std::optional<int64_t> total,
                    absl::string_view tail, int columns);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_PROGRESS_FORMAT_H_

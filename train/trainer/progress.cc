// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/log_line.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kClearToEnd = "\x1b[K";

LogFormat Resolve(ProgressHost& host, const ProgressOptions& options) {
  if (options.format != LogFormat::kAuto) return options.format;
  if (options.worker != 0) return LogFormat::kOff;
  if (host.IsTerminal()) return LogFormat::kBar;
  return ProcessLogFormat() == LogLineFormat::kJson ? LogFormat::kJson : LogFormat::kText;
}

// Formats `412/937`, or `412/?` without a total. Pads the first number to the width of the total.
std::string Fraction(int64_t done, std::optional<int64_t> total) {
  const std::string of = total ? absl::StrCat(*total) : "?";
  return absl::StrFormat("%*d/%s", static_cast<int>(of.size()), done, of);
}

}  // namespace

absl::StatusOr<LogFormat> ParseLogFormat(absl::string_view name) {
  constexpr struct {
    absl::string_view name;
    LogFormat format;
  } kNames[] = {{"auto", LogFormat::kAuto},
                {"bar", LogFormat::kBar},
                {"text", LogFormat::kText},
                {"json", LogFormat::kJson},
                {"off", LogFormat::kOff}};
  for (const auto& row : kNames) {
    if (row.name == name) return row.format;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "log_format: unknown format; expected auto, bar, text, json or off, got ", name));
}

Progress::Progress(ProgressHost& host, const ProgressOptions& options)
    : host_(host), options_(options), format_(Resolve(host, options)) {
  started_ = now_ = host_.Uptime();
}

Progress::~Progress() {
  if (bar_is_open_) host_.Write("\n");
}

void Progress::Start(const RunDescription& run) {
  started_ = now_ = host_.Uptime();
  if (format_ == LogFormat::kOff || options_.worker != 0) return;
  std::vector<LogField> fields;
  auto text = [&](absl::string_view key, absl::string_view value) {
    if (!value.empty()) fields.push_back(LogField::String(key, value));
  };
  auto number = [&](absl::string_view key, int64_t value) {
    if (value != 0) fields.push_back(LogField::Number(key, absl::StrCat(value)));
  };
  text("version", run.version);
  text("devices", run.devices);
  text("strategy", run.strategy);
  number("replicas", run.replicas);
  number("global_batch", run.global_batch);
  text("per_replica_batch", run.per_replica_batch);
  number("parameters", run.parameters);
  text("precision", run.precision);
  text("checkpoint_dir", run.checkpoint_dir);
  text("log_dir", run.log_dir);
  if (!run.log_dir.empty()) text("view", absl::StrCat("tensorboard --logdir ", run.log_dir));
  text("ex_per_s", "of all replicas, excluding the first step");
  if (format_ != LogFormat::kBar) {
    fields.insert(fields.begin(), LogField::String("event", "start"));
    return WriteLine(std::move(fields));
  }
  size_t width = 0;
  for (const LogField& field : fields) width = std::max(width, field.key.size());
  std::string banner = "mirrorflow\n";
  for (const LogField& field : fields) {
    absl::StrAppendFormat(&banner, "  %-*s  %s\n", width, field.key, field.text);
  }
  Above(banner);
}

void Progress::BeginEpoch(int64_t epoch, std::optional<int64_t> steps, int64_t done) {
  now_ = epoch_started_ = timed_from_ = host_.Uptime();
  epoch_ = epoch;
  steps_ = steps;
  step_ = done;
  timed_steps_ = timed_examples_ = 0;
  // Drop the metrics of the previous epoch's validation.
  metrics_.clear();
  if (format_ != LogFormat::kBar) {
    if (!last_shown_) last_shown_ = now_;
  } else if (!last_shown_ || now_ - *last_shown_ >= options_.refresh_interval) {
    DrawBar(/*epoch_done=*/false);
  }
}

void Progress::Step(int64_t examples, absl::Span<const NamedValue> metrics) {
  now_ = host_.Uptime();
  ++step_;
  if (any_step_) {
    ++timed_steps_;
    timed_examples_ += examples;
  } else {
    any_step_ = true;
    timed_from_ = now_;
  }
  SetMetrics(metrics);
  if (format_ == LogFormat::kBar) {
    if (!last_shown_ || now_ - *last_shown_ >= options_.refresh_interval) DrawBar(false);
  } else if (format_ != LogFormat::kOff &&
             (!last_shown_ || now_ - *last_shown_ >= options_.line_interval)) {
    WriteLine(StepFields(/*epoch_done=*/false));
    last_shown_ = now_;
  }
}

void Progress::EndEpoch(absl::Span<const NamedValue> metrics) {
  // Leave now_ at the time of the last step, because the time since then was not spent on training.
  SetMetrics(metrics);
  if (format_ == LogFormat::kOff) return;
  if (format_ == LogFormat::kBar) {
    DrawBar(/*epoch_done=*/true);
    host_.Write("\n");
    bar_is_open_ = false;
    return;
  }
  WriteLine(StepFields(/*epoch_done=*/true));
  last_shown_ = now_;
}

void Progress::Finish(const RunResult& result) {
  if (format_ == LogFormat::kOff || options_.worker != 0) return;
  const absl::Duration total = host_.Uptime() - started_;
  if (format_ == LogFormat::kBar) {
    std::string line = absl::StrCat("finished in ", FormatClock(total));
    if (result.best) {
      absl::StrAppend(&line, "  best ", result.best->name, " ", FormatMetric(result.best->value));
    }
    if (!result.checkpoint.empty()) absl::StrAppend(&line, "  checkpoint ", result.checkpoint);
    return host_.Write(absl::StrCat(std::exchange(bar_is_open_, false) ? "\n" : "", line, "\n"));
  }
  std::vector<LogField> fields = {
      LogField::String("event", "end"),
      LogField::Number("total_s", absl::StrFormat("%.1f", absl::ToDoubleSeconds(total)))};
  if (result.best) {
    fields.push_back(
        LogField::Metric(absl::StrCat("best_", result.best->name), result.best->value));
  }
  if (!result.checkpoint.empty()) {
    fields.push_back(LogField::String("checkpoint", result.checkpoint));
  }
  WriteLine(std::move(fields));
}

void Progress::Log(absl::string_view line) {
  if (format_ == LogFormat::kOff) return;
  if (format_ == LogFormat::kJson) return WriteLine({LogField::String("message", line)});
  Above(absl::StrCat(line, "\n"));
}

void Progress::SetMetrics(absl::Span<const NamedValue> metrics) {
  for (const NamedValue& metric : metrics) {
    auto value = std::find_if(metrics_.begin(), metrics_.end(),
                              [&](const Value& v) { return v.name == metric.name; });
    if (value == metrics_.end()) {
      value = metrics_.insert(metrics_.end(), {std::string(metric.name), 0});
    }
    value->value = metric.value;
  }
  for (Value& metric : metrics_) {
    if (std::isfinite(metric.value) || metric.reported) continue;
    metric.reported = true;
    Warn(absl::StrCat(metric.name, " ", FormatMetric(metric.value), " at step ", step_,
                      " of epoch ", epoch_));
  }
}

void Progress::DrawBar(bool epoch_done) {
  const std::string head =
      absl::StrCat("Epoch ", Fraction(epoch_, options_.epochs), "   ", Fraction(step_, steps_));
  std::string tail;
  if (timed_steps_ > 0) {
    const double seconds = absl::ToDoubleSeconds(TimedSpan());
    absl::StrAppend(&tail, "  ", FormatThreeDigits(1e3 * seconds / timed_steps_), " ms/step");
    if (seconds > 0) absl::StrAppend(&tail, "  ", FormatCount(timed_examples_ / seconds), " ex/s");
  }
  if (epoch_done) {
    absl::StrAppend(&tail, "  time ", FormatClock(now_ - epoch_started_));
  } else if (!steps_) {
    absl::StrAppend(&tail, "  elapsed ", FormatClock(now_ - epoch_started_));
  } else if (timed_steps_ > 0) {
    absl::StrAppend(
        &tail, "  eta ",
        FormatClock(TimedSpan() / timed_steps_ * std::max<int64_t>(*steps_ - step_, 0)));
  }
  for (const Value& metric : metrics_) {
    absl::StrAppend(&tail, "  ", metric.name, " ", FormatMetric(metric.value));
  }
  host_.Write(absl::StrCat("\r", BarLine(head, step_, steps_, tail, host_.Columns()), kClearToEnd));
  bar_is_open_ = true;
  last_shown_ = now_;
}

std::vector<LogField> Progress::StepFields(bool epoch_done) const {
  std::vector<LogField> fields = {
      LogField::Number("epoch", absl::StrCat(epoch_)),
      {"step", absl::StrCat(step_, "/", steps_ ? absl::StrCat(*steps_) : "?"), absl::StrCat(step_)},
      {"steps", "", steps_ ? absl::StrCat(*steps_) : "null"}};
  if (timed_steps_ > 0) {
    const double seconds = absl::ToDoubleSeconds(TimedSpan());
    fields.push_back(
        LogField::Number("ms_per_step", FormatThreeDigits(1e3 * seconds / timed_steps_)));
    if (seconds > 0) {
      fields.push_back(
          LogField::Number("ex_per_s", absl::StrFormat("%.0f", timed_examples_ / seconds)));
    }
  }
  auto seconds_field = [&](absl::string_view key, absl::Duration d) {
    fields.push_back(LogField::Number(key, absl::StrCat(absl::ToInt64Seconds(d))));
  };
  if (epoch_done || !steps_) {
    seconds_field("elapsed_s", now_ - epoch_started_);
  } else if (timed_steps_ > 0) {
    seconds_field("eta_s", TimedSpan() / timed_steps_ * std::max<int64_t>(*steps_ - step_, 0));
  }
  for (const Value& metric : metrics_) {
    fields.push_back(LogField::Metric(metric.name, metric.value));
  }
  return fields;
}

void Progress::WriteLine(std::vector<LogField> fields) {
  fields.insert(fields.begin(), LogField::Number("worker", absl::StrCat(options_.worker)));
  if (const std::string job = LogIdentity::Job(); format_ == LogFormat::kJson && !job.empty()) {
    fields.insert(fields.begin(), LogField::String("job", job));
  }
  const absl::Time time = host_.Now();
  host_.Write(absl::StrCat(
      format_ == LogFormat::kJson ? JsonLine(time, fields) : TextLine(time, fields), "\n"));
}

void Progress::Warn(const std::string& warning) {
  if (format_ == LogFormat::kOff) return;
  if (format_ != LogFormat::kBar) {
    std::vector<LogField> fields = StepFields(/*epoch_done=*/false);
    fields.push_back(LogField::String("warning", warning));
    return WriteLine(std::move(fields));
  }
  Above(host_.UseColor() ? absl::StrCat("\x1b[31m", warning, "\x1b[0m\n")
                         : absl::StrCat(warning, "\n"));
}

void Progress::Above(absl::string_view text) {
  if (!bar_is_open_) return host_.Write(text);
  host_.Write(absl::StrCat("\r", kClearToEnd, text));
  DrawBar(/*epoch_done=*/false);
}

}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "framework/core/json.h"
#include "nlohmann/json.hpp"
#include "tools/report/read_run.h"

namespace mirrorflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxValues = 1000;  // per line

constexpr absl::string_view kNotMetrics[] = {"worker",    "epoch", "step",   "steps",
                                             "elapsed_s", "eta_s", "total_s"};

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : JsonText(value);
}

// Returns a field's value, or 0 if it is missing or not an integer.
int64_t Integer(const Json& line, const char* field) {
  const auto found = line.find(field);
  return found != line.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

std::string FieldsText(const Json& line) {
  std::string text;
  for (const auto& [key, value] : line.items()) {
    if (key == "time" || key == "event") continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", key, " ", TextOf(value));
  }
  return text;
}

class LogReader {
 public:
  explicit LogReader(RunData* run) : run_(*run) {}

  // Returns whether the line is a log line.
  bool Add(const Json& line) {
    if (!line.contains("time") || !line["time"].is_string()) return false;
    if (line.contains("event") && line["event"].is_string()) {
      AddEvent(line, line["event"].get<std::string>());
    } else if (line.contains("warning")) {
      run_.events.push_back({TextOf(line["time"]), "warning", TextOf(line["warning"])});
    } else if (line.contains("epoch") && line.contains("step")) {
      if (Integer(line, "worker") == 0) AddMetrics(line);
    } else if (line.contains("severity") && line.contains("message")) {
      AddMessage(line);
    } else if (line.contains("message")) {
      run_.events.push_back({TextOf(line["time"]), "message", TextOf(line["message"])});
    } else {
      return false;
    }
    return true;
  }

 private:
  void AddEvent(const Json& line, const std::string& event) {
    if (event != "start" && event != "end") {
      run_.events.push_back({TextOf(line["time"]), event, FieldsText(line)});
      return;
    }
    if (Integer(line, "worker") != 0) return;
    run_.finished = event == "end";
    if (event == "start") {
      run_.facts.clear();
      epoch_ = first_step_ = last_step_ = 0;
    }
    for (const auto& [key, value] : line.items()) {
      if (key == "worker" || key == "event" || key == "ex_per_s") continue;  // about the log
      const std::string name = key != "time" ? key : event == "start" ? "started" : "ended";
      run_.facts.emplace_back(name, TextOf(value));
    }
  }

  // Adds a line that was written with MIRRORFLOW_LOG_FORMAT=json. Messages of severity info are not
  // events of the run.
  void AddMessage(const Json& line) {
    const std::string severity = absl::AsciiStrToLower(TextOf(line["severity"]));
    if (severity == "info") return;
    run_.events.push_back({TextOf(line["time"]), severity, TextOf(line["message"])});
  }

  void AddMetrics(const Json& line) {
    const int64_t epoch = Integer(line, "epoch"), step = Integer(line, "step");
    const int64_t steps = Integer(line, "steps");
    if (epoch != epoch_) first_step_ = last_step_;
    // Count the steps of earlier epochs, even if this log does not contain them.
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    if (steps > 0 && steps <= kMax && epoch >= 1 && epoch <= kMax) {
      first_step_ = (epoch - 1) * steps;
    }
    epoch_ = epoch;
    last_step_ = first_step_ + std::clamp<int64_t>(step, 0, kMax);
    absl::Time time;
    const bool has_time = absl::ParseTime(absl::RFC3339_full, TextOf(line["time"]), &time, nullptr);
    for (const auto& [key, value] : line.items()) {
      // Logs contain null for non-finite metrics.
      if (!value.is_number() && !value.is_null()) continue;
      if (absl::c_linear_search(kNotMetrics, key)) continue;
      run_.AddPoint(
          key, {last_step_,
                value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>(),
                has_time ? absl::ToDoubleSeconds(time - absl::UnixEpoch()) : 0});
    }
  }

  RunData& run_;
  int64_t epoch_ = 0;
  int64_t first_step_ = 0;  // the epoch's first step
  int64_t last_step_ = 0;
};

bool AddLoss(absl::string_view line, RunData* run) {
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(line, absl::MaxSplits(' ', 1));
  int64_t step;
  double loss;
  if (!absl::SimpleAtoi(words.first, &step) || !absl::SimpleAtod(words.second, &loss)) return false;
  run->AddPoint("loss", {step, loss});
  return true;
}

}  // namespace

int ReadLogLines(absl::string_view text, RunData* run) {
  LogReader reader(run);
  int known = 0;
  bool is_loss_log = true;  // whether all lines so far consist of two numbers
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t brace = line.find('{');
    if (brace != absl::string_view::npos) {
      const absl::StatusOr<Json> json = ParseJson<Json>(line.substr(brace), {.values = kMaxValues});
      if (json.ok() && json->is_object() && reader.Add(*json)) ++known;
    } else if (is_loss_log && AddLoss(line, run)) {
      ++known;
      continue;
    }
    is_loss_log = false;
  }
  return known;
}

}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
#include "tools/report/event_files.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "train/formats/tf_record.h"
#include "train/summary/event.pb.h"
#include "train/summary/hparams.pb.h"

namespace mirrorflow {
namespace {

template <typename T>
T Number(const char* bytes) {
  T number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

std::optional<double> ScalarOf(const proto::Summary::Value& value) {
  if (value.value_case() == proto::Summary::Value::kSimpleValue) return value.simple_value();
  const proto::TensorProto& tensor = value.tensor();  // TensorFlow 2 writes tensors
  const std::string& bytes = tensor.tensor_content();
  if (tensor.dtype() == proto::DT_FLOAT) {
    if (tensor.float_val_size() == 1) return tensor.float_val(0);
    if (bytes.size() == sizeof(float)) return Number<float>(bytes.data());
  } else if (tensor.dtype() == proto::DT_DOUBLE) {
    if (tensor.double_val_size() == 1) return tensor.double_val(0);
    if (bytes.size() == sizeof(double)) return Number<double>(bytes.data());
  }
  return std::nullopt;
}

void AddHparams(const std::string& content, RunData* run) {
  proto::HParamsPluginData data;
  if (!data.ParseFromString(content) || !data.has_session_start_info()) return;
  for (const auto& [name, value] : data.session_start_info().hparams()) {
    std::string text = value.string_value();
    if (value.kind_case() == google::protobuf::Value::kNumberValue) {
      text = absl::StrFormat("%.9g", value.number_value());
    } else if (value.kind_case() == google::protobuf::Value::kBoolValue) {
      text = value.bool_value() ? "true" : "false";
    }
    run->hparams.emplace_back(name, text);
  }
}

// Collects the events of one file. Scalars reach the run only in Finish(): dropping points at each
// session start would take time proportional to the number of starts times the number of series.
class EventReader {
 public:
  EventReader(absl::string_view prefix, RunData* run) : prefix_(prefix), run_(*run) {}

  void Add(const proto::Event& event) {
    if (event.session_log().status() == proto::SessionLog::START) {
      scalars_.push_back({.series = nullptr, .point = {.step = event.step(), .value = 0}});
    }
    for (const proto::Summary::Value& value : event.summary().value()) {
      const std::string name = absl::StrCat(prefix_, value.tag());
      const proto::SummaryMetadata::PluginData& plugin = value.metadata().plugin_data();
      if (plugin.plugin_name() == "hparams") {
        AddHparams(plugin.content(), &run_);
      } else if (plugin.plugin_name() == "text") {
        if (value.tensor().string_val_size() > 0) {
          run_.texts.emplace_back(name, value.tensor().string_val(0));
        }
      } else if (const std::optional<double> scalar = ScalarOf(value)) {
        scalars_.push_back(
            {.series = &run_.series[name],
             .point = {.step = event.step(), .value = *scalar, .time = event.wall_time()}});
      }
    }
  }

  void Finish() {
    // A session start drops the earlier scalars of its step or a later one. Going backwards, it is
    // enough to know the smallest step of the starts seen.
    std::optional<int64_t> dropped_from;
    for (size_t i = scalars_.size(); i-- > 0;) {
      Scalar& scalar = scalars_[i];
      const int64_t step = scalar.point.step;
      if (scalar.series == nullptr) {
        dropped_from = std::min(step, dropped_from.value_or(step));
      } else if (dropped_from.has_value() && step >= *dropped_from) {
        scalar.series = nullptr;
      }
    }
    if (dropped_from.has_value()) DropFromEarlierFiles(*dropped_from);
    for (const Scalar& scalar : scalars_) {
      if (scalar.series != nullptr) RunData::AddPoint(*scalar.series, scalar.point);
    }
    std::sort(run_.hparams.begin(), run_.hparams.end());
  }

 private:
  // A scalar. `series` is null for one that has been dropped, and for a session start.
  struct Scalar {
    std::vector<Point>* series;
    Point point;
  };

  void DropFromEarlierFiles(int64_t step) {
    for (auto series = run_.series.lower_bound(prefix_);
         series != run_.series.end() && absl::StartsWith(series->first, prefix_); ++series) {
      RunData::DropFrom(step, series->second);
    }
  }

  const std::string prefix_;
  RunData& run_;
  std::vector<Scalar> scalars_;
};

}  // namespace

void ReadEventFile(const std::string& path, absl::string_view prefix, RunData* run) {
  absl::StatusOr<std::unique_ptr<TfRecordReader>> reader = TfRecordReader::Open(path);
  if (!reader.ok()) return run->notes.emplace_back(reader.status().message()), void();
  int64_t unreadable = 0;
  EventReader events(prefix, run);
  proto::Event event;
  std::string record;
  absl::StatusOr<bool> more;
  for (more = (*reader)->Next(&record); more.ok() && *more; more = (*reader)->Next(&record)) {
    if (event.ParseFromString(record)) {
      events.Add(event);
    } else {
      ++unreadable;
    }
  }
  events.Finish();
  if (!more.ok()) run->notes.emplace_back(more.status().message());
  if (unreadable > 0) {
    run->notes.push_back(absl::StrCat(path, ": ", unreadable, " records are not events"));
  }
}

}  // namespace mirrorflow

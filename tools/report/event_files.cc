// SPDX-License-Identifier: Apache-2.0
#include "tools/report/event_files.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

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
  std::sort(run->hparams.begin(), run->hparams.end());
}

void AddEvent(const proto::Event& event, absl::string_view prefix, RunData* run) {
  if (event.session_log().status() == proto::SessionLog::START) {
    for (auto& [name, points] : run->series) {
      if (name.compare(0, prefix.size(), prefix.data(), prefix.size()) != 0) continue;
      while (!points.empty() && points.back().step >= event.step()) points.pop_back();
    }
  }
  for (const proto::Summary::Value& value : event.summary().value()) {
    const std::string name = absl::StrCat(prefix, value.tag());
    const proto::SummaryMetadata::PluginData& plugin = value.metadata().plugin_data();
    if (plugin.plugin_name() == "hparams") {
      AddHparams(plugin.content(), run);
    } else if (plugin.plugin_name() == "text") {
      if (value.tensor().string_val_size() > 0) {
        run->texts.emplace_back(name, value.tensor().string_val(0));
      }
    } else if (const std::optional<double> scalar = ScalarOf(value)) {
      run->AddPoint(name, {event.step(), *scalar, event.wall_time()});
    }
  }
}

}  // namespace

void ReadEventFile(const std::string& path, absl::string_view prefix, RunData* run) {
  absl::StatusOr<std::unique_ptr<TfRecordReader>> reader = TfRecordReader::Open(path);
  if (!reader.ok()) return run->notes.emplace_back(reader.status().message()), void();
  int64_t unreadable = 0;
  proto::Event event;
  std::string record;
  absl::StatusOr<bool> more;
  for (more = (*reader)->Next(&record); more.ok() && *more; more = (*reader)->Next(&record)) {
    if (event.ParseFromString(record)) {
      AddEvent(event, prefix, run);
    } else {
      ++unreadable;
    }
  }
  if (!more.ok()) run->notes.emplace_back(more.status().message());
  if (unreadable > 0) {
    run->notes.push_back(absl::StrCat(path, ": ", unreadable, " records are not events"));
  }
}

}  // namespace mirrorflow

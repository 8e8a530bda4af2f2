// SPDX-License-Identifier: Apache-2.0
#include "train/summary/hparams_summary.h"

#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/overloaded.h"
#include "framework/core/status.h"
#include "framework/core/utf8.h"
#include "framework/proto/serialize.h"
#include "train/summary/event.pb.h"
#include "train/summary/hparams.pb.h"

namespace mirrorflow {
namespace {

absl::Status CheckUtf8(absl::string_view what, absl::string_view text) {
  if (IsUtf8(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("hparams: ", what, " must be UTF-8, got '", Printable(text), "'"));
}

proto::HParamInfo::DataType Set(const HparamValue& value, google::protobuf::Value* out) {
  return std::visit(Overloaded{[&](bool v) {
                                 out->set_bool_value(v);
                                 return proto::HParamInfo::DATA_TYPE_BOOL;
                               },
                               [&](const std::string& v) {
                                 out->set_string_value(v);
                                 return proto::HParamInfo::DATA_TYPE_STRING;
                               },
                               [&](auto v) {
                                 out->set_number_value(static_cast<double>(v));
                                 return proto::HParamInfo::DATA_TYPE_FLOAT64;
                               }},
                    value);
}

absl::Status Add(absl::string_view tag, const proto::HParamsPluginData& data,
                 proto::Summary* summary) {
  proto::Summary::Value* const value = summary->add_value();
  value->set_tag(std::string(tag));
  proto::SummaryMetadata::PluginData* const plugin =
      value->mutable_metadata()->mutable_plugin_data();
  plugin->set_plugin_name("hparams");
  MF_ASSIGN_OR_RETURN(*plugin->mutable_content(), SerializeDeterministically(data));
  return absl::OkStatus();
}

double Seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

}  // namespace

absl::StatusOr<proto::Summary> HparamsSummary(const Hparams& hparams, const HparamMetrics& metrics,
                                              absl::Time start, absl::Time end) {
  proto::HParamsPluginData experiment, session_start, session_end;
  for (const auto& [name, value] : hparams) {
    MF_RETURN_IF_ERROR(CheckUtf8("a name", name));
    const auto* const text = std::get_if<std::string>(&value);
    if (text != nullptr) MF_RETURN_IF_ERROR(CheckUtf8(name, *text));
    proto::HParamInfo* const info = experiment.mutable_experiment()->add_hparam_infos();
    info->set_name(name);
    info->set_type(
        Set(value, &(*session_start.mutable_session_start_info()->mutable_hparams())[name]));
  }
  for (const auto& [name, value] : metrics) {
    MF_RETURN_IF_ERROR(CheckUtf8("a name", name));
    experiment.mutable_experiment()->add_metric_infos()->mutable_name()->set_tag(name);
  }
  session_start.mutable_session_start_info()->set_start_time_secs(Seconds(start));
  session_end.mutable_session_end_info()->set_status(proto::SessionEndInfo::STATUS_SUCCESS);
  session_end.mutable_session_end_info()->set_end_time_secs(Seconds(end));
  proto::Summary summary;
  MF_RETURN_IF_ERROR(Add("_hparams_/experiment", experiment, &summary));
  MF_RETURN_IF_ERROR(Add("_hparams_/session_start_info", session_start, &summary));
  MF_RETURN_IF_ERROR(Add("_hparams_/session_end_info", session_end, &summary));
  return summary;
}

}  // namespace mirrorflow

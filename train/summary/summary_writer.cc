// SPDX-License-Identifier: Apache-2.0
#include "train/summary/summary_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/core/utf8.h"
#include "framework/graph/graph_def.h"
#include "framework/proto/serialize.h"
#include "train/summary/event.pb.h"
#include "train/summary/tensor_summary.h"

namespace mirrorflow {
namespace {

absl::Status CheckTag(absl::string_view tag) {
  if (!tag.empty() && IsUtf8(tag)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("summary: a tag must be UTF-8 and not empty, got '", Printable(tag), "'"));
}

// Returns a summary with one value, which has this tag.
absl::StatusOr<proto::Summary> SummaryOf(absl::string_view tag) {
  MF_RETURN_IF_ERROR(CheckTag(tag));
  proto::Summary summary;
  summary.add_value()->set_tag(std::string(tag));
  return summary;
}

std::string OfTag(absl::string_view tag) { return absl::StrCat("summary '", Printable(tag), "'"); }

void SetTime(const std::optional<absl::Time>& walltime, proto::Event* event) {
  event->set_wall_time(absl::ToDoubleSeconds(walltime.value_or(absl::Now()) - absl::UnixEpoch()));
}

}  // namespace

SummaryWriter::SummaryWriter(std::unique_ptr<EventFileWriter> file)
    : file_(std::move(file)), start_(absl::Now()) {}

absl::StatusOr<std::unique_ptr<SummaryWriter>> SummaryWriter::Open(
    absl::string_view log_dir, const EventFileOptions& options) {
  MF_ASSIGN_OR_RETURN(auto file, EventFileWriter::Open(log_dir, options));
  return std::unique_ptr<SummaryWriter>(new SummaryWriter(std::move(file)));
}

absl::Status SummaryWriter::AddSummary(const proto::Summary& summary, int64_t step,
                                       const std::optional<absl::Time>& walltime) {
  proto::Event event;
  SetTime(walltime, &event);
  event.set_step(step);
  *event.mutable_summary() = summary;
  return file_->AddEvent(event);
}

absl::Status SummaryWriter::AddScalar(absl::string_view tag, double value, int64_t step,
                                      const AddOptions& options) {
  MF_ASSIGN_OR_RETURN(proto::Summary summary, SummaryOf(tag));
  summary.mutable_value(0)->set_simple_value(static_cast<float>(value));
  return AddSummary(summary, step, options.walltime);
}

absl::Status SummaryWriter::AddHistogram(absl::string_view tag, const Tensor& values, int64_t step,
                                         const AddHistogramOptions& options) {
  MF_ASSIGN_OR_RETURN(proto::Summary summary, SummaryOf(tag));
  MF_ASSIGN_OR_RETURN(*summary.mutable_value(0)->mutable_histo(),
                      Annotate(HistogramSummary(values, options.buckets), OfTag(tag)));
  return AddSummary(summary, step, options.walltime);
}

absl::Status SummaryWriter::AddImage(absl::string_view tag, const Tensor& image, int64_t step,
                                     const AddImageOptions& options) {
  MF_ASSIGN_OR_RETURN(proto::Summary summary, SummaryOf(tag));
  MF_ASSIGN_OR_RETURN(*summary.mutable_value(0)->mutable_image(),
                      Annotate(ImageSummary(image, options.data_format), OfTag(tag)));
  return AddSummary(summary, step, options.walltime);
}

absl::Status SummaryWriter::AddText(absl::string_view tag, absl::string_view text, int64_t step,
                                    const AddOptions& options) {
  MF_ASSIGN_OR_RETURN(proto::Summary summary, SummaryOf(tag));
  if (!IsUtf8(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat(OfTag(tag), ": the text must be UTF-8, got '", Printable(text), "'"));
  }
  proto::Summary::Value* const value = summary.mutable_value(0);
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value->mutable_tensor()->set_dtype(proto::DT_STRING);
  value->mutable_tensor()->mutable_tensor_shape();  // of rank 0
  value->mutable_tensor()->add_string_val(std::string(text));
  return AddSummary(summary, step, options.walltime);
}

absl::Status SummaryWriter::AddGraph(const Graph& graph, const AddOptions& options) {
  MF_ASSIGN_OR_RETURN(const proto::GraphDef def, ToGraphDef(graph));
  proto::Event event;
  SetTime(options.walltime, &event);
  MF_ASSIGN_OR_RETURN(*event.mutable_graph_def(), SerializeDeterministically(def));
  return file_->AddEvent(event);
}

absl::Status SummaryWriter::AddHparams(const Hparams& hparams, const HparamMetrics& metrics,
                                       int64_t step, const AddOptions& options) {
  for (const auto& [name, value] : metrics) MF_RETURN_IF_ERROR(CheckTag(name));
  const absl::Time end = options.walltime.value_or(absl::Now());
  MF_ASSIGN_OR_RETURN(const proto::Summary summary,
                      HparamsSummary(hparams, metrics, std::min(start_, end), end));
  if (has_hparams_.exchange(true)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path(), ": the run already has hyperparameters; call AddHparams() only once"));
  }
  MF_RETURN_IF_ERROR(AddSummary(summary, step, end));
  for (const auto& [name, value] : metrics) {
    MF_RETURN_IF_ERROR(AddScalar(name, value, step, {.walltime = end}));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/arena.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/read_run.h"
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
  const proto::TensorProto& tensor = value.tensor();  // TensorFlow 2 writes scalars as tensors
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

// The estimated overhead per series, text or hyperparameter, in RunData and on the page.
constexpr uint64_t kEntryBytes = 512;
constexpr uint64_t kCopiesOfTag = 4;  // copies of each tag in series names and on the page

// Reads a run's files. Adds scalars to the run only at the end of their folder: dropping points at
// each session start would take time proportional to the number of starts times the number of
// series.
class EventReader {
 public:
  EventReader(RunData* run, const EventFileLimits& limits) : run_(*run), limits_(limits) {}

  void Read(const EventFile& file) {
    if (IsFull(/*offset=*/0)) {
      return run_.notes.push_back(absl::StrCat(file.path, ": not read, because ", full_)), void();
    }
    const TfRecordOptions options = {.max_record_bytes = limits_.max_record_bytes};
    absl::StatusOr<std::unique_ptr<TfRecordReader>> reader =
        TfRecordReader::Open(file.path, options);
    if (!reader.ok()) return run_.notes.emplace_back(reader.status().message()), void();
    int64_t unreadable = 0, too_long = 0;
    std::string record;
    absl::StatusOr<bool> more;
    for (more = (*reader)->Next(&record); more.ok() && *more; more = (*reader)->Next(&record)) {
      if (record.size() > limits_.max_event_bytes) {
        ++too_long;
      } else if (!AddRecord(record, file.prefix)) {
        ++unreadable;
      }
      if (IsFull((*reader)->offset())) break;
    }
    total_bytes_ += (*reader)->offset();
    if (!more.ok()) {
      total_bytes_ += record.size();  // the offset does not include the damaged record
      run_.notes.emplace_back(more.status().message());
    }
    if (too_long > 0) {
      run_.notes.push_back(absl::StrCat(file.path, ": skipped ", too_long, " records of more than ",
                                        limits_.max_event_bytes, " bytes"));
    }
    if (unreadable > 0) {
      run_.notes.push_back(absl::StrCat(file.path, ": ", unreadable, " records are not events"));
    }
    if (!full_.empty()) {
      run_.notes.push_back(
          absl::StrCat(file.path, ": stopped at byte ", (*reader)->offset(), ": ", full_));
    }
  }

  void EndFolder() {
    // A session start drops earlier scalars of its step and later steps. When iterating backwards,
    // it is enough to track the smallest step of the session starts so far.
    std::optional<int64_t> dropped_from;
    for (auto scalar = scalars_.rbegin(); scalar != scalars_.rend(); ++scalar) {
      const int64_t step = scalar->point.step;
      if (scalar->series == nullptr) {
        dropped_from = std::min(step, dropped_from.value_or(step));
      } else if (dropped_from.has_value() && step >= *dropped_from) {
        scalar->series = nullptr;
      }
    }
    for (const Scalar& scalar : scalars_) {
      if (scalar.series != nullptr) RunData::AddPoint(*scalar.series, scalar.point);
    }
    scalars_.clear();
  }

 private:
  // A scalar or a session start. `series` is null for dropped scalars and for session starts.
  struct Scalar {
    std::vector<Point>* series;
    Point point;
  };

  // Returns whether the record is an event.
  bool AddRecord(const std::string& record, const std::string& prefix) {
    auto* const event = google::protobuf::Arena::CreateMessage<proto::Event>(&arena_);
    const bool is_event = event->ParseFromString(record);
    if (is_event) AddEvent(*event, prefix);
    total_bytes_ += arena_.SpaceUsed();
    arena_.Reset();
    return is_event;
  }

  void AddEvent(const proto::Event& event, const std::string& prefix) {
    if (event.session_log().status() == proto::SessionLog::START) {
      AddScalar({.series = nullptr, .point = {.step = event.step(), .value = 0}});
    }
    for (const proto::Summary::Value& value : event.summary().value()) {
      const std::string name = absl::StrCat(prefix, value.tag());
      const proto::SummaryMetadata::PluginData& plugin = value.metadata().plugin_data();
      if (plugin.plugin_name() == "hparams") {
        AddHparams(plugin.content());
      } else if (plugin.plugin_name() == "text") {
        if (value.tensor().string_val_size() > 0) {
          AddText(name, value.tensor().string_val(0), &run_.texts);
        }
      } else if (const std::optional<double> scalar = ScalarOf(value)) {
        const auto [series, is_new] = run_.series.try_emplace(name);
        if (is_new) kept_bytes_ += kEntryBytes + kCopiesOfTag * name.size();
        AddScalar({.series = &series->second,
                   .point = {.step = event.step(), .value = *scalar, .time = event.wall_time()}});
      }
    }
  }

  void AddHparams(const std::string& content) {
    auto* const data = google::protobuf::Arena::CreateMessage<proto::HParamsPluginData>(&arena_);
    if (!data->ParseFromString(content)) return;
    for (const auto& [name, value] : data->session_start_info().hparams()) {
      std::string text = value.string_value();
      if (value.kind_case() == google::protobuf::Value::kNumberValue) {
        text = absl::StrFormat("%.9g", value.number_value());
      } else if (value.kind_case() == google::protobuf::Value::kBoolValue) {
        text = value.bool_value() ? "true" : "false";
      }
      AddText(name, text, &run_.hparams);
    }
  }

  void AddText(const std::string& name, const std::string& text, RunData::Names* texts) {
    kept_bytes_ += kEntryBytes + name.size() + text.size();
    texts->emplace_back(name, text);
  }

  void AddScalar(const Scalar& scalar) {
    kept_bytes_ += sizeof(Scalar) + 2 * sizeof(Point);  // vectors can have twice the capacity
    scalars_.push_back(scalar);
  }

  // Returns whether the run has reached one of the limits at `offset` in the current file.
  bool IsFull(uint64_t offset) {
    if (total_bytes_ + offset > limits_.max_total_bytes) {
      full_ = absl::StrCat("the run's event files are too large; expected at most ",
                           limits_.max_total_bytes, " bytes when uncompressed and parsed");
    } else if (kept_bytes_ > limits_.max_kept_bytes) {
      full_ = absl::StrCat(
          "the run's scalars, tags, texts and hyperparameters take too much memory; expected at "
          "most ",
          limits_.max_kept_bytes, " bytes");
    }
    return !full_.empty();
  }

  RunData& run_;
  const EventFileLimits limits_;
  google::protobuf::Arena arena_;  // holds the current event
  std::deque<Scalar> scalars_;     // the scalars of the current folder
  uint64_t total_bytes_ = 0;       // without the current file
  uint64_t kept_bytes_ = 0;
  std::string full_;  // describes the limit that was reached; empty if none was
};

}  // namespace

void ReadEventFiles(std::vector<EventFile> files, RunData* run, const EventFileLimits& limits) {
  std::ranges::stable_sort(files, {}, &EventFile::prefix);
  EventReader reader(run, limits);
  for (size_t i = 0; i < files.size(); ++i) {
    reader.Read(files[i]);
    if (i + 1 == files.size() || files[i + 1].prefix != files[i].prefix) reader.EndFolder();
  }
  std::sort(run->hparams.begin(), run->hparams.end());
}

}  // namespace mirrorflow

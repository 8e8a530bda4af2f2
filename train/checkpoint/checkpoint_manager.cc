// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/checkpoint_manager.h"

#include <limits.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/core/file.h"
#include "framework/core/log.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/status_proto.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/session.h"
#include "framework/workers/connection.h"
#include "train/checkpoint/checkpoint_contents.h"
#include "train/checkpoint/directory.h"
#include "train/checkpoint/directory_lock.h"
#include "train/checkpoint/event_log.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/variables_file.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace {

using NamedTensors = std::map<std::string, Tensor>;

constexpr int kMinKeep = 2;
// The file of state tensors has two kinds of names: `state/NAME` for a tensor of the StateDict, and
// `parts/RANK/NAME` for a rank's part of a variable.
constexpr absl::string_view kStatePrefix = "state/";
constexpr absl::string_view kPartsPrefix = "parts/";

// Converts worker 0's error to the one that the other workers return: it is final, and its Failure
// names worker 0.
absl::Status ErrorOfWorker0(const absl::Status& error) {
  return FinalError(WithFailure(error, {.worker = 0}));
}

// Appends the step to the file $MIRRORFLOW_PROGRESS_FILE, if it is set, because the launcher resets
// its restart count when the job makes progress.
void TellLauncher(int64_t step) {
  const char* const path = std::getenv("MIRRORFLOW_PROGRESS_FILE");
  if (path == nullptr || *path == '\0') return;
  const absl::StatusOr<int> file = OpenLauncherFile(path);
  if (!file.ok()) return;  // training does not depend on the file
  AppendTo(*file, path, absl::StrCat(step, "\n")).IgnoreError();
  close(*file);
}

std::string MeshText(int num_workers, int num_replicas) {
  return absl::StrCat(num_workers, num_workers == 1 ? " worker and " : " workers and ",
                      num_replicas, num_replicas == 1 ? " replica" : " replicas");
}

absl::Status CheckSettings(const CheckpointManifest& saved, const CheckpointManifest& own) {
  const auto differ = [](absl::string_view what, absl::string_view expected,
                         absl::string_view got) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected ", expected, ", as in the checkpoint, got ", got));
  };
  if (saved.seed != own.seed) {
    return differ("seed", absl::StrCat(saved.seed), absl::StrCat(own.seed));
  }
  for (const auto& [name, value] : saved.settings) {
    const auto found = own.settings.find(name);
    if (found == own.settings.end() || found->second != value) {
      return differ(name, value, found == own.settings.end() ? "nothing" : found->second);
    }
  }
  return absl::OkStatus();
}

// Returns the variables that training changes. In a checkpoint, their values must be finite.
std::vector<std::string> UpdatedVariables(const VariableLayout& layout) {
  std::vector<std::string> names;
  for (const VariableInfo& v : layout.variables()) {
    const bool is_updated = v.bucket >= 0 || v.is_slot || v.is_optimizer_state;
    if (is_updated && !v.may_overflow) names.push_back(v.name);
  }
  return names;
}

absl::StatusOr<NamedTensors> CollectParts(Session& session) {
  NamedTensors tensors;
  for (const VariableInfo& v : session.layout().variables()) {
    if (!v.on_read || !session.IsInitialized(v.name)) continue;
    MF_ASSIGN_OR_RETURN(const std::vector<VariablePart> parts, session.ReadParts(v.name));
    for (const VariablePart& part : parts) {
      tensors[absl::StrCat(kPartsPrefix, part.rank, "/", v.name)] = part.value;
    }
  }
  return tensors;
}

// Returns the parts of variables that the manifest's entry `file` lists, by variable, in rank
// order. Only worker 0 has their values, in `tensors`.
absl::StatusOr<std::map<std::string, std::vector<VariablePart>>> PartsIn(
    const CheckpointFile& file, const NamedTensors& tensors) {
  std::map<std::string, std::map<int, Tensor>> parts;
  for (const auto& [entry, info] : file.tensors) {
    absl::string_view name = entry;
    if (!absl::ConsumePrefix(&name, kPartsPrefix)) continue;
    const size_t slash = name.find('/');
    int rank;
    if (slash == name.npos || !absl::SimpleAtoi(name.substr(0, slash), &rank) ||
        absl::StrCat(rank) != name.substr(0, slash)) {
      return absl::DataLossError(absl::StrCat("tensor '", Printable(entry),
                                              "': malformed name; expected parts/RANK/NAME"));
    }
    const auto value = tensors.find(entry);
    parts[std::string(name.substr(slash + 1))][rank] =
        value == tensors.end() ? Tensor() : value->second;
  }
  std::map<std::string, std::vector<VariablePart>> result;
  for (const auto& [name, by_rank] : parts) {
    for (const auto& [rank, value] : by_rank) result[name].push_back({rank, value});
  }
  return result;
}

// Checks that each part belongs to a variable of this session that is synchronised on read, and has
// the variable's type.
absl::Status CheckParts(const CheckpointContents& data, const VariableLayout& layout) {
  MF_ASSIGN_OR_RETURN(const auto parts,
                      PartsIn(data.manifest.state_tensors, data.state_tensors.tensors));
  for (const auto& [name, by_rank] : parts) {
    const int v = layout.Find(name);
    const VariableInfo* const variable = v < 0 ? nullptr : &layout.variables()[v];
    for (const auto& [rank, value] : by_rank) {
      const bool fits = variable != nullptr && variable->on_read &&
                        variable->dtype == value.dtype() && variable->shape == value.shape();
      if (fits && rank >= 0 && rank < data.manifest.num_replicas) continue;
      return absl::DataLossError(absl::StrCat(
          "rank ", rank, "'s part of variable '", Printable(name), "': expected a rank below ",
          data.manifest.num_replicas, " and a variable synchronised on read, ",
          variable == nullptr ? "got no such variable" : absl::StrCat("got ", value.TypeString())));
    }
  }
  return absl::OkStatus();
}

}  // namespace

// Owns the checkpoint directory and the thread that writes to it.
class CheckpointManager::Writer {
 public:
  // `updated` has the variables whose values must be finite.
  Writer(const Options& options, std::unique_ptr<CheckpointDirectory> directory,
         std::vector<std::string> updated)
      : options_(options),
        directory_(std::move(directory)),
        events_(directory_->path()),
        updated_(std::move(updated)) {}
  ~Writer() { Wait().IgnoreError(); }

  const EventLog& events() const { return events_; }
  std::optional<MonotonicTime> newest_time() const {
    const MonotonicTime time = newest_time_.load(std::memory_order_relaxed);
    return time == MonotonicTime() ? std::nullopt : std::optional(time);
  }

  // The data that Start writes. It must not change until Wait returns.
  CheckpointContents* data() { return &data_; }
  void Start() {
    const auto write = [this] { status_ = CatchOutOfMemory([&] { return Write(); }); };
    absl::StatusOr<std::thread> thread = StartThread("checkpoint", write);
    if (thread.ok()) {
      thread_ = *std::move(thread);
    } else {
      write();  // delays training, but saves the checkpoint
    }
  }
  // Waits for the thread and returns its result.
  absl::Status Wait() {
    if (thread_.joinable()) thread_.join();
    return std::exchange(status_, absl::OkStatus());
  }

  // Returns the checkpoint to resume from, or nullopt to start from scratch.
  absl::StatusOr<std::optional<CheckpointContents>> Read() {
    MF_ASSIGN_OR_RETURN(std::vector<int64_t> steps, ListCheckpoints(directory_->path()));
    if (options_.resume == Resume::kNever && !steps.empty()) {
      return absl::AlreadyExistsError(
          absl::StrCat(CheckpointPath(directory_->path(), steps.back()),
                       ": exists; expected no checkpoints, or a resume mode other than never"));
    }
    const bool must_exist = options_.resume == Resume::kLatestValid;
    for (; !steps.empty(); steps.pop_back()) {
      absl::StatusOr<CheckpointContents> data =
          ReadCheckpointContents(CheckpointPath(directory_->path(), steps.back()));
      if (data.ok()) {
        newest_ = steps.back();
        newest_time_.store(MonotonicTime::Now(), std::memory_order_relaxed);
        MF_RETURN_IF_ERROR(directory_->Abandon(newest_));
        return *std::move(data);
      }
      // Other errors, such as network errors or exceeded limits, do not mean that the checkpoint is
      // damaged. If it was skipped, a later save would remove it.
      const bool is_damaged = absl::IsDataLoss(data.status()) || absl::IsNotFound(data.status());
      if (!is_damaged) return data.status();
      if (!must_exist) {
        return absl::Status(data.status().code(),
                            absl::StrCat(data.status().message(),
                                         "; use latest_valid to resume from an older checkpoint"));
      }
      LogWarning(absl::StrCat("skipped a damaged checkpoint: ", data.status().message()));
    }
    if (!must_exist) return std::nullopt;
    return absl::NotFoundError(
        absl::StrCat(directory_->path(), ": expected an undamaged checkpoint, found none"));
  }

 private:
  absl::Status CheckFinite() const {
    std::vector<std::string> wrong;
    for (const std::string& name : updated_) {
      const auto tensor = data_.variables.tensors.find(name);
      if (tensor != data_.variables.tensors.end() && !IsFinite(tensor->second)) {
        wrong.push_back(absl::StrCat("'", Printable(name), "'"));
      }
    }
    if (wrong.empty()) return absl::OkStatus();
    constexpr size_t kMaxNames = 10;
    const size_t count = wrong.size();
    if (count > kMaxNames) wrong.resize(kMaxNames);
    const int64_t step = data_.manifest.step;
    return NumericError(absl::OutOfRangeError(absl::StrCat(
        "step ", step, ": ", count, " of ", updated_.size(),
        " updated variables are not finite, so no checkpoint was saved; got infinity or NaN in ",
        absl::StrJoin(wrong, ", "), count > kMaxNames ? ", ..." : "", "; ",
        newest_ < 0 ? "there is no earlier checkpoint"
                    : absl::StrCat("the newest checkpoint is from step ", newest_, ", ",
                                   step - newest_, " steps earlier"))));
  }

  absl::Status Write() {
    MF_RETURN_IF_ERROR(CheckFinite());
    const int64_t step = data_.manifest.step;
    MF_RETURN_IF_ERROR(directory_->Commit(
        step, [&](const std::string& path) { return WriteCheckpointContents(path, data_); }));
    newest_ = step;
    newest_time_.store(MonotonicTime::Now(), std::memory_order_relaxed);
    events_.Saved(step);
    TellLauncher(step);
    const absl::Status removed = directory_->RemoveObsolete(step, options_.keep);
    if (IsLostDirectory(removed)) return removed;  // the newest checkpoint may be another job's
    if (!removed.ok()) LogWarning(absl::StrCat("old checkpoint not removed: ", removed.message()));
    return absl::OkStatus();
  }

  const Options& options_;
  const std::unique_ptr<CheckpointDirectory> directory_;
  const EventLog events_;
  const std::vector<std::string> updated_;
  CheckpointContents data_;  // keeps its variables between saves, so their memory is reused
  int64_t newest_ = -1;      // step of the newest checkpoint; -1: none
  std::atomic<MonotonicTime> newest_time_{MonotonicTime()};
  std::thread thread_;
  absl::Status status_;  // the thread's result, valid once it has ended
};

CheckpointManager::CheckpointManager(Session& session, const Options& options)
    : session_(session), options_(options) {}
CheckpointManager::~CheckpointManager() {
  const absl::Status failure = session_.connection().failure();
  if (writer_ != nullptr && !failure.ok()) writer_->events().Lost(failure);
}

std::optional<MonotonicTime> CheckpointManager::newest_time() const {
  return writer_ == nullptr ? std::nullopt : writer_->newest_time();
}

absl::StatusOr<std::unique_ptr<CheckpointManager>> CheckpointManager::Create(
    Session& session, const Options& options) {
  if (options.directory.empty()) {
    return absl::InvalidArgumentError("checkpoints: expected a directory path, got ''");
  }
  MF_RETURN_IF_ERROR(
      CheckNumbers("checkpoints", {{"keep", options.keep, {.min = kMinKeep}},
                                   {"max_failed_saves", options.max_failed_saves, kAtLeastOne}}));
  for (const auto& [name, timeout] :
       {std::pair("timeout", options.timeout), std::pair("lock_timeout", options.lock_timeout)}) {
    if (timeout > absl::ZeroDuration()) continue;
    return absl::InvalidArgumentError(absl::StrCat("checkpoints: ", name,
                                                   " out of range; expected above 0, got ",
                                                   absl::FormatDuration(timeout)));
  }
  std::unique_ptr<CheckpointManager> manager(new CheckpointManager(session, options));
  absl::StatusOr<std::string> opened = "";
  const WorkerGroup* const workers = session.connection().workers();
  if (workers == nullptr || workers->worker() == 0) {
    auto directory =
        CheckpointDirectory::Open(options.directory, {.timeout = options.lock_timeout});
    if (directory.ok()) {
      manager->writer_ = std::make_unique<Writer>(manager->options_, *std::move(directory),
                                                  UpdatedVariables(session.layout()));
    } else {
      opened = directory.status();
    }
  }
  MF_RETURN_IF_ERROR(manager->TakeFromWorker0(opened, options.lock_timeout).status());
  MF_RETURN_IF_ERROR(manager->LogWorkers());
  return manager;
}

absl::Status CheckpointManager::LogWorkers() {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, sizeof host - 1);
  if (writer_ != nullptr) {
    const char* const count = std::getenv("MIRRORFLOW_RESTART_COUNT");
    const char* const reason = std::getenv("MIRRORFLOW_RESTART_REASON");
    int64_t restarts = 0;
    static std::atomic<bool> is_logged{false};  // only once per process
    if (count != nullptr && absl::SimpleAtoi(count, &restarts) && restarts > 0 &&
        !is_logged.exchange(true)) {
      writer_->events().Restarted(restarts, reason == nullptr ? "" : reason);
    }
    writer_->events().Joined(0, host, getpid());
  }
  if (!session_.connection().has_other_workers()) return absl::OkStatus();
  WorkerGroup& workers = *session_.connection().workers();
  const MonotonicTime deadline = MonotonicTime::Now() + options_.timeout;
  const auto key_of = [](int worker) { return absl::StrCat("checkpoint worker ", worker); };
  if (writer_ == nullptr) {
    return workers.Put(key_of(workers.worker()), absl::StrCat(getpid(), " ", host), deadline);
  }
  for (int w = 1; w < workers.num_workers(); ++w) {
    MF_ASSIGN_OR_RETURN(const std::string text, workers.Get(key_of(w), deadline));
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(text, absl::MaxSplits(' ', 1));
    int64_t process = 0;
    if (absl::SimpleAtoi(parts.first, &process)) writer_->events().Joined(w, parts.second, process);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckpointManager::TakeFromWorker0(
    const absl::StatusOr<std::string>& result, absl::Duration longer) {
  if (!session_.connection().has_other_workers()) return result;
  WorkerGroup& workers = *session_.connection().workers();
  const std::string key = absl::StrCat("checkpoint exchange ", num_exchanges_++);
  const MonotonicTime deadline = MonotonicTime::Now() + options_.timeout + longer;
  if (workers.worker() == 0) {
    const std::string status = StatusToProto(result.status()).SerializeAsString();
    MF_RETURN_IF_ERROR(workers.PutForOthers(key, status, deadline));
    if (result.ok()) {
      MF_RETURN_IF_ERROR(workers.PutForOthers(absl::StrCat(key, " value"), *result, deadline));
    }
    return result;
  }
  MF_ASSIGN_OR_RETURN(const std::string text, workers.Get(key, deadline));
  proto::Status status;
  if (!status.ParseFromString(text)) return absl::InternalError("checkpoint: malformed status");
  if (const absl::Status failed = StatusFromProto(status); !failed.ok()) {
    return ErrorOfWorker0(failed);
  }
  return workers.Get(absl::StrCat(key, " value"), deadline);
}

absl::Status CheckpointManager::CheckOwn(const CheckpointContents& data) const {
  const std::string path = CheckpointPath(options_.directory, data.manifest.step);
  CheckpointManifest own;
  own.seed = session_.seed();
  own.settings = options_.settings;
  MF_RETURN_IF_ERROR(Annotate(CheckSettings(data.manifest, own), path));
  MF_RETURN_IF_ERROR(MatchVariables(data.variables, path, session_, {.all_state = true}).status());
  MF_RETURN_IF_ERROR(Annotate(CheckParts(data, session_.layout()), path));
  for (const std::string& name : NonFiniteTensors(data.variables)) {
    LogWarning(absl::StrCat(path, ": tensor '", name, "' has values that are not finite"));
  }
  return absl::OkStatus();
}

absl::Status CheckpointManager::TakeOver(const CheckpointManifest& manifest,
                                         CheckpointContents data) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : manifest.variables.tensors) names.push_back(name);
  MF_RETURN_IF_ERROR(session_.AssignFromWorker0(names, data.variables.tensors));
  if (manifest.num_replicas == session_.world_size()) {
    MF_ASSIGN_OR_RETURN(const auto parts,
                        PartsIn(manifest.state_tensors, data.state_tensors.tensors));
    for (const auto& [name, by_rank] : parts) {
      MF_RETURN_IF_ERROR(session_.AssignPartsFromWorker0(name, by_rank));
    }
  }
  session_.SetStep(manifest.session_step);
  session_.SetReadingStep(manifest.reading_step);
  last_step_ = manifest.step;
  NamedTensors tensors;
  for (const auto& [name, tensor] : data.state_tensors.tensors) {
    if (absl::StartsWith(name, kStatePrefix)) tensors[name.substr(kStatePrefix.size())] = tensor;
  }
  state_ = StateDict(manifest.state, std::move(tensors));
  return absl::OkStatus();
}

absl::StatusOr<TrainingPosition> CheckpointManager::Restore() {
  CheckpointContents data;  // on worker 0
  // Returns worker 0's message to the other workers: the manifest, or an empty string to start from
  // scratch.
  const auto choose = [&]() -> absl::StatusOr<std::string> {
    MF_ASSIGN_OR_RETURN(std::optional<CheckpointContents> read, writer_->Read());
    if (!read.has_value()) return "";
    MF_RETURN_IF_ERROR(CheckOwn(*read));
    data = *std::move(read);
    return FormatManifest(data.manifest);
  };
  MF_ASSIGN_OR_RETURN(const std::string text,
                      TakeFromWorker0(writer_ != nullptr ? choose() : std::string()));
  const Topology& topology = session_.connection().topology();
  CheckpointManifest manifest;
  if (!text.empty()) {
    MF_ASSIGN_OR_RETURN(manifest, ParseManifest(text));
    MF_RETURN_IF_ERROR(TakeOver(manifest, std::move(data)));
  }
  if (writer_ != nullptr) {
    writer_->events().Started(manifest.step, topology.num_workers(), topology.world_size());
  }
  if (text.empty()) return TrainingPosition();
  if (writer_ != nullptr) {
    const std::string was = MeshText(manifest.num_workers, manifest.num_replicas);
    const std::string is = MeshText(topology.num_workers(), topology.world_size());
    LogInfo(absl::StrCat("resumed from ", CheckpointPath(options_.directory, manifest.step),
                         was == is ? "" : absl::StrCat(", saved by ", was, ", on ", is)));
  }
  return TrainingPosition{manifest.step, manifest.epoch, manifest.batch, manifest.num_workers,
                          manifest.num_replicas};
}

absl::Status CheckpointManager::Save(const TrainingPosition& position, StateDict state) {
  MF_RETURN_IF_ERROR(ToleratePreviousSave());
  Safetensors sums;
  MF_RETURN_IF_ERROR(
      CollectVariables(session_, writer_ != nullptr ? &writer_->data()->variables : &sums));
  MF_ASSIGN_OR_RETURN(NamedTensors state_tensors, CollectParts(session_));
  is_saving_ = true;
  last_step_ = position.step;
  state_ = StateDict();
  if (writer_ == nullptr) return absl::OkStatus();
  for (const auto& [name, tensor] : state.tensors()) {
    state_tensors[absl::StrCat(kStatePrefix, name)] = tensor;
  }
  writer_->data()->state_tensors.tensors = std::move(state_tensors);
  const Topology& topology = session_.connection().topology();
  writer_->data()->manifest = {
      .step = position.step,
      .epoch = position.epoch,
      .batch = position.batch,
      .session_step = session_.step(),
      .reading_step = session_.reading_step(),
      .seed = session_.seed(),
      .num_workers = topology.num_workers(),
      .num_replicas = topology.world_size(),
      .time = absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()),
      .settings = options_.settings,
      .state = state.values()};
  writer_->Start();
  return absl::OkStatus();
}

absl::Status CheckpointManager::WaitForSave() {
  absl::Status saved;
  MF_RETURN_IF_ERROR(EndSave(&saved));
  if (writer_ == nullptr) return ErrorOfWorker0(saved);
  if (!saved.ok() && !IsNumericError(saved)) LogNotSaved(saved);
  return saved;
}

absl::Status CheckpointManager::EndSave(absl::Status* saved) {
  *saved = absl::OkStatus();
  if (!std::exchange(is_saving_, false)) return absl::OkStatus();
  const absl::Status ended = writer_ != nullptr ? writer_->Wait() : absl::OkStatus();
  // Send a failed save as a value instead of an error, so all workers count it.
  MF_ASSIGN_OR_RETURN(const std::string failure,
                      TakeFromWorker0(StatusToProto(ended).SerializeAsString()));
  proto::Status proto;
  if (!proto.ParseFromString(failure)) return absl::InternalError("checkpoint: malformed status");
  *saved = StatusFromProto(proto);
  failed_saves_ = saved->ok() ? 0 : failed_saves_ + 1;
  return absl::OkStatus();
}

absl::Status CheckpointManager::ToleratePreviousSave() {
  absl::Status saved;
  MF_RETURN_IF_ERROR(EndSave(&saved));
  // Do not retry after these errors: the values would still not be finite, and the directory would
  // still belong to its new owner.
  if (saved.ok() || IsNumericError(saved) || IsLostDirectory(saved)) return saved;
  if (failed_saves_ >= options_.max_failed_saves) {
    const absl::Status stopped = absl::ResourceExhaustedError(
        absl::StrCat(failed_saves_, " saves in a row have failed; the last: ", saved.message()));
    return writer_ != nullptr ? stopped : ErrorOfWorker0(stopped);
  }
  if (writer_ != nullptr) LogNotSaved(saved);
  return absl::OkStatus();
}

void CheckpointManager::LogNotSaved(const absl::Status& why) const {
  LogWarning(absl::StrCat("checkpoint not saved (", failed_saves_, " of at most ",
                          options_.max_failed_saves - 1, " in a row): ", why.message()));
}

}  // namespace mirrorflow

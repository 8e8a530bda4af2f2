// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/checkpoint_manager.h"

#include <limits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "framework/core/out_of_memory.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/status_proto.h"
#include "framework/session/session_state.h"
#include "train/checkpoint/data.h"
#include "train/checkpoint/directory.h"
#include "train/checkpoint/event_log.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/variables_file.h"

namespace mirrorflow {
namespace {

constexpr int kMinKeep = 2;

std::string MeshText(int num_workers, int num_replicas) {
  return absl::StrCat(num_workers, num_workers == 1 ? " worker and " : " workers and ",
                      num_replicas, num_replicas == 1 ? " replica" : " replicas");
}

absl::Status CheckSettings(const CheckpointManifest& saved, const CheckpointManifest& own) {
  const auto differ = [](absl::string_view what, absl::string_view expected,
                         absl::string_view got) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected ", expected, ", as when it was saved, got ", got));
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

}  // namespace

// The directory and the thread that writes to it.
class CheckpointManager::Writer {
 public:
  Writer(const Options& options, std::unique_ptr<CheckpointDirectory> directory)
      : options_(options), directory_(std::move(directory)), events_(directory_->path()) {}
  ~Writer() { Wait().IgnoreError(); }

  const EventLog& events() const { return events_; }

  void Log(absl::string_view line) const {
    if (options_.log != nullptr) return options_.log(line);
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  }

  // The contents that Start writes. They must not change before Wait has returned.
  Safetensors* contents() { return &contents_; }
  void Start(CheckpointManifest manifest) {
    const auto write = [this, manifest = std::move(manifest)] {
      status_ = CatchOutOfMemory([&] { return Write(manifest); });
    };
    absl::StatusOr<std::thread> thread = StartThread("checkpoint", write);
    if (thread.ok()) {
      thread_ = *std::move(thread);
    } else {
      write();  // delays training, but saves
    }
  }
  // Waits for the thread and returns its result.
  absl::Status Wait() {
    if (thread_.joinable()) thread_.join();
    return std::exchange(status_, absl::OkStatus());
  }

  // Reads the checkpoint from which to resume; none for a fresh start.
  absl::StatusOr<std::optional<CheckpointData>> Read() {
    MF_ASSIGN_OR_RETURN(std::vector<int64_t> steps, ListCheckpoints(directory_->path()));
    if (options_.resume == Resume::kNever && !steps.empty()) {
      return absl::AlreadyExistsError(
          absl::StrCat(CheckpointPath(directory_->path(), steps.back()),
                       ": exists; expected a directory without checkpoints, or to resume"));
    }
    const bool must_exist = options_.resume == Resume::kLatestValid;
    for (; !steps.empty(); steps.pop_back()) {
      absl::StatusOr<CheckpointData> data =
          ReadCheckpointData(CheckpointPath(directory_->path(), steps.back()));
      if (data.ok()) return *std::move(data);
      if (!must_exist) {
        return Annotated(data.status(), "; to resume from an older checkpoint: latest_valid");
      }
      Log(absl::StrCat("WARNING: damaged checkpoint is not used: ", data.status().message()));
    }
    if (!must_exist) return std::nullopt;
    return absl::NotFoundError(
        absl::StrCat(directory_->path(), ": expected an undamaged checkpoint, found none"));
  }

 private:
  static absl::Status Annotated(const absl::Status& status, absl::string_view hint) {
    return absl::Status(status.code(), absl::StrCat(status.message(), hint));
  }

  absl::Status Write(const CheckpointManifest& manifest) {
    MF_RETURN_IF_ERROR(directory_->Commit(manifest.step, [&](const std::string& path) {
      return WriteCheckpointData(path, contents_, manifest);
    }));
    events_.Saved(manifest.step);
    const absl::Status removed = directory_->RemoveObsolete(manifest.step, options_.keep);
    if (!removed.ok()) Log(absl::StrCat("WARNING: old checkpoint: ", removed.message()));
    return absl::OkStatus();
  }

  const Options& options_;
  const std::unique_ptr<CheckpointDirectory> directory_;
  const EventLog events_;
  Safetensors contents_;  // kept between saves for its memory
  std::thread thread_;
  absl::Status status_;  // of the thread's work, once it has ended
};

CheckpointManager::CheckpointManager(Session& session, const Options& options)
    : session_(session), options_(options) {}
CheckpointManager::~CheckpointManager() {
  const absl::Status& failure = session_.state().connection().failure();
  if (writer_ != nullptr && !failure.ok()) writer_->events().Lost(failure);
}

absl::StatusOr<std::unique_ptr<CheckpointManager>> CheckpointManager::Create(
    Session& session, const Options& options) {
  if (options.directory.empty()) {
    return absl::InvalidArgumentError("checkpoints: expected the path of a directory, got ''");
  }
  if (options.keep < kMinKeep) {
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoints: keep out of range; expected at least ", kMinKeep, ", got ", options.keep));
  }
  std::unique_ptr<CheckpointManager> manager(new CheckpointManager(session, options));
  absl::StatusOr<std::string> opened = "";
  const WorkerGroup* const workers = session.state().connection().workers();
  if (workers == nullptr || workers->worker() == 0) {
    auto directory = CheckpointDirectory::Open(options.directory);
    if (directory.ok()) {
      manager->writer_ = std::make_unique<Writer>(manager->options_, *std::move(directory));
    } else {
      opened = directory.status();
    }
  }
  MF_RETURN_IF_ERROR(manager->TakeFromWorker0(opened).status());
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
    if (count != nullptr && absl::SimpleAtoi(count, &restarts) && restarts > 0) {
      writer_->events().Restarted(restarts, reason == nullptr ? "" : reason);
    }
    writer_->events().Joined(0, host, getpid());
  }
  if (!session_.state().connection().has_other_workers()) return absl::OkStatus();
  WorkerGroup& workers = *session_.state().connection().workers();
  const absl::Time deadline = absl::Now() + options_.timeout;
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
    const absl::StatusOr<std::string>& result) {
  if (!session_.state().connection().has_other_workers()) return result;
  WorkerGroup& workers = *session_.state().connection().workers();
  const std::string key = absl::StrCat("checkpoint exchange ", num_exchanges_++);
  const absl::Time deadline = absl::Now() + options_.timeout;
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
    return WithFailure(failed, {.worker = 0});
  }
  return workers.Get(absl::StrCat(key, " value"), deadline);
}

absl::StatusOr<TrainingPosition> CheckpointManager::Restore() {
  std::optional<CheckpointData> data;
  // Returns the message of worker 0: the manifest with the names of the variables to assign, or an
  // empty text for a fresh start.
  const auto choose = [&]() -> absl::StatusOr<std::string> {
    MF_ASSIGN_OR_RETURN(data, writer_->Read());
    if (!data.has_value()) return "";
    const std::string path = CheckpointPath(options_.directory, data->manifest.step);
    CheckpointManifest own;
    own.seed = session_.state().seed();
    own.settings = options_.settings;
    MF_RETURN_IF_ERROR(Annotate(CheckSettings(data->manifest, own), path));
    MF_RETURN_IF_ERROR(MatchVariables(data->contents, path, session_).status());
    for (const std::string& name : NonFiniteTensors(data->contents)) {
      writer_->Log(
          absl::StrCat("WARNING: ", path, ": tensor '", name, "' has values that are not finite"));
    }
    return FormatManifest(data->manifest);
  };
  MF_ASSIGN_OR_RETURN(const std::string text,
                      TakeFromWorker0(writer_ != nullptr ? choose() : std::string()));
  const Topology& topology = session_.state().connection().topology();
  const auto log_start = [&](int64_t step) {
    if (writer_ == nullptr) return;
    writer_->events().Started(step, topology.num_workers(), topology.world_size());
  };
  if (text.empty()) {
    log_start(0);
    return TrainingPosition();
  }
  MF_ASSIGN_OR_RETURN(const CheckpointManifest manifest, ParseManifest(text));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : manifest.tensors) names.push_back(name);
  static const std::map<std::string, Tensor> no_values;
  MF_RETURN_IF_ERROR(
      session_.AssignFromWorker0(names, data.has_value() ? data->contents.tensors : no_values));
  session_.SetStep(manifest.session_step);
  last_step_ = manifest.step;
  log_start(manifest.step);
  if (writer_ != nullptr) {
    const std::string was = MeshText(manifest.num_workers, manifest.num_replicas);
    const std::string is = MeshText(topology.num_workers(), topology.world_size());
    writer_->Log(absl::StrCat("resumed from ", CheckpointPath(options_.directory, manifest.step),
                              was == is ? "" : absl::StrCat(", saved by ", was, ", on ", is)));
  }
  return TrainingPosition{manifest.step, manifest.epoch, manifest.batch, manifest.num_workers,
                          manifest.num_replicas};
}

absl::Status CheckpointManager::Save(const TrainingPosition& position) {
  MF_RETURN_IF_ERROR(WaitForSave());
  Safetensors sums;
  MF_RETURN_IF_ERROR(CollectVariables(session_, writer_ != nullptr ? writer_->contents() : &sums));
  is_saving_ = true;
  last_step_ = position.step;
  if (writer_ == nullptr) return absl::OkStatus();
  const Topology& topology = session_.state().connection().topology();
  CheckpointManifest manifest;
  manifest.step = position.step;
  manifest.epoch = position.epoch;
  manifest.batch = position.batch;
  manifest.session_step = session_.step();
  manifest.seed = session_.state().seed();
  manifest.num_workers = topology.num_workers();
  manifest.num_replicas = topology.world_size();
  manifest.time = absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone());
  manifest.settings = options_.settings;
  writer_->Start(std::move(manifest));
  return absl::OkStatus();
}

absl::Status CheckpointManager::WaitForSave() {
  if (!std::exchange(is_saving_, false)) return absl::OkStatus();
  const absl::Status ended = writer_ != nullptr ? writer_->Wait() : absl::OkStatus();
  // A failed save is not an error of the exchange, so that all workers count it.
  MF_ASSIGN_OR_RETURN(const std::string failure,
                      TakeFromWorker0(StatusToProto(ended).SerializeAsString()));
  proto::Status proto;
  if (!proto.ParseFromString(failure)) return absl::InternalError("checkpoint: malformed status");
  const absl::Status status = StatusFromProto(proto);
  if (status.ok()) {
    failed_saves_ = 0;
    return status;
  }
  ++failed_saves_;
  if (failed_saves_ >= options_.max_failed_saves) {
    const absl::Status stopped = absl::ResourceExhaustedError(
        absl::StrCat(failed_saves_, " saves in a row have failed; the last: ", status.message()));
    return writer_ != nullptr ? stopped : WithFailure(stopped, {.worker = 0});
  }
  if (writer_ != nullptr) {
    writer_->Log(absl::StrCat("WARNING: checkpoint not saved (", failed_saves_, " of at most ",
                              options_.max_failed_saves - 1, " in a row): ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow

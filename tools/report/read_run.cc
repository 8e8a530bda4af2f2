// SPDX-License-Identifier: Apache-2.0
#include "tools/report/read_run.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "framework/core/text.h"
#include "train/checkpoint/directory.h"
#include "train/checkpoint/manifest.h"

namespace mirrorflow {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 4;
constexpr size_t kMaxFiles = 10'000;
constexpr uint64_t kMaxTextBytes = uint64_t{256} << 20;

absl::StatusOr<std::string> ReadText(const std::string& path) {
  MF_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxTextBytes));
  // A machine crash can leave zero bytes in a log. Still read the other lines.
  return PlainText(text).value_or(text);
}

// Files are read in this order. If two files have a value for the same step, the later file's value
// is used.
enum Kind { kLog, kJson, kEvents, kOther };

Kind KindOf(const std::string& name) {
  if (absl::StrContains(name, "tfevents")) return kEvents;
  const std::string extension = fs::path(name).extension();
  if (extension == ".json") return kJson;
  for (const char* log : {".jsonl", ".log", ".txt", ".err", ".out"}) {
    if (extension == log) return kLog;
  }
  return kOther;
}

struct Files {
  std::vector<std::tuple<Kind, std::string, std::string>> files;  // kind, path, subdirectory
  std::vector<std::string> directories;
};

absl::Status List(const fs::path& directory, const std::string& below, int depth, Files* found) {
  std::error_code error;
  found->directories.push_back(directory);
  fs::directory_iterator entries(directory, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const fs::directory_entry& entry = *entries;
    const std::string name = entry.path().filename();
    std::error_code ignored;
    const fs::file_status status = entry.symlink_status(ignored);
    if (name[0] == '.') continue;
    if (fs::is_directory(status) && depth < kMaxDepth && !absl::StartsWith(name, "step-")) {
      MF_RETURN_IF_ERROR(List(entry.path(), absl::StrCat(below, name, "/"), depth + 1, found));
    }
    const Kind kind = KindOf(name);
    if (!fs::is_regular_file(status) || kind == kOther) continue;
    if (found->files.size() == kMaxFiles) {
      return absl::ResourceExhaustedError(
          absl::StrCat(found->directories[0],
                       ": too many files; expected the directory of a single run, with at most ",
                       kMaxFiles, " files"));
    }
    found->files.emplace_back(kind, entry.path(), below);
  }
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(), absl::StrCat(directory.string(), ": cannot list"));
}

// Reads the file into `run`. Returns whether it is a log or a trace.
absl::StatusOr<bool> ReadLogOrTrace(Kind kind, const std::string& path, RunData* run) {
  MF_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  if (kind == kJson && absl::StrContains(text, "\"traceEvents\"")) {
    MF_ASSIGN_OR_RETURN(StepTimeline timeline, Annotate(ReadStepTimeline(text), path));
    if (run->timeline) {
      run->notes.push_back(absl::StrCat(path, ": not shown; the page shows only the first trace"));
    } else {
      run->timeline = std::move(timeline);
    }
    return true;
  }
  return ReadLogLines(text, run) > 0;
}

void ReadCheckpoints(const std::string& directory, RunData* run) {
  const absl::StatusOr<std::vector<int64_t>> steps = ListCheckpoints(directory);
  if (!steps.ok()) return run->notes.emplace_back(steps.status().message()), void();
  for (const int64_t step : *steps) {
    const std::string path = absl::StrCat(CheckpointPath(directory, step), "/manifest.json");
    const absl::StatusOr<std::string> text = ReadText(path);
    const absl::StatusOr<CheckpointManifest> manifest =
        text.ok() ? ParseManifest(*text) : text.status();
    if (!manifest.ok()) {
      run->notes.push_back(absl::StrCat(path, ": ", manifest.status().message()));
      continue;
    }
    run->checkpoints.push_back({manifest->step, manifest->epoch, manifest->num_workers,
                                manifest->num_replicas, manifest->variables.bytes, manifest->time});
  }
}

void SortEvents(std::vector<RunEvent>* events) {
  std::ranges::stable_sort(*events, {}, &RunEvent::time);
  // Remove duplicates: the launcher stores each line twice.
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  std::erase_if(*events, [&](const RunEvent& event) {
    return !seen.emplace(event.time, event.what, event.details).second;
  });
}

}  // namespace

absl::StatusOr<RunData> ReadRun(const std::string& directory) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (!fs::exists(status)) {
    return absl::NotFoundError(absl::StrCat(directory, ": no such directory"));
  }
  if (!fs::is_directory(status)) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, ": not a directory; expected a run's directory"));
  }
  Files found;
  MF_RETURN_IF_ERROR(List(directory, "", 0, &found));
  std::sort(found.files.begin(), found.files.end());
  RunData run;
  std::vector<EventFile> event_files;
  for (const auto& [kind, path, below] : found.files) {
    if (kind == kEvents) {
      event_files.push_back({path, below});
      run.files.push_back(path);
      continue;
    }
    const absl::StatusOr<bool> known = ReadLogOrTrace(kind, path, &run);
    if (!known.ok()) run.notes.emplace_back(known.status().message());
    if (known.value_or(false)) run.files.push_back(path);
  }
  ReadEventFiles(std::move(event_files), &run);
  for (const std::string& folder : found.directories) ReadCheckpoints(folder, &run);
  std::erase_if(run.series, [](const auto& series) { return series.second.empty(); });
  SortEvents(&run.events);
  if (run.files.empty() && run.checkpoints.empty()) {
    std::string message = absl::StrCat(
        directory,
        ": no files from a run; expected event files (*tfevents*), logs written with "
        "--log_format=json or --loss_log (*.jsonl, *.log, *.txt), a trace (*.json) or checkpoints");
    for (const std::string& note : run.notes) absl::StrAppend(&message, "\n", note);
    return absl::InvalidArgumentError(message);
  }
  return run;
}

}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/worker_output.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "framework/core/log_line.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/terminal.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

constexpr size_t kLastLines = 10;
// A longer line is printed in parts, so a program that prints no newlines uses limited memory here.
constexpr size_t kMaxLine = 64 << 10;
constexpr const char* kColours[] = {"\033[36m", "\033[32m", "\033[33m", "\033[35m", "\033[34m"};
constexpr const char* kNoColour = "\033[0m";

absl::StatusOr<int> OpenLog(const std::string& path) {
  return Annotate(OpenForAppending(path, {.existing = ExistingFile::kReplace, .mode = 0644}),
                  "--log_dir");
}

// Creates the directory. Refuses an existing directory of another user, who could replace its files
// and read or change the output.
absl::Status MakeLogDirectory(const std::string& path) {
  // A file server may assign a new directory to another user, so only an existing one is checked.
  if (mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
  struct stat info;
  if (errno != EEXIST || stat(path.c_str(), &info) != 0) {
    return SystemError(errno, absl::StrCat("--log_dir: ", path));
  }
  if (info.st_uid == geteuid()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("--log_dir: ", path,
                                                    ": belongs to another user; expected user ",
                                                    geteuid(), ", got ", info.st_uid));
}

// Returns a line of a worker's standard error as JSON. A line that is already an object stays
// unchanged.
std::string JsonLineOf(int worker, const std::string& line) {
  // Log collectors parse strictly: no byte order mark, and no carriage return at the end.
  const bool has_braces = absl::StartsWith(line, "{") && absl::EndsWith(line, "}");
  if (has_braces && OutputForTerminal(line) == line) {
    const absl::StatusOr<nlohmann::json> json = ParseJson(line);
    if (json.ok() && json->is_object()) return line;
  }
  return JsonLogLine({.time = absl::Now(), .job = LogIdentity::Job(), .worker = worker}, line);
}

}  // namespace

absl::StatusOr<WorkerOutput> WorkerOutput::Create(const Options& options) {
  WorkerOutput output;
  output.workers_.resize(options.num_workers);
  for (const int worker : options.show) {
    if (worker < 0 || worker >= options.num_workers) {
      return absl::InvalidArgumentError(absl::StrCat("--show: no such worker; expected 0 to ",
                                                     options.num_workers - 1, ", got ", worker));
    }
    output.shown_.insert(worker);
  }
  for (int worker = 0; worker < options.num_workers && options.show.empty(); ++worker) {
    output.shown_.insert(worker);
  }
  const bool wanted = std::getenv("NO_COLOR") == nullptr;
  for (const Stream stream : {kOutput, kErrors}) {
    output.colour_[stream] = wanted && isatty(stream == kOutput ? STDOUT_FILENO : STDERR_FILENO);
  }
  if (options.log_dir.empty()) return output;
  MF_RETURN_IF_ERROR(MakeLogDirectory(options.log_dir));
  MF_ASSIGN_OR_RETURN(output.all_log_, OpenLog(options.log_dir + "/all.log"));
  for (int worker = 0; worker < options.num_workers; ++worker) {
    const std::string path = absl::StrCat(options.log_dir, "/worker_", worker);
    MF_ASSIGN_OR_RETURN(output.workers_[worker].log[kOutput], OpenLog(path + ".out"));
    MF_ASSIGN_OR_RETURN(output.workers_[worker].log[kErrors], OpenLog(path + ".err"));
  }
  return output;
}

void WorkerOutput::Add(int worker, Stream stream, absl::string_view bytes) {
  Worker& w = workers_[worker];
  if (w.log[stream] >= 0) {
    WriteLog(w.log[stream], absl::StrCat("worker_", worker, stream == kOutput ? ".out" : ".err"),
             bytes);
  }
  std::string& line = w.line[stream];
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line.append(bytes.data(), end == absl::string_view::npos ? bytes.size() : end);
    bytes.remove_prefix(end == absl::string_view::npos ? bytes.size() : end + 1);
    if (end != absl::string_view::npos || line.size() >= kMaxLine) EndLine(worker, stream);
  }
}

void WorkerOutput::Finish(int worker) {
  for (const Stream stream : {kOutput, kErrors}) {
    if (!workers_[worker].line[stream].empty()) EndLine(worker, stream);
  }
}

void WorkerOutput::ForgetLastLines() {
  for (Worker& worker : workers_) worker.last.clear();
}

// Writes a line of up to PIPE_BUF bytes at once, so lines of other programs do not interrupt it.
void WorkerOutput::Print(Stream stream, absl::string_view bytes) {
  const int fd = stream == kOutput ? STDOUT_FILENO : STDERR_FILENO;
  const char* const name = stream == kOutput ? "standard output" : "standard error";
  while (!bytes.empty()) {
    pollfd fds[] = {{.fd = fd, .events = POLLOUT, .revents = 0},
                    {.fd = interrupted_ ? -1 : interrupt_, .events = POLLIN, .revents = 0}};
    const int ready = poll(fds, std::size(fds), interrupted_ ? 0 : -1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return Fail(WriteError(errno, absl::StrCat(name, ": cannot write all output")));
    interrupted_ = interrupted_ || fds[1].revents != 0;
    if (fds[0].revents == 0) {
      if (interrupted_) return;
      continue;
    }
    // A writable pipe has room for this many bytes.
    const ssize_t written = write(fd, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0)
      return Fail(WriteError(errno, absl::StrCat(name, ": cannot write all output")));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void WorkerOutput::WriteLog(int fd, absl::string_view file, absl::string_view bytes) {
  const absl::Status written = AppendTo(fd, file, bytes);
  if (!written.ok()) Fail(Annotate(written, "--log_dir"));
}

// The workers keep running: lost output must not end a training run.
void WorkerOutput::Fail(const absl::Status& why) {
  if (status_.ok()) status_ = why;
}

void WorkerOutput::EndLine(int worker, Stream stream) {
  Worker& w = workers_[worker];
  const std::string line = std::exchange(w.line[stream], "");
  if (shown_.contains(worker)) {
    const char* const colour = colour_[stream] ? kColours[worker % std::size(kColours)] : "";
    const bool is_json = stream == kErrors && ProcessLogFormat() == LogLineFormat::kJson;
    Print(stream,
          is_json ? JsonLineOf(worker, line) + "\n"
                  : absl::StrCat(colour, "[worker ", worker, "] ", colour_[stream] ? kNoColour : "",
                                 OutputForTerminal(line), "\n"));
  }
  if (all_log_ >= 0) {
    const std::string time =
        absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
    WriteLog(all_log_, "all.log", absl::StrCat(time, " [worker ", worker, "] ", line, "\n"));
  }
  w.last.push_back(line);
  if (w.last.size() > kLastLines) w.last.pop_front();
}

}  // namespace mirrorflow

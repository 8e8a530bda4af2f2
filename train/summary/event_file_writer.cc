// SPDX-License-Identifier: Apache-2.0
#include "train/summary/event_file_writer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"
#include "framework/proto/parsed_size.h"
#include "framework/proto/serialize.h"
#include "train/summary/event.pb.h"

namespace mirrorflow {
namespace {

// Returns the host name, with dashes in place of characters that a file name cannot contain.
std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  std::string host(name);
  for (char& c : host) {
    if (c == '/') c = '-';
  }
  return host;
}

// The maximum size of a parsed event in memory. Events can come from checkpoints, which are
// untrusted files.
constexpr int64_t kMaxEventBytes = int64_t{1} << 30;

constexpr absl::string_view kPrefix = "events.out.tfevents.";

// Returns the time in a new file's name. Readers process files in name order, so a file that purges
// must have a later time than all other files, even if the hosts' clocks differ.
int64_t TimeOfName(absl::string_view log_dir, bool purges) {
  int64_t seconds = absl::ToUnixSeconds(absl::Now());
  std::error_code error;
  std::filesystem::directory_iterator files(std::string(log_dir), error);
  for (; purges && !error && files != std::filesystem::directory_iterator();
       files.increment(error)) {
    const std::string name = files->path().filename();
    absl::string_view rest = name;
    int64_t other;
    if (absl::ConsumePrefix(&rest, kPrefix) &&
        absl::SimpleAtoi(rest.substr(0, rest.find('.')), &other)) {
      seconds = std::max(seconds, other + 1);
    }
  }
  return seconds;
}

absl::StatusOr<std::unique_ptr<TfRecordWriter>> CreateFile(absl::string_view log_dir,
                                                           const EventFileOptions& options) {
  // Names can collide, because a process on another host can have the same host name and process
  // id, such as process 1 in a container.
  constexpr int kMaxAttempts = 100;
  static std::atomic<int> number{0};
  absl::StatusOr<std::unique_ptr<TfRecordWriter>> file;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const std::string name = absl::StrFormat(
        "%s%010d.%s.%d.%d.v2%s", kPrefix, TimeOfName(log_dir, options.purge_step.has_value()),
        HostName(), getpid(), number++, options.filename_suffix);
    file =
        TfRecordWriter::Create(absl::StrCat(log_dir, "/", name), TfRecordWriter::Existing::kRefuse);
    if (!absl::IsAlreadyExists(file.status())) break;
  }
  return file;
}

proto::Event PurgeEvent(int64_t step) {
  proto::Event event;
  event.set_wall_time(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
  event.set_step(step);
  event.mutable_session_log()->set_status(proto::SessionLog::START);
  return event;
}

}  // namespace

EventFileWriter::EventFileWriter(std::unique_ptr<TfRecordWriter> file,
                                 const EventFileOptions& options)
    : file_(std::move(file)), options_(options) {}

absl::StatusOr<std::unique_ptr<EventFileWriter>> EventFileWriter::Open(
    absl::string_view log_dir, const EventFileOptions& options) {
  if (log_dir.empty()) return absl::InvalidArgumentError("event file: log_dir is empty");
  if (options.max_queue_bytes == 0) {
    return absl::InvalidArgumentError(
        "event file: max_queue_bytes out of range; expected above 0, got 0");
  }
  if (options.flush_interval <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("event file: flush_interval out of range; expected above 0, got ",
                     absl::FormatDuration(options.flush_interval)));
  }
  if (options.filename_suffix.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("event file: invalid filename_suffix; expected no '/', got '",
                     options.filename_suffix, "'"));
  }
  std::error_code error;
  std::filesystem::create_directories(std::string(log_dir), error);
  if (error) {
    return SystemError(error.value(), absl::StrCat(log_dir, ": cannot create directory"));
  }
  MF_ASSIGN_OR_RETURN(std::unique_ptr<TfRecordWriter> file, CreateFile(log_dir, options));
  std::unique_ptr<EventFileWriter> writer(new EventFileWriter(std::move(file), options));
  MF_RETURN_IF_ERROR(writer->Start());
  return writer;
}

absl::Status EventFileWriter::Start() {
  proto::Event event;
  event.set_wall_time(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
  event.set_file_version("brain.Event:2");
  MF_ASSIGN_OR_RETURN(std::string record, SerializeDeterministically(event));
  std::vector<std::string> events = {std::move(record)};
  if (options_.purge_step) {
    MF_ASSIGN_OR_RETURN(record, SerializeDeterministically(PurgeEvent(*options_.purge_step)));
    events.push_back(std::move(record));
  }
  // Write now, so that a full disk is reported here and not in the middle of training.
  MF_RETURN_IF_ERROR(Write(events));
  MutexLock lock(&join_mu_);
  MF_ASSIGN_OR_RETURN(thread_, StartThread(path(), [this] { WriteEvents(); }));
  return absl::OkStatus();
}

EventFileWriter::~EventFileWriter() { Close().IgnoreError(); }

absl::Status EventFileWriter::AddEvent(const proto::Event& event) {
  MF_ASSIGN_OR_RETURN(std::string record, SerializeDeterministically(event));
  if (options_.keep_last_step && event.has_summary()) {
    MutexLock lock(&mu_);
    if (event.step() > last_step_) last_events_.clear();
    last_step_ = std::max<int64_t>(last_step_, event.step());
    if (event.step() == last_step_) last_events_.push_back(record);
  }
  return AddRecord(std::move(record));
}

absl::Status EventFileWriter::AddSerializedEvent(absl::string_view event) {
  ParsedSize size;
  size.AddBinary(*proto::Event::descriptor(), event);
  if (size.bytes() > kMaxEventBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path(), ": the event would take too much memory; expected at most ",
                     kMaxEventBytes, " bytes, got ", size.bytes()));
  }
  proto::Event parsed;
  if (parsed.ParseFromArray(event.data(), static_cast<int>(event.size()))) return AddEvent(parsed);
  return absl::InvalidArgumentError(absl::StrCat(path(), ": expected a serialised event, got ",
                                                 event.size(), " bytes of other data"));
}

absl::Status EventFileWriter::Purge(int64_t step) { return AddEvent(PurgeEvent(step)); }

std::vector<std::string> EventFileWriter::EventsOfStep(int64_t step) const {
  MutexLock lock(&mu_);
  return step == last_step_ ? last_events_ : std::vector<std::string>();
}

absl::Status EventFileWriter::AddRecord(std::string record) {
  MutexLock lock(&mu_);
  // An event that is larger than the queue waits until the queue is empty.
  const auto has_room = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return queue_.empty() || queue_bytes_ + record.size() <= options_.max_queue_bytes;
  };
  if (!has_room()) {
    wanted_ = added_;
    work_.NotifyOne();
    while (!has_room() && !closing_ && status_.ok()) progress_.Wait(lock);
  }
  MF_RETURN_IF_ERROR(status_);
  if (closing_) return absl::FailedPreconditionError(absl::StrCat(path(), ": the file is closed"));
  queue_bytes_ += record.size();
  queue_.push_back(std::move(record));
  ++added_;
  // Wake the thread when the first event arrives, to start the flush interval, and when the queue
  // is half full.
  const bool is_half_full = queue_bytes_ >= options_.max_queue_bytes / 2;
  if (is_half_full) wanted_ = added_;
  if (is_half_full || queue_.size() == 1) work_.NotifyOne();
  return absl::OkStatus();
}

absl::Status EventFileWriter::Flush() {
  MutexLock lock(&mu_);
  const uint64_t last = wanted_ = added_;
  work_.NotifyOne();
  while (written_ < last && status_.ok()) progress_.Wait(lock);
  return status_;
}

absl::Status EventFileWriter::Close() {
  {
    MutexLock lock(&mu_);
    closing_ = true;
  }
  work_.NotifyOne();
  progress_.NotifyAll();
  MutexLock join_lock(&join_mu_);
  if (thread_.joinable()) thread_.join();
  MutexLock lock(&mu_);
  return status_;
}

void EventFileWriter::WriteEvents() {
  MutexLock lock(&mu_);
  while (true) {
    while (queue_.empty() && !closing_) work_.Wait(lock);
    work_.WaitFor(lock, options_.flush_interval, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return wanted_ > written_ || closing_;
    });
    if (queue_.empty() && closing_) break;
    const std::vector<std::string> events = std::exchange(queue_, {});
    queue_bytes_ = 0;
    const absl::Status before = status_;
    lock.Unlock();
    progress_.NotifyAll();
    const absl::Status result = before.ok() ? Write(events) : before;
    lock.Lock();
    status_.Update(result);
    written_ += events.size();
    progress_.NotifyAll();
  }
  lock.Unlock();
  const absl::Status closed = file_->Close();
  lock.Lock();
  status_.Update(closed);
  progress_.NotifyAll();
}

absl::Status EventFileWriter::Write(const std::vector<std::string>& events) {
  return CatchOutOfMemory([&]() -> absl::Status {
    for (const std::string& event : events) MF_RETURN_IF_ERROR(file_->Write(event));
    return file_->Flush();
  });
}

}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
//
// EventFileWriter writes a TensorBoard event file, which is a TFRecord file of Event messages, on a
// separate thread. SummaryWriter creates the events.
//
// Calls wait for the disk only if the queue is full, and in Flush() and Close(). After a disk
// error, every call returns that error, and events are dropped.
#ifndef MIRRORFLOW_TRAIN_SUMMARY_EVENT_FILE_WRITER_H_
#define MIRRORFLOW_TRAIN_SUMMARY_EVENT_FILE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/core/mutex.h"
#include "train/formats/tf_record.h"

namespace mirrorflow {

namespace proto {
class Event;
}

struct EventFileOptions {
  // How many bytes of events can be queued for the disk. PyTorch's max_queue counts events instead,
  // but event sizes differ too much for that.
  size_t max_queue_bytes = size_t{16} << 20;
  // How long an event can wait to be written together with later events.
  absl::Duration flush_interval = absl::Seconds(120);
  std::string filename_suffix;
  // The step at which training resumes. Readers drop events of this step and later steps from files
  // that were written earlier.
  std::optional<int64_t> purge_step;
  // Whether to keep a copy of the events of the highest step so far, for EventsOfStep().
  bool keep_last_step = false;
};

// Thread-safe.
class EventFileWriter {
 public:
  // Creates the directory if it is missing, and a new file in it named
  //   events.out.tfevents.<seconds since 1970>.<host>.<process>.<number>.v2<suffix>
  // Returns InvalidArgument if an option is out of range, or the system's error.
  static absl::StatusOr<std::unique_ptr<EventFileWriter>> Open(
      absl::string_view log_dir, const EventFileOptions& options = {});
  ~EventFileWriter();  // closes the file; call Close() to get the error
  EventFileWriter(const EventFileWriter&) = delete;
  EventFileWriter& operator=(const EventFileWriter&) = delete;

  const std::string& path() const { return file_->path(); }

  // Queues an event. Returns FailedPrecondition after Close().
  absl::Status AddEvent(const proto::Event& event);
  // Queues an event that EventsOfStep() has returned. Returns InvalidArgument for anything else.
  absl::Status AddSerializedEvent(absl::string_view event);
  // Queues an event that makes readers drop all events of this step and later steps that precede
  // it.
  absl::Status Purge(int64_t step);
  // Returns the step's events so far, serialised, or none if there are events of a later step.
  // Requires `keep_last_step`.
  std::vector<std::string> EventsOfStep(int64_t step) const;
  // Blocks until all events added so far are in the file.
  absl::Status Flush();
  // Writes all events and closes the file. Later calls return the status of the first call.
  absl::Status Close();

 private:
  EventFileWriter(std::unique_ptr<TfRecordWriter> file, const EventFileOptions& options);
  absl::Status Start();
  absl::Status AddRecord(std::string record);
  void WriteEvents();  // runs on thread_ until Close()
  absl::Status Write(const std::vector<std::string>& events);

  const std::unique_ptr<TfRecordWriter> file_;  // used only by thread_ while that runs
  const EventFileOptions options_;

  mutable Mutex mu_;
  CondVar work_, progress_;  // thread_ waits for work_, callers for progress_
  // Event counts start at 0 when the file is opened.
  std::vector<std::string> queue_ ABSL_GUARDED_BY(mu_);
  size_t queue_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t added_ ABSL_GUARDED_BY(mu_) = 0, written_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t wanted_ ABSL_GUARDED_BY(mu_) = 0;  // thread_ writes this many events without delay
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  int64_t last_step_ ABSL_GUARDED_BY(mu_) = std::numeric_limits<int64_t>::min();
  std::vector<std::string> last_events_ ABSL_GUARDED_BY(mu_);

  Mutex join_mu_;
  std::thread thread_ ABSL_GUARDED_BY(join_mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SUMMARY_EVENT_FILE_WRITER_H_

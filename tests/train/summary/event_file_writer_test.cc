// SPDX-License-Identifier: Apache-2.0
#include "train/summary/event_file_writer.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/train/summary/event_file.h"
#include "train/summary/event.pb.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::MatchesRegex;

enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kGraphDef = 4, kSessionLog = 7 };

std::string NewDirectory(absl::string_view name) {
  const std::string path = TemporaryPath(name);
  std::filesystem::remove_all(path);
  return path;
}

std::unique_ptr<EventFileWriter> OpenOrDie(const std::string& directory,
                                           const EventFileOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<EventFileWriter>> writer =
      EventFileWriter::Open(directory, options);
  EXPECT_TRUE(writer.ok()) << writer.status();
  return writer.ok() ? *std::move(writer) : nullptr;
}

proto::Event EventOfStep(int64_t step, size_t bytes = 0) {
  proto::Event event;
  event.set_step(step);
  event.set_graph_def(std::string(bytes, 'x'));
  return event;
}

// Waits until another thread has written the event for `step`. Returns false if it takes too long.
bool HasStepSoon(const std::string& path, int64_t step) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (absl::Now() < deadline) {
    const std::vector<WireMessage> events = ReadEvents(path, /*is_growing=*/true);
    if (!events.empty() && events.back().Int(kStep) == step) return true;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return false;
}

TEST(EventFileWriterTest, FileNameAndFirstEventAreWhatTensorBoardExpects) {
  const std::string directory = NewDirectory("named/logs");
  const absl::Time before = absl::Now();
  auto writer = OpenOrDie(directory, {.filename_suffix = ".mine"});
  EXPECT_THAT(
      writer->path(),
      AllOf(MatchesRegex(absl::StrCat(directory, "/events\\.out\\.tfevents\\.[0-9]+\\..+\\.",
                                      getpid(), "\\.[0-9]+\\.v2\\.mine")),
            EndsWith(".v2.mine")));
  // The first event is in the file before any other event is added or flushed.
  const std::vector<WireMessage> events = ReadEvents(writer->path());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].String(kFileVersion), "brain.Event:2");
  const double time = events[0].Double(kWallTime);
  EXPECT_GE(time, absl::ToDoubleSeconds(before - absl::UnixEpoch()) - 1e-3);
  EXPECT_LE(time, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) + 1e-3);
  EXPECT_NE(OpenOrDie(directory)->path(), OpenOrDie(directory)->path());
}

TEST(EventFileWriterTest, PurgeStepStartsASession) {
  auto writer = OpenOrDie(NewDirectory("purge"), {.purge_step = 40});
  const std::vector<WireMessage> events = ReadEvents(writer->path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].Int(kStep), 40);
  EXPECT_EQ(events[1].Message(kSessionLog).Int(1), 1);
  EXPECT_FALSE(events[1].Has(kFileVersion));
}

// Readers process the files in name order.
TEST(EventFileWriterTest, FileThatPurgesSortsAfterAllOthers) {
  const std::string directory = NewDirectory("order");
  std::filesystem::create_directories(directory);
  const std::string future = directory + "/events.out.tfevents.9999999998.host.1.0.v2";
  std::ofstream(future).flush();
  EXPECT_LT(OpenOrDie(directory)->path(), future);
  EXPECT_GT(OpenOrDie(directory, {.purge_step = 0})->path(), future);
}

TEST(EventFileWriterTest, EventsOfLastStepAreKeptAndCanBeAddedAgain) {
  auto writer = OpenOrDie(NewDirectory("last"), {.keep_last_step = true});
  EXPECT_TRUE(writer->EventsOfStep(0).empty());
  for (const int step : {3, 5, 4, 5}) {
    proto::Event event = EventOfStep(step);
    event.mutable_summary()->add_value()->set_tag("loss");
    ASSERT_TRUE(writer->AddEvent(event).ok());
  }
  ASSERT_TRUE(writer->Purge(5).ok());
  EXPECT_TRUE(writer->EventsOfStep(3).empty());
  const std::vector<std::string> last = writer->EventsOfStep(5);
  ASSERT_EQ(last.size(), 2u) << "events of step 5";
  ASSERT_TRUE(writer->AddSerializedEvent(last[1]).ok());
  EXPECT_EQ(writer->EventsOfStep(5).size(), 3u);
  EXPECT_THAT(writer->AddSerializedEvent("\xff"),
              IsError(absl::StatusCode::kInvalidArgument, writer->path(), "serialised"));
  // The bytes encode `summary { value {} value {} … }`; each value takes 2 bytes.
  std::string values;
  for (int i = 0; i < 16 << 20; ++i) values += std::string("\x0a\0", 2);
  const std::string many = absl::StrCat("\x2a\x80\x80\x80\x10", values);
  EXPECT_THAT(writer->AddSerializedEvent(many),
              IsError(absl::StatusCode::kResourceExhausted, writer->path(), "memory"));
  ASSERT_TRUE(writer->Close().ok());
  const std::vector<WireMessage> events = ReadEvents(writer->path());
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events[5].Message(kSessionLog).Int(1), 1);
  EXPECT_EQ(events[6].Int(kStep), 5);
}

TEST(EventFileWriterTest, FlushWritesAllEventsInOrder) {
  auto writer = OpenOrDie(NewDirectory("flush"));
  for (int i = 1; i <= 100; ++i) ASSERT_TRUE(writer->AddEvent(EventOfStep(i)).ok());
  ASSERT_TRUE(writer->Flush().ok());
  const std::vector<WireMessage> events = ReadEvents(writer->path());
  ASSERT_EQ(events.size(), 101u);
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(events[i].Int(kStep), i);
  EXPECT_TRUE(writer->Flush().ok());
}

TEST(EventFileWriterTest, DestructorWritesAllEvents) {
  auto writer = OpenOrDie(NewDirectory("destructor"));
  const std::string path = writer->path();
  for (int i = 1; i <= 10; ++i) ASSERT_TRUE(writer->AddEvent(EventOfStep(i)).ok());
  writer.reset();
  EXPECT_EQ(ReadEvents(path).size(), 11u);
}

TEST(EventFileWriterTest, EventsAreWrittenAfterTheIntervalWithoutAFlush) {
  auto writer = OpenOrDie(NewDirectory("interval"), {.flush_interval = absl::Milliseconds(20)});
  ASSERT_TRUE(writer->AddEvent(EventOfStep(7)).ok());
  EXPECT_TRUE(HasStepSoon(writer->path(), 7));
  ASSERT_TRUE(writer->AddEvent(EventOfStep(8)).ok());
  EXPECT_TRUE(HasStepSoon(writer->path(), 8));
}

TEST(EventFileWriterTest, EventsAreNotWrittenBeforeTheInterval) {
  auto writer = OpenOrDie(NewDirectory("long_interval"), {.flush_interval = absl::Hours(1)});
  ASSERT_TRUE(writer->AddEvent(EventOfStep(7)).ok());
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(ReadEvents(writer->path()).size(), 1u);
}

TEST(EventFileWriterTest, FullQueueIsWrittenBeforeTheInterval) {
  auto writer =
      OpenOrDie(NewDirectory("full"), {.max_queue_bytes = 1000, .flush_interval = absl::Hours(1)});
  // Every call except the first finds the queue full. The last event is larger than the whole
  // queue.
  for (int i = 1; i <= 50; ++i) ASSERT_TRUE(writer->AddEvent(EventOfStep(i, 900)).ok());
  ASSERT_TRUE(writer->AddEvent(EventOfStep(51, 5000)).ok());
  EXPECT_TRUE(HasStepSoon(writer->path(), 51));
  EXPECT_EQ(ReadEvents(writer->path()).size(), 52u);
}

TEST(EventFileWriterTest, ManyThreadsAddAndFlush) {
  auto writer = OpenOrDie(NewDirectory("threads"), {.max_queue_bytes = 500});
  constexpr int kThreads = 4, kEvents = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEvents; ++i) {
        EXPECT_TRUE(writer->AddEvent(EventOfStep(t * kEvents + i, i)).ok());
        EXPECT_TRUE(i % 50 != 0 || writer->Flush().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(writer->Close().ok());
  std::vector<int64_t> last(kThreads, -1);
  const std::vector<WireMessage> events = ReadEvents(writer->path());
  ASSERT_EQ(events.size(), 1u + kThreads * kEvents);
  for (size_t i = 1; i < events.size(); ++i) {
    const int64_t step = events[i].Int(kStep);
    EXPECT_GT(step % kEvents, last[step / kEvents]);  // each thread's events stay in order
    last[step / kEvents] = step % kEvents;
  }
}

TEST(EventFileWriterTest, EventsAfterCloseAreErrors) {
  auto writer = OpenOrDie(NewDirectory("close"));
  ASSERT_TRUE(writer->AddEvent(EventOfStep(1)).ok());
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(ReadEvents(writer->path()).size(), 2u);
  EXPECT_THAT(writer->AddEvent(EventOfStep(2)),
              IsError(absl::StatusCode::kFailedPrecondition, writer->path(), "closed"));
  EXPECT_TRUE(writer->Flush().ok());
  EXPECT_TRUE(writer->Close().ok());
  EXPECT_EQ(ReadEvents(writer->path()).size(), 2u);
}

// Simulates a full disk by a limit on file sizes.
class FullDiskTest : public testing::Test {
 protected:
  FullDiskTest() {
    getrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, SIG_IGN);
  }
  ~FullDiskTest() override { SetLimit(before_.rlim_cur); }
  void SetLimit(rlim_t bytes) {
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }

 private:
  rlimit before_;
};

TEST_F(FullDiskTest, DiskErrorIsReturnedByEachLaterCall) {
  auto writer = OpenOrDie(NewDirectory("disk"), {.max_queue_bytes = 4000});
  ASSERT_TRUE(writer->AddEvent(EventOfStep(1)).ok());
  ASSERT_TRUE(writer->Flush().ok());
  SetLimit(2000);
  // None of these calls may wait for room in the queue. On a full disk, there would never be any.
  absl::Status status;
  for (int i = 2; i < 1000 && status.ok(); ++i) status = writer->AddEvent(EventOfStep(i, 900));
  EXPECT_THAT(status,
              IsError(absl::StatusCode::kResourceExhausted, writer->path(), "cannot write"));
  EXPECT_EQ(writer->Flush(), status);
  EXPECT_EQ(writer->AddEvent(EventOfStep(0)), status);
  EXPECT_EQ(writer->Close(), status);
  SetLimit(RLIM_INFINITY);
  EXPECT_FALSE(ReadEvents(writer->path()).empty());  // also checks that all records are complete
}

TEST_F(FullDiskTest, OpenFailsOnAFullDisk) {
  SetLimit(10);
  EXPECT_THAT(EventFileWriter::Open(NewDirectory("full_disk")).status(),
              IsError(absl::StatusCode::kResourceExhausted, "full_disk", "cannot write"));
}

TEST(EventFileWriterTest, OpenErrorsNameBadDirectoryAndOption) {
  auto error = [](absl::string_view directory, const EventFileOptions& options = {}) {
    return EventFileWriter::Open(directory, options).status();
  };
  constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  const std::string file = WriteTemporary("a_file", "x");
  EXPECT_THAT(error(file), IsError(absl::StatusCode::kFailedPrecondition, file));
  EXPECT_THAT(error("/proc/logs"),
              IsError(absl::StatusCode::kNotFound, "/proc/logs:", "cannot create directory"));
  EXPECT_THAT(error(""), IsError(kInvalid, "log_dir"));
  const std::string directory = NewDirectory("bad_options");
  EXPECT_THAT(error(directory, {.max_queue_bytes = 0}), IsError(kInvalid, "max_queue_bytes"));
  EXPECT_THAT(error(directory, {.flush_interval = -absl::Seconds(1)}),
              IsError(kInvalid, "flush_interval", "got -1s"));
  EXPECT_THAT(error(directory, {.filename_suffix = "a/b"}), IsError(kInvalid, "'a/b'"));
  EXPECT_FALSE(std::filesystem::exists(directory));
}

}  // namespace
}  // namespace mirrorflow

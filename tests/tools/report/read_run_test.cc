// SPDX-License-Identifier: Apache-2.0
#include "tools/report/read_run.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "train/checkpoint/directory.h"
#include "train/checkpoint/manifest.h"
#include "train/summary/event.pb.h"
#include "train/summary/event_file_writer.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kTrace[] =
    R"({"traceEvents":[{"ph":"X","name":"step 1","cat":"step","pid":0,"tid":0,"ts":0,"dur":5000}]})";

class ReadRunTest : public testing::Test {
 protected:
  ReadRunTest() {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  // Writes a file of the run.
  void Write(const std::string& name, const std::string& contents) {
    WriteTemporary(absl::StrCat("run/", name), contents);
  }
  void WriteLoss(const std::string& below, float loss) {
    auto writer = EventFileWriter::Open(directory_ + below);
    ASSERT_TRUE(writer.ok()) << writer.status();
    proto::Event event;
    event.mutable_summary()->add_value()->set_tag("loss");
    event.mutable_summary()->mutable_value(0)->set_simple_value(loss);
    ASSERT_TRUE((*writer)->AddEvent(event).ok());
  }
  RunData Read() {
    absl::StatusOr<RunData> run = ReadRun(directory_);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.value_or(RunData());
  }
  absl::Status Error() { return ReadRun(directory_).status(); }

  const std::string directory_ = TemporaryPath("run");
};

TEST_F(ReadRunTest, ReadsEveryKindOfFile) {
  WriteLoss("/train", 2);
  WriteLoss("/validation", 3);
  Write("log.jsonl", R"({"time":"t","worker":0,"epoch":1,"step":1,"steps":9,"accuracy":0.5})");
  Write("checkpoints/events.jsonl", R"({"time":"t","event":"saved","step":4})");
  Write("step.json", kTrace);
  CheckpointManifest manifest{.step = 4,
                              .num_workers = 2,
                              .num_replicas = 8,
                              .time = "now",
                              .variables = {.name = "x", .bytes = 123}};
  Write("checkpoints/step-000000004/manifest.json", FormatManifest(manifest));
  Write("other.bin", "\xff\xff");
  Write("notes.txt", "a text of the user");
  Write("settings.json", "{\"a\":1}");
  const RunData run = Read();
  EXPECT_EQ(run.series.at("train/loss")[0].value, 2);
  EXPECT_EQ(run.series.at("validation/loss")[0].value, 3);
  EXPECT_EQ(run.series.at("accuracy")[0].value, 0.5);
  EXPECT_THAT(run.events, SizeIs(1));
  ASSERT_TRUE(run.timeline.has_value());
  EXPECT_EQ(run.timeline->ms, 5);
  ASSERT_THAT(run.checkpoints, SizeIs(1));
  EXPECT_EQ(run.checkpoints[0].step, 4);
  EXPECT_EQ(run.checkpoints[0].replicas, 8);
  EXPECT_EQ(run.checkpoints[0].bytes, 123u);
  EXPECT_THAT(run.files, SizeIs(5));
  EXPECT_THAT(run.notes, SizeIs(0));
}

TEST_F(ReadRunTest, EventFilesOverrideLogs) {
  WriteLoss("", 2);
  Write("log.jsonl", R"({"time":"t","worker":0,"epoch":1,"step":0,"steps":9,"loss":2.00001})");
  EXPECT_EQ(Read().series.at("loss")[0].value, 2);
}

TEST_F(ReadRunTest, LinesThatLauncherStoresTwiceAreReadOnce) {
  const std::string lines = R"({"time":"t2","worker":0,"epoch":1,"step":1,"loss":1}
{"time":"t1","event":"saved","step":1}
{"time":"t0","event":"started","step":0}
)";
  Write("worker_0.err", lines);
  Write("all.log", lines);
  const RunData run = Read();
  EXPECT_THAT(run.series.at("loss"), SizeIs(1));
  ASSERT_THAT(run.events, SizeIs(2));
  EXPECT_EQ(run.events[0].what, "started");
}

TEST_F(ReadRunTest, DamagedFilesAreNotes) {
  Write("log.jsonl", R"({"time":"t","worker":0,"epoch":1,"step":1,"loss":1})");
  Write("a.json", "{\"traceEvents\":[");
  Write("step.json", kTrace);
  Write("step2.json", kTrace);
  Write("step-000000004/manifest.json", "{}");
  Write("x.tfevents.1", "damaged");
  const RunData run = Read();
  EXPECT_THAT(run.notes,
              ElementsAre(HasSubstr("a.json: not a trace"), HasSubstr("step2.json: not shown"),
                          HasSubstr("x.tfevents.1: record 0 at byte 0:"),
                          HasSubstr("step-000000004/manifest.json")));
}

TEST_F(ReadRunTest, SymbolicLinksAndHiddenFilesAreIgnored) {
  const std::string line = R"({"time":"t","worker":0,"epoch":1,"step":1,"loss":1})";
  Write("log.jsonl", line);
  Write(".hidden.jsonl", R"({"time":"t","worker":0,"epoch":1,"step":1,"hidden":1})");
  std::filesystem::create_directory_symlink(directory_, directory_ + "/loop");
  std::filesystem::create_symlink(directory_ + "/log.jsonl", directory_ + "/link.jsonl");
  const RunData run = Read();
  EXPECT_THAT(run.files, SizeIs(1));
  EXPECT_EQ(run.series.count("hidden"), 0u);
}

TEST_F(ReadRunTest, NamesDirectoryWithoutARun) {
  EXPECT_THAT(Error(), IsError(absl::StatusCode::kInvalidArgument, "run:", "event files"));
  Write("bad.json", "{\"traceEvents\":[");
  EXPECT_THAT(Error(), IsError(absl::StatusCode::kInvalidArgument, "bad.json:", "not a trace"));
  EXPECT_THAT(ReadRun(directory_ + "/none").status(),
              IsError(absl::StatusCode::kNotFound, "/none:", "no such directory"));
  EXPECT_THAT(ReadRun(directory_ + "/bad.json").status(),
              IsError(absl::StatusCode::kFailedPrecondition, "bad.json:", "not a directory"));
  EXPECT_THAT(ReadRun("").status(), IsError(absl::StatusCode::kNotFound, ": no such directory"));
}

}  // namespace
}  // namespace mirrorflow

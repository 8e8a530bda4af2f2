// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tools/report/read_run.h"
#include "train/summary/event.pb.h"
#include "train/summary/event_file_writer.h"
#include "train/summary/hparams.pb.h"
#include "train/summary/hparams_summary.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

using Values = std::vector<std::pair<int64_t, double>>;

Values ValuesOf(const RunData& run, const std::string& name) {
  Values values;
  const auto found = run.series.find(name);
  if (found == run.series.end()) return values;
  for (const Point& point : found->second) values.emplace_back(point.step, point.value);
  return values;
}

proto::Event Scalar(const std::string& tag, float value, int64_t step) {
  proto::Event event;
  event.set_step(step);
  event.set_wall_time(1000.5 + static_cast<double>(step));
  event.mutable_summary()->add_value()->set_tag(tag);
  event.mutable_summary()->mutable_value(0)->set_simple_value(value);
  return event;
}

// Writes the events to a new file and returns its path.
std::string Write(const std::vector<proto::Event>& events, const EventFileOptions& options = {}) {
  const std::string directory =
      TemporaryPath(testing::UnitTest::GetInstance()->current_test_info()->name());
  auto writer = EventFileWriter::Open(directory, options);
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (const proto::Event& event : events) EXPECT_TRUE((*writer)->AddEvent(event).ok());
  EXPECT_TRUE((*writer)->Close().ok());
  return (*writer)->path();
}

std::string Contents(const std::string& path) {
  std::stringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

TEST(ReadEventFilesTest, ScalarsAreSeriesUnderThePrefix) {
  RunData run;
  ReadEventFiles(
      {{Write({Scalar("loss", 2, 1), Scalar("lr", 0.5, 1), Scalar("loss", 1, 2)}), "train/"}},
      &run);
  EXPECT_EQ(ValuesOf(run, "train/loss"), (Values{{1, 2}, {2, 1}}));
  EXPECT_EQ(ValuesOf(run, "train/lr"), (Values{{1, 0.5}}));
  EXPECT_EQ(run.series.at("train/lr")[0].time, 1001.5);
  EXPECT_THAT(run.notes, IsEmpty());
}

TEST(ReadEventFilesTest, ReadsTheTensorsOfTensorFlow) {
  std::vector<proto::Event> events;
  for (int i = 0; i < 4; ++i) {
    events.push_back(Scalar("x", 0, i));
    proto::TensorProto* tensor =
        events.back().mutable_summary()->mutable_value(0)->mutable_tensor();
    tensor->set_dtype(i < 2 ? proto::DT_FLOAT : proto::DT_DOUBLE);
    const float single = 1.5f;
    const double twice = 2.5;
    if (i == 0) tensor->add_float_val(single);
    if (i == 1) tensor->set_tensor_content(std::string(reinterpret_cast<const char*>(&single), 4));
    if (i == 2) tensor->add_double_val(twice);
    if (i == 3) tensor->set_tensor_content(std::string(reinterpret_cast<const char*>(&twice), 8));
  }
  // A vector, such as a histogram, is not a scalar.
  events.push_back(events[0]);
  events.back().mutable_summary()->mutable_value(0)->mutable_tensor()->add_float_val(3);
  RunData run;
  ReadEventFiles({{Write(events), ""}}, &run);
  EXPECT_EQ(ValuesOf(run, "x"), (Values{{0, 1.5}, {1, 1.5}, {2, 2.5}, {3, 2.5}}));
}

TEST(ReadEventFilesTest, SessionStartDropsTheStepsThatItRepeats) {
  RunData run;
  const std::string first =
      Write({Scalar("loss", 1, 1), Scalar("loss", 2, 2), Scalar("loss", 3, 3), Scalar("a", 4, 9)});
  const std::string second = Write({Scalar("loss", 20, 2)}, {.purge_step = 2});
  const std::string third = Write({Scalar("loss", 30, 3)});
  ReadEventFiles({{first, "mine/"}, {third, "mine/other/"}, {second, "mine/"}}, &run);
  EXPECT_EQ(ValuesOf(run, "mine/loss"), (Values{{1, 1}, {2, 20}}));
  EXPECT_EQ(ValuesOf(run, "mine/a"), Values());
  EXPECT_EQ(ValuesOf(run, "mine/other/loss"), (Values{{3, 30}}));
}

TEST(ReadEventFilesTest, SessionStartKeepsLaterPoints) {
  proto::Event start;
  start.mutable_session_log()->set_status(proto::SessionLog::START);
  const auto starts_at = [&](int64_t step) {
    start.set_step(step);
    return start;
  };
  const std::string first =
      Write({Scalar("x", 1, 1), Scalar("x", 2, 2), Scalar("x", 3, 3), Scalar("x", 4, 4)});
  RunData run;
  const std::string second =
      Write({starts_at(4), Scalar("x", 5, 5), Scalar("y", 5, 5), starts_at(3), Scalar("x", 6, 6),
             starts_at(5), Scalar("y", 7, 5)});
  ReadEventFiles({{first, ""}, {second, ""}}, &run);
  EXPECT_EQ(ValuesOf(run, "x"), (Values{{1, 1}, {2, 2}}));
  EXPECT_EQ(ValuesOf(run, "y"), (Values{{5, 7}}));
}

// This test would time out if reading took time proportional to starts times series.
TEST(ReadEventFilesTest, ManySessionStartsWithManySeriesTakeLinearTime) {
  constexpr int kMany = 400'000, kTagsOfEvent = 500;
  std::vector<proto::Event> events;
  for (int tag = 0; tag < kMany; ++tag) {
    if (tag % kTagsOfEvent == 0) events.emplace_back().set_step(1);
    proto::Summary::Value* const value = events.back().mutable_summary()->add_value();
    value->set_tag(absl::StrCat("t", tag));
    value->set_simple_value(1);
  }
  proto::Event start;
  start.set_step(5);
  start.mutable_session_log()->set_status(proto::SessionLog::START);
  events.insert(events.end(), kMany, start);
  RunData run;
  ReadEventFiles({{Write(events), ""}}, &run);
  EXPECT_EQ(run.series.size(), static_cast<size_t>(kMany));
  EXPECT_THAT(run.notes, IsEmpty());
}

// This test would time out if reading took time proportional to files times series, or to files
// times hyperparameters.
TEST(ReadEventFilesTest, ManyFilesWithManyNamesTakeLinearTime) {
  constexpr int kMany = 400'000, kNamesOfEvent = 500;
  std::vector<proto::Event> events;
  for (int first = 0; first < kMany; first += kNamesOfEvent) {
    proto::HParamsPluginData data;
    proto::Summary* const summary = events.emplace_back().mutable_summary();
    for (int i = first; i < first + kNamesOfEvent; ++i) {
      proto::Summary::Value* const value = summary->add_value();
      value->set_tag(absl::StrCat("t", i));
      value->set_simple_value(1);
      (*data.mutable_session_start_info()->mutable_hparams())[value->tag()].set_bool_value(true);
    }
    proto::SummaryMetadata::PluginData* const plugin =
        summary->add_value()->mutable_metadata()->mutable_plugin_data();
    plugin->set_plugin_name("hparams");
    plugin->set_content(data.SerializeAsString());
  }
  std::vector<EventFile> files(10'000, {Write({}, {.purge_step = 0}), ""});
  files.front().path = Write(events);
  RunData run;
  ReadEventFiles(files, &run);
  EXPECT_EQ(run.series.size(), static_cast<size_t>(kMany));
  EXPECT_EQ(run.series["t0"].size(), 0u);
  EXPECT_EQ(run.hparams.size(), static_cast<size_t>(kMany));
  EXPECT_TRUE(std::is_sorted(run.hparams.begin(), run.hparams.end()));
  EXPECT_THAT(run.notes, IsEmpty());
}

TEST(ReadEventFilesTest, LongEventIsLeftOut) {
  const std::string path =
      Write({Scalar("a", 1, 1), Scalar(std::string(200, 'x'), 1, 1), Scalar("b", 1, 1)});
  RunData run;
  ReadEventFiles({{path, ""}}, &run, {.max_event_bytes = 100});
  EXPECT_THAT(run.series, ElementsAre(Pair("a", SizeIs(1)), Pair("b", SizeIs(1))));
  EXPECT_THAT(run.notes,
              ElementsAre(absl::StrCat(path, ": skipped 1 records of more than 100 bytes")));
}

TEST(ReadEventFilesTest, RecordBeyondTheLimitEndsTheFile) {
  const std::string path =
      Write({Scalar("a", 1, 1), Scalar(std::string(200, 'x'), 1, 1), Scalar("b", 1, 1)});
  RunData run;
  ReadEventFiles({{path, ""}}, &run, {.max_record_bytes = 100});
  EXPECT_THAT(run.series, ElementsAre(Pair("a", SizeIs(1))));
  ASSERT_THAT(run.notes, ElementsAre(HasSubstr("expected at most 100 bytes")));
  EXPECT_THAT(run.notes[0], StartsWith(absl::StrCat(path, ": record 2 at byte ")));
}

// The limit applies to the sum over all files, and to the uncompressed size of compressed files.
TEST(ReadEventFilesTest, TotalSizeLimitEndsReading) {
  const std::vector<proto::Event> events(1000, Scalar(std::string(1000, 'x'), 1, 1));
  const std::string plain = Contents(Write(events));
  for (const std::string& contents : {plain, Gzip(plain)}) {
    const std::string path = WriteTemporary("total.tfevents", contents);
    RunData run;
    ReadEventFiles({{path, ""}, {path, ""}, {path, ""}}, &run,
                   {.max_event_bytes = 10, .max_total_bytes = plain.size() * 3 / 2});
    ASSERT_THAT(run.notes,
                ElementsAre(HasSubstr(": skipped 1001 records of more than 10 bytes"),
                            HasSubstr(": skipped "), HasSubstr("are too large; expected at most"),
                            HasSubstr(": not read, ")));
    EXPECT_THAT(run.notes[2], StartsWith(absl::StrCat(path, ": stopped at byte ")));
  }
}

TEST(ReadEventFilesTest, TotalSizeIncludesDamagedRecords) {
  std::string damaged = Contents(Write({Scalar(std::string(1'000'000, 'x'), 1, 1)}));
  damaged.erase(0, Contents(Write({})).size());  // the version record
  damaged.back() ^= 1;
  const std::vector<EventFile> files(6, {WriteTemporary("damaged.tfevents", Gzip(damaged)), ""});
  RunData run;
  ReadEventFiles(files, &run, {.max_total_bytes = 3'500'000});
  ASSERT_THAT(run.notes, SizeIs(6));
  EXPECT_THAT(run.notes[3], HasSubstr("wrong checksum of the bytes"));
  EXPECT_THAT(run.notes[4], HasSubstr(": not read, "));
}

// A small record can take much memory once it is parsed.
TEST(ReadEventFilesTest, TotalSizeIncludesParsedEvents) {
  proto::Event event;
  for (int i = 0; i < 10'000; ++i) event.mutable_summary()->add_value();
  RunData run;
  ReadEventFiles({{Write({event, Scalar("a", 1, 1)}), ""}}, &run, {.max_total_bytes = 100'000});
  EXPECT_THAT(run.series, IsEmpty());
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("are too large; expected at most 100000 bytes")));
}

TEST(ReadEventFilesTest, MemoryLimitOfRunEndsReading) {
  constexpr int kMany = 2000;
  std::vector<proto::Event> scalars, starts(kMany), tags, texts, hparams;
  for (int i = 0; i < kMany; ++i) {
    scalars.push_back(Scalar("a", 1, i));
    starts[i].mutable_session_log()->set_status(proto::SessionLog::START);
    tags.push_back(Scalar(absl::StrCat("tag", i), 1, 1));
    proto::Event& text = texts.emplace_back();
    text.mutable_summary()->add_value()->mutable_tensor()->add_string_val("text");
    text.mutable_summary()
        ->mutable_value(0)
        ->mutable_metadata()
        ->mutable_plugin_data()
        ->set_plugin_name("text");
    *hparams.emplace_back().mutable_summary() =
        *HparamsSummary({{"lr", 0.1}}, {}, absl::UnixEpoch(), absl::UnixEpoch());
  }
  for (const auto& events : {scalars, starts, tags, texts, hparams}) {
    const std::string path = Write(events);
    RunData run;
    ReadEventFiles({{path, ""}, {path, ""}}, &run, {.max_kept_bytes = 100'000});
    ASSERT_THAT(run.notes,
                ElementsAre(HasSubstr("take too much memory; expected at most 100000 bytes"),
                            HasSubstr(": not read, ")));
    EXPECT_THAT(run.notes[0], StartsWith(absl::StrCat(path, ": stopped at byte ")));
    EXPECT_LT(run.series.size() + run.texts.size() + run.hparams.size(), 250u);
  }
}

TEST(ReadEventFilesTest, ReadsTextsAndHyperparameters) {
  proto::Event text;
  proto::Summary::Value* const value = text.mutable_summary()->add_value();
  value->set_tag("notes");
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value->mutable_tensor()->add_string_val("hello");
  proto::Event hparams;
  const absl::StatusOr<proto::Summary> summary =
      HparamsSummary({{"adam", true}, {"batch", 64}, {"lr", 0.1}, {"name", "mse"}}, {},
                     absl::UnixEpoch(), absl::UnixEpoch());
  ASSERT_TRUE(summary.ok()) << summary.status();
  *hparams.mutable_summary() = *summary;
  RunData run;
  ReadEventFiles({{Write({text, hparams}), ""}}, &run);
  EXPECT_THAT(run.texts, ElementsAre(Pair("notes", "hello")));
  EXPECT_THAT(run.hparams, ElementsAre(Pair("adam", "true"), Pair("batch", "64"), Pair("lr", "0.1"),
                                       Pair("name", "mse")));
  EXPECT_THAT(run.series, IsEmpty());
}

TEST(ReadEventFilesTest, TruncatedFileYieldsCompleteRecords) {
  const std::string path = Write({Scalar("loss", 1, 1), Scalar("loss", 2, 2)});
  const std::string contents = Contents(path);
  RunData whole;
  ReadEventFiles({{path, ""}}, &whole);
  for (size_t size = 0; size < contents.size(); ++size) {
    std::filesystem::resize_file(path, size);
    RunData run;
    ReadEventFiles({{path, ""}}, &run);
    const Values values = ValuesOf(run, "loss");
    ASSERT_LT(values.size(), 2u);
    if (!run.notes.empty()) {
      ASSERT_THAT(run.notes, ElementsAre(HasSubstr("is cut short")));
      ASSERT_THAT(run.notes[0], HasSubstr(path));
    }
    WriteTemporary(std::filesystem::relative(path, testing::TempDir()).string(), contents);
  }
  EXPECT_EQ(ValuesOf(whole, "loss").size(), 2u);
}

TEST(ReadEventFilesTest, EveryChangedByteIsNoticed) {
  const std::string path = Write({Scalar("loss", 1, 1)});
  const std::string contents = Contents(path);
  for (size_t i = 0; i < contents.size(); ++i) {
    std::string changed = contents;
    changed[i] = static_cast<char>(changed[i] ^ 0x40);
    RunData run;
    ReadEventFiles({{WriteTemporary("changed.tfevents", changed), ""}}, &run);
    ASSERT_EQ(run.notes.size(), 1u) << "byte " << i;
  }
}

TEST(ReadEventFilesTest, MissingFileIsANote) {
  RunData run;
  ReadEventFiles({{"/no/such/file", ""}}, &run);
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("/no/such/file")));
}

}  // namespace
}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/event_log.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "framework/runtime/failure.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

TEST(EventLogTest, EachEventIsALineOfJson) {
  const std::string directory = testing::TempDir() + "/events";
  std::filesystem::create_directory(directory);
  {
    const EventLog log(directory);
    log.Restarted(2, "worker 1: signal 9 (KILL)");
    log.Joined(0, "host \"a\"", 77);
  }
  const EventLog log(directory);  // stands for another process that appends to the log
  log.Started(400, 2, 4);
  log.Saved(500);
  log.Lost(WithFailure(absl::UnavailableError("it\nis lost"), {.rank = 3, .worker = 1, .step = 7}));

  std::ifstream file(directory + "/events.jsonl");
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(file, line);) {
    events.push_back(nlohmann::json::parse(line));
    EXPECT_EQ(events.back()["time"].get<std::string>().size(), 24u);
    events.back().erase("time");
  }
  using nlohmann::json;
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0],
            (json{{"event", "restarted"}, {"count", 2}, {"reason", "worker 1: signal 9 (KILL)"}}));
  EXPECT_EQ(events[1],
            (json{{"event", "joined"}, {"worker", 0}, {"host", "host \"a\""}, {"process", 77}}));
  EXPECT_EQ(events[2],
            (json{{"event", "started"}, {"step", 400}, {"workers", 2}, {"replicas", 4}}));
  EXPECT_EQ(events[3], (json{{"event", "saved"}, {"step", 500}}));
  EXPECT_EQ(
      events[4],
      (json{
          {"event", "lost"}, {"worker", 1}, {"rank", 3}, {"step", 7}, {"message", "it\nis lost"}}));
}

TEST(EventLogTest, UnwritableFileIsIgnored) { EventLog("/nowhere").Saved(1); }

}  // namespace
}  // namespace mirrorflow

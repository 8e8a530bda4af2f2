// SPDX-License-Identifier: Apache-2.0
//
// Tests that each call is performed once, even if the calling process's connections break.
#include "distribute/cluster/coordination/client_sessions.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distribute/cluster/coordination/answer.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/worker_process.h"
#include "framework/core/monotonic_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr WorkerProcess kProcess = {.worker = 1, .number = 7};

class ClientSessionsTest : public testing::Test {
 protected:
  ClientSessionsTest() { EXPECT_EQ(sessions_.Connect(kProcess, "first", "key"), ""); }

  // The value of each answer, or "none".
  using Answers = std::vector<std::string>;

  static coordination::Signed Message(uint64_t sequence, const std::string& connection,
                                      const std::string& key,
                                      const std::vector<uint64_t>& pending = {}) {
    coordination::Request request;
    for (const uint64_t other : pending) request.add_pending(other);
    request.add_pending(sequence);
    const Body body(request.SerializeAsString());
    coordination::Signed message;
    message.set_connection(connection);
    message.set_sequence(sequence);
    message.set_body(body.bytes);
    message.set_mac(MacOf(key, Role::kWorker, sequence, body));
    return message;
  }
  // Returns whether the caller must perform the call.
  absl::StatusOr<bool> Receive(const coordination::Signed& message, const std::string& key,
                               Answers* answers) {
    auto call =
        sessions_.Receive(message, [key, answers](const ClientSessions::SignedAnswer* answer) {
          coordination::Reply reply;
          if (answer != nullptr) {
            EXPECT_EQ(answer->mac, MacOf(key, Role::kServer, answer->sequence, *answer->body));
            EXPECT_TRUE(reply.ParseFromString(answer->body->bytes));
          }
          answers->push_back(answer == nullptr ? "none" : reply.value());
        });
    if (!call.ok()) return call.status();
    if (call->has_value()) {
      EXPECT_EQ((*call)->process, kProcess);
    }
    return call->has_value();
  }
  void Answer(uint64_t sequence, const std::string& value) {
    sessions_.Answer(kProcess, sequence, mirrorflow::Answer(value).reply());
  }

  ClientSessions sessions_;
};

TEST_F(ClientSessionsTest, RepeatedCallReceivesAnswerOfFirst) {
  Answers first, second, third;
  EXPECT_TRUE(*Receive(Message(1, "first", "key"), "key", &first));
  EXPECT_EQ(sessions_.Connect(kProcess, "second", "other"), "first");
  EXPECT_EQ(first, Answers{"none"});
  EXPECT_FALSE(*Receive(Message(1, "second", "other"), "other", &second));
  EXPECT_EQ(second, Answers{});
  Answer(1, "value");
  EXPECT_EQ(second, Answers{"value"});
  // The answer is lost in transit.
  sessions_.Connect(kProcess, "third", "more");
  EXPECT_FALSE(*Receive(Message(1, "third", "more"), "more", &third));
  EXPECT_EQ(third, Answers{"value"});
}

TEST_F(ClientSessionsTest, AcknowledgedCallIsRefused) {
  Answers answers;
  EXPECT_TRUE(*Receive(Message(1, "first", "key"), "key", &answers));
  Answer(1, "one");
  EXPECT_TRUE(*Receive(Message(2, "first", "key", {1}), "key", &answers));
  EXPECT_FALSE(*Receive(Message(1, "first", "key"), "key", &answers));  // still awaited
  EXPECT_TRUE(*Receive(Message(3, "first", "key"), "key", &answers));
  for (const uint64_t made : {1, 2}) {  // acknowledged, in progress
    const absl::Status status = Receive(Message(made, "first", "key"), "key", &answers).status();
    EXPECT_THAT(status, IsError(absl::StatusCode::kFailedPrecondition, "replay"));
  }
  EXPECT_EQ(answers, (Answers{"one", "one"}));
}

TEST_F(ClientSessionsTest, OnlyCurrentConnectionIsAccepted) {
  Answers answers;
  const coordination::Signed late = Message(1, "first", "key");
  EXPECT_THAT(Receive(Message(1, "first", "another key"), "", &answers).status(),
              IsError(absl::StatusCode::kUnauthenticated, "forged"));
  EXPECT_THAT(Receive(Message(1, "unknown", "key"), "", &answers).status(),
              IsError(absl::StatusCode::kUnauthenticated, "connection"));
  sessions_.Connect(kProcess, "second", "other");
  const absl::Status status = Receive(late, "", &answers).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kUnauthenticated, "connection"));
  EXPECT_EQ(answers, Answers{});
}

// The parser sees only bytes from a process that knows the key.
TEST_F(ClientSessionsTest, ForgedRequestIsNotParsed) {
  Answers answers;
  coordination::Signed malformed = Message(1, "first", "key");
  malformed.set_body("\xff");
  for (const auto& [key, why] : {std::pair("a guess", "forged"), std::pair("key", "malformed")}) {
    malformed.set_mac(MacOf(key, Role::kWorker, 1, Body(malformed.body())));
    const absl::Status status = Receive(malformed, "key", &answers).status();
    EXPECT_THAT(status, IsError(absl::StatusCode::kUnauthenticated, why));
  }
  EXPECT_EQ(answers, Answers{});
}

TEST_F(ClientSessionsTest, ReplacedProcessIsLostImmediately) {
  const auto patience = [](const WorkerProcess&) { return absl::Seconds(1); };
  constexpr WorkerProcess kNext = {.worker = 1, .number = 8}, kOther = {.worker = 2, .number = 9};
  sessions_.Connect(kNext, "next", "key");
  EXPECT_TRUE(sessions_.TakeReplaced(kNext).empty());  // the process is still connected
  sessions_.Disconnect("first", patience);
  EXPECT_TRUE(sessions_.TakeReplaced(kOther).empty());
  EXPECT_EQ(sessions_.TakeReplaced(kNext), std::vector<WorkerProcess>{kProcess});
  EXPECT_TRUE(sessions_.TakeReplaced(kNext).empty());
}

TEST_F(ClientSessionsTest, ProcessThatDoesNotReconnectIsLost) {
  const auto patience = [](const WorkerProcess& process) {
    EXPECT_EQ(process, kProcess);
    return absl::Seconds(1);
  };
  Answers answers;
  EXPECT_TRUE(*Receive(Message(1, "first", "key"), "key", &answers));
  sessions_.Disconnect("first", patience);
  EXPECT_EQ(answers, Answers{"none"});
  sessions_.Connect(kProcess, "second", "other");
  sessions_.Disconnect("first", patience);  // an old connection ends late
  EXPECT_TRUE(sessions_.TakeLost(MonotonicTime::Now() + absl::Hours(1)).empty());
  sessions_.Disconnect("second", patience);
  EXPECT_TRUE(sessions_.TakeLost(MonotonicTime::Now()).empty());
  EXPECT_EQ(sessions_.TakeLost(MonotonicTime::Now() + absl::Seconds(1)),
            std::vector<WorkerProcess>{kProcess});
  EXPECT_TRUE(sessions_.TakeLost(MonotonicTime::Now() + absl::Seconds(1)).empty());
  Answer(1, "value");  // ignored
}

// All processes reconnect at the same time, so each must wait for the others' handshakes.
TEST_F(ClientSessionsTest, ProcessesThatDisconnectTogetherHaveMoreTime) {
  constexpr int kCount = 200;
  const auto patience = [](const WorkerProcess&) { return absl::Seconds(1); };
  sessions_.Disconnect("first", patience);
  for (int i = 2; i <= kCount; ++i) {
    sessions_.Connect({.worker = i, .number = 7}, std::to_string(i), "key");
    sessions_.Disconnect(std::to_string(i), patience);
  }
  const MonotonicTime end = MonotonicTime::Now();
  EXPECT_TRUE(sessions_.TakeLost(end + absl::Seconds(1)).empty());
  EXPECT_EQ(sessions_.TakeLost(end + absl::Seconds(4)).size(), kCount);
}

}  // namespace
}  // namespace mirrorflow

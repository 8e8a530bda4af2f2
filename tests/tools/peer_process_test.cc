// SPDX-License-Identifier: Apache-2.0
//
// The peers in these tests are shell scripts.
#include "tools/bench/peer_process.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;
using ::testing::Pair;

absl::StatusOr<std::unique_ptr<PeerProcess>> Start(const std::string& script,
                                                   absl::Duration timeout = absl::Seconds(60)) {
  return PeerProcess::StartWorkers({{"/bin/sh", "-c", script}}, timeout);
}

TEST(PeerProcessTest, StartReadsVersionAndLosses) {
  const auto peer =
      Start("echo version 1.2; echo loss 0.5; echo a warning; echo loss 0.25; echo ready; cat");
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ((*peer)->start().version, "1.2");
  EXPECT_THAT((*peer)->start().losses, ElementsAre(0.5, 0.25));
}

TEST(PeerProcessTest, ReportsFirstStepTimeAndPeakMemory) {
  const auto peer = Start("echo version 1; sleep 0.05; echo loss 1; echo ready; cat");
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_GE((*peer)->start().first_step_ms, 50);
  const auto bytes = (*peer)->PeakBytes();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, 100 << 10);
  EXPECT_LT(*bytes, 100 << 20);
}

TEST(PeerProcessTest, RunReturnsTimePerStep) {
  const auto peer = Start("echo ready; read order; echo ran 4 ${order#run }; cat");
  ASSERT_TRUE(peer.ok()) << peer.status();
  const auto ms = (*peer)->Run(200);
  ASSERT_TRUE(ms.ok()) << ms.status();
  EXPECT_EQ(*ms, 50);
}

TEST(PeerProcessTest, StartReadsSettingsAndDifferences) {
  const auto peer = Start(
      "echo settings xla=on; echo difference y:0 2e-7; echo difference z:0 nan; echo difference; "
      "echo ready; cat");
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ((*peer)->start().settings, "xla=on");
  EXPECT_THAT((*peer)->start().differences, ElementsAre(Pair("y:0", 2e-7), Pair("z:0", IsNan())));
}

TEST(PeerProcessTest, StartReadsLogitsAndTimeOfEmptyCall) {
  const auto peer = Start("echo logit 0.5; echo logit -2; echo call 1500; echo ready; cat");
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_THAT((*peer)->start().logits, ElementsAre(0.5, -2));
  EXPECT_DOUBLE_EQ((*peer)->start().empty_call_ms, 0.0015);
}

TEST(PeerProcessTest, ServeReturnsRateAndLatencies) {
  const auto peer = Start("echo ready; read order; echo served 8 ${order#serve } 20000 3e6; cat");
  ASSERT_TRUE(peer.ok()) << peer.status();
  const auto load = (*peer)->Serve(200);
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(load->requests, 8);
  EXPECT_DOUBLE_EQ(load->seconds, 0.2);
  EXPECT_DOUBLE_EQ(load->p50_ms, 0.02);
  EXPECT_DOUBLE_EQ(load->p99_ms, 3);
}

TEST(PeerProcessTest, ReportsPeerThatEnded) {
  EXPECT_THAT(Start("echo version 1; exit 1").status(),
              IsError(absl::StatusCode::kUnavailable, "/bin/sh ended"));
  const auto peer = Start("echo ready; read order");
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_THAT((*peer)->Run(200).status(), IsError(absl::StatusCode::kUnavailable, "/bin/sh ended"));
}

TEST(PeerProcessTest, ReportsPeerThatCannotStart) {
  EXPECT_THAT(PeerProcess::StartWorkers({{"/no/such/peer"}}, absl::Seconds(60)).status(),
              IsError(absl::StatusCode::kUnavailable, "/no/such/peer"));
}

TEST(PeerProcessTest, StartFailsAtDeadline) {
  EXPECT_THAT(Start("exec sleep 60", absl::Milliseconds(50)).status(),
              IsError(absl::StatusCode::kDeadlineExceeded, "/bin/sh"));
}

TEST(PeerProcessTest, RejectsTooMuchOutput) {
  const absl::Status line = Start("exec tr '\\0' x < /dev/zero").status();
  EXPECT_THAT(line, IsError(absl::StatusCode::kInvalidArgument, "/bin/sh:", "a line"));
  const absl::Status lines = Start("exec yes 'loss 1'").status();
  EXPECT_THAT(lines, IsError(absl::StatusCode::kInvalidArgument, "/bin/sh:", "too much output"));
}

TEST(PeerProcessTest, ErrorsOfEveryWorkerArePrintedSafely) {
  testing::internal::CaptureStderr();
  const std::string fifo = absl::StrCat(::testing::TempDir(), "/written_", getpid());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  {
    const std::string evil = "printf '\\033]0;owned\\007' >&2; ";
    const auto peer = PeerProcess::StartWorkers(
        {{"/bin/sh", "-c", absl::StrCat(evil, "read line < ", fifo, "; echo ready; cat")},
         {"/bin/sh", "-c", absl::StrCat(evil, "echo > ", fifo, "; exec cat")}},
        absl::Seconds(60));
    ASSERT_TRUE(peer.ok()) << peer.status();
  }
  unlink(fifo.c_str());
  const std::string text = testing::internal::GetCapturedStderr();
  for (const char* worker : {"[worker 0] ", "[worker 1] "}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(worker, "\\033]0;owned\\007\n")));
  }
  EXPECT_EQ(text.find('\033'), std::string::npos);
}

// The peer prints more than a pipe can hold, before and after it is ready.
TEST(PeerProcessTest, PeerThatWritesManyErrorsIsNotBlocked) {
  testing::internal::CaptureStderr();
  const std::string many = "yes error | head -n 100000 >&2; ";
  {
    const auto peer = Start(many + "echo ready; read order; " + many + "echo ran 1 1; cat");
    ASSERT_TRUE(peer.ok()) << peer.status();
    EXPECT_TRUE((*peer)->Run(200).ok());
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 200000);
}

TEST(PeerProcessTest, OtherWorkersAreSilentAndEndWithTheFirst) {
  // The second worker sends its process id to the first through a fifo, and ends when its input
  // does.
  const std::string fifo = absl::StrCat(::testing::TempDir(), "/worker_", getpid());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  auto peer = PeerProcess::StartWorkers(
      {{"/bin/sh", "-c",
        absl::StrCat("read process < ", fifo, "; echo loss $process; echo ready; cat")},
       {"/bin/sh", "-c", absl::StrCat("echo loss 2; echo $$ > ", fifo, "; exec cat")}},
      absl::Seconds(60));
  unlink(fifo.c_str());
  ASSERT_TRUE(peer.ok()) << peer.status();
  ASSERT_EQ((*peer)->start().losses.size(), 1);
  const auto other = static_cast<pid_t>((*peer)->start().losses[0]);
  EXPECT_EQ(kill(other, 0), 0);
  peer->reset();
  EXPECT_EQ(kill(other, 0), -1);
}

TEST(PeerProcessTest, RejectsInvalidAnswer) {
  const auto peer = Start("echo ready; while read order; do echo ran 0 1; done");
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_THAT((*peer)->Run(200).status(),
              IsError(absl::StatusCode::kInvalidArgument, "expected 'ran STEPS SECONDS'"));
  EXPECT_THAT((*peer)->Serve(200).status(),
              IsError(absl::StatusCode::kInvalidArgument, "got 'ran 0 1'"));
}

}  // namespace
}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/worker_hosts.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tools/bench/peer_process.h"
#include "tools/launch/launch.h"

ABSL_DECLARE_FLAG(std::vector<std::string>, hosts);
ABSL_DECLARE_FLAG(std::string, rsh);

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

const std::vector<std::string> kCommand = {"peer", "--all={addresses}", "{worker}"};

TEST(BenchWorkersTest, WorkersOfThisMachineTalkOverLoopback) {
  const auto commands = CommandsOfWorkers(kCommand, {20, 21}, {});
  ASSERT_TRUE(commands.ok()) << commands.status();
  EXPECT_THAT(*commands, ElementsAre(ElementsAre("peer", "--all=127.0.0.1:20,127.0.0.1:21", "0"),
                                     ElementsAre("peer", "--all=127.0.0.1:20,127.0.0.1:21", "1")));
}

TEST(BenchWorkersTest, EachHostRunsItsWorkerThroughTheRemoteShell) {
  const absl::FlagSaver saver;
  absl::SetFlag(&FLAGS_hosts, {"a=10.0.0.1", "b=[fe80::1]"});
  absl::SetFlag(&FLAGS_rsh, "ip  netns exec {host}");
  const auto hosts = HostsFromFlags();
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  const auto commands = CommandsOfWorkers(kCommand, {20, 21}, *hosts);
  ASSERT_TRUE(commands.ok()) << commands.status();
  const std::string all = "--all=10.0.0.1:20,[fe80::1]:21";
  EXPECT_THAT(*commands, ElementsAre(ElementsAre("ip", "netns", "exec", "a", "peer", all, "0"),
                                     ElementsAre("ip", "netns", "exec", "b", "peer", all, "1")));
}

TEST(BenchWorkersTest, EveryWorkerNeedsAHost) {
  const WorkerHosts one = {.hosts = {{.name = "a", .address = "a"}}, .remote_shell = {"ssh"}};
  const absl::Status status = CommandsOfWorkers(kCommand, {20, 21}, one).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "--hosts:", "each of 2"));
}

TEST(BenchWorkersTest, HostHasOneWorker) {
  const WorkerHosts two = {
      .hosts = {{.name = "a", .address = "a"}, {.name = "b", .address = "b", .slots = 2}},
      .remote_shell = {"ssh"}};
  EXPECT_THAT(CommandsOfWorkers(kCommand, {20, 21}, two).status(),
              IsError(absl::StatusCode::kInvalidArgument, "--hosts:", "2 on host b"));
}

TEST(BenchWorkersTest, EachHostHasOneRemoteShell) {
  const std::string folder = ::testing::TempDir(), shell = absl::StrCat(folder, "/counting"),
                    starts = absl::StrCat(folder, "/starts");
  unlink(starts.c_str());
  std::ofstream(shell) << "host=$1; shift; echo $host >> " << starts << "; exec sh -c \"$*\"\n";
  const WorkerHosts hosts = {
      .hosts = {{.name = "a", .address = "127.0.0.1"}, {.name = "b", .address = "127.0.0.1"}},
      .remote_shell = {"sh", shell, "{host}"}};
  const std::vector<std::string> command = {
      "sh", "-c",
      absl::StrCat("until [ $(wc -l < ", starts, ") = 2 ]; do :; done; echo ready; cat")};
  const auto commands = CommandsOfWorkers(command, {20, 21}, hosts);
  ASSERT_TRUE(commands.ok()) << commands.status();
  const auto peer = PeerProcess::StartWorkers(*commands, absl::Seconds(60));
  ASSERT_TRUE(peer.ok()) << peer.status();
  std::ifstream file(starts);
  const std::vector<std::string> started{std::istream_iterator<std::string>(file), {}};
  EXPECT_THAT(started, UnorderedElementsAre("a", "b"));
}

TEST(BenchWorkersTest, HostsNeedARemoteShell) {
  const absl::FlagSaver saver;
  absl::SetFlag(&FLAGS_hosts, {"a", "b"});
  absl::SetFlag(&FLAGS_rsh, " ");
  EXPECT_THAT(HostsFromFlags().status(),
              IsError(absl::StatusCode::kInvalidArgument, "--rsh: empty"));
}

}  // namespace
}  // namespace mirrorflow

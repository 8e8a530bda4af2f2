// SPDX-License-Identifier: Apache-2.0
//
// Tests the coordination service beyond the contract of WorkerGroup: which workers can register,
// which settings must be equal, and what happens if workers or services are missing or late.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/cluster/connections/connection_listener.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/owned_socket.h"
#include "framework/runtime/failure.h"
#include "framework/runtime/run_progress.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/distribute/cluster/coordination_fixture.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/support/tcp_proxy.h"

namespace mirrorflow {
namespace {

// --- registration -----------------------------------------------------------------------------

TEST_F(CoordinationTest, EachWorkerLearnsAboutAllWorkers) {
  Start(3);
  const std::vector<Client> clients = ConnectAll(3, 30, [](Options* options) {
    options->member.set_cores(absl::StrCat("cores of ", options->member.worker()));
  });
  for (const Client& client : clients) {
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_EQ((*client)->members().size(), 3u);
    for (int w = 0; w < 3; ++w) {
      EXPECT_EQ((*client)->members()[w].cores(), absl::StrCat("cores of ", w));
    }
  }
}

TEST_F(CoordinationTest, MissingWorkerIsNamedAtDeadline) {
  Start(3);
  const MonotonicTime start = MonotonicTime::Now();
  for (const Client& client : ConnectAll(2, 0.3)) {
    EXPECT_THAT(client.status(), IsError(absl::StatusCode::kDeadlineExceeded, "missing worker 2"));
    EXPECT_EQ(FailureOf(client.status())->worker, 2);
  }
  EXPECT_LT(MonotonicTime::Now() - start, absl::Seconds(2));
}

TEST_F(CoordinationTest, WorkerThatGaveUpEarlierIsNotMissing) {
  Start(3);
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 2; ++worker) {
    threads.emplace_back([&, worker] {
      const Options options = TestWorkerOptions(server_->port(), worker, num_workers_);
      statuses[worker] = CoordinationClient::Connect(options, In(0.3 + 0.3 * worker)).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kDeadlineExceeded, "missing worker 2"));
    EXPECT_EQ(FailureOf(status)->worker, 2);
  }
}

TEST_F(CoordinationTest, UnreachableServiceIsNamedAtDeadline) {
  const MonotonicTime start = MonotonicTime::Now();
  const Client client = CoordinationClient::Connect(TestWorkerOptions(1, 1, 2), In(0.3));
  EXPECT_THAT(client.status(),
              IsError(absl::StatusCode::kDeadlineExceeded, "127.0.0.1:1", "tries"));
  EXPECT_LT(MonotonicTime::Now() - start, absl::Seconds(2));
}

TEST_F(CoordinationTest, LateServiceIsFound) {
  Start(1);
  const int port = server_->port();
  server_ = nullptr;
  Client client;
  std::thread early(
      [&] { client = CoordinationClient::Connect(TestWorkerOptions(port, 0, 1), In(30)); });
  absl::SleepFor(absl::Milliseconds(700));
  const auto late = CoordinationServer::Start({.address = absl::StrCat("127.0.0.1:", port),
                                               .num_workers = 1,
                                               .secret = kTestSecret,
                                               .job = "test"});
  early.join();
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_TRUE(client.ok()) << client.status();
}

TEST_F(CoordinationTest, PortInUseIsReported) {
  Start(1);
  const std::string address = absl::StrCat("127.0.0.1:", server_->port());
  const auto second = CoordinationServer::Start({.address = address, .num_workers = 1});
  EXPECT_THAT(second.status(), IsError(absl::StatusCode::kUnavailable, address));
}

TEST_F(CoordinationTest, ServiceWaitsForAddressThatHostLacks) {
  const CoordinationServer::Options options = {.address = "192.0.2.1:0", .num_workers = 1};
  EXPECT_THAT(CoordinationServer::Start(options).status(),
              IsError(absl::StatusCode::kUnavailable, "192.0.2.1"));
  const absl::Status late = CoordinationServer::Start(options, In(0.3)).status();
  EXPECT_THAT(late, IsError(absl::StatusCode::kDeadlineExceeded, "192.0.2.1"));
}

// Waiting cannot make these addresses usable; the same holds for a privileged port.
TEST_F(CoordinationTest, UnusableAddressIsRejectedImmediately) {
  // A link-local address without a scope does not specify the network device.
  for (const char* address : {"[fe80::1]:0", "127.0.0.1"}) {
    const absl::Status status =
        CoordinationServer::Start({.address = address, .num_workers = 1}, In(1)).status();
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, address));
  }
}

TEST_F(CoordinationTest, DifferentWorldSizesAreNamedOnAllWorkers) {
  Start(2);
  for (const Client& client : ConnectAll(2, 30, [](Options* options) {
         if (options->member.worker() == 1) options->member.set_num_workers(3);
       })) {
    EXPECT_THAT(client.status(), IsError(absl::StatusCode::kInvalidArgument, "worker 0", "= 2`",
                                         "worker 1", "= 3`"));
  }
}

TEST_F(CoordinationTest, DifferentSettingsAreNamedOnAllWorkers) {
  Start(2);
  for (const Client& client : ConnectAll(2, 30, [](Options* options) {
         options->member.mutable_settings(0)->set_value(absl::StrCat(options->member.worker()));
       })) {
    EXPECT_THAT(client.status(), IsError(absl::StatusCode::kInvalidArgument, "worker 0",
                                         "`build = 0`", "worker 1", "`build = 1`"));
  }
}

// Waits until the service has sent `text` through the proxy.
void AwaitText(TcpProxy& proxy, absl::string_view text) {
  for (int i = 0; i < 3000; ++i) {
    if (absl::StrContains(proxy.captured(), text)) return;
    absl::SleepFor(absl::Milliseconds(10));
  }
  ADD_FAILURE() << "not received: " << text;
}
void AwaitRefusal(TcpProxy& proxy) { AwaitText(proxy, "already registered"); }

TEST_F(CoordinationTest, SecondProcessOfWorkerIsRefusedAndFirstContinues) {
  Start(2);
  std::vector<Client> clients = ConnectAll(2);
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  const Client second =
      CoordinationClient::Connect(TestWorkerOptions(server_->port(), 1, 2), In(1));
  EXPECT_THAT(second.status(), IsError(absl::StatusCode::kAlreadyExists, "worker 1", "host1"));
  std::vector<std::thread> threads;
  for (Client& client : clients) {
    threads.emplace_back([&] {
      const auto group = (*client)->NewGroup();
      EXPECT_TRUE(group->Join(In(30)).ok());
      EXPECT_EQ(group->Barrier("b", In(30)), absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A worker can restart before the service notices that another worker has died.
TEST_F(CoordinationTest, SecondProcessWaitsForEndOfCompleteCluster) {
  Start(2);
  std::vector<Client> clients = ConnectAll(2);
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  TcpProxy proxy(server_->port());
  Options options = TestWorkerOptions(server_->port(), 1, 2);
  options.coordinator = absl::StrCat("127.0.0.1:", proxy.port());
  absl::Status second;
  std::thread other([&] { second = CoordinationClient::Connect(options, In(3600)).status(); });
  AwaitRefusal(proxy);
  clients[0]->reset();
  AwaitText(proxy, "waiting for the others to end");
  MonotonicTime::AdvanceForTest(absl::Seconds(3600));
  other.join();
  EXPECT_THAT(second, IsError(absl::StatusCode::kDeadlineExceeded, "waiting for the others"));
}

// A worker's earlier process can be dead before the service notices.
TEST_F(CoordinationTest, ProcessWaitsForEarlierProcessToEnd) {
  Start(2);
  Options first = TestWorkerOptions(server_->port(), 1, 2), second = first;
  first.member.set_cores("0");
  second.member.set_cores("1");
  TcpProxy proxy(server_->port());
  second.coordinator = absl::StrCat("127.0.0.1:", proxy.port());
  absl::Status gave_up;
  Client next;
  const MonotonicTime first_deadline = In(3600);
  std::thread one([&] { gave_up = CoordinationClient::Connect(first, first_deadline).status(); });
  EXPECT_TRUE(AwaitLog("1/2 joined", absl::Seconds(5)));
  MonotonicTime::AdvanceForTest(first_deadline - MonotonicTime::Now() - absl::Seconds(10));
  std::thread other([&] { next = CoordinationClient::Connect(second, In(60)); });
  AwaitRefusal(proxy);
  MonotonicTime::AdvanceForTest(absl::Seconds(10));
  one.join();
  const Client zero = CoordinationClient::Connect(TestWorkerOptions(server_->port(), 0, 2), In(30));
  other.join();
  EXPECT_THAT(gave_up, IsError(absl::StatusCode::kDeadlineExceeded, "missing worker"));
  ASSERT_TRUE(next.ok()) << next.status();
  ASSERT_TRUE(zero.ok()) << zero.status();
  EXPECT_EQ((*zero)->members()[1].cores(), "1");
}

TEST_F(CoordinationTest, WaitForEarlierProcessIsBounded) {
  Start(2);
  const Options options = TestWorkerOptions(server_->port(), 1, 2);
  TcpProxy proxy(server_->port());
  Options second = options;
  second.coordinator = absl::StrCat("127.0.0.1:", proxy.port());
  std::thread one([&] { CoordinationClient::Connect(options, In(3600)).IgnoreError(); });
  EXPECT_TRUE(AwaitLog("1/2 joined", absl::Seconds(5)));
  absl::Status refused;
  std::thread other([&] { refused = CoordinationClient::Connect(second, In(60)).status(); });
  AwaitRefusal(proxy);
  MonotonicTime::AdvanceForTest(absl::Seconds(21));
  other.join();
  EXPECT_THAT(refused, IsError(absl::StatusCode::kAlreadyExists, "worker 1", "registered"));
  MonotonicTime::AdvanceForTest(absl::Seconds(3600));
  one.join();
}

TEST_F(CoordinationTest, FirstWorkerWaitsForOthersToLeave) {
  Start(2);
  std::vector<Client> clients = ConnectAll(2);
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  EXPECT_THAT((*clients[0])->Leave(In(0.1)),
              IsError(absl::StatusCode::kDeadlineExceeded, "worker 1"));
  EXPECT_EQ((*clients[1])->Leave(In(30)), absl::OkStatus());
  EXPECT_EQ((*clients[0])->Leave(In(30)), absl::OkStatus());
}

TEST_F(CoordinationTest, CallsThatRequireDepartedWorkerFailImmediately) {
  Start(2);
  std::vector<Client> clients = ConnectAll(2);
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  const auto group = (*clients[0])->NewGroup();
  absl::Status waited;
  std::thread waiting([&] { waited = group->Join(In(30)).status(); });
  EXPECT_EQ((*clients[1])->Leave(In(30)), absl::OkStatus());
  waiting.join();
  for (const absl::Status& status : {waited, group->Join(In(30)).status()}) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kFailedPrecondition, "worker 1", "has left"));
    EXPECT_EQ(FailureOf(status)->worker, 1);
  }
}

// --- status -------------------------------------------------------------------------------------

class ClusterStatusTest : public CoordinationTest {
 protected:
  absl::StatusOr<coordination::ClusterStatus> GetStatus(const std::string& secret = kTestSecret,
                                                        double seconds = 30) {
    Options options = TestWorkerOptions(server_->port(), 0, 1);
    options.secret = secret;
    return CoordinationClient::GetStatus(options, In(seconds));
  }
  // Blocks until a worker is in this state.
  coordination::ClusterStatus::Worker Await(int worker, coordination::ClusterStatus::State state) {
    for (int i = 0; i < 3000; ++i) {
      const auto status = GetStatus();
      EXPECT_TRUE(status.ok()) << status.status();
      if (!status.ok()) break;
      EXPECT_EQ(status->workers_size(), num_workers_);
      if (status->workers(worker).state() == state) return status->workers(worker);
      absl::SleepFor(absl::Milliseconds(10));
    }
    ADD_FAILURE() << "worker " << worker << " does not enter state " << state;
    return {};
  }
};

TEST_F(ClusterStatusTest, ObserverSeesStateOfEachWorker) {
  using coordination::ClusterStatus;
  Start(2);
  Await(0, ClusterStatus::MISSING);
  std::vector<Client> clients(2);
  const auto connect = [&](int w) {
    clients[w] =
        CoordinationClient::Connect(TestWorkerOptions(server_->port(), w, num_workers_), In(30));
  };
  std::thread first([&] { connect(0); });
  EXPECT_EQ(Await(0, ClusterStatus::WAITING).detail(), "register");
  Await(1, ClusterStatus::MISSING);
  connect(1);
  first.join();
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  EXPECT_EQ(Await(1, ClusterStatus::BETWEEN_STEPS).pid(), TestWorkerOptions(0, 1, 2).member.pid());

  const auto group = (*clients[0])->NewGroup();
  absl::Status waited;
  std::thread waiting([&] { waited = group->Join(In(30)).status(); });
  EXPECT_EQ(Await(0, ClusterStatus::WAITING).detail(), "join");
  EXPECT_EQ((*clients[1])->Leave(In(30)), absl::OkStatus());
  waiting.join();
  EXPECT_EQ(Await(1, ClusterStatus::LEFT).detail(), "has finished");
}

TEST_F(ClusterStatusTest, ObserverWithoutSecretIsRefused) {
  Start(1);
  EXPECT_THAT(GetStatus("another secret of the tests", 0.5).status(),
              IsError(absl::StatusCode::kPermissionDenied, absl::StrCat(server_->port())));
}

TEST_F(ClusterStatusTest, ObserverCannotRegisterAsWorker) {
  Start(1);
  Options options = TestWorkerOptions(server_->port(), 0, 1);
  options.member.set_worker(-1);
  EXPECT_THAT(CoordinationClient::Connect(options, In(0.5)).status(),
              IsError(absl::StatusCode::kDeadlineExceeded, "worker -1"));
  const std::vector<Client> clients = ConnectAll(1);  // the cluster still works
  EXPECT_TRUE(clients[0].ok()) << clients[0].status();
}

// --- late workers -------------------------------------------------------------------------------

// Worker 0 is inside a step that is stuck waiting for worker 1.
class LateWorkerTest : public CoordinationTest {
 protected:
  // `patience` is how long worker 1 can be late before the step fails.
  void StartStep(absl::Duration patience) {
    Start(2);
    begin_ = MonotonicTime::Now();
    clients_ = ConnectAll(2, 30, [&](Options* options) {
      options->progress_timeout = absl::Milliseconds(200);
      if (options->member.worker() == 1) options->prepare_timeout = patience;
    });
    std::vector<std::thread> joins;
    for (int w = 0; w < 2; ++w) {
      ASSERT_TRUE(clients_[w].ok()) << clients_[w].status();
      groups_.push_back((*clients_[w])->NewGroup());
      joins.emplace_back([group = groups_[w].get()] { EXPECT_TRUE(group->Join(In(30)).ok()); });
    }
    for (std::thread& join : joins) join.join();
    groups_[0]->ShareProgress(progress_);
  }
  // Blocks until the step fails, and returns its error.
  absl::Status AwaitStall() { return groups_[0]->Get("never put", In(30)).status(); }
  // Ends the calls of worker 1.
  void End(const absl::Status& why) { groups_[0]->ReportFailure(why, In(30)).IgnoreError(); }

  MonotonicTime begin_;
  std::vector<Client> clients_;
  std::vector<std::unique_ptr<WorkerGroup>> groups_;
  const std::shared_ptr<RunProgress> progress_ = std::make_shared<RunProgress>(1);
  const RunProgress::Run run_{*progress_, 1};
};

TEST_F(LateWorkerTest, WorkerThatWatchesInBackgroundCanBeLate) {
  constexpr absl::Duration kPatience = absl::Seconds(1);
  StartStep(kPatience);
  std::thread watches([&] {
    EXPECT_THAT(groups_[1]->Watch("never put").status(),
                IsError(absl::StatusCode::kDeadlineExceeded, "without progress"));
  });
  const absl::Status failed = AwaitStall();
  EXPECT_THAT(failed, IsError(absl::StatusCode::kDeadlineExceeded, "without progress"));
  EXPECT_GE(MonotonicTime::Now() - begin_, kPatience);
  End(failed);
  watches.join();
}

TEST_F(LateWorkerTest, WorkerThatWaitsWithoutDeadlineIsNotLate) {
  StartStep(absl::Hours(1));
  std::thread waits([&] {
    EXPECT_THAT(groups_[1]->Barrier("never passed", MonotonicTime::InfiniteFuture()),
                IsError(absl::StatusCode::kDeadlineExceeded, "without progress"));
  });
  const absl::Status failed = AwaitStall();
  EXPECT_THAT(failed, IsError(absl::StatusCode::kDeadlineExceeded, "without progress"));
  End(failed);
  waits.join();
}

// --- file descriptors ---------------------------------------------------------------------------

TEST_F(CoordinationTest, ServiceRaisesLimitOnOpenFiles) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 16;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr int kWorkers = 100;
  Start(kWorkers);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GE(limit.rlim_cur, 3 * kWorkers);
}

TEST(ConnectionListenerTest, PausesForDurationThatOnConnectionReturns) {
  auto listener = ConnectionListener::Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.status();
  constexpr int kCallers = 50;
  std::vector<OwnedSocket> callers;
  for (int i = 0; i < kCallers; ++i) callers.emplace_back(ConnectToPort((*listener)->port()));
  std::atomic<int> num_connected = 0;
  ASSERT_TRUE((*listener)
                  ->Start(
                      [&](int fd, const std::string&) {
                        close(fd);
                        ++num_connected;
                        return absl::Hours(1);
                      },
                      [](const absl::Status&) {})
                  .ok());
  while (num_connected == 0) absl::SleepFor(absl::Milliseconds(1));
  absl::SleepFor(absl::Milliseconds(100));  // without a pause, all would be accepted by now
  EXPECT_LT(num_connected, kCallers);
  listener->reset();  // interrupts the pause
}

TEST(ConnectionListenerTest, LackOfDescriptorsIsReportedUntilSomeAreFree) {
  const auto listener = ConnectionListener::Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.status();
  const int caller = socket(AF_INET, SOCK_STREAM, 0);
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = caller + 1;
  std::atomic<bool> connected = false, failed = false;
  absl::Status failure;
  ASSERT_TRUE((*listener)
                  ->Start(
                      [&](int fd, const std::string&) {
                        close(fd);
                        connected = true;
                        return absl::ZeroDuration();
                      },
                      [&](const absl::Status& why) {
                        if (failed) return;
                        failure = why;
                        failed = true;
                      })
                  .ok());
  setrlimit(RLIMIT_NOFILE, &none);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons((*listener)->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(caller, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  for (int i = 0; i < 1500 && !failed; ++i) {
    MonotonicTime::AdvanceForTest(absl::Milliseconds(100));
    absl::SleepFor(absl::Milliseconds(20));
  }
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(failed);
  EXPECT_THAT(failure, IsError(absl::StatusCode::kResourceExhausted, "ulimit -n"));
  const MonotonicTime deadline = In(30);
  while (!connected && MonotonicTime::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_TRUE(connected);
  close(caller);
}

// --- the secret -------------------------------------------------------------------------------

TEST(SecretFileTest, FileThatOthersCanReadIsRejected) {
  const std::string path = WriteTemporary("secret", "0123456789abcdef0123456789abcdef\n");
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(ReadSecretFile(path).status(),
              IsError(absl::StatusCode::kInvalidArgument, path, "mode 0644"));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadSecretFile(path).value(), "0123456789abcdef0123456789abcdef");
}

TEST(SecretFileTest, FileOfAnotherUserIsRejected) {
  const std::string path = WriteTemporary("foreign", "0123456789abcdef0123456789abcdef\n");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  if (chown(path.c_str(), 65534, -1) != 0) return;  // only root can change the owner
  EXPECT_THAT(ReadSecretFile(path).status(),
              IsError(absl::StatusCode::kInvalidArgument, path, "another user", "65534"));
}

TEST(SecretFileTest, PipeAndFolderAreRejected) {
  const std::string path = WriteTemporary("pipe", "");
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(ReadSecretFile(path).status(),
              IsError(absl::StatusCode::kInvalidArgument, path, "regular file"));
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_THAT(ReadSecretFile(path).status(),
              IsError(absl::StatusCode::kInvalidArgument, path, "regular file"));
  ASSERT_EQ(rmdir(path.c_str()), 0);
}

TEST(SecretFileTest, WindowsLineEndIsNotPartOfSecret) {
  const std::string path = WriteTemporary("windows", "0123456789abcdef0123456789abcdef\r\n");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadSecretFile(path).value(), "0123456789abcdef0123456789abcdef");
}

TEST(SecretFileTest, ShortAndMissingFilesAreErrors) {
  const std::string path = WriteTemporary("short", "secret\n");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_THAT(ReadSecretFile(path).status(),
              IsError(absl::StatusCode::kInvalidArgument, path, "16 to 4096"));
  EXPECT_THAT(ReadSecretFile(path + ".none").status(),
              IsError(absl::StatusCode::kNotFound, path + ".none", "cannot open"));
}

TEST(HmacTest, FieldBoundariesChangeHmac) {
  EXPECT_NE(Hmac("key", {"ab", "c"}), Hmac("key", {"a", "bc"}));
  EXPECT_NE(Hmac("key", {"a"}), Hmac("yek", {"a"}));
  EXPECT_EQ(Hmac("", {"a"}), Hmac("", {"a"}));
}

}  // namespace
}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
//
// Tests the coordination service beyond the contract of WorkerGroup: which callers may take part,
// what must be equal, and missing, late and lost workers, services and strangers.
#include "tests/support/coordination.h"

#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/authentication.h"
#include "distribute/cluster/connections/connection_listener.h"
#include "distribute/cluster/coordination/coordination.grpc.pb.h"
#include "distribute/cluster/coordination/messages.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/tcp_proxy.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Options = CoordinationClient::Options;
using Client = absl::StatusOr<std::unique_ptr<CoordinationClient>>;

MonotonicTime In(double seconds) { return MonotonicTime::Now() + absl::Seconds(seconds); }

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class CoordinationTest : public testing::Test {
 protected:
  void Start(int num_workers, const std::string& secret = kTestSecret,
             const std::string& address = "127.0.0.1:0") {
    num_workers_ = num_workers;
    auto server = CoordinationServer::Start({.address = address,
                                             .num_workers = num_workers,
                                             .secret = secret,
                                             .job = "test",
                                             .log = [this](absl::string_view line) {
                                               std::lock_guard<std::mutex> lock(mu_);
                                               log_.emplace_back(line);
                                             }});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // Connects workers 0, 1, … side by side. `change` may change the options of each.
  std::vector<Client> ConnectAll(int count, double seconds = 30,
                                 const std::function<void(Options*)>& change = nullptr) {
    std::vector<Client> clients(count);
    std::vector<std::thread> threads;
    for (int w = 0; w < count; ++w) {
      threads.emplace_back([&, w] {
        Options options = TestWorkerOptions(server_->port(), w, num_workers_);
        if (change) change(&options);
        clients[w] = CoordinationClient::Connect(options, In(seconds));
      });
    }
    for (std::thread& thread : threads) thread.join();
    return clients;
  }
  std::vector<std::string> log() {
    std::lock_guard<std::mutex> lock(mu_);
    return log_;
  }

  int num_workers_ = 0;
  std::mutex mu_;
  std::vector<std::string> log_;  // guarded by mu_
  std::unique_ptr<CoordinationServer> server_;
};

// --- registration -----------------------------------------------------------------------------

TEST_F(CoordinationTest, AllWorkersLearnAboutAll) {
  Start(3);
  const std::vector<Client> clients = ConnectAll(3);
  for (const Client& client : clients) {
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_EQ((*client)->members().size(), 3u);
    for (int w = 0; w < 3; ++w) EXPECT_EQ((*client)->members()[w].host(), absl::StrCat("host", w));
  }
}

TEST_F(CoordinationTest, MissingWorkerIsNamedAtTheDeadline) {
  Start(3);
  const MonotonicTime start = MonotonicTime::Now();
  for (const Client& client : ConnectAll(2, 0.3)) {
    EXPECT_EQ(client.status().code(), absl::StatusCode::kDeadlineExceeded) << client.status();
    EXPECT_THAT(Message(client.status()), HasSubstr("missing worker 2"));
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
    EXPECT_THAT(Message(status), HasSubstr("missing worker 2"));
    EXPECT_EQ(FailureOf(status)->worker, 2);
  }
}

TEST_F(CoordinationTest, UnreachableServiceIsNamedAtTheDeadline) {
  const MonotonicTime start = MonotonicTime::Now();
  const Client client = CoordinationClient::Connect(TestWorkerOptions(1, 1, 2), In(0.3));
  EXPECT_EQ(client.status().code(), absl::StatusCode::kDeadlineExceeded) << client.status();
  EXPECT_THAT(Message(client.status()), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("tries")));
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

TEST_F(CoordinationTest, TakenPortIsError) {
  Start(1);
  const std::string address = absl::StrCat("127.0.0.1:", server_->port());
  const auto second = CoordinationServer::Start({.address = address, .num_workers = 1});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable) << second.status();
  EXPECT_THAT(Message(second.status()), HasSubstr(address));
}

TEST_F(CoordinationTest, DifferentWorldSizesAreNamedOnAllWorkers) {
  Start(2);
  for (const Client& client : ConnectAll(2, 30, [](Options* options) {
         if (options->member.worker() == 1) options->member.set_num_workers(3);
       })) {
    EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument) << client.status();
    EXPECT_THAT(Message(client.status()), AllOf(HasSubstr("worker 0 has `number of workers = 2`"),
                                                HasSubstr("worker 1 has `number of workers = 3`")));
  }
}

TEST_F(CoordinationTest, DifferentSettingsAreNamedOnAllWorkers) {
  Start(2);
  for (const Client& client : ConnectAll(2, 30, [](Options* options) {
         options->member.mutable_settings(0)->set_value(absl::StrCat(options->member.worker()));
       })) {
    EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument) << client.status();
    EXPECT_THAT(Message(client.status()), AllOf(HasSubstr("worker 0 has `build = 0`"),
                                                HasSubstr("worker 1 has `build = 1`")));
  }
}

TEST_F(CoordinationTest, SecondProcessOfAWorkerIsRefusedAndTheFirstGoesOn) {
  Start(2);
  std::vector<Client> clients = ConnectAll(2);
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  const Client second =
      CoordinationClient::Connect(TestWorkerOptions(server_->port(), 1, 2), In(5));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << second.status();
  EXPECT_THAT(Message(second.status()), HasSubstr("worker 1 has already registered, from host1"));
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

TEST_F(CoordinationTest, FirstWorkerWaitsForTheOthersToLeave) {
  Start(2);
  std::vector<Client> clients = ConnectAll(2);
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  EXPECT_EQ((*clients[0])->Leave(In(0.1)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ((*clients[1])->Leave(In(30)), absl::OkStatus());
  EXPECT_EQ((*clients[0])->Leave(In(30)), absl::OkStatus());
}

TEST_F(CoordinationTest, CallsThatNeedAWorkerThatHasLeftFailAtOnce) {
  Start(2);
  std::vector<Client> clients = ConnectAll(2);
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  const auto group = (*clients[0])->NewGroup();
  absl::Status waited;
  std::thread waiting([&] { waited = group->Join(In(30)).status(); });
  EXPECT_EQ((*clients[1])->Leave(In(30)), absl::OkStatus());
  waiting.join();
  for (const absl::Status& status : {waited, group->Join(In(30)).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(Message(status), HasSubstr("worker 1 has left the cluster"));
    EXPECT_EQ(FailureOf(status)->worker, 1);
  }
}

// --- lost workers -------------------------------------------------------------------------------

TEST_F(CoordinationTest, LostWorkerFailsTheOthersAtOnce) {
  Start(2);
  TcpProxy proxy(server_->port());
  std::vector<Client> clients = ConnectAll(2, 30, [&](Options* options) {
    if (options->member.worker() == 1) {
      options->coordinator = absl::StrCat("127.0.0.1:", proxy.port());
    }
  });
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  const std::unique_ptr<WorkerGroup> groups[] = {(*clients[0])->NewGroup(),
                                                 (*clients[1])->NewGroup()};
  std::thread other([&] { EXPECT_TRUE(groups[1]->Join(In(30)).ok()); });
  EXPECT_TRUE(groups[0]->Join(In(30)).ok());
  other.join();
  std::thread cut([&] {
    absl::SleepFor(absl::Milliseconds(50));
    proxy.Cut();
  });
  const MonotonicTime start = MonotonicTime::Now();
  const absl::Status waited = groups[0]->Get("never", In(30)).status();
  cut.join();
  EXPECT_THAT(Message(waited), HasSubstr("worker 1 (process 1001 on host1) is gone"));
  EXPECT_EQ(FailureOf(waited)->worker, 1);
  EXPECT_LT(MonotonicTime::Now() - start, absl::Seconds(5));
}

TEST_F(CoordinationTest, LostServiceFailsTheWorkers) {
  Start(1);
  const std::vector<Client> clients = ConnectAll(1);
  ASSERT_TRUE(clients[0].ok());
  const auto group = (*clients[0])->NewGroup();
  ASSERT_TRUE(group->Join(In(30)).ok());
  std::mutex mu;
  absl::Status heard;
  group->OnFailure([&](const absl::Status& why) {
    std::lock_guard<std::mutex> lock(mu);
    heard = why;
  });
  server_ = nullptr;
  const absl::Status lost = group->Get("never", In(5)).status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(lost), HasSubstr("worker 0 (process 1000 on host0) is gone"));
  // A worker that heard of it before has closed its connections: that is not the cause.
  const absl::Status closed = absl::UnavailableError("rank 1: the other end has closed");
  EXPECT_EQ(Message(group->ReportFailure(closed, In(5))), Message(lost));
  const absl::Status damaged = absl::DataLossError("rank 1: a damaged frame");
  EXPECT_EQ(group->ReportFailure(damaged, In(5)), damaged);
}

// --- strangers --------------------------------------------------------------------------------

TEST_F(CoordinationTest, WorkerAndServiceWithDifferentSecretsRefuseEachOther) {
  Start(1);
  Options options = TestWorkerOptions(server_->port(), 0, 1);
  options.secret = "another secret of the tests";
  const Client client = CoordinationClient::Connect(options, In(5));
  EXPECT_EQ(client.status().code(), absl::StatusCode::kPermissionDenied) << client.status();
  EXPECT_THAT(Message(client.status()), HasSubstr("does not know the secret"));
}

TEST_F(CoordinationTest, WorkerOfAnotherJobLearnsBothJobs) {
  Start(1);
  Options options = TestWorkerOptions(server_->port(), 0, 1);
  options.job = "SLURM step 7.0\n";
  const absl::Status refused = CoordinationClient::Connect(options, In(5)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  const auto both = HasSubstr("another job; expected 'test', got 'SLURM step 7.0\\n'");
  EXPECT_THAT(Message(refused), both);
  EXPECT_THAT(log(), Contains(both));
}

// The name of the service's own job is too long for the details of an error.
TEST_F(CoordinationTest, JobWithALongNameIsRefused) {
  Start(1);
  Options options = TestWorkerOptions(server_->port(), 0, 1);
  options.job = std::string(50000, 'x');
  const absl::Status refused = CoordinationClient::Connect(options, In(5)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_LT(Message(refused).size(), 1000u);
}

TEST_F(CoordinationTest, WorkerOfAnotherProtocolLearnsBothVersions) {
  Start(1);
  const auto stub = coordination::Coordination::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials()));
  coordination::HelloRequest hello;
  hello.set_protocol(kCoordinationProtocol - 1);
  hello.set_job("test");
  hello.set_client_nonce(RandomBytes(kNonceBytes));
  grpc::ClientContext context;
  coordination::HelloReply reply;
  const grpc::Status refused = stub->Hello(&context, hello, &reply);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  // An older worker shows the message, a newer one the details.
  const auto both = HasSubstr(
      absl::StrCat("expected ", kCoordinationProtocol, ", got ", kCoordinationProtocol - 1));
  EXPECT_THAT(refused.error_message(), both);
  EXPECT_THAT(log(), Contains(both));
  coordination::Identity service;
  ASSERT_TRUE(service.ParseFromString(refused.error_details()));
  EXPECT_EQ(service.protocol(), kCoordinationProtocol);
  EXPECT_EQ(reply.server_nonce(), "");
}

// A service of another version, which answers every hello with this status.
class OtherService final : public coordination::Coordination::Service {
 public:
  explicit OtherService(grpc::Status status) : status_(std::move(status)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~OtherService() override { server_->Shutdown(); }

  int port() const { return port_; }
  grpc::Status Hello(grpc::ServerContext*, const coordination::HelloRequest*,
                     coordination::HelloReply*) override {
    return status_;
  }

 private:
  const grpc::Status status_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(OtherServiceTest, WorkerNamesTheProtocolsOfBoth) {
  coordination::Identity newer;
  newer.set_protocol(kCoordinationProtocol + 1);
  newer.set_job("test");
  const struct {
    grpc::Status status;
    std::string part;
  } cases[] = {
      {{grpc::StatusCode::FAILED_PRECONDITION, "\n\033[31m", newer.SerializeAsString()},
       absl::StrCat("expected ", kCoordinationProtocol + 1, ", got ", kCoordinationProtocol)},
      // An older service does not say why.
      {{grpc::StatusCode::UNAUTHENTICATED, "refused"}, "version"},
  };
  for (const auto& [status, part] : cases) {
    const OtherService service(status);
    const absl::Status refused =
        CoordinationClient::Connect(TestWorkerOptions(service.port(), 0, 1), In(5)).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
    EXPECT_THAT(Message(refused), AllOf(HasSubstr("refused worker 0"), HasSubstr(part)));
    EXPECT_THAT(Message(refused), testing::Not(HasSubstr("\033")));
  }
}

// A stranger who uses the protocol without the secret, or repeats what another has sent.
TEST_F(CoordinationTest, UnsignedAndRepeatedRequestsAreRefused) {
  Start(1);
  const auto stub = coordination::Coordination::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials()));
  const auto code_of = [&](const coordination::Signed& request, bool registers) {
    grpc::ClientContext context;
    coordination::Signed reply;
    return (registers ? stub->Register(&context, request, &reply)
                      : stub->Perform(&context, request, &reply))
        .error_code();
  };
  coordination::HelloRequest hello;
  hello.set_protocol(kCoordinationProtocol);
  hello.set_job("test");
  hello.set_client_nonce(RandomBytes(kNonceBytes));
  coordination::HelloReply challenge;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->Hello(&context, hello, &challenge).ok());
  }
  coordination::RegisterRequest registration;
  registration.set_client_nonce(hello.client_nonce());
  registration.set_deadline_ms(30000);
  *registration.mutable_member() = TestWorkerOptions(server_->port(), 0, 1).member;
  coordination::Signed request;
  request.set_session(challenge.server_nonce());
  request.set_body(registration.SerializeAsString());
  const auto sign = [&](absl::string_view secret, const char* method) {
    Sign(SessionKey(secret, "test", 0, hello.client_nonce(), challenge.server_nonce()),
         Role::kWorker, method, &request);
  };
  EXPECT_EQ(code_of(request, true), grpc::StatusCode::UNAUTHENTICATED);  // not signed
  sign("a guess", "Register");
  EXPECT_EQ(code_of(request, true), grpc::StatusCode::UNAUTHENTICATED);
  sign(kTestSecret, "Register");
  EXPECT_EQ(code_of(request, true), grpc::StatusCode::OK);

  coordination::Request put;
  put.set_operation(coordination::Request::PUT);
  request.set_sequence(1);
  request.set_body(put.SerializeAsString());
  EXPECT_EQ(code_of(request, false), grpc::StatusCode::UNAUTHENTICATED);  // signed for another body
  sign(kTestSecret, "Perform");
  EXPECT_EQ(code_of(request, false), grpc::StatusCode::OK);
  EXPECT_EQ(code_of(request, false), grpc::StatusCode::UNAUTHENTICATED);  // the same again
  EXPECT_THAT(log(), SizeIs(1));  // one line a minute for a peer
}

TEST_F(CoordinationTest, GarbageDoesNotDisturbTheWorkers) {
  Start(2);
  const std::string garbage[] = {
      std::string(100'000, '\xff'),
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\xff\xff\xff\x00\x04\x00\x00\x00\x00", 9),
      "GET / HTTP/1.1\r\n\r\n", std::string(1, '\0')};
  std::vector<int> sockets;
  for (const std::string& text : garbage) {
    sockets.push_back(ConnectToPort(server_->port()));
    send(sockets.back(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  std::vector<Client> clients = ConnectAll(2);
  for (const Client& client : clients) EXPECT_TRUE(client.ok()) << client.status();
  for (const int fd : sockets) close(fd);
  // A line a minute names the strangers' host, of whatever is not a call.
  const MonotonicTime deadline = In(30);
  while (log().empty() && MonotonicTime::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
  absl::SleepFor(absl::Milliseconds(200));
  ASSERT_THAT(log(), SizeIs(1));
  EXPECT_THAT(log()[0], AllOf(HasSubstr("ipv4:127.0.0.1:"), HasSubstr("made no call")));
}

TEST_F(CoordinationTest, WorkersAreNoStrangers) {
  std::vector<std::string> hosts = {"127.0.0.1"};
  if (ConnectionListener::Listen("[::1]:0").ok()) hosts.push_back("[::1]");  // not on every host
  for (const std::string& host : hosts) {
    SCOPED_TRACE(host);
    Start(2, kTestSecret, absl::StrCat(host, ":0"));
    const std::vector<Client> clients = ConnectAll(2, 30, [&](Options* options) {
      options->coordinator = absl::StrCat(host, ":", server_->port());
    });
    for (const Client& client : clients) EXPECT_TRUE(client.ok()) << client.status();
    absl::SleepFor(absl::Seconds(6));  // longer than a connection may be silent
    EXPECT_THAT(log(), IsEmpty());
  }
}

// Reads from the socket until the other side closes it. Returns whether it does in time.
bool IsClosed(int fd, double seconds) {
  const MonotonicTime deadline = In(seconds);
  char bytes[256];
  while (MonotonicTime::Now() < deadline) {
    const ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

TEST_F(CoordinationTest, SilentStrangersAreDisconnected) {
  Start(1);
  const std::vector<Client> clients = ConnectAll(1);
  ASSERT_TRUE(clients[0].ok());
  const auto group = (*clients[0])->NewGroup();
  ASSERT_TRUE(group->Join(In(30)).ok());
  const int mute = ConnectToPort(server_->port());
  const int idle = ConnectToPort(server_->port());  // says that it will make calls, and makes none
  const std::string preface =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\4\0\0\0\0\0", 9);
  send(idle, preface.data(), preface.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(IsClosed(mute, 20));
  EXPECT_TRUE(IsClosed(idle, 20));
  // A worker that waits keeps its connection.
  EXPECT_EQ(group->Put("key", "value", In(5)), absl::OkStatus());
  close(mute);
  close(idle);
}

TEST_F(CoordinationTest, ServiceMayUseAllFileDescriptors) {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max / 2;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  Start(1);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
}

// --- file descriptors ---------------------------------------------------------------------------

TEST(ConnectionListenerTest, LackOfDescriptorsIsReportedUntilThereAreSome) {
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
  const MonotonicTime deadline = In(30);
  while (!failed && MonotonicTime::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failure.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(failure), HasSubstr("ulimit -n"));
  while (!connected && MonotonicTime::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_TRUE(connected);
  close(caller);
}

// --- the secret -------------------------------------------------------------------------------

TEST(SecretFileTest, OnlyItsOwnerMayAccessIt) {
  const std::string path = WriteTemporary("secret", "0123456789abcdef0123456789abcdef\n");
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  const auto open = ReadSecretFile(path);
  EXPECT_EQ(open.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(open.status()), AllOf(HasSubstr(path), HasSubstr("mode 0644")));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadSecretFile(path).value(), "0123456789abcdef0123456789abcdef");
}

TEST(SecretFileTest, PipeAndFolderAreNoSecretFiles) {
  const std::string path = WriteTemporary("pipe", "");
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(Message(ReadSecretFile(path).status()), HasSubstr("not a regular file"));
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_THAT(Message(ReadSecretFile(path).status()), HasSubstr("not a regular file"));
  ASSERT_EQ(rmdir(path.c_str()), 0);
}

TEST(SecretFileTest, LineEndOfWindowsIsNoPartOfSecret) {
  const std::string path = WriteTemporary("windows", "0123456789abcdef0123456789abcdef\r\n");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadSecretFile(path).value(), "0123456789abcdef0123456789abcdef");
}

TEST(SecretFileTest, ShortAndMissingFilesAreErrors) {
  const std::string path = WriteTemporary("short", "secret\n");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_THAT(Message(ReadSecretFile(path).status()), HasSubstr("expected a secret of 16 to 4096"));
  EXPECT_THAT(Message(ReadSecretFile(path + ".none").status()), HasSubstr("cannot open"));
}

TEST(HmacTest, FieldsAreSeparate) {
  EXPECT_NE(Hmac("key", {"ab", "c"}), Hmac("key", {"a", "bc"}));
  EXPECT_NE(Hmac("key", {"a"}), Hmac("yek", {"a"}));
  EXPECT_EQ(Hmac("", {"a"}), Hmac("", {"a"}));
}

}  // namespace
}  // namespace mirrorflow

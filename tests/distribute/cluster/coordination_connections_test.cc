// SPDX-License-Identifier: Apache-2.0
//
// Tests the coordination service's connections: strangers on its port, slow networks, broken
// connections and replayed traffic.
#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/connection_listener.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "distribute/cluster/coordination/coordination.grpc.pb.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/collective/tcp/stream.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/owned_socket.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/distribute/cluster/coordination_fixture.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/support/streams.h"
#include "tests/support/tcp_proxy.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Returns whether the other side closes the connection in time.
bool IsClosed(int fd, double seconds) {
  const MonotonicTime deadline = In(seconds);
  char bytes[4096];
  while (MonotonicTime::Now() < deadline) {
    const ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return true;
    if (count < 0) absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

// Returns an HTTP/2 frame.
std::string Frame(size_t size, char type, char flags, uint32_t stream, absl::string_view bytes) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame.push_back(static_cast<char>(size >> shift));
  frame += {type, flags};
  for (const int shift : {24, 16, 8, 0}) frame.push_back(static_cast<char>(stream >> shift));
  return absl::StrCat(frame, bytes);
}

// --- strangers ----------------------------------------------------------------------------------

TEST_F(CoordinationTest, WorkerAndServiceWithDifferentSecretsRefuseEachOther) {
  Start(1);
  Options options = TestWorkerOptions(server_->port(), 0, 1);
  for (const std::string& secret : {std::string("another secret of the tests"), std::string()}) {
    options.secret = secret;
    const Client client = CoordinationClient::Connect(options, In(0.5));
    EXPECT_THAT(client.status(), IsError(absl::StatusCode::kPermissionDenied, "the secret"));
  }
  options.secret = kTestSecret;
  options.job = "another";
  const Client client = CoordinationClient::Connect(options, In(0.5));
  EXPECT_THAT(client.status(),
              IsError(absl::StatusCode::kPermissionDenied, "job = test", "job = another"));
}

// Another job's service can still hold the port that this job's worker 0 waits for.
class AnotherJobTest : public CoordinationTest {
 protected:
  // Starts a worker of another job, and blocks until the worker has logged why it waits.
  void StartWorker() {
    Start(1);
    Options options = TestWorkerOptions(server_->port(), 0, 1);
    options.job = "another";
    worker_ =
        std::thread([this, options] { client_ = CoordinationClient::Connect(options, In(3600)); });
    EXPECT_TRUE(AwaitLog("expected `job = test`, got `job = another`", absl::Seconds(1)));
  }

  Client client_;
  std::thread worker_;
};

TEST_F(AnotherJobTest, WorkerWaitsForServiceOfItsOwnJob) {
  StartWorker();
  const int port = server_->port();
  server_ = nullptr;
  const auto own = CoordinationServer::Start({.address = absl::StrCat("127.0.0.1:", port),
                                              .num_workers = 1,
                                              .secret = kTestSecret,
                                              .job = "another"},
                                             In(30));
  ASSERT_TRUE(own.ok()) << own.status();
  worker_.join();
  EXPECT_TRUE(client_.ok()) << client_.status();
}

TEST_F(AnotherJobTest, WorkerGivesUpAfterTwentySeconds) {
  StartWorker();
  MonotonicTime::AdvanceForTest(absl::Seconds(20));
  worker_.join();
  EXPECT_THAT(client_.status(),
              IsError(absl::StatusCode::kPermissionDenied, "job = test", "job = another"));
}

class StrangerTest : public CoordinationTest, public testing::WithParamInterface<bool> {
 protected:
  // Calls the service. The stranger has a valid certificate if the service requires one.
  std::unique_ptr<Stream> Call() const {
    OwnedSocket socket(ConnectToPort(server_->port()));
    fcntl(socket.fd(), F_SETFL, O_NONBLOCK);
    if (tls_.empty()) return PlainStream(std::move(socket));
    return TlsStream(std::move(socket), CreateTlsContext(tls_).value(), TlsEnd::kConnecting);
  }

  const TlsFiles tls_ =
      GetParam() ? WriteCertificate("localhost", TemporaryPath("job")) : TlsFiles();
};
INSTANTIATE_TEST_SUITE_P(, StrangerTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "WithCertificate" : "Plain"; });

// The service reads only a hello from a stranger and then disconnects it, so these attacks on
// HTTP/2 parsers, which exhaust memory (CVE-2023-33953) or CPU time (CVE-2023-44487), have no
// effect.
TEST_P(StrangerTest, StrangersThatSpeakHttp2AreDisconnectedImmediately) {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(0, 4, 0, 0, "");
  std::string endless = preface + Frame(3, 1, 0, 1, "\x83\x86\x44"), reset = preface;
  for (int i = 0; i < 64; ++i) endless += Frame(1 << 14, 9, 0, 1, std::string(1 << 14, 'a'));
  for (uint32_t stream = 1; stream < 20'000; stream += 2) {
    reset += Frame(3, 1, 4, stream, "\x83\x86\x44") +
             Frame(4, 3, 0, stream, std::string("\0\0\0\x08", 4));
  }
  Start(2, kTestSecret, "127.0.0.1:0", tls_);
  for (const std::string& attack : {endless, reset}) {
    const std::unique_ptr<Stream> stranger = Call();
    absl::Status sent;
    for (size_t bytes = 0; sent.ok() && bytes < size_t{16} << 20; bytes += attack.size()) {
      sent = SendAll(*stranger, attack);
    }
    EXPECT_EQ(sent.code(), absl::StatusCode::kUnavailable)
        << sent;  // 16 MiB exceed the socket buffers
    std::string received;
    absl::StatusOr<std::string> byte = "";
    while ((byte = ReceiveAll(*stranger, 1)).ok()) received += *byte;
    EXPECT_EQ(byte.status().code(), absl::StatusCode::kUnavailable) << byte.status();
    EXPECT_LE(received.size(), 69u);  // contains no HTTP/2
  }
  const auto use_tls = [&](Options* options) {
    options->tls = tls_;
    options->name = "localhost";
  };
  for (const Client& client : ConnectAll(2, 30, use_tls))
    EXPECT_TRUE(client.ok()) << client.status();
  EXPECT_THAT(log(), SizeIs(1));
}

TEST_F(CoordinationTest, GarbageDoesNotDisturbWorkers) {
  Start(2);
  const std::string garbage[] = {std::string(100'000, '\xff'), "GET / HTTP/1.1\r\n\r\n",
                                 std::string(1, '\0'), "MFCO\x04" + std::string(64, 'x')};
  std::vector<int> sockets;
  for (const std::string& text : garbage) {
    sockets.push_back(ConnectToPort(server_->port()));
    send(sockets.back(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  std::vector<Client> clients = ConnectAll(2);
  for (const Client& client : clients) EXPECT_TRUE(client.ok()) << client.status();
  for (const int fd : sockets) close(fd);
  // The log has one line per minute for the strangers' host.
  const MonotonicTime deadline = In(30);
  while (log().empty() && MonotonicTime::Now() < deadline) absl::SleepFor(absl::Milliseconds(20));
  ASSERT_THAT(log(), SizeIs(1));
  EXPECT_THAT(log()[0], AllOf(HasSubstr("ipv4:127.0.0.1:"), HasSubstr("was refused")));
}

TEST_F(CoordinationTest, WorkersAreNotLoggedAsStrangers) {
  std::vector<std::string> hosts = {"127.0.0.1", "localhost"};
  if (ConnectionListener::Listen("[::1]:0").ok()) hosts.push_back("[::1]");  // if the host has IPv6
  for (const std::string& host : hosts) {
    SCOPED_TRACE(host);
    Start(2, kTestSecret, absl::StrCat(host, ":0"));
    const std::vector<Client> clients = ConnectAll(2, 30, [&](Options* options) {
      options->coordinator = absl::StrCat(host, ":", server_->port());
    });
    for (const Client& client : clients) EXPECT_TRUE(client.ok()) << client.status();
    MonotonicTime::AdvanceForTest(absl::Seconds(6));  // longer than a caller's deadline
    absl::SleepFor(absl::Milliseconds(100));
    EXPECT_THAT(log(), IsEmpty());
  }
}

TEST_F(CoordinationTest, SilentStrangersAreDisconnectedAfterFiveSeconds) {
  Start(1);
  const std::vector<Client> clients = ConnectAll(1);
  ASSERT_TRUE(clients[0].ok());
  const auto group = (*clients[0])->NewGroup();
  ASSERT_TRUE(group->Join(In(30)).ok());
  const int mute = ConnectToPort(server_->port());
  const int slow = ConnectToPort(server_->port());
  send(slow, "MFCO", 4, MSG_NOSIGNAL);
  EXPECT_FALSE(IsClosed(mute, 0.1) || IsClosed(slow, 0.1));  // both are accepted
  MonotonicTime::AdvanceForTest(absl::Seconds(4));
  EXPECT_FALSE(IsClosed(mute, 0.1) || IsClosed(slow, 0.1));
  MonotonicTime::AdvanceForTest(absl::Seconds(1));
  EXPECT_TRUE(IsClosed(mute, 2));
  EXPECT_TRUE(IsClosed(slow, 2));
  // A waiting worker keeps its connection.
  EXPECT_EQ(group->Put("key", "value", In(5)), absl::OkStatus());
  close(mute);
  close(slow);
}

TEST_F(CoordinationTest, CrowdOfStrangersIsLimitedAndWorkersConnect) {
  Start(2);
  std::vector<int> crowd;
  for (int i = 0; i < 300; ++i) crowd.push_back(ConnectToPort(server_->port()));
  for (const Client& client : ConnectAll(2)) EXPECT_TRUE(client.ok()) << client.status();
  const auto open = [&] {
    int count = 0;
    char byte;
    for (const int fd : crowd) count += recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
    return count;
  };
  const MonotonicTime deadline = In(4);
  constexpr int kPlaces = 64 + 2;
  while (open() > kPlaces && MonotonicTime::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_LE(open(), kPlaces);
  for (const int fd : crowd) close(fd);
}

// An attacker records a worker's connection and replays it after the worker has left.
TEST_F(CoordinationTest, ReplayedRegistrationIsRefused) {
  Start(2);
  std::string recorded;
  for (double seconds = 0.5; !absl::StrContains(recorded, "host1"); seconds *= 2) {
    TcpProxy proxy(server_->port());
    Options options = TestWorkerOptions(server_->port(), 1, 2);
    options.coordinator = absl::StrCat("127.0.0.1:", proxy.port());
    EXPECT_THAT(CoordinationClient::Connect(options, In(seconds)).status(),
                IsError(absl::StatusCode::kDeadlineExceeded, "worker 0"));
    recorded = proxy.captured();
    ASSERT_LT(seconds, 60);
  }
  ASSERT_TRUE(absl::StartsWith(recorded, "MFCO"));
  const int replay = ConnectToPort(server_->port());
  send(replay, recorded.data(), recorded.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(IsClosed(replay, 20));
  close(replay);
  for (const Client& client : ConnectAll(2)) EXPECT_TRUE(client.ok()) << client.status();
}

// A process that completes the handshake as worker 0.
class RawProcess {
 public:
  RawProcess(int port, uint64_t number)
      : handshake(Handshake::Connecting({.secret = kTestSecret,
                                         .job = "test",
                                         .incarnation = number,
                                         .purpose = Handshake::Purpose::kCoordination},
                                        {.connecting = 0, .accepting = 0})),
        fd(ConnectToPort(port)),
        stream_(PlainStream(OwnedSocket(dup(fd)))) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
  }

  absl::Status Connect() {
    while (!handshake.done()) {
      MF_RETURN_IF_ERROR(SendAll(*stream_, handshake.TakeOutput()));
      MF_ASSIGN_OR_RETURN(const std::string answer, ReceiveAll(*stream_, handshake.wanted()));
      MF_RETURN_IF_ERROR(handshake.Receive(answer));
    }
    return absl::OkStatus();
  }

  Handshake handshake;
  const int fd;

 private:
  const std::unique_ptr<Stream> stream_;
};

TEST_F(CoordinationTest, FifthProcessOfWorkerIsToldToRetry) {
  Start(2);
  std::vector<std::unique_ptr<RawProcess>> processes;
  for (int i = 0; i < 4; ++i) {
    processes.push_back(std::make_unique<RawProcess>(server_->port(), i));
    EXPECT_EQ(processes.back()->Connect(), absl::OkStatus());
  }
  RawProcess fifth(server_->port(), 4);
  EXPECT_THAT(fifth.Connect(), IsError(absl::StatusCode::kUnavailable, "worker 0"));
  close(fifth.fd);
  for (const auto& process : processes) {
    shutdown(process->fd, SHUT_RDWR);
    close(process->fd);
  }
  for (const Client& client : ConnectAll(2)) EXPECT_TRUE(client.ok()) << client.status();
}

// Calls the service as a process that has completed the handshake.
std::unique_ptr<coordination::Coordination::Stub> StubOf(const RawProcess& process) {
  return coordination::Coordination::NewStub(
      grpc::CreateInsecureChannelFromFd("service", process.fd));
}

// A process completes the handshake and then violates the protocol.
TEST_F(CoordinationTest, ForgedAndRepeatedRequestsAreRefused) {
  Start(1);
  RawProcess process(server_->port(), 7);
  ASSERT_EQ(process.Connect(), absl::OkStatus());
  const Handshake& handshake = process.handshake;
  const auto stub = StubOf(process);
  coordination::Request registration;
  registration.set_operation(coordination::Request::REGISTER);
  registration.set_deadline_ms(30000);
  *registration.mutable_member() = TestWorkerOptions(server_->port(), 0, 1).member;
  coordination::Signed request;
  request.set_connection(handshake.connection());
  request.set_sequence(1);
  request.set_body(registration.SerializeAsString());
  const auto code = [&] {
    grpc::ClientContext context;
    coordination::Signed reply;
    return stub->Perform(&context, request, &reply).error_code();
  };
  const auto sign = [&](absl::string_view key, Role role) {
    request.set_mac(MacOf(key, role, request.sequence(), Body(request.body())));
  };
  EXPECT_EQ(code(), grpc::StatusCode::UNAUTHENTICATED);  // not signed
  sign("a guess", Role::kWorker);
  EXPECT_EQ(code(), grpc::StatusCode::UNAUTHENTICATED);
  sign(handshake.SessionKey(), Role::kServer);
  EXPECT_EQ(code(), grpc::StatusCode::UNAUTHENTICATED);
  sign(handshake.SessionKey(), Role::kWorker);
  EXPECT_EQ(code(), grpc::StatusCode::OK);
  EXPECT_EQ(code(), grpc::StatusCode::OK);  // a repeated call receives the same answer
  request.set_sequence(2);
  EXPECT_EQ(code(), grpc::StatusCode::UNAUTHENTICATED);  // signed for another sequence number
  sign(handshake.SessionKey(), Role::kWorker);
  request.set_connection("another connection");
  EXPECT_EQ(code(), grpc::StatusCode::UNAUTHENTICATED);
}

// When its session ends, a worker cancels the calls that the service has not answered.
TEST_F(CoordinationTest, WorkerContinuesAfterCancelledCall) {
  Start(1);
  RawProcess process(server_->port(), 7);
  ASSERT_EQ(process.Connect(), absl::OkStatus());
  const Handshake& handshake = process.handshake;
  const auto stub = StubOf(process);
  uint64_t sequence = 0;
  std::string value;  // from the last reply
  const auto perform = [&](coordination::Request request, grpc::ClientContext* context) {
    request.set_deadline_ms(30000);
    const Body body(request.SerializeAsString());
    coordination::Signed message, answer;
    message.set_connection(handshake.connection());
    message.set_sequence(++sequence);
    message.set_body(body.bytes);
    message.set_mac(MacOf(handshake.SessionKey(), Role::kWorker, sequence, body));
    coordination::Reply reply;
    const grpc::Status status = stub->Perform(context, message, &answer);
    EXPECT_TRUE(reply.ParseFromString(answer.body()));
    EXPECT_EQ(reply.status().code(), 0) << reply.status().message();
    value = reply.value();
    return status.error_code();
  };
  const auto succeeds = [&](const coordination::Request& request) {
    grpc::ClientContext context;
    return perform(request, &context) == grpc::StatusCode::OK;
  };
  coordination::Request registration, join, wait, beat;
  registration.set_operation(coordination::Request::REGISTER);
  *registration.mutable_member() = TestWorkerOptions(server_->port(), 0, 1).member;
  ASSERT_TRUE(succeeds(registration));
  join.set_operation(coordination::Request::JOIN);
  ASSERT_TRUE(succeeds(join));
  uint64_t incarnation = 0;
  ASSERT_TRUE(absl::SimpleAtoi(value, &incarnation)) << value;

  wait.set_operation(coordination::Request::WAIT_FOR_FAILURE);
  wait.set_incarnation(incarnation);
  beat.set_operation(coordination::Request::HEARTBEAT);
  grpc::ClientContext waiting;
  waiting.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  EXPECT_EQ(perform(wait, &waiting), grpc::StatusCode::DEADLINE_EXCEEDED);
  for (int i = 0; i < 20; ++i) {  // until the service has noticed the cancellation
    ASSERT_TRUE(succeeds(beat));
    absl::SleepFor(absl::Milliseconds(5));
  }
}

// --- lost workers and services ------------------------------------------------------------------

TEST_F(CoordinationTest, LossOfWorkerFailsOthersSoon) {
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
  EXPECT_THAT(waited, IsError(absl::StatusCode::kUnavailable, "worker 1 (process 1001", "is lost"));
  EXPECT_EQ(FailureOf(waited)->worker, 1);
  EXPECT_LT(MonotonicTime::Now() - start, absl::Seconds(5));
}

TEST_F(CoordinationTest, LossOfServiceFailsWorkers) {
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
  EXPECT_THAT(lost, IsError(absl::StatusCode::kUnavailable, "worker 0 (process 1000", "is lost"));
  // A worker that learned of the loss earlier has closed its connections. The error about a closed
  // connection does not name the cause, which is the loss.
  const absl::Status closed = absl::UnavailableError("rank 1: the other end has closed");
  EXPECT_EQ(group->ReportFailure(closed, In(5)), lost);
  const absl::Status damaged = absl::DataLossError("rank 1: a damaged frame");
  EXPECT_EQ(group->ReportFailure(damaged, In(5)), damaged);
}

// The worker's heartbeat waits for a connection to a service that does not answer.
TEST_F(CoordinationTest, WorkerEndsImmediatelyWhileServiceIsSilent) {
  Start(1);
  const std::string address = absl::StrCat("127.0.0.1:", server_->port());
  std::vector<Client> clients = ConnectAll(1, 30, [](Options* options) {
    options->heartbeat_timeout = absl::Seconds(60);
    options->progress_timeout = absl::Milliseconds(200);  // four heartbeats
  });
  ASSERT_TRUE(clients[0].ok()) << clients[0].status();
  server_ = nullptr;
  const auto silent = ConnectionListener::Listen(address);  // accepts no connection
  ASSERT_TRUE(silent.ok()) << silent.status();
  absl::SleepFor(absl::Milliseconds(300));
  const MonotonicTime start = MonotonicTime::Now();
  clients.clear();
  EXPECT_LT(MonotonicTime::Now() - start, absl::Seconds(10));
}

// --- networks that break connections, or are slow -----------------------------------------------

class BrokenConnectionTest : public CoordinationTest,
                             public testing::WithParamInterface<TcpProxy::Ends> {
 protected:
  // Connects worker 1 through a proxy.
  void ThroughProxy(Options* options) const {
    if (options->member.worker() != 1) return;
    options->coordinator = absl::StrCat("127.0.0.1:", proxy_->port());
  }

  std::unique_ptr<TcpProxy> proxy_;
};
INSTANTIATE_TEST_SUITE_P(, BrokenConnectionTest,
                         testing::Values(TcpProxy::Ends::kBoth, TcpProxy::Ends::kCallers),
                         [](const auto& info) {
                           return info.param == TcpProxy::Ends::kBoth ? "Both" : "OnlyOfWorker";
                         });

TEST_P(BrokenConnectionTest, WorkerRegistersAgainWhileItWaitsForOthers) {
  Start(2);
  proxy_ = std::make_unique<TcpProxy>(server_->port());
  Client first, second;
  std::thread early([&] {
    Options options = TestWorkerOptions(server_->port(), 1, 2);
    ThroughProxy(&options);
    second = CoordinationClient::Connect(options, In(30));
  });
  // Wait until the worker has sent its registration.
  const MonotonicTime deadline = In(30);
  while (!absl::StrContains(proxy_->captured(), "host1") && MonotonicTime::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  absl::SleepFor(absl::Milliseconds(50));
  proxy_->Break(GetParam());
  first = CoordinationClient::Connect(TestWorkerOptions(server_->port(), 0, 2), In(30));
  early.join();
  EXPECT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(second.ok()) << second.status();
}

TEST_P(BrokenConnectionTest, RepeatedCallsArePerformedOnce) {
  Start(2);
  proxy_ = std::make_unique<TcpProxy>(server_->port());
  std::vector<Client> clients = ConnectAll(2, 30, [&](Options* options) { ThroughProxy(options); });
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  const std::unique_ptr<WorkerGroup> groups[] = {(*clients[0])->NewGroup(),
                                                 (*clients[1])->NewGroup()};
  std::atomic<int> failures{0};
  for (const auto& group : groups) {
    group->OnFailure([&](const absl::Status& why) {
      ++failures;
      ADD_FAILURE() << why;
    });
  }
  std::thread other([&] { EXPECT_TRUE(groups[1]->Join(In(30)).ok()); });
  EXPECT_TRUE(groups[0]->Join(In(30)).ok());
  other.join();
  for (int round = 0; round < 5; ++round) {
    const std::string name = absl::StrCat("round ", round);
    std::thread gathering([&] {
      const auto values = groups[1]->AllGather(name, "one", In(30));
      ASSERT_TRUE(values.ok()) << values.status();
      EXPECT_THAT(*values, testing::ElementsAre("zero", "one"));
      EXPECT_EQ(groups[1]->Put(name, "value", In(30)), absl::OkStatus());
    });
    absl::SleepFor(absl::Milliseconds(10 * round));
    proxy_->Break(GetParam());
    const auto values = groups[0]->AllGather(name, "zero", In(30));
    EXPECT_TRUE(values.ok()) << values.status();
    if (round % 2 == 1) proxy_->Break(GetParam());
    const auto value = groups[0]->Get(name, In(30));
    EXPECT_TRUE(value.ok()) << value.status();
    gathering.join();
  }
  EXPECT_EQ(failures, 0);
  EXPECT_EQ((*clients[1])->Leave(In(30)), absl::OkStatus());
  EXPECT_EQ((*clients[0])->Leave(In(30)), absl::OkStatus());
}

// With a round trip of 0.6 s, the handshakes of TLS and the service take almost 2 s, much longer
// than a worker on a fast network has to reconnect.
TEST_F(CoordinationTest, SlowNetworkConnectsAndReconnects) {
  const TlsFiles files = WriteCertificate("localhost", TemporaryPath("slow"));
  Start(1, kTestSecret, "127.0.0.1:0", files);
  TcpProxy proxy(server_->port(), absl::Milliseconds(300));
  Options options = TestWorkerOptions(proxy.port(), 0, 1);
  options.tls = files;
  options.name = "localhost";
  const Client client = CoordinationClient::Connect(options, In(30));
  ASSERT_TRUE(client.ok()) << client.status();
  const auto group = (*client)->NewGroup();
  ASSERT_TRUE(group->Join(In(30)).ok());
  proxy.Break(TcpProxy::Ends::kBoth);
  EXPECT_EQ(group->Put("key", "value", In(30)), absl::OkStatus());
}

}  // namespace
}  // namespace mirrorflow

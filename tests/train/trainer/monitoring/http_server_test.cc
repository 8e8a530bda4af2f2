// SPDX-License-Identifier: Apache-2.0
//
// Tests HttpServer. The clients are plain sockets, so they can send anything or nothing.
#include "train/trainer/monitoring/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/owned_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    auto server = HttpServer::Start("127.0.0.1:0", [this](absl::string_view path) {
      ++calls_;
      if (path == "/big") return HttpReply{.body = std::string(kBig, 'x')};
      if (path == "/red") return HttpReply{.code = 503, .body = "waiting\n"};
      return path == "/green" ? HttpReply{.body = "ok\n"} : HttpReply::NotFound();
    });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  OwnedSocket Connect() const {
    OwnedSocket client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(client.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return client;
  }

  static void Send(const OwnedSocket& client, absl::string_view text) {
    send(client.fd(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  // Returns everything that the server sends until it closes the connection.
  static std::string ReadAll(const OwnedSocket& client) {
    std::string all;
    char chunk[4096];
    for (ssize_t n; (n = recv(client.fd(), chunk, sizeof(chunk), 0)) > 0;) all.append(chunk, n);
    return all;
  }
  std::string Ask(absl::string_view request) const {
    const OwnedSocket client = Connect();
    Send(client, request);
    return ReadAll(client);
  }
  std::string Get(absl::string_view path) const {
    return Ask(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n\r\n"));
  }

  static constexpr size_t kBig = 8 << 20;  // more than a connection's buffers hold
  std::atomic<int> calls_{0};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, GetReturnsTheReplyForThePath) {
  const std::string reply = Get("/green");
  EXPECT_THAT(reply, StartsWith("HTTP/1.0 200 OK\r\n"));
  EXPECT_THAT(reply, HasSubstr("\r\nContent-Length: 3\r\n"));
  EXPECT_THAT(reply, HasSubstr("\r\nContent-Type: text/plain"));
  EXPECT_THAT(reply, EndsWith("\r\n\r\nok\n"));
  EXPECT_THAT(Get("/green?now=1"), StartsWith("HTTP/1.0 200 "));
  EXPECT_THAT(Get("/red"), StartsWith("HTTP/1.0 503 Service Unavailable\r\n"));
  EXPECT_THAT(Get("/other"), StartsWith("HTTP/1.0 404 "));
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  const std::string reply = Ask("HEAD /green HTTP/1.1\r\n\r\n");
  EXPECT_THAT(reply, HasSubstr("\r\nContent-Length: 3\r\n"));
  EXPECT_THAT(reply, EndsWith("\r\n\r\n"));
}

TEST_F(HttpServerTest, OtherMethodsAreRejected) {
  const std::string reply = Ask("POST /green HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_THAT(reply, StartsWith("HTTP/1.0 405 "));
  EXPECT_THAT(reply, HasSubstr("\r\nAllow: GET, HEAD\r\n"));
  EXPECT_EQ(calls_, 0);
}

TEST_F(HttpServerTest, MalformedRequestsAreRejected) {
  for (const char* const request :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /green\r\n\r\n", "GET  /green HTTP/1.1\r\n\r\n",
        "GET green HTTP/1.1\r\n\r\n", "GET /green HTTP/2\r\n\r\n",
        "GET http://x/green HTTP/1.1\r\n\r\n", "\x16\x03\x01\r\n\r\n"}) {
    EXPECT_THAT(Ask(request), StartsWith("HTTP/1.0 400 ")) << request;
  }
  EXPECT_EQ(calls_, 0);
}

TEST_F(HttpServerTest, RequestMayArriveInParts) {
  const OwnedSocket client = Connect();
  for (const char c : std::string("GET /green HTTP/1.1\r\n\r\n")) Send(client, {&c, 1});
  EXPECT_THAT(ReadAll(client), EndsWith("ok\n"));
}

TEST_F(HttpServerTest, HugeRequestIsRejectedBeforeItEnds) {
  const OwnedSocket client = Connect();
  Send(client, "GET /green HTTP/1.1\r\nX: ");
  Send(client, std::string(HttpServer::kMaxRequestBytes, 'x'));
  EXPECT_THAT(ReadAll(client), StartsWith("HTTP/1.0 431 "));
  EXPECT_EQ(calls_, 0);
}

TEST_F(HttpServerTest, EndlessRequestIsDropped) {
  const OwnedSocket client = Connect();
  const std::string part(1 << 16, 'x');
  size_t sent = 0;
  while (sent < kBig) {
    const ssize_t n = send(client.fd(), part.data(), part.size(), MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += n;
  }
  EXPECT_LT(sent, kBig);
}

TEST_F(HttpServerTest, ReplyLargerThanTheBuffersArrivesComplete) {
  const std::string reply = Get("/big");
  EXPECT_EQ(reply.size() - reply.find("\r\n\r\n") - 4, kBig);
}

TEST_F(HttpServerTest, IdleClientsDoNotDelayOthers) {
  std::vector<OwnedSocket> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(Connect());
  Send(silent[0], "GET /gr");
  const MonotonicTime began = MonotonicTime::Now();
  EXPECT_THAT(Get("/green"), EndsWith("ok\n"));
  EXPECT_LT(MonotonicTime::Now() - began, HttpServer::kTimeout / 2);
}

TEST_F(HttpServerTest, ClientThatTakesTooLongIsDropped) {
  const OwnedSocket client = Connect();
  Send(client, "GET /green");
  const MonotonicTime began = MonotonicTime::Now();
  EXPECT_EQ(ReadAll(client), "");
  EXPECT_GE(MonotonicTime::Now() - began, HttpServer::kTimeout - absl::Milliseconds(100));
}

TEST_F(HttpServerTest, ClientThatReadsNothingIsDropped) {
  const OwnedSocket client = Connect();
  Send(client, "GET /big HTTP/1.1\r\n\r\n");
  absl::SleepFor(HttpServer::kTimeout + absl::Seconds(1));
  EXPECT_LT(ReadAll(client).size(), kBig);
  EXPECT_THAT(Get("/green"), EndsWith("ok\n"));
}

TEST_F(HttpServerTest, OldestClientsAreDroppedIfThereAreTooMany) {
  std::vector<OwnedSocket> crowd;
  for (size_t i = 0; i < HttpServer::kMaxClients + 8; ++i) crowd.push_back(Connect());
  const MonotonicTime began = MonotonicTime::Now();
  EXPECT_THAT(Get("/green"), EndsWith("ok\n"));
  EXPECT_EQ(ReadAll(crowd[0]), "");  // dropped before its time limit
  EXPECT_LT(MonotonicTime::Now() - began, HttpServer::kTimeout / 2);
  Send(crowd.back(), "GET /green HTTP/1.1\r\n\r\n");
  EXPECT_THAT(ReadAll(crowd.back()), EndsWith("ok\n"));
}

TEST_F(HttpServerTest, ManyThreadsMaySendRequestsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) right += ::testing::Matches(EndsWith("ok\n"))(Get("/green"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8 * 50);
}

TEST_F(HttpServerTest, DestructorReturnsWhileClientsAreConnected) {
  const OwnedSocket client = Connect();
  Send(client, "GET /gr");
  server_ = nullptr;
  EXPECT_EQ(ReadAll(client), "");
}

TEST_F(HttpServerTest, AddressInUseIsAnError) {
  const std::string address = absl::StrCat("127.0.0.1:", server_->port());
  const auto second = HttpServer::Start(address, [](absl::string_view) { return HttpReply(); });
  EXPECT_THAT(second.status(), IsError(absl::StatusCode::kUnavailable, address));
}

}  // namespace
}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
//
// Tests the coordination service with certificates.
#include <fcntl.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "distribute/cluster/coordination/coordination_client.h"
#include "distribute/cluster/coordination/coordination_server.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/owned_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/certificates.h"
#include "tests/support/coordination.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/support/streams.h"
#include "tests/support/tcp_proxy.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(2);

class TlsTest : public testing::Test {
 protected:
  void Start(const TlsFiles& tls) {
    auto server = CoordinationServer::Start({.address = "127.0.0.1:0",
                                             .num_workers = 1,
                                             .secret = kTestSecret,
                                             .job = "test",
                                             .tls = tls});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  absl::Status Connect(const TlsFiles& tls, const std::string& name = "coordinator.test",
                       const std::string& secret = kTestSecret) {
    CoordinationClient::Options options = TestWorkerOptions(server_->port(), 0, 1);
    options.tls = tls;
    options.name = name;
    options.secret = secret;
    return CoordinationClient::Connect(options, MonotonicTime::Now() + kPatience).status();
  }

  const TlsFiles own_ = WriteCertificate("coordinator.test", TemporaryPath("own"));
  const TlsFiles other_ = WriteCertificate("coordinator.test", TemporaryPath("other"));
  std::unique_ptr<CoordinationServer> server_;
};

TEST_F(TlsTest, BothSidesWithCertificatesConnect) {
  Start(own_);
  EXPECT_EQ(Connect(own_), absl::OkStatus());
}

TEST_F(TlsTest, CertificatesOfAnotherAuthorityAreRefused) {
  Start(own_);
  const MonotonicTime start = MonotonicTime::Now();
  EXPECT_THAT(Connect(other_), IsError(absl::StatusCode::kPermissionDenied, "verify failed"));
  EXPECT_LT(MonotonicTime::Now() - start, kPatience / 2);
}

// A worker's certificate that names another host does not make its process a coordinator.
TEST_F(TlsTest, ServiceWithAnotherNameIsRefused) {
  Start(own_);
  EXPECT_THAT(Connect(own_, "another.test"),
              IsError(absl::StatusCode::kPermissionDenied, "ostname mismatch"));
  EXPECT_THAT(Connect(own_, "127.0.0.9"),
              IsError(absl::StatusCode::kPermissionDenied, "address mismatch"));
}

TEST_F(TlsTest, CertificateDoesNotReplaceSecret) {
  constexpr char kAnotherSecret[] = "another secret of the tests";
  Start(own_);
  EXPECT_THAT(Connect(own_, "coordinator.test", kAnotherSecret),
              IsError(absl::StatusCode::kPermissionDenied, "the secret"));
  // The service also refuses a process that does not check whether the service knows the secret.
  OwnedSocket socket(ConnectToPort(server_->port()));
  fcntl(socket.fd(), F_SETFL, O_NONBLOCK);
  const auto stranger =
      TlsStream(std::move(socket), CreateTlsContext(own_).value(), TlsEnd::kConnecting);
  Handshake handshake = Handshake::Connecting(
      {.secret = kAnotherSecret, .job = "test", .purpose = Handshake::Purpose::kCoordination},
      {.connecting = 0, .accepting = 0});
  ASSERT_EQ(SendAll(*stranger, handshake.TakeOutput()), absl::OkStatus());
  const auto challenge = ReceiveAll(*stranger, handshake.wanted());
  ASSERT_TRUE(challenge.ok()) << challenge.status();
  ASSERT_EQ(SendAll(*stranger, std::string(32, 'x')), absl::OkStatus());  // a wrong proof
  const auto welcome = ReceiveAll(*stranger, 1);
  EXPECT_EQ(welcome.status().code(), absl::StatusCode::kUnavailable) << welcome.status();
}

TEST_F(TlsTest, TlsOnOnlyOneSideIsReported) {
  Start(own_);
  EXPECT_THAT(Connect({}), IsError(absl::StatusCode::kDeadlineExceeded, "expects TLS"));
  Start({});
  EXPECT_THAT(Connect(own_), IsError(absl::StatusCode::kPermissionDenied, "no TLS"));
}

TEST_F(TlsTest, KeyThatOthersCanAccessIsRefused) {
  for (const mode_t mode : {0640, 0604, 0620}) {
    ASSERT_EQ(chmod(own_.key.c_str(), mode), 0);
    const absl::Status server =
        CoordinationServer::Start({.address = "127.0.0.1:0", .tls = own_}).status();
    for (const absl::Status& status : {server, CreateTlsContext(own_).status()}) {
      EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, own_.key, "0600"));
    }
  }
}

TEST_F(TlsTest, MismatchedFilesAreNamed) {
  const auto error_of = [](const TlsFiles& files) {
    return CoordinationServer::Start({.address = "127.0.0.1:0", .tls = files}).status();
  };
  constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  TlsFiles files = own_;
  files.key = other_.key;
  EXPECT_THAT(error_of(files), IsError(kInvalid, files.key, "key of", files.certificate));
  files.key = own_.certificate;
  ASSERT_EQ(chmod(files.key.c_str(), 0600), 0);
  EXPECT_THAT(error_of(files), IsError(kInvalid, files.key, "private key"));
  files = own_;
  files.certificate = own_.key;
  EXPECT_THAT(error_of(files), IsError(kInvalid, own_.key, "a certificate"));
  files = own_;
  files.authorities = own_.key;
  EXPECT_THAT(error_of(files), IsError(kInvalid, own_.key, "CA"));
  files.authorities = "";
  EXPECT_THAT(error_of(files), IsError(kInvalid, "three"));
  for (std::string TlsFiles::*const file :
       {&TlsFiles::certificate, &TlsFiles::key, &TlsFiles::authorities}) {
    files = own_;
    files.*file = "/nonexistent";
    EXPECT_THAT(error_of(files), IsError(absl::StatusCode::kNotFound, "/nonexistent"));
  }
}

}  // namespace
}  // namespace mirrorflow

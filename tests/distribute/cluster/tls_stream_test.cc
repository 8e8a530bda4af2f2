// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/tls_stream.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/support/streams.h"

namespace mirrorflow {
namespace {

TlsContext ContextOf(const TlsFiles& files) {
  auto context = CreateTlsContext(files);
  EXPECT_TRUE(context.ok()) << context.status();
  return *std::move(context);
}

std::string RandomText(size_t size, int seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::atomic<int> num_sent{0};

// Counts the handshake messages of this type that an end with this context sends.
template <int kType>
void CountSent(const TlsContext& context) {
  num_sent = 0;
  SSL_CTX_set_msg_callback(context.get(),
                           [](int sent, int, int type, const void* message, size_t, SSL*, void*) {
                             if (sent == 1 && type == SSL3_RT_HANDSHAKE &&
                                 *static_cast<const unsigned char*>(message) == kType) {
                               ++num_sent;
                             }
                           });
}

// Sends a byte in each direction. Returns what each end received.
std::pair<absl::Status, absl::Status> Greet(Stream& a, Stream& b) {
  const auto greet = [](Stream& stream) {
    const absl::Status status = ExchangeAll(stream, "x", 1).status();
    if (!status.ok()) shutdown(stream.fd(), SHUT_WR);  // so the other end does not wait
    return status;
  };
  absl::Status of_b;
  std::thread other([&] { of_b = greet(b); });
  const absl::Status of_a = greet(a);
  other.join();
  return {of_a, of_b};
}

class TlsStreamTest : public testing::Test {
 protected:
  std::pair<std::unique_ptr<Stream>, std::unique_ptr<Stream>> Connect(
      const TlsContext& connecting, const TlsContext& accepting,
      uint64_t bytes_per_key = kTlsBytesPerKey) {
    auto [a, b] = ConnectedSockets();
    return {TlsStream(std::move(a), connecting, TlsEnd::kConnecting, bytes_per_key),
            TlsStream(std::move(b), accepting, TlsEnd::kAccepting, bytes_per_key)};
  }

  const TlsFiles root_ = WriteCertificate("root", TemporaryPath("root"));
  const TlsFiles one_ = WriteCertificate("one", TemporaryPath("one"), {.authority = &root_});
  const TlsFiles two_ = WriteCertificate("two", TemporaryPath("two"), {.authority = &root_});
};

TEST_F(TlsStreamTest, BytesOfAllSizesArriveInBothDirections) {
  const size_t sizes[] = {1, 3, 72, 16383, 16384, 16385, 49152, 262216, 5 << 20};
  for (const uint64_t bytes_per_key : {kTlsBytesPerKey, uint64_t{1}}) {
    const TlsContext context = ContextOf(one_);
    CountSent<SSL3_MT_KEY_UPDATE>(context);
    const auto [a, b] = Connect(context, ContextOf(two_), bytes_per_key);
    const auto exchange = [&](Stream& stream, int own, int other) {
      for (const size_t size : sizes) {
        const auto got = ExchangeAll(stream, RandomText(size, own), size);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_TRUE(*got == RandomText(size, other)) << size;
      }
    };
    std::thread thread([&, &b = *b] { exchange(b, 1, 0); });
    exchange(*a, 0, 1);
    thread.join();
    EXPECT_GE(num_sent, bytes_per_key == 1 ? 20 : 0);
    EXPECT_LE(num_sent, bytes_per_key == 1 ? 10000 : 0);
  }
}

// Neither end receives until the connection is full. A later Send must begin with the same bytes,
// and everything that was sent arrives.
TEST_F(TlsStreamTest, SendContinuesAfterConnectionWasFull) {
  const auto [a, b] = Connect(ContextOf(one_), ContextOf(two_));
  const auto [of_a, of_b] = Greet(*a, *b);
  ASSERT_TRUE(of_a.ok() && of_b.ok()) << of_a << of_b;
  const std::string text = RandomText(8 << 20, 1);
  size_t sent = 0, received = 0;
  std::string got(text.size(), '\0');
  while (received < text.size()) {
    for (;;) {  // until it is full
      const iovec rest = {const_cast<char*>(text.data()) + sent, text.size() - sent};
      const auto count = a->Send({&rest, 1});
      ASSERT_TRUE(count.ok()) << count.status();
      if (*count == 0) break;
      sent += *count;
    }
    EXPECT_EQ(a->send_event(), POLLOUT);
    const iovec rest = {got.data() + received, got.size() - received};
    const auto count = b->Receive({&rest, 1});
    ASSERT_TRUE(count.ok()) << count.status();
    received += *count;
  }
  EXPECT_TRUE(got == text);
}

TEST_F(TlsStreamTest, HandshakeWaitsForOtherEnd) {
  const auto [a, b] = Connect(ContextOf(one_), ContextOf(two_));
  const iovec byte = {const_cast<char*>("x"), 1};
  EXPECT_EQ(*a->Send({&byte, 1}), 0u);
  EXPECT_EQ(a->send_event(), POLLIN);  // waits for the answer
  EXPECT_EQ(a->binding(), "");
}

TEST_F(TlsStreamTest, BindingDiffersBetweenConnections) {
  const TlsContext one = ContextOf(one_), two = ContextOf(two_);
  std::string last;
  for (int i = 0; i < 2; ++i) {
    const auto [a, b] = Connect(one, two);
    const auto [of_a, of_b] = Greet(*a, *b);
    ASSERT_TRUE(of_a.ok() && of_b.ok()) << of_a << of_b;
    EXPECT_EQ(a->binding().size(), 32u);
    EXPECT_EQ(a->binding(), b->binding());
    EXPECT_NE(a->binding(), last);
    last = a->binding();
  }
}

// With a ticket, the other end could connect again without its certificate.
TEST_F(TlsStreamTest, AcceptingEndSendsNoTickets) {
  const TlsContext accepting = ContextOf(two_);
  CountSent<SSL3_MT_NEWSESSION_TICKET>(accepting);
  const auto [a, b] = Connect(ContextOf(one_), accepting);
  const auto [of_a, of_b] = Greet(*a, *b);
  ASSERT_TRUE(of_a.ok() && of_b.ok()) << of_a << of_b;
  EXPECT_EQ(num_sent, 0);
}

TEST_F(TlsStreamTest, OtherCertificatesAreRefused) {
  const TlsFiles other = WriteCertificate("other", TemporaryPath("other"));
  const TlsFiles expired =
      WriteCertificate("expired", TemporaryPath("expired"), {.expired = true, .authority = &root_});
  TlsFiles of_other_root = other;  // accepts the good certificate, but has another root itself
  of_other_root.authorities = root_.certificate;
  const TlsContext none(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  TlsContext old = ContextOf(one_);
  SSL_CTX_set_min_proto_version(old.get(), TLS1_2_VERSION);
  SSL_CTX_set_max_proto_version(old.get(), TLS1_2_VERSION);
  const struct {
    const char* name;
    TlsContext context;
    const char* why_connecting;  // the good end's error if the stranger connects to it
    const char* why_accepting;   // the good end's error if it connects to the stranger
  } cases[] = {
      {"other root", ContextOf(of_other_root), "self-signed", "self-signed"},
      {"expired", ContextOf(expired), "expired", "expired"},
      {"none", none, "did not return", "alert"},
      {"TLS 1.2", old, "unsupported protocol", "protocol version"},
  };
  const TlsContext own = ContextOf(two_);
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    {
      const auto [stranger, end] = Connect(c.context, own);
      const auto [of_stranger, status] = Greet(*stranger, *end);
      EXPECT_NE(of_stranger, absl::OkStatus());
      EXPECT_THAT(status, IsError(absl::StatusCode::kPermissionDenied, c.why_connecting));
    }
    const auto [end, stranger] = Connect(own, c.context);
    const auto [status, of_stranger] = Greet(*end, *stranger);
    EXPECT_NE(of_stranger, absl::OkStatus());
    EXPECT_THAT(status, IsError(absl::StatusCode::kPermissionDenied, c.why_accepting));
  }
}

TEST_F(TlsStreamTest, EndWithoutTlsIsRefused) {
  for (const TlsEnd end : {TlsEnd::kConnecting, TlsEnd::kAccepting}) {
    auto [a, b] = ConnectedSockets();
    const auto tls = TlsStream(std::move(a), ContextOf(one_), end);
    const auto plain = PlainStream(std::move(b));
    ASSERT_TRUE(SendAll(*plain, std::string(300, 'x')).ok());
    const auto got = ReceiveAll(*tls, 1);
    EXPECT_THAT(got.status(), IsError(absl::StatusCode::kPermissionDenied, "no TLS"));
  }
}

// OpenSSL cannot check such a name, and accepts a certificate for any host.
TEST_F(TlsStreamTest, NameThatCannotBeCheckedFailsStream) {
  auto [a, b] = ConnectedSockets();
  const auto tls = TlsStream(std::move(a), ContextOf(one_), TlsEnd::kConnecting, kTlsBytesPerKey,
                             std::string(300, 'a'));
  const absl::Status sent = SendAll(*tls, "x");
  EXPECT_THAT(sent, IsError(absl::StatusCode::kPermissionDenied, "300 bytes"));
}

TEST_F(TlsStreamTest, ForeignBytesAreDetected) {
  auto [a, b] = ConnectedSockets();
  const int wire = b.fd();
  const auto one = TlsStream(std::move(a), ContextOf(one_), TlsEnd::kConnecting);
  const auto two = TlsStream(std::move(b), ContextOf(two_), TlsEnd::kAccepting);
  const auto [of_a, of_b] = Greet(*one, *two);
  ASSERT_TRUE(of_a.ok() && of_b.ok()) << of_a << of_b;
  ASSERT_TRUE(SendAll(*one, "secret").ok());
  std::string record(256, '\0');
  record.resize(recv(wire, record.data(), record.size(), 0));
  EXPECT_EQ(record.find("secret"), record.npos);
  // A reflected record was encrypted with a different key.
  ASSERT_EQ(send(wire, record.data(), record.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(record.size()));
  EXPECT_THAT(ReceiveAll(*one, 1).status(), IsError(absl::StatusCode::kDataLoss, "TLS"));
}

TEST_F(TlsStreamTest, EndOfConnectionIsReportedAsUnavailable) {
  auto [a, b] = Connect(ContextOf(one_), ContextOf(two_));
  const auto [of_a, of_b] = Greet(*a, *b);
  ASSERT_TRUE(of_a.ok() && of_b.ok()) << of_a << of_b;
  b = nullptr;
  EXPECT_THAT(ReceiveAll(*a, 1).status(), IsError(absl::StatusCode::kUnavailable, "closed"));
  const absl::Status sent = SendAll(*a, "x");  // raises no SIGPIPE
  EXPECT_EQ(sent.code(), absl::StatusCode::kUnavailable) << sent;
}

}  // namespace
}  // namespace mirrorflow

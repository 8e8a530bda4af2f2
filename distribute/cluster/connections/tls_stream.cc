// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/core/owned_socket.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
// Large enough for one system call to receive several records.
constexpr size_t kReadBufferBytes = size_t{64} << 10;
// Limits the size of the other end's certificate chain, which OpenSSL buffers before verifying it.
constexpr long kMaxCertificateBytes = 32 << 10;

std::string Reason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_error());
  return reason != nullptr ? reason : "unknown error";
}

int SendToSocket(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t count = send(static_cast<int>(BIO_get_fd(bio, nullptr)), data,
                             static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

// Returns OpenSSL's socket method, modified so that a lost connection does not raise SIGPIPE.
const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* const method = [] {
    const BIO_METHOD* const socket = BIO_s_socket();
    BIO_METHOD* const made = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE");
    BIO_meth_set_write(made, SendToSocket);
    BIO_meth_set_read(made, BIO_meth_get_read(socket));
    BIO_meth_set_ctrl(made, BIO_meth_get_ctrl(socket));
    BIO_meth_set_create(made, BIO_meth_get_create(socket));
    BIO_meth_set_destroy(made, BIO_meth_get_destroy(socket));
    return made;
  }();
  return method;
}

class TlsStreamOfSocket final : public Stream {
 public:
  TlsStreamOfSocket(OwnedSocket socket, const TlsContext& context, TlsEnd end,
                    uint64_t bytes_per_key, const std::string& peer)
      : socket_(std::move(socket)),
        ssl_(SSL_new(context.get()), &SSL_free),
        bytes_per_key_(bytes_per_key) {
    BIO* const bio = BIO_new(SocketMethod());
    BIO_set_fd(bio, socket_.fd(), BIO_NOCLOSE);
    SSL_set_bio(ssl_.get(), bio, bio);
    end == TlsEnd::kConnecting ? SSL_set_connect_state(ssl_.get())
                               : SSL_set_accept_state(ssl_.get());
    if (peer.empty()) return;
    SSL_set_hostflags(ssl_.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), peer.c_str()) == 1) return;
    if (SSL_set1_host(ssl_.get(), peer.c_str()) == 1 &&
        SSL_set_tlsext_host_name(ssl_.get(), peer.c_str()) == 1) {
      return;
    }
    // If the name cannot be set, OpenSSL accepts a certificate for any host.
    setup_ = absl::PermissionDeniedError(
        absl::StrCat("no TLS connection: expected a host name of at most ", TLSEXT_MAXLEN_host_name,
                     " bytes for the other end's certificate, got ", peer.size(), " bytes"));
  }

  int fd() const override { return socket_.fd(); }
  int16_t send_event() const override { return send_event_; }
  int16_t receive_event() const override { return receive_event_; }

  absl::StatusOr<size_t> Send(absl::Span<const iovec> parts) override {
    MF_RETURN_IF_ERROR(setup_);
    for (size_t moved = 0;;) {
      const absl::Span<const char> record = NextRecord(parts, moved);
      if (record.empty()) return moved;
      size_t count = 0;
      ERR_clear_error();
      if (SSL_write_ex(ssl_.get(), record.data(), record.size(), &count) != 1) {
        const absl::Status status = Failure("send", &send_event_);
        if (moved > 0 || status.ok()) return moved;  // the next call reports the error
        return status;
      }
      moved += count;
      bytes_of_key_ += count;
      if (bytes_of_key_ >= bytes_per_key_) ChangeKey();
    }
  }

  absl::StatusOr<size_t> Receive(absl::Span<const iovec> parts) override {
    MF_RETURN_IF_ERROR(setup_);
    size_t moved = 0;
    for (const iovec& part : parts) {
      for (size_t at = 0; at < part.iov_len;) {
        size_t count = 0;
        ERR_clear_error();
        if (SSL_read_ex(ssl_.get(), static_cast<char*>(part.iov_base) + at, part.iov_len - at,
                        &count) != 1) {
          const absl::Status status = Failure("receive", &receive_event_);
          if (moved > 0 || status.ok()) return moved;
          return status;
        }
        proven_ = true;
        at += count;
        moved += count;
      }
    }
    return moved;
  }

  std::string binding() const override {  // RFC 9266
    constexpr absl::string_view kLabel = "EXPORTER-Channel-Binding";
    std::string key(32, '\0');
    const bool known =
        SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(key.data()),
                                   key.size(), kLabel.data(), kLabel.size(), nullptr, 0, 0) == 1;
    return known ? key : "";
  }

 private:
  // Returns the bytes of `parts` from offset `at` that fit into one record. Joins small parts, such
  // as a header, with the parts that follow, so they do not take a separate record.
  absl::Span<const char> NextRecord(absl::Span<const iovec> parts, size_t at) {
    size_t size = 0;
    for (const iovec& part : parts) {
      if (at >= part.iov_len) {
        at -= part.iov_len;
        continue;
      }
      const char* const bytes = static_cast<const char*>(part.iov_base) + at;
      const size_t count = std::min(part.iov_len - at, kRecordBytes - size);
      if (size == 0 && (count == kRecordBytes || &part == &parts.back())) return {bytes, count};
      std::copy_n(bytes, count, record_.data() + size);
      size += count;
      at = 0;
      if (size == kRecordBytes) break;
    }
    return {record_.data(), size};
  }

  // Changes the sending key if the message that announces the change can be sent immediately. While
  // that message is pending, OpenSSL can receive nothing, so two ends that both send would wait for
  // each other.
  void ChangeKey() {
    pollfd writable = {.fd = fd(), .events = POLLOUT, .revents = 0};
    if (poll(&writable, 1, /*timeout=*/0) != 1 || writable.revents != POLLOUT) return;
    if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return;
    SSL_do_handshake(ssl_.get());  // the next record reports any error
    bytes_of_key_ = 0;
  }

  // Returns why OpenSSL's last call failed. If the call would have blocked, returns OK and sets
  // `event` to the event to wait for.
  absl::Status Failure(absl::string_view what, int16_t* event) {
    const int system_error = errno;
    const auto lost = [&](absl::string_view why) {
      return absl::UnavailableError(absl::StrCat("cannot ", what, ": ", why));
    };
    switch (SSL_get_error(ssl_.get(), 0)) {
      case SSL_ERROR_WANT_READ:
        *event = POLLIN;
        return absl::OkStatus();
      case SSL_ERROR_WANT_WRITE:
        *event = POLLOUT;
        return absl::OkStatus();
      case SSL_ERROR_ZERO_RETURN:
        return absl::UnavailableError("the other end has closed the connection");
      case SSL_ERROR_SYSCALL:
        return lost(std::strerror(system_error));
      default:
        break;
    }
    if (proven_) return absl::DataLossError(absl::StrCat("cannot ", what, ": TLS: ", Reason()));
    const long verified = SSL_get_verify_result(ssl_.get());
    const std::string why = verified == X509_V_OK ? "" : X509_verify_cert_error_string(verified);
    return absl::PermissionDeniedError(
        absl::StrCat("no TLS connection: ", Reason(), why.empty() ? "" : ": ", why));
  }

  const OwnedSocket socket_;
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  const uint64_t bytes_per_key_;
  uint64_t bytes_of_key_ = 0;  // sent with the current key
  int16_t send_event_ = POLLOUT, receive_event_ = POLLIN;
  bool proven_ = false;  // whether the other end's certificate has been verified
  absl::Status setup_;   // the error that makes the connection unusable; OK if it is usable
  std::array<char, kRecordBytes> record_;
};

}  // namespace

absl::StatusOr<TlsContext> CreateTlsContext(const TlsFiles& files) {
  if (files.empty()) return nullptr;
  MF_ASSIGN_OR_RETURN(const TlsTexts texts, ReadTlsFiles(files));
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  SSL_CTX* const c = context.get();
  const auto failed = [](const std::string& path) {
    return absl::InvalidArgumentError(absl::StrCat("TLS: ", path, ": ", Reason()));
  };
  if (SSL_CTX_use_certificate_chain_file(c, files.certificate.c_str()) != 1) {
    return failed(files.certificate);
  }
  // Parse the key text that ReadTlsFiles has checked, because the file may have been replaced
  // since.
  BIO* const key_text = BIO_new_mem_buf(texts.key.data(), static_cast<int>(texts.key.size()));
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(key_text, nullptr, nullptr, nullptr);
  const bool has_key = key != nullptr && SSL_CTX_use_PrivateKey(c, key) == 1;
  EVP_PKEY_free(key);  // the context has its own reference
  BIO_free(key_text);
  if (!has_key) return failed(files.key);
  if (SSL_CTX_load_verify_locations(c, files.authorities.c_str(), nullptr) != 1) {
    return failed(files.authorities);
  }
  SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
  SSL_CTX_set_max_cert_list(c, kMaxCertificateBytes);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // Every connection must do a full handshake: without tickets, TLS 1.3 cannot resume a session.
  SSL_CTX_set_num_tickets(c, 0);
  // Frames carry their lengths, so a connection can end without a TLS closure alert.
  SSL_CTX_set_options(c, SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_default_read_buffer_len(c, kReadBufferBytes);
  SSL_CTX_set_read_ahead(c, 1);
  return context;
}

std::unique_ptr<Stream> TlsStream(OwnedSocket socket, const TlsContext& context, TlsEnd end,
                                  uint64_t bytes_per_key, const std::string& peer) {
  if (context == nullptr) return PlainStream(std::move(socket));
  return std::make_unique<TlsStreamOfSocket>(std::move(socket), context, end, bytes_per_key, peer);
}

}  // namespace mirrorflow

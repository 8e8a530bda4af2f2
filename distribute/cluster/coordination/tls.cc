// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/tls.h"

#include "framework/core/file.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;

struct TlsTexts {
  std::string certificate, key, authorities;
};

absl::StatusOr<std::string> ReadText(const std::string& path) {
  MF_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": too large; expected at most ",
                                                   kMaxFileBytes, " bytes, got ", file.size()));
  }
  std::string text(file.size(), '\0');
  MF_RETURN_IF_ERROR(file.Read(0, text.size(), text.data()));
  return text;
}

absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty() || files.authorities.empty()) {
    return absl::InvalidArgumentError(
        "TLS: expected a certificate, its key and the authorities, or none of the three");
  }
  TlsTexts texts;
  MF_ASSIGN_OR_RETURN(texts.certificate, ReadText(files.certificate));
  MF_ASSIGN_OR_RETURN(texts.key, ReadText(files.key));
  MF_ASSIGN_OR_RETURN(texts.authorities, ReadText(files.authorities));
  return texts;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(const TlsFiles& files) {
  if (files.empty()) return grpc::InsecureServerCredentials();
  MF_ASSIGN_OR_RETURN(const TlsTexts texts, ReadTlsFiles(files));
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = texts.authorities;
  options.pem_key_cert_pairs = {{texts.key, texts.certificate}};
  return grpc::SslServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ClientCredentials(const TlsFiles& files) {
  if (files.empty()) return grpc::InsecureChannelCredentials();
  MF_ASSIGN_OR_RETURN(const TlsTexts texts, ReadTlsFiles(files));
  return grpc::SslCredentials({.pem_root_certs = texts.authorities,
                               .pem_private_key = texts.key,
                               .pem_cert_chain = texts.certificate});
}

}  // namespace mirrorflow

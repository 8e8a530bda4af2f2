// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/tls.h"

#include "framework/core/status.h"

namespace mirrorflow {

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

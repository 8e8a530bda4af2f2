// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_TLS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_TLS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace mirrorflow {

// Files in PEM form. All empty: no TLS, and connections are neither encrypted nor, by TLS,
// authenticated.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string authorities;  // that sign the certificates of the other side

  bool empty() const { return certificate.empty() && key.empty() && authorities.empty(); }
};

// Credentials for both ends, which must present certificates. InvalidArgument if some but not all
// of the files are given, or if one cannot be read.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(const TlsFiles& files);
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ClientCredentials(const TlsFiles& files);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_TLS_H_

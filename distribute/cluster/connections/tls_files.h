// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_FILES_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"

namespace mirrorflow {

// Files in PEM form. All empty: no TLS, and connections are neither encrypted nor, by TLS,
// authenticated.
struct TlsFiles {
  std::string certificate;  // of this process, and those between it and an authority
  std::string key;
  std::string authorities;  // that sign the certificates of the other side

  bool empty() const { return certificate.empty() && key.empty() && authorities.empty(); }
};

// Their contents.
struct TlsTexts {
  std::string certificate, key, authorities;
};

// InvalidArgument if some but not all of the files are given, or if they do not fit together. The
// system's error if one cannot be read, and those of ReadPrivateFile for the key.
absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_FILES_H_

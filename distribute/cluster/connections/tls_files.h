// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_FILES_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"

namespace mirrorflow {

// Paths of PEM files. If all are empty, there is no TLS: connections are not encrypted, and TLS
// does not authenticate them.
struct TlsFiles {
  std::string certificate;  // this process's certificate, then any intermediate ones
  std::string key;
  std::string authorities;  // CA certificates to verify the other end's certificate against

  bool empty() const { return certificate.empty() && key.empty() && authorities.empty(); }
};

// Contents of the files.
struct TlsTexts {
  std::string certificate, key, authorities;
};

// Reads the files. Returns InvalidArgument if only some of them are given, or if they do not match;
// the system's error if one cannot be read; and, for the key, the errors of ReadPrivateFile.
absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_FILES_H_

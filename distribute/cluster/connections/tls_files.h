// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_FILES_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"

namespace mirrorflow {

// Paths of PEM files. If all are empty, TLS is not used: connections are not encrypted, and only
// the secret, if any, authenticates them.
struct TlsFiles {
  std::string certificate;  // this process's certificate, followed by any intermediate certificates
  // The private key of `certificate`. The file must belong to the user of this process, with mode
  // 0600 or stricter.
  std::string key;
  std::string authorities;  // CA certificates that verify the other end's certificate

  bool empty() const { return certificate.empty() && key.empty() && authorities.empty(); }
};

// The contents of the files.
struct TlsTexts {
  std::string certificate, key, authorities;
};

// Reads the files. Returns InvalidArgument if one is not given or not in PEM form, or if key and
// certificate do not match. Returns the system's error if a file cannot be read and, for the key,
// the errors of ReadPrivateFile.
absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TLS_FILES_H_

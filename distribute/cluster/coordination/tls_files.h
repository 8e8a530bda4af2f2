// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_TLS_FILES_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_TLS_FILES_H_

#include <string>

namespace mirrorflow {

// Files in PEM form. All empty: no TLS, and connections are neither encrypted nor, by TLS,
// authenticated.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string authorities;  // that sign the certificates of the other side

  bool empty() const { return certificate.empty() && key.empty() && authorities.empty(); }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_TLS_FILES_H_

// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_CERTIFICATES_H_
#define MIRRORFLOW_TESTS_SUPPORT_CERTIFICATES_H_

#include <string>

#include "distribute/cluster/connections/tls_files.h"

namespace mirrorflow {

struct CertificateOptions {
  bool expired = false;
  // The authority that signs the certificate, or null for a self-signed certificate.
  const TlsFiles* authority = nullptr;
};

// Writes a new key and a certificate for `host` into files whose names begin with `prefix`.
TlsFiles WriteCertificate(const std::string& host, const std::string& prefix,
                          const CertificateOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_CERTIFICATES_H_

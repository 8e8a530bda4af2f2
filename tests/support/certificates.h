// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_CERTIFICATES_H_
#define MIRRORFLOW_TESTS_SUPPORT_CERTIFICATES_H_

#include <string>

#include "distribute/cluster/coordination/tls_files.h"

namespace mirrorflow {

// Writes a new key and a certificate for `host`, signed by itself, into files whose names begin
// with `prefix`. The certificate is also the authority.
TlsFiles WriteCertificate(const std::string& host, const std::string& prefix);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_CERTIFICATES_H_

// SPDX-License-Identifier: Apache-2.0
#include "tests/support/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>

namespace mirrorflow {

TlsFiles WriteCertificate(const std::string& host, const std::string& prefix) {
  const TlsFiles files = {
      .certificate = prefix + ".crt", .key = prefix + ".key", .authorities = prefix + ".crt"};
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 60 * 60);
  X509_set_pubkey(certificate, key);
  X509_NAME* const name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(host.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* const names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, ("DNS:" + host).c_str());
  X509_add_ext(certificate, names, -1);
  X509_sign(certificate, key, EVP_sha256());

  std::FILE* file = std::fopen(files.key.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  file = std::fopen(files.certificate.c_str(), "w");
  PEM_write_X509(file, certificate);
  std::fclose(file);
  X509_EXTENSION_free(names);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return files;
}

}  // namespace mirrorflow

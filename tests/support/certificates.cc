// SPDX-License-Identifier: Apache-2.0
#include "tests/support/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>

namespace mirrorflow {
namespace {

// Opens the file, calls use(file), and closes it. Returns the result of `use`.
template <typename Use>
auto WithFile(const std::string& path, const char* mode, const Use& use) {
  std::FILE* const file = std::fopen(path.c_str(), mode);
  const auto result = use(file);
  std::fclose(file);
  return result;
}

void AddExtension(X509* certificate, int kind, const std::string& value) {
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

}  // namespace

TlsFiles WriteCertificate(const std::string& host, const std::string& prefix,
                          const CertificateOptions& options) {
  TlsFiles files = {
      .certificate = prefix + ".crt", .key = prefix + ".key", .authorities = prefix + ".crt"};
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -2 * 60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), options.expired ? -60 : 60 * 60);
  X509_set_pubkey(certificate, key);
  X509_NAME* const name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(host.c_str()), -1, -1, 0);
  AddExtension(certificate, NID_subject_alt_name, "DNS:" + host);
  AddExtension(certificate, NID_basic_constraints, "CA:TRUE");
  if (options.authority == nullptr) {
    X509_set_issuer_name(certificate, name);
    X509_sign(certificate, key, EVP_sha256());
  } else {
    files.authorities = options.authority->certificate;
    X509* const issuer = WithFile(files.authorities, "r", [](std::FILE* file) {
      return PEM_read_X509(file, nullptr, nullptr, nullptr);
    });
    EVP_PKEY* const issuer_key = WithFile(options.authority->key, "r", [](std::FILE* file) {
      return PEM_read_PrivateKey(file, nullptr, nullptr, nullptr);
    });
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
    X509_sign(certificate, issuer_key, EVP_sha256());
    X509_free(issuer);
    EVP_PKEY_free(issuer_key);
  }
  WithFile(files.key, "w", [key](std::FILE* file) {
    fchmod(fileno(file), 0600);
    return PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  WithFile(files.certificate, "w",
           [certificate](std::FILE* file) { return PEM_write_X509(file, certificate); });
  X509_free(certificate);
  EVP_PKEY_free(key);
  return files;
}

}  // namespace mirrorflow

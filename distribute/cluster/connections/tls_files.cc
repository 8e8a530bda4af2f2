// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/private_file.h"
#include "framework/core/file.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;

absl::StatusOr<std::string> ReadText(const std::string& path) {
  MF_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": too large; expected at most ",
                                                   kMaxFileBytes, " bytes, got ", file.size()));
  }
  std::string text(file.size(), '\0');
  MF_RETURN_IF_ERROR(file.Read(0, text.size(), text.data()));
  return text;
}

// Owning pointers to OpenSSL objects.
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

// Calls `read`, one of OpenSSL's PEM_read_bio functions, with a BIO that contains `text`.
template <typename Read>
auto ReadPem(const std::string& text, const Read& read) {
  BIO* const bio = BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
  const absl::Cleanup free_bio = [bio] { BIO_free(bio); };
  return read(bio);
}

Certificate FirstCertificate(const std::string& text) {
  return {ReadPem(text, [](BIO* bio) { return PEM_read_bio_X509(bio, nullptr, nullptr, nullptr); }),
          &X509_free};
}

// Checks the files up front, because gRPC reports all of these errors only as a failure to listen
// on a port, or as a failed handshake.
absl::Status Check(const TlsFiles& files, const TlsTexts& texts) {
  const absl::Cleanup forget_errors = [] { ERR_clear_error(); };
  const auto expected = [](const std::string& path, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("TLS: ", path, ": expected ", what));
  };
  const Certificate certificate = FirstCertificate(texts.certificate);
  if (certificate == nullptr) return expected(files.certificate, "a certificate in PEM form");
  // Never prompt for the password of an encrypted key.
  const auto no_password = [](char*, int, int, void*) { return 0; };
  const PrivateKey key = {
      ReadPem(
          texts.key,
          [&](BIO* bio) { return PEM_read_bio_PrivateKey(bio, nullptr, no_password, nullptr); }),
      &EVP_PKEY_free};
  if (key == nullptr) return expected(files.key, "a private key in PEM form without a password");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return expected(files.key, absl::StrCat("the key of the certificate in ", files.certificate));
  }
  if (FirstCertificate(texts.authorities) == nullptr) {
    return expected(files.authorities, "CA certificates in PEM form");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty() || files.authorities.empty()) {
    return absl::InvalidArgumentError(
        "TLS: expected a certificate, its key and the CA certificates, or none of the three");
  }
  TlsTexts texts;
  MF_ASSIGN_OR_RETURN(texts.certificate, ReadText(files.certificate));
  MF_ASSIGN_OR_RETURN(texts.key, ReadPrivateFile(files.key, "TLS key file", kMaxFileBytes));
  MF_ASSIGN_OR_RETURN(texts.authorities, ReadText(files.authorities));
  MF_RETURN_IF_ERROR(Check(files, texts));
  return texts;
}

}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/authentication.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/private_file.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr size_t kMinSecretBytes = 16;
constexpr size_t kMaxSecretBytes = 4096;

}  // namespace

std::string Hmac(absl::string_view key, std::initializer_list<absl::string_view> fields) {
  std::string text;
  for (const absl::string_view field : fields) absl::StrAppend(&text, field.size(), ":", field);
  std::string mac(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  // OpenSSL treats a null key as the key of the previous call.
  const unsigned char* const data =
      reinterpret_cast<const unsigned char*>(key.empty() ? "" : key.data());
  HMAC(EVP_sha256(), data, static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(mac.data()), &size);
  mac.resize(size);
  return mac;
}

std::string Sha256(absl::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

bool EqualSecrets(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  auto* const data = reinterpret_cast<unsigned char*>(bytes.data());
  MF_CHECK(RAND_bytes(data, static_cast<int>(count)) == 1);
  return bytes;
}

uint64_t RandomNumber() {
  uint64_t number = 0;
  std::memcpy(&number, RandomBytes(sizeof number).data(), sizeof number);
  return number;
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  constexpr size_t kLineEnd = 2;
  MF_ASSIGN_OR_RETURN(std::string secret,
                      ReadPrivateFile(path, "secret file", kMaxSecretBytes + kLineEnd));
  // Also strip a CR, so a file that was written on Windows holds the same secret.
  secret.erase(secret.find_last_not_of("\r\n") + 1);
  if (secret.size() < kMinSecretBytes || secret.size() > kMaxSecretBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a secret of ", kMinSecretBytes,
                                                   " to ", kMaxSecretBytes, " bytes, got ",
                                                   secret.size()));
  }
  return secret;
}

}  // namespace mirrorflow

// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/authentication.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

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
  // A null key would mean the key of an earlier call.
  const unsigned char* const data =
      reinterpret_cast<const unsigned char*>(key.empty() ? "" : key.data());
  HMAC(EVP_sha256(), data, static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(mac.data()), &size);
  mac.resize(size);
  return mac;
}

bool EqualSecrets(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1) {
    internal::CheckFailed(__FILE__, __LINE__, "RAND_bytes");
  }
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
  // A file written on Windows has the same secret.
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() < kMinSecretBytes || secret.size() > kMaxSecretBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a secret of ", kMinSecretBytes,
                                                   " to ", kMaxSecretBytes, " bytes, got ",
                                                   secret.size()));
  }
  return secret;
}

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, absl::string_view what,
                                            size_t max_bytes) {
  const auto failed = [&](absl::string_view action) {
    const absl::Status status =
        SystemError(errno, absl::StrCat(path, ": cannot ", action, " the ", what));
    if (absl::IsResourceExhausted(status)) return status;
    return absl::InvalidArgumentError(status.message());
  };
  // Without blocking, because the file may be a pipe.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failed("open");
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat status;
  if (fstat(fd, &status) != 0) return failed("read");
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the ", what,
                                                   " is not a regular file; expected a file with "
                                                   "mode 0600, not a directory, a pipe or a "
                                                   "device"));
  }
  const bool is_own = status.st_uid == geteuid();
  if ((status.st_mode & 077) != 0 || !is_own) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: %s the %s; expected a file of user %d with mode 0600, got "
                        "mode %04o of user %d",
                        path, is_own ? "other users can access" : "another user owns", what,
                        geteuid(), status.st_mode & 07777, status.st_uid));
  }
  std::string contents(max_bytes + 1, '\0');
  size_t size = 0;
  while (size < contents.size()) {
    const ssize_t count = read(fd, contents.data() + size, contents.size() - size);
    if (count < 0) return failed("read");
    if (count == 0) break;
    size += count;
  }
  if (size > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the ", what, " is too large; expected at most ", max_bytes, " bytes"));
  }
  contents.resize(size);
  return contents;
}

}  // namespace mirrorflow

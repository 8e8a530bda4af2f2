// SPDX-License-Identifier: Apache-2.0
//
// Authenticates messages with the secret that a cluster's processes share. Does not encrypt them.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_AUTHENTICATION_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_AUTHENTICATION_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

inline constexpr size_t kNonceBytes = 32;

// Returns the HMAC-SHA256 of the fields. Each field is prefixed with its length, so different lists
// of fields never produce the same HMAC input.
std::string Hmac(absl::string_view key, std::initializer_list<absl::string_view> fields);

std::string Sha256(absl::string_view text);

// Compares two secrets in constant time: the duration does not depend on where they differ.
bool EqualSecrets(absl::string_view a, absl::string_view b);

// Return `count` cryptographically random bytes, and eight such bytes as a number.
std::string RandomBytes(size_t count);
uint64_t RandomNumber();

// Reads a cluster's secret, without the line end. Returns the errors of ReadPrivateFile, and
// InvalidArgument if the secret has fewer than 16 or more than 4096 bytes.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_AUTHENTICATION_H_

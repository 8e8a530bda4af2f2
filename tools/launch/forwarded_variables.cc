// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/forwarded_variables.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kHostSpecific[] = {
    "DISPLAY",    "HOME", "HOSTNAME", "LD_AUDIT", "LD_PRELOAD", "LOGNAME", "MAIL",
    "OLDPWD",     "PWD",  "SHELL",    "SHLVL",    "TERM",       "TMPDIR",  "WAYLAND_DISPLAY",
    "XAUTHORITY", "USER", "_"};
constexpr absl::string_view kHostSpecificPrefixes[] = {"BASH_FUNC_", "DBUS_", "SSH_", "SUDO_",
                                                       "XDG_"};

// Words between underscores, and endings of words (PGPASSWORD), that mark a variable as a secret.
// TOKENS is not included: MAX_TOKENS is a language model setting.
constexpr absl::string_view kSecretWords[] = {"APIKEY",     "AUTH", "COOKIE", "CRED", "CREDS",
                                              "DSN",        "JWT",  "KEY",    "KEYS", "PASS",
                                              "KRB5CCNAME", "PAT",  "PWD"};
constexpr absl::string_view kSecretEndings[] = {"CREDENTIAL", "CREDENTIALS", "PASSFILE",
                                                "PASSPHRASE", "PASSWD",      "PASSWORD",
                                                "SECRET",     "SECRETS",     "TOKEN"};
constexpr absl::string_view kSecretPrefixes[] = {"AWS_", "AZURE_", "GPG_", "VAULT_"};

bool HasPrefixOf(absl::Span<const absl::string_view> prefixes, absl::string_view text) {
  return absl::c_any_of(prefixes, [&](auto prefix) { return absl::StartsWith(text, prefix); });
}

}  // namespace

Forwarding ForwardingOf(absl::string_view name) {
  if (absl::c_linear_search(kHostSpecific, name) || HasPrefixOf(kHostSpecificPrefixes, name)) {
    return Forwarding::kHostSpecific;
  }
  const std::string upper = absl::AsciiStrToUpper(name);
  const std::vector<absl::string_view> words = absl::StrSplit(upper, '_');
  const bool has_word = absl::c_any_of(words, [](absl::string_view word) {
    return absl::c_linear_search(kSecretWords, word) ||
           absl::c_any_of(kSecretEndings, [&](auto end) { return absl::EndsWith(word, end); });
  });
  return has_word || HasPrefixOf(kSecretPrefixes, upper) ? Forwarding::kSecret
                                                         : Forwarding::kForwarded;
}

std::map<std::string, std::string> ForwardedVariables(const char* const* environment,
                                                      const std::set<std::string>& added) {
  std::map<std::string, std::string> variables;
  for (; *environment != nullptr; ++environment) {
    const absl::string_view entry = *environment;
    const size_t equals = entry.find('=');
    if (equals == absl::string_view::npos) continue;
    std::string name(entry.substr(0, equals));
    if (ForwardingOf(name) != Forwarding::kForwarded && !added.contains(name)) continue;
    variables.emplace(std::move(name), entry.substr(equals + 1));
  }
  return variables;
}

}  // namespace mirrorflow

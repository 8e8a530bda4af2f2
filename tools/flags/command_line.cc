// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/command_line.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/core/failpoint.h"
#include "framework/core/file.h"
#include "framework/core/log_line.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"
#include "framework/runtime/failure.h"
#include "train/checkpoint/directory_lock.h"

namespace mirrorflow {
namespace {

// Returns the error line of a process that cannot allocate memory. Does not allocate.
const char* MemoryError() {
  if (HasLimit(RLIMIT_DATA)) {
    return HasLimit(RLIMIT_AS)
               ? "RESOURCE_EXHAUSTED memory: cannot allocate; raise the limit on the address space "
                 "(`ulimit -v`) or on data (`ulimit -d`)"
               : "RESOURCE_EXHAUSTED memory: cannot allocate; raise the limit on data (`ulimit "
                 "-d`)";
  }
  return HasLimit(RLIMIT_AS)
             ? "RESOURCE_EXHAUSTED memory: cannot allocate; raise the limit on the address space "
               "(`ulimit -v`)"
             : "RESOURCE_EXHAUSTED memory: cannot allocate; no memory is free";
}

// Ends the process with an error line and an exit code when a thread does not catch an exception.
// The standard library throws when memory runs out; any other exception is a bug in Mirrorflow.
[[noreturn]] void EndByException() {
  const char* error = "INTERNAL process: terminated";
  ExitCode code = kExitInternal;
  if (const std::exception_ptr exception = std::current_exception()) {
    try {
      std::rethrow_exception(exception);
    } catch (const std::bad_alloc&) {
      error = MemoryError();
      code = kExitResources;
    } catch (const std::system_error& e) {
      PrintErrorLine(absl::LogSeverity::kError, e.what());
      // Libraries throw this when they cannot start a thread.
      if (e.code() == std::errc::resource_unavailable_try_again) {
        ReportError(ThreadLimitError("process"), /*is_victim=*/false);
        std::_Exit(kExitResources);
      }
    } catch (const std::exception& e) {
      PrintErrorLine(absl::LogSeverity::kError, e.what());
    }
  }
  PrintErrorLiteral(error);
  std::_Exit(code);
}

// Opens closed standard streams, so that files that the program opens do not get their descriptors.
// Reads from these streams return end of file, and writes fail.
void OpenClosedStandardStreams() {
  for (const int fd : {0, 1, 2}) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)!open("/dev/null", O_RDONLY);
  }
}

// Raises the stack limit if it is too small. The main thread's stack can grow up to the current
// limit, so raising it takes effect immediately. Other threads use the limit at program start as
// their stack size, unless it is too small.
absl::Status RaiseStackLimit() {
  constexpr rlim_t kUsual = rlim_t{8} << 20, kMin = rlim_t{1} << 20;
  RaiseThreadStackSize();
  rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kUsual) return absl::OkStatus();
  limit.rlim_cur = std::min(kUsual, limit.rlim_max);
  if (setrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur >= kMin) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("ulimit -s: the stack is too small; expected at least ", kMin >> 10,
                   " KiB, got ", limit.rlim_cur >> 10));
}

absl::Status UnknownFlag(absl::string_view name) {
  std::vector<std::string> names;
  for (const auto& entry : absl::GetAllFlags()) names.push_back(absl::StrCat("--", entry.first));
  std::sort(names.begin(), names.end());
  const std::string hint = DidYouMean(absl::StrCat("--", name), names);
  return absl::InvalidArgumentError(
      absl::StrCat("--", Printable(name), ": unknown flag",
                   hint.empty() ? "; see --help for the known flags" : hint));
}

const char* KindOf(const absl::CommandLineFlag& flag) {
  if (flag.IsOfType<bool>()) return "true or false";
  if (flag.IsOfType<int>() || flag.IsOfType<std::optional<int>>()) return "a 32-bit integer";
  if (flag.IsOfType<int64_t>()) return "a 64-bit integer";
  if (flag.IsOfType<uint64_t>()) return "a non-negative 64-bit integer";
  if (flag.IsOfType<double>() || flag.IsOfType<std::optional<double>>()) return "a number";
  if (flag.IsOfType<absl::Duration>()) return "a duration such as 90s or 5m";
  return "a valid value";
}

// Sets the flag. If a list flag is repeated, its values accumulate.
absl::Status SetFlag(absl::CommandLineFlag& flag, absl::string_view value) {
  std::string error;
  std::string longer;
  if (flag.IsOfType<std::vector<std::string>>() && !flag.CurrentValue().empty()) {
    longer = absl::StrCat(flag.CurrentValue(), ",", value);
    value = longer;
  }
  if (flag.ParseFrom(value, &error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag.Name(), ": illegal value; expected ",
                                                 KindOf(flag), ", got '", value, "'"));
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, char** argv) {
  OpenClosedStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // Reset SIGCHLD: if the parent ignores it, this process could not wait for its children.
  std::signal(SIGCHLD, SIG_DFL);
  std::set_terminate(EndByException);
  MF_RETURN_IF_ERROR(RaiseStackLimit());
  MF_RETURN_IF_ERROR(CheckLogFormat());
  MF_RETURN_IF_ERROR(Failpoint::CheckEnvironment());
  CommandLine line;
  bool flags_ended = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view arg = argv[i];
    if (flags_ended || !absl::StartsWith(arg, "-") || arg == "-") {
      line.positional.emplace_back(arg);
      continue;
    }
    if (arg == "--") {
      flags_ended = true;
      continue;
    }
    if (!absl::ConsumePrefix(&arg, "--")) absl::ConsumePrefix(&arg, "-");
    const size_t equals = arg.find('=');
    const absl::string_view name = arg.substr(0, equals);
    if (name == "help") {
      line.help = true;
      continue;
    }
    if (absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name)) {
      line.flags.emplace_back(name);
      if (equals != absl::string_view::npos) {
        MF_RETURN_IF_ERROR(SetFlag(*flag, arg.substr(equals + 1)));
      } else if (flag->IsOfType<bool>()) {
        MF_RETURN_IF_ERROR(SetFlag(*flag, "true"));
      } else if (i + 1 < argc) {
        MF_RETURN_IF_ERROR(SetFlag(*flag, argv[++i]));
      } else {
        return absl::InvalidArgumentError(
            absl::StrCat("--", name, ": no value; expected ", KindOf(*flag)));
      }
      continue;
    }
    absl::string_view positive = name;
    if (equals == absl::string_view::npos && absl::ConsumePrefix(&positive, "no")) {
      absl::CommandLineFlag* flag = absl::FindCommandLineFlag(positive);
      if (flag != nullptr && flag->IsOfType<bool>()) {
        MF_RETURN_IF_ERROR(SetFlag(*flag, "false"));
        line.flags.emplace_back(positive);
        continue;
      }
    }
    return UnknownFlag(name);
  }
  return line;
}

bool IsOneOf(absl::string_view flag, absl::string_view flags) {
  const absl::CommandLineFlag* const found = absl::FindCommandLineFlag(flag);
  if (found == nullptr) return false;
  const std::string file = found->Filename();
  for (const absl::string_view part : absl::StrSplit(flags, ' ', absl::SkipEmpty())) {
    if (absl::StrContains(part, '/') ? absl::StrContains(file, part) : part == flag) return true;
  }
  return false;
}

std::string FlagHelp(absl::string_view which) {
  std::vector<absl::CommandLineFlag*> flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (IsOneOf(name, which)) flags.push_back(flag);
  }
  std::sort(flags.begin(), flags.end(), [](auto* a, auto* b) { return a->Name() < b->Name(); });
  std::string text;
  for (absl::CommandLineFlag* flag : flags) {
    absl::StrAppend(&text, "  --", flag->Name(), "=", flag->DefaultValue(), "\n      ",
                    flag->Help(), "\n");
  }
  return text;
}

absl::Status CheckArguments(absl::string_view command, const std::vector<std::string>& args,
                            size_t least, size_t most, absl::string_view expected) {
  if (args.size() >= least && args.size() <= most) return absl::OkStatus();
  const std::string what = args.size() > most
                               ? absl::StrCat("unexpected argument '", args[most], "'")
                               : "missing argument";
  return absl::InvalidArgumentError(
      absl::StrCat(command, ": ", what, "; expected ", expected, ", got ", args.size()));
}

absl::Status CheckDefaults(absl::Span<const absl::string_view> flags, absl::string_view what) {
  for (const absl::string_view name : flags) {
    const absl::CommandLineFlag& flag = *absl::FindCommandLineFlag(name);
    if (flag.CurrentValue() == flag.DefaultValue()) continue;
    const std::string by_default = flag.DefaultValue();
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": ", what, "; expected ",
                     by_default.empty() ? "no value" : absl::StrCat("'", by_default, "'"),
                     ", got '", flag.CurrentValue(), "'"));
  }
  return absl::OkStatus();
}

absl::Status CheckChoice(absl::string_view flag, absl::string_view value,
                         absl::Span<const absl::string_view> choices) {
  if (absl::c_linear_search(choices, value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": unknown value; expected one of ",
                                                 absl::StrJoin(choices, ", "), ", got '", value,
                                                 "'"));
}

absl::Status CheckFlagRange(absl::string_view flag, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  const bool bounded = most != std::numeric_limits<int64_t>::max();
  const std::string range =
      bounded ? absl::StrCat(least, " to ", most) : absl::StrCat("at least ", least);
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, ": out of range; expected ", range, ", got ", value));
}

absl::StatusOr<std::vector<int64_t>> ParseFlagIntegers(absl::string_view flag,
                                                       const std::vector<std::string>& values,
                                                       int64_t least, int64_t most) {
  std::vector<int64_t> integers;
  for (const std::string& text : values) {
    if (!absl::SimpleAtoi(text, &integers.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, ": illegal value; expected integers, got '", text, "'"));
    }
    MF_RETURN_IF_ERROR(CheckFlagRange(flag, integers.back(), least, most));
  }
  return integers;
}

absl::Status CheckFlagDuration(absl::string_view flag, absl::Duration value, absl::Duration least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": out of range; expected at least ",
                                                 absl::FormatDuration(least), ", got ",
                                                 absl::FormatDuration(value)));
}

absl::Status CheckOutputFlag(absl::string_view flag, absl::string_view path) {
  if (path.empty()) return absl::OkStatus();
  return Annotate(CheckWritable(path), absl::StrCat("--", flag, "=", path));
}

int FlushOutput() {
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (is_written && std::ferror(stderr) == 0) return kExitOk;
  return ExitWithError(
      absl::ResourceExhaustedError(absl::StrCat(is_written ? "standard error" : "standard output",
                                                ": cannot write all output")),
      kExitResources);
}

namespace {
ExitCode CodeOf(const absl::Status& status, ExitCode code) {
  if (IsNumericError(status)) return kExitNumeric;
  if (IsLostDirectory(status)) return kExitCluster;
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return kExitResources;
    case absl::StatusCode::kInternal:
      return kExitInternal;
    case absl::StatusCode::kDeadlineExceeded:
      return code == kExitCluster ? kExitCluster : kExitInternal;
    default:
      return code;
  }
}
}  // namespace

int ExitWithError(const absl::Status& status, ExitCode code) {
  code = CodeOf(status, code);
  ReportError(status, /*is_victim=*/code == kExitCluster);
  return code;
}

}  // namespace mirrorflow

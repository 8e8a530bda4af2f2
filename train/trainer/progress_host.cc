// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/progress_host.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "absl/time/clock.h"

namespace mirrorflow {
namespace {

constexpr int kDefaultColumns = 80;

absl::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

class Stderr final : public ProgressHost {
 public:
  absl::Time Now() override { return absl::Now(); }
  absl::Duration Uptime() override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
  bool IsTerminal() override { return isatty(STDERR_FILENO) == 1 && Environment("TERM") != "dumb"; }
  bool UseColor() override { return IsTerminal() && Environment("NO_COLOR").empty(); }
  int Columns() override {
    winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
    return size.ws_col;
  }
  void Write(absl::string_view text) override {
    while (!text.empty()) {
      const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;  // drop the text, so training continues without its output
      text.remove_prefix(n);
    }
  }
};

}  // namespace

std::unique_ptr<ProgressHost> StderrHost() { return std::make_unique<Stderr>(); }

}  // namespace mirrorflow

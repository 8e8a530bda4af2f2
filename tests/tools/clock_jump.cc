// SPDX-License-Identifier: Apache-2.0
//
// Preloaded (LD_PRELOAD) into processes whose time of day jumps: adds the number of seconds in the
// file $CLOCK_JUMP, in binary, to the time of day. The monotonic clock does not change.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

namespace {

const volatile double* OpenJump() {
  const char* const path = std::getenv("CLOCK_JUMP");
  const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* const memory = mmap(nullptr, sizeof(double), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<const volatile double*>(memory);
}

const volatile double* const jump = OpenJump();

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME && jump != nullptr) {
    time->tv_sec += static_cast<time_t>(*jump);
  }
  return result;
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now;
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return result;
}

extern "C" time_t time(time_t* time) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (time != nullptr) *time = now.tv_sec;
  return now.tv_sec;
}

// SPDX-License-Identifier: Apache-2.0
//
// Preloaded (LD_PRELOAD) into processes to make their time of day jump: adds the seconds in the
// file $CLOCK_JUMP, a binary double, to the time of day. The monotonic clock does not change.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdarg>
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

time_t Jump() {
  static const volatile double* const jump = OpenJump();
  return jump == nullptr ? 0 : static_cast<time_t>(*jump);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += Jump();
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

// Abseil waits until a time of day. The kernel's clock has not jumped, so the jump is subtracted.
extern "C" long syscall(long number, ...) noexcept {
  using Function = long (*)(long, ...);
  static const Function call = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "syscall"));
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  timespec until;
  if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) != 0 && a[3] != 0) {
    until = *reinterpret_cast<const timespec*>(a[3]);
    until.tv_sec -= Jump();
    a[3] = reinterpret_cast<long>(&until);
  }
  return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

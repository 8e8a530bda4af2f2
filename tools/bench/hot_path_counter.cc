// SPDX-License-Identifier: Apache-2.0
//
// glibc lets a program define malloc and related functions, and exports glibc's functions under
// __libc_ names. pthread_mutex_lock below hides glibc's function, which dlsym still finds. The
// return address identifies the caller. operator new is also defined here; otherwise malloc would
// see libstdc++ as the caller.
#include "tools/bench/hot_path_counter.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

std::atomic<int64_t> allocations{0};
std::atomic<int64_t> onednn_allocations{0};
std::atomic<int64_t> locks{0};
std::atomic<int64_t> onednn_locks{0};

// The address range of oneDNN's code, which is empty before FindOneDnn() and without oneDNN.
std::atomic<uintptr_t> onednn_begin{0};
std::atomic<uintptr_t> onednn_end{0};

// Counts an event in `all`, and in `onednn` if oneDNN is the caller.
inline void Count(const void* caller, std::atomic<int64_t>& all, std::atomic<int64_t>& onednn) {
  all.fetch_add(1, std::memory_order_relaxed);
  const auto address = reinterpret_cast<uintptr_t>(caller);
  if (address >= onednn_begin.load(std::memory_order_relaxed) &&
      address < onednn_end.load(std::memory_order_relaxed)) {
    onednn.fetch_add(1, std::memory_order_relaxed);
  }
}
inline void CountAllocation(const void* caller) { Count(caller, allocations, onednn_allocations); }

int FindOneDnn(dl_phdr_info* info, size_t, void*) {
  if (std::strstr(info->dlpi_name, "libdnnl") == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    onednn_begin = info->dlpi_addr + segment.p_vaddr;
    onednn_end = info->dlpi_addr + segment.p_vaddr + segment.p_memsz;
  }
  return 1;
}

}  // namespace

#define MF_CALLER __builtin_return_address(0)

extern "C" {

void* malloc(size_t size) {
  CountAllocation(MF_CALLER);
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  CountAllocation(MF_CALLER);
  return __libc_calloc(count, size);
}

void* realloc(void* memory, size_t size) {
  CountAllocation(MF_CALLER);
  return __libc_realloc(memory, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  CountAllocation(MF_CALLER);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  CountAllocation(MF_CALLER);
  *memory = __libc_memalign(alignment, size);
  return *memory != nullptr ? 0 : ENOMEM;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto lock =
      reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  Count(MF_CALLER, locks, onednn_locks);
  return lock(mutex);
}

}  // extern "C"

void* operator new(size_t size) {
  CountAllocation(MF_CALLER);
  void* memory = __libc_malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

namespace mirrorflow {

HotPathCounts CountHotPath() {
  dl_iterate_phdr(FindOneDnn, nullptr);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {allocations.load(std::memory_order_relaxed),
          onednn_allocations.load(std::memory_order_relaxed), locks.load(std::memory_order_relaxed),
          onednn_locks.load(std::memory_order_relaxed), usage.ru_minflt};
}

}  // namespace mirrorflow

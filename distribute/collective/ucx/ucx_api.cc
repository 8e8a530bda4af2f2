// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/ucx/ucx_api.h"

#include <dlfcn.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

constexpr char kLibrary[] = "libucp.so.0";

absl::StatusOr<const UcxApi*> Load() {
  // Settings that UCX reads while it is loaded: no signal handlers, no malloc or mmap hooks, no
  // UCX file system.
  for (const char* name : {"UCX_MEM_EVENTS", "UCX_VFS_ENABLE"}) setenv(name, "n", 1);
  setenv("UCX_HANDLE_ERRORS", "none", 1);
  setenv("UCX_DEBUG_SIGNO", "0", 1);  // by default, UCX handles SIGHUP
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
  setenv("UCX_LOG_LEVEL", "fatal", 0);  // errors reach the user as a status
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("UCX: cannot load ", kLibrary, ": ", dlerror(), "; install libucx0"));
  }
  static UcxApi api;
#define MF_UCX_LOAD(name)                                                                      \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name));                      \
  if (api.name == nullptr) {                                                                   \
    return absl::UnavailableError(absl::StrCat("UCX: ", kLibrary, " has no function " #name)); \
  }
  MF_UCX_FUNCTIONS(MF_UCX_LOAD)
#undef MF_UCX_LOAD
  return &api;
}

}  // namespace

absl::StatusOr<const UcxApi*> LoadUcx() {
  static const absl::StatusOr<const UcxApi*> api = Load();
  return api;
}

}  // namespace mirrorflow

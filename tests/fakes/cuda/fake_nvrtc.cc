// SPDX-License-Identifier: Apache-2.0
//
// A fake of NVRTC that a test links in its place. It compiles emulation.h, followed by the device
// code, for the host with g++. fake_cuda.cc runs the result.
#include <nvrtc.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fakes/cuda/emulation_text.h"
#include "tests/fakes/cuda/fake_cuda.h"

struct _nvrtcProgram {
  std::string source, log, code;
  std::vector<std::pair<std::string, std::string>> headers;
};

namespace mirrorflow {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::function<void()>& Hook() {
  static auto* const hook = new std::function<void()>();
  return *hook;
}

// Defines `k0_call` and `k0_sizes` for each kernel `k0`.
std::string Trampolines(const std::string& source) {
  static const std::regex* const kernel =
      new std::regex(R"(extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\()");
  std::string text;
  for (auto it = std::sregex_iterator(source.begin(), source.end(), *kernel);
       it != std::sregex_iterator(); ++it) {
    const std::string name = (*it)[1];
    absl::StrAppend(&text, "extern \"C\" void ", name, "_call(void** args) { MfCall(", name,
                    ", args); }\nextern \"C\" const int* ", name, "_sizes() { return MfSizes(",
                    name, "); }\n");
  }
  return text;
}

}  // namespace

void SetFakeNvrtcHook(std::function<void()> hook) { Hook() = std::move(hook); }

}  // namespace mirrorflow

extern "C" {

const char* nvrtcGetErrorString(nvrtcResult) { return "the host compiler failed"; }
nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 0;  // not a real version: only the fake can load this code
  *minor = 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*,
                               int num_headers, const char* const* headers,
                               const char* const* names) {
  *program = new _nvrtcProgram{.source = source};
  for (int i = 0; i < num_headers; ++i) (*program)->headers.emplace_back(names[i], headers[i]);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int num_options, const char* const* options) {
  if (mirrorflow::Hook()) mirrorflow::Hook()();
  const char* const tmp = getenv("TEST_TMPDIR");
  std::string folder = absl::StrCat(tmp != nullptr ? tmp : "/tmp", "/fake_nvrtc.XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) return NVRTC_ERROR_INTERNAL_ERROR;
  for (const auto& [name, text] : program->headers) std::ofstream(folder + "/" + name) << text;
  std::ofstream(folder + "/plan.cc")
      << mirrorflow::kEmulationText << program->source << mirrorflow::Trampolines(program->source);
  std::string command =
      absl::StrCat("g++ -std=c++17 -O1 -fwrapv -fno-exceptions -fPIC -shared -w -I", folder);
  for (int i = 0; i < num_options; ++i) {
    if (std::strncmp(options[i], "-D", 2) == 0) absl::StrAppend(&command, " ", options[i]);
  }
  absl::StrAppend(&command, " ", folder, "/plan.cc -o ", folder, "/plan.so > ", folder,
                  "/log 2>&1");
  const bool compiled = system(command.c_str()) == 0;
  program->log = mirrorflow::ReadFile(folder + "/log");
  if (compiled) program->code = mirrorflow::ReadFile(folder + "/plan.so");
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return compiled ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  *size = program->code.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) {
  std::memcpy(code, program->code.data(), program->code.size());
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* size) {
  return nvrtcGetCUBINSize(program, size);
}
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* code) { return nvrtcGetCUBIN(program, code); }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  *size = program->log.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}

}  // extern "C"

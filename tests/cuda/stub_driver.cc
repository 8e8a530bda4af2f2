// SPDX-License-Identifier: Apache-2.0
//
// A driver that accepts every kernel and launches none, for machines without a GPU. cuDNN compiles
// the engines of some graphs only if it finds a driver that can load them. This driver has the
// functions that cuDNN looks up.
namespace {

constexpr int kOk = 0, kStub = 34;  // CUDA_SUCCESS, CUDA_ERROR_STUB_LIBRARY
char loaded;                        // the target of all handles

}  // namespace

extern "C" {

int cuLibraryLoadData(void** library) {
  *library = &loaded;
  return kOk;
}
int cuLibraryGetKernel(void** kernel) {
  *kernel = &loaded;
  return kOk;
}

int cuCtxGetCurrent() { return kStub; }
int cuCtxGetLimit() { return kStub; }
int cuCtxPopCurrent() { return kStub; }
int cuCtxPushCurrent() { return kStub; }
int cuDeviceGet() { return kStub; }
int cuDeviceGetCount() { return kStub; }
int cuDriverGetVersion() { return kStub; }
int cuGetErrorName() { return kStub; }
int cuGetErrorString() { return kStub; }
int cuKernelGetAttribute() { return kStub; }
int cuKernelSetAttribute() { return kStub; }
int cuLaunchCooperativeKernel() { return kStub; }
int cuLaunchKernel() { return kStub; }
int cuLaunchKernelEx() { return kStub; }
int cuLibraryLoadFromFile() { return kStub; }
int cuLibraryUnload() { return kStub; }
int cuLinkAddData() { return kStub; }
int cuLinkComplete() { return kStub; }
int cuLinkCreate() { return kStub; }
int cuLinkDestroy() { return kStub; }
int cuOccupancyMaxPotentialClusterSize() { return kStub; }
int cuStreamGetCtx() { return kStub; }

}  // extern "C"

// The command: rec-gpu-check device | ops [NAME ..] | check LIBRARY.. | machine | micro | speed
// FOLDER SHAPES | once FOLDER SHAPES
//                            | passes FOLDER SHAPES | ptx MODULE | cases | names
#include <string.h>

#include "compiler/base/embedded.h"
#include "runtime/internal.h"
#include "tests/runtime/grid_cases.h"
#include "tools/gpu/gpu_check.h"

extern const embedded_file embedded_gpu_check[];

bool gpu_good(const gpu *g, cuda_result result, const char *call) {
  if (cuda_check(g->driver, result, call, NULL) == REC_OK) return true;
  fprintf(stderr, "rec-gpu-check: %s\n", rec_message());
  return false;
}

bool gpu_open(gpu *g) {
  int pushed, device = 0;
  *g = (gpu){0};
  if (cuda_driver_open(&g->driver) || cuda_enter(g->driver, 0, &g->context, &pushed)) {
    fprintf(stderr, "rec-gpu-check: %s\n", rec_message());
    return false;
  }
  int major = 0, minor = 0;
  const cuda_driver *d = g->driver;
  bool good =
      gpu_good(g, d->context_device(&device), "cuCtxGetDevice") &&
      gpu_good(g, d->device_attribute(&g->multiprocessors, CUDA_MULTIPROCESSORS, device),
               "cuDeviceGetAttribute") &&
      gpu_good(g, d->device_attribute(&major, CUDA_COMPUTE_MAJOR, device),
               "cuDeviceGetAttribute") &&
      gpu_good(g, d->device_attribute(&minor, CUDA_COMPUTE_MINOR, device), "cuDeviceGetAttribute");
  g->capability = 10 * major + minor;
  return good;
}

const char *gpu_ptx(const char *name) {
  static char *micro;  // made once, and kept
  if (strcmp(name, "micro") == 0) return micro ? micro : (micro = micro_ptx());
  const embedded_file *file = embedded_find(embedded_gpu_check, name);
  return file ? (const char *)file->data : NULL;
}

// Kept to the end; NULL: there is none.
static const char *read_cubin(const char *name) {
  char path[96];
  rec_mapping file;
  snprintf(path, sizeof path, "cubins/%s.cubin", name);
  return rec_map(path, &file) ? NULL : file.bytes;
}

bool gpu_module(const gpu *g, const char *name, cuda_module *module) {
  const char *cubin = g->capability == 90 ? read_cubin(name) : NULL;
  return gpu_good(g, g->driver->module_load(module, cubin ? cubin : gpu_ptx(name), 0, NULL, NULL),
                  "cuModuleLoadDataEx");
}

bool gpu_function(const gpu *g, cuda_module module, const char *name, cuda_function *function) {
  return gpu_good(g, g->driver->module_function(function, module, name), "cuModuleGetFunction");
}

int check_device(const gpu *g) {
  char name[128] = "";
  int version = 0;
  g->driver->device_name(name, sizeof name, 0);
  g->driver->driver_version(&version);
  printf(
      "{\"kind\": \"device\", \"name\": \"%s\", \"capability\": \"%d.%d\", \"multiprocessors\": "
      "%d, \"driver\": \"%d.%d\"}\n",
      name, g->capability / 10, g->capability % 10, g->multiprocessors, version / 1000,
      version % 1000 / 10);
  return 0;
}

// For ptxas.
static int print_ptx(const char *name) {
  const char *text = gpu_ptx(name);
  return !text || fputs(text, stdout) < 0;
}

// For tools/gpu_check: the programs of stdlib that are checked, and their sizes.
static int print_cases(void) {
  for (int i = 0; i < grid_case_count; i++) {
    if (strncmp(grid_cases[i].path, "stdlib/", 7) != 0) continue;
    printf("%s", grid_cases[i].path);
    for (int k = 0; k < 6 && grid_cases[i].sizes[k]; k++) printf(" %s", grid_cases[i].sizes[k]);
    printf("\n");
  }
  return 0;
}

static int check_libraries(int count, char **paths) {
  int failed = 0;
  for (int i = 0; i < count; i++) failed += check_library(paths[i]);
  return failed;
}

int main(int count, char **words) {
  static const char usage[] =
      "usage: rec-gpu-check device | ops [NAME ..] | check LIBRARY.. | machine | micro | speed "
      "FOLDER SHAPES | once FOLDER SHAPES | passes FOLDER SHAPES\n";
  const char *what = count > 1 ? words[1] : "";
  gpu g;
  if (strcmp(what, "ptx") == 0 && count == 3) return print_ptx(words[2]);
  if (strcmp(what, "cases") == 0) return print_cases();
  if (strcmp(what, "names") == 0) return print_op_names(), 0;
  bool shapes = (!strcmp(what, "speed") || !strcmp(what, "once")) && count == 4,
       passes = !strcmp(what, "passes") && count == 4;
  bool known = !strcmp(what, "device") || !strcmp(what, "ops") || !strcmp(what, "machine") ||
               !strcmp(what, "micro") || shapes || passes || (!strcmp(what, "check") && count > 2);
  if (!known) return fputs(usage, stderr), 2;
  if (!gpu_open(&g)) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  int failed = what[0] == 'd'   ? check_device(&g)
               : what[0] == 'c' ? check_libraries(count - 2, words + 2)
               : passes         ? measure_passes(&g, words[2], words[3])
               : shapes         ? measure_shapes(&g, words[2], words[3], what[0] == 'o')
               : what[0] == 'o' ? check_ops(&g, count - 2, words + 2)
               : what[1] == 'i' ? measure_micros(&g)
                                : measure_machine(&g);
  return failed ? 1 : 0;
}

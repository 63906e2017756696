#include "runtime/ranks/mpi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

// ---- the libraries ---------------------------------------------------------------------------

static const char *const files_of[LAUNCHERS][3] = {
    [LAUNCHER_OPEN_MPI] = {"libmpi.so.40", "libmpi_abi.so.1"},
    [LAUNCHER_PMI] = {"libmpi_abi.so.1", "libmpi.so.12"},
    [LAUNCHER_SLURM] = {"libmpi_abi.so.1", "libmpi.so.12"},
    [LAUNCHER_PMIX] = {"libmpi_abi.so.1", "libmpi.so.40", "libmpi.so.12"},
};

// Beside the launcher of the path, since a folder such as a Python environment has both; otherwise
// where the system looks.
static void *open_beside_launcher(const char *name) {
  char program[PATH_MAX],
      *whole = launch_program(program, sizeof program) ? realpath(program, NULL) : NULL;
  char *folder_end = whole ? strstr(whole, "/bin/") : NULL;
  for (char *next = folder_end; next; next = strstr(next + 1, "/bin/")) folder_end = next;
  void *library = NULL;
  if (folder_end) {
    *folder_end = '\0';
    library = dlopen(rec_path("%s/lib/%s", whole, name).text, RTLD_NOW | RTLD_GLOBAL);
  }
  free(whole);
  return library;
}

// Open MPI's plugins look for its functions among those that all libraries see.
static void *open_mpi_library(const char *name) {
  void *library = strchr(name, '/') ? NULL : open_beside_launcher(name);
  return library ? library : dlopen(name, RTLD_NOW | RTLD_GLOBAL);
}

static rec_status open_any(launcher by, mpi *m, void **library) {
  char tried[1024] = "";
  size_t length = 0;
  for (size_t i = 0; i < sizeof files_of[by] / sizeof *files_of[by] && files_of[by][i]; i++) {
    snprintf(m->name, sizeof m->name, "%s", files_of[by][i]);
    if ((*library = open_mpi_library(m->name))) return REC_OK;
    if (length < sizeof tried)
      length += (size_t)snprintf(tried + length, sizeof tried - length, "; %s", dlerror());
  }
  return rec_fail(
      REC_ERROR_DEVICE,
      "expected the MPI library of the launcher, found none%s; REC_MPI names its file%s", tried,
      by == LAUNCHER_SLURM ? "; Open MPI wants srun --mpi=pmix" : "");
}

// ---- their handles ---------------------------------------------------------------------------

static bool take_open_mpi(void *library, mpi *m) {
  const struct {
    mpi_handle *to;
    const char *symbol;
  } handles[] = {{&m->world, "ompi_mpi_comm_world"},
                 {&m->byte, "ompi_mpi_byte"},
                 {&m->errors_return, "ompi_mpi_errors_return"}};
  for (int i = 0; i < 3; i++)
    if (!(*handles[i].to = (mpi_handle)dlsym(library, handles[i].symbol))) return false;
  m->one_thread = 1;
  m->largest_tag = 0;
  m->any_rank = -1;
  return true;
}

static void take_standard(mpi *m) {
  m->world = 0x101;
  m->byte = 0x247;
  m->errors_return = 0x143;
  m->one_thread = 1024;
  m->largest_tag = 501;
  m->any_rank = -1;
}

static bool take_mpich(mpi *m) {
  char version[MPI_TEXT] = "";
  int length = 0;
  m->world = 0x44000000;
  m->byte = 0x4c00010d;
  m->errors_return = 0x54000001;
  m->one_thread = 1;
  m->largest_tag = 0x64400001;
  m->any_rank = -2;
  // Those of the MPICH ABI initiative all name it, or themselves.
  static const char *const kin[] = {"MPICH", "MVAPICH", "Intel(R) MPI", "ParaStation"};
  if (m->version_text(version, &length)) return false;
  for (size_t i = 0; i < sizeof kin / sizeof *kin; i++)
    if (strstr(version, kin[i])) return true;
  return false;
}

static rec_status take_handles(void *library, mpi *m) {
  if (take_open_mpi(library, m)) return REC_OK;
  if (strstr(m->name, "_abi.so"))
    take_standard(m);
  else if (!take_mpich(m))
    return rec_fail(REC_ERROR_DEVICE,
                    "expected Open MPI, MPICH or libmpi_abi.so.1, found another MPI in %s",
                    m->name);
  return REC_OK;
}

static rec_status take_functions(void *library, mpi *m) {
  const struct {
    const char *symbol;
    size_t place;
  } rows[] = {
#define ROW(name, symbol, parameters) {#symbol, offsetof(mpi, name)},
      MPI_FUNCTIONS(ROW)
#undef ROW
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    void *found = dlsym(library, rows[i].symbol);
    if (!found)
      return rec_fail(REC_ERROR_DEVICE, "expected an MPI library in %s, found one without %s",
                      m->name, rows[i].symbol);
    memcpy((char *)m + rows[i].place, &found, sizeof found);
  }
  return REC_OK;
}

// It stays open: libraries of MPI leave threads and hooks of their own.
rec_status mpi_open(launcher by, const char *name, mpi *m) {
  void *library = NULL;
  rec_status status = REC_OK;
  *m = (mpi){0};
  if (name) {
    snprintf(m->name, sizeof m->name, "%s", name);
    library = open_mpi_library(name);
    if (!library)
      status = rec_fail(REC_ERROR_DEVICE, "expected an MPI library in %s: %s", name, dlerror());
  } else {
    status = open_any(by, m, &library);
  }
  if (!status) status = take_functions(library, m);
  return status ? status : take_handles(library, m);
}

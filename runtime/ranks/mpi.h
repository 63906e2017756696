// The dozen functions of MPI that move messages, from a library that is opened at run time; nothing
// here needs MPI to be installed. One program runs under the standard ABI of MPI 5, Open MPI, and
// MPICH with its kin: the handles that differ are in one table.
#pragma once

#include <stdint.h>

#include "runtime/ranks/launch.h"
#include "runtime/rec.h"

typedef int mpi_result;  // 0: done

// A communicator, type or error handler: an int of MPICH, in the low half of a register, or a
// pointer.
typedef intptr_t mpi_handle;

// Room for a request or a status of any library.
typedef union mpi_request {
  int32_t number;
  void *pointer;
} mpi_request;
typedef struct mpi_status {
  int64_t room[8];
} mpi_status;

// F(name here, name in the library, parameters)
#define MPI_FUNCTIONS(F)                                                                      \
  F(init, MPI_Init_thread, (int *count, char ***words, int wanted, int *provided))            \
  F(finalize, MPI_Finalize, (void))                                                           \
  F(abort, MPI_Abort, (mpi_handle world, int status))                                         \
  F(rank, MPI_Comm_rank, (mpi_handle world, int *rank))                                       \
  F(size, MPI_Comm_size, (mpi_handle world, int *size))                                       \
  F(attribute, MPI_Comm_get_attr, (mpi_handle world, int key, void *value, int *found))       \
  F(on_error, MPI_Comm_set_errhandler, (mpi_handle world, mpi_handle handler))                \
  F(send, MPI_Isend,                                                                          \
    (const void *bytes, int count, mpi_handle type, int to, int tag, mpi_handle world,        \
     mpi_request *request))                                                                   \
  F(receive, MPI_Irecv,                                                                       \
    (void *bytes, int count, mpi_handle type, int from, int tag, mpi_handle world,            \
     mpi_request *request))                                                                   \
  F(test, MPI_Test, (mpi_request * request, int *done, mpi_status *status))                   \
  F(probe, MPI_Iprobe, (int from, int tag, mpi_handle world, int *found, mpi_status *status)) \
  F(count, MPI_Get_count, (const mpi_status *status, mpi_handle type, int *count))            \
  F(error_text, MPI_Error_string, (int error, char *text, int *length))                       \
  F(version_text, MPI_Get_library_version, (char *text, int *length))

enum { MPI_TEXT = 8192 };  // of errors and versions, in any library

typedef struct mpi {
#define MEMBER(name, symbol, parameters) mpi_result(*name) parameters;
  MPI_FUNCTIONS(MEMBER)
#undef MEMBER
  mpi_handle world, byte, errors_return;
  int one_thread;   // the thread that calls init is the only one that calls
  int largest_tag;  // key of the attribute
  int any_rank;     // in place of the one that a message is from
  char name[256];   // the file, for messages
} mpi;

// Opens the library called `library`, or with NULL the first of those that such a launcher starts.
rec_status mpi_open(launcher by, const char *library, mpi *opened);

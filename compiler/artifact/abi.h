// The artifact layer: what a compiled library `NAME.so` offers to the world, and the data structure
// that describes it.
//
// One `abi_recurrence` per recurrence lays out its arguments struct. The C header, the manifest and
// the tables for the support code (compiler/abi/library.h) are all printed from it, so they
// cannot disagree.
//
// ---- Exported symbols ----
//
// For a recurrence `NAME` (characters that C does not allow become `_`: `LM.pointwise1` is
// `LM_pointwise1`):
//   int NAME_forward (const NAME_arguments *, const rec_launch *);
//   int NAME_backward(const NAME_arguments *, const rec_launch *);
//   int NAME_step    (const NAME_arguments *, const rec_launch *);   time must be 1
//   int NAME_sizes   (const NAME_arguments *, rec_sizes *);          reads sizes, no pointers
//   int NAME_summary (const NAME_arguments *, const rec_launch *, void *);   and NAME_summary_backward: segments of time, as
//   int NAME_fold    (const NAME_arguments *, const rec_launch *, const rec_segments *);            launch.h describes them
//   int NAME_combine (const NAME_arguments *, const rec_launch *, const rec_segments *, void *);
// and, for the library:
//   const char rec_manifest[];     JSON, UTF-8, ends with a NUL (dlsym gives the text itself)
//   const char *rec_error(void);   this thread's last message: one line, "" before any
// For tvm-ffi, which finds them by these names (runtime/support/tvm_ffi.c); all variants of NAME
// behind one:
//   int __tvm_ffi_NAME_forward (void *, const TVMFFIAny *, int32_t, TVMFFIAny *);     and _backward, _step
// For XLA's typed FFI, handlers of the CPU and of CUDA (runtime/support/xla.c), likewise:
//   void *rec_xla_NAME_forward(void *frame);    and _backward, _step; rec_xla_NAME_forward_cuda, ..
// For torch's stable C ABI, kernels that aoti_torch_library_impl takes
// (runtime/support/torch_abi.c), likewise:
//   int64_t rec_torch_NAME_forward(uint64_t *stack, uint64_t, uint64_t);     and _save, _step, _backward
// With --prefix P_ all of them, and NAME_arguments, begin with P_: P_NAME_forward, P_rec_error. The
// types of launch.h are shared by all libraries.
//
// With several number types (--dtype f32,bf16) NAME is that of the first, and NAME_f32, NAME_bf16
// are recurrences of their own with NAME_f32_arguments, .. With several sizes (-D K=64,128) NAME
// takes the variant that has the sizes of the arguments, and NAME_K64, NAME_K128 are the variants;
// all have NAME_arguments. Both together: NAME_f32_K64.
//
// ---- NAME_arguments, in this order ----
//
//   uint64_t size                      sizeof(NAME_arguments)
//   int64_t  batch, time, sequences    sequences: only with cu_seqlens, else 0
//   int64_t  AXIS                      one per axis of the header, by its name. Where the size is
//                                      known at compile time or is an expression of others, 0
//                                      means: as compiled, as computed
//   const int32_t *cu_seqlens          NULL, or sequences + 1 offsets (batch is 1): they start at 0,
//                                      never fall and end at `time`. States and lag buffers then
//                                      have `sequences` entries in place of `batch`
//   then, per tensor, pointers (`float *` or `double *`, `uint16_t *` for tokens in bf16 and f16;
//   a token tensor's is followed by two strides), first all values, then all gradients, each in
//   declared order, lag buffers last:
//     x, x_batch_stride, x_time_stride        input or output x
//     A_log                                   param
//     h0_h, hT_h                              state h, before and after
//     h0_x_lag, hT_x_lag                      lag buffer of x: [batch, lag, axes], oldest first
//     d_x, d_x_batch_stride, d_x_time_stride  gradient of input x; cotangent of output x
//     d_A_log, d_h0_h, d_hT_h, d_h0_x_lag, d_hT_x_lag
// A name that C or C++ reserves, or that is taken, gets `_` behind it: read names and offsets from
// the manifest.
//
// Strides count real numbers (a complex entry is two); 0 means dense: time_stride = numbers of one
// step, batch_stride = time * time_stride. REC_STRIDE_BROADCAST (INT64_MIN) is a true 0, for inputs
// and cotangents: one step, or one batch entry, stands for all. The gradient of such an input still
// has a row for each. Where the time stride is that, a batch stride of 0 means the numbers of one
// step. The axes of one step lie densely in declared order. Params, states, lag buffers and their
// gradients are dense throughout.
//
// May be NULL: h0 (zero), hT (not wanted), cotangents (zero), gradients (not wanted), whatever has
// no elements. Forward reads inputs, params, h0; writes outputs, hT (and every byte of `saved`).
// Step is the same for time == 1, or for packed sequences of at most one step each. Backward reads
// inputs, params, h0, cotangents (and `saved`); it neither reads outputs and hT nor writes them.
// Gradients are written, not added to. No result may overlap an operand, but hT may be h0 itself in
// forward and step. On the host denormal numbers are taken for 0.
//
// ---- Manifest: a JSON object; all keys are always present but "program" ----
//
//   "rec": "0.1.0"               "abi": "1.2"
//   "mark": the checksum of the file, by which recc knows its own (compiler/abi/output.h)
//   "prefix": "", or what --prefix says. Every "symbol" below has it
//   "hash": "16 hexadecimal digits", of sources, options and rec's version
//   "dtypes": ["f32", "bf16"], all of the library; the first is
//   "dtype": "f32", "f64", "bf16" or "f16", of tokens: inputs, outputs and their gradients; with
//                                bf16 and f16 params, states and lag buffers are f32
//   "targets": ["x86-64-v2", "x86-64-v3", "x86-64-v4"], with "simt" the executor's code
//   "optimisation": 0..3         "chunk": 0, or the --chunk asked for
//   "save_every": 0, or the --save-every asked for
//   "form": "chosen", or the --form asked for
//   "check": bool                whether promised ranges are verified (--check)
//   "summary": bool              whether there is code for summaries of segments (--summary)
//   "tf32": bool                 "shared_memory": 0, or the KiB of --shared-memory
//   "without": "", or what --without says
//   "defines": ["P=32", "ssd.N=16", "K=64,128"], in the order of the command line
//   "exported": ["gla"], the imported recurrences of --export
//   "from": null, or "recurrence": what the source is (--from)
//   "sources": [{"path": as written, "text": ..}], the compiled file first, then every import
//   "recurrences": [{
//     "name": "ssd"              as in the source; those that layers make: "LM.pointwise1"
//     "symbol": "ssd"            what stands before _forward, _backward, _step, _sizes
//     "dtype": that of this variant
//     "variant_of": null, or the symbol of all its variants: "gla" for "gla_f32_K64"
//     "fixed": {"K": 64}, the axes that -D gives several sizes, and those of this variant
//     "doc": text or null
//     "form", "why"              of recurrence_kernels
//     "chunk": steps between saved states
//     "report": text of --emit=report
//     "formulas": "16 hexadecimal digits", of what the source says, whatever the compiler finds in it
//     "structure": [{"state": "h", "class": "scalar decay", "stratum": 0}], one per state
//     "axes": [{"name": "G", "size": number, or null (told at run time),
//               "expression": "2 * D" or null}], in header order
//     "tensors": [{"name", "kind": "input", "param", "state" or "output", "axes": ["G", "R"],
//                  "complex": bool, "promise": [low, high] or null,
//                  "start": "log(uniform(1, 16))" or null, of a state "-1e+38" or the name of a parameter,
//                  "draw" of a param with a start: ["log", ["uniform", 2, 1, 16]] (graph/start_json.c), "doc": text or null}],
//                  as declared
//     "lags": [{"name": "x.lag", "of": "x", "depth": 3, "axes": ["G"], "complex": bool}]
//     "arguments": {"size": bytes,
//                   "fields": [{"name": C member, "offset": bytes, "kind": .., "of": ..}]}
//        kind "size", "batch", "time", "sequences", "cu_seqlens": of is null
//             "axis": of the axis
//             "data", "batch_stride", "time_stride": of the tensor, in the words of `rec apply`:
//                "x", "A_log", "y", "h0.h", "hT.h", "d.x", "d.y", "d.h0.h", "h0.x.lag", ..
//     "sizes": [{"device": "host" or "gpu",
//                "class": null, or the class of GPUs: 0, 1, ..; the executor takes it as device_number
//                "code": ["sm_80"], the targets of the library that have these kernels; [] of the host
//                "saved": {"batch": formula, "packed": formula}}]
//        what NAME_sizes tells, for batch entries and for packed sequences (of any lengths). Workspaces have no formula: how a
//        call is cut decides them, on a GPU by a search over the slices that its multiprocessors take. NAME_sizes tells them
//        exactly; of the host it reads sizes alone, not threads. A device runs the code of the library's target that fits it
//        best: PTX of its own compute capability, else of the highest below it
//     "segment": {"multiple": 128, "instances": ["G", "R"],
//                 "forward": "h by [G,R]" or null, "backward": likewise}
//        segments of time (rec_segments in the header): steps that a segment is a multiple of; the axes of instances behind the
//        batch, which states begin with; how summaries of the host are joined with states and with cotangents, null: there
//        are none
//   }]
//   "entries": [{              symbols that stand for variants; none without several types or sizes
//     "symbol": "gla_f32"        what stands before _forward, ..
//     "same_as": null, or the symbol that this is another name of: "gla_f32" for "gla"
//     "variants": ["gla_f32_K64", "gla_f32_K128"], of which it takes that with the sizes of the arguments; [] with same_as
//   }]
//   "program": {..}              graph and schedules of models (graph.h)
//
// A formula is an expression over whole numbers:
//   sum     = product {"+" product}
//   product = factor {"*" factor}
//   factor  = number | name | "(" sum ")" | function "(" sum "," sum ")"
//   name    = "batch", "time", "sequences", or an axis as the arguments have it (where 0 stands for a size, that size)
//   function: floor_div(a, b) and ceil_div(a, b), the quotient rounded down or up; align(a, b) = ceil_div(a, b) * b. No number
//             is negative, no divisor 0
// It is one of Python and C, too, where these three functions are defined.
#pragma once

#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

#define ABI_TEXT "1.2"

typedef enum abi_field_kind {
  ABI_SIZE,
  ABI_BATCH,
  ABI_TIME,
  ABI_SEQUENCES,
  ABI_AXIS,
  ABI_CU_SEQLENS,
  ABI_DATA,
  ABI_BATCH_STRIDE,
  ABI_TIME_STRIDE,
} abi_field_kind;

// One memory that a caller hands over: a tensor, a state before or after, a gradient.
typedef enum abi_role { ABI_VALUE, ABI_H0, ABI_HT, ABI_D_VALUE, ABI_D_H0, ABI_D_HT } abi_role;

typedef struct abi_memory {
  abi_role role;
  int tensor;                           // position in body.tensors, or -1
  int lag;                              // position in body.lags, or -1
  bool token;                           // has batch and time: inputs, outputs and their gradients
  bool wide;                            // tokens that never take 16 bits an element
  const char *apply_name;               // d.h0.x.lag
  int data, batch_stride, time_stride;  // positions in fields; -1 where there is none
} abi_memory;

typedef struct abi_field {
  const char *name;  // C member
  abi_field_kind kind;
  int offset;
  int index;  // AXIS: header position; data and strides: in memories; else -1
} abi_field;

typedef struct abi_recurrence {
  const typed_body *body;
  const char *symbol;
  int arguments_size;
  VEC(abi_field) fields;
  VEC(abi_memory) memories;
} abi_recurrence;

typedef struct artifact artifact;

// An axis that -D gives several sizes, and the size of a variant.
typedef struct artifact_size {
  const char *axis;
  int64_t size;
} artifact_size;

// What goes into a library.
typedef struct artifact_recurrence {
  const artifact *variant;   // the library of its number type and sizes alone
  const char *plain;         // the symbol of all its variants together
  VEC(artifact_size) fixed;  // one for each such axis that it has
  const abi_recurrence *abi;
  const typed_body *formulas;  // as the source has them
  // long lags: the kernels are those of the recurrence without them; NULL: there are none
  const recurrence_delays *delays;
  const abi_recurrence *inner;  // what is laid out for that one
  const recurrence_kernels *kernels;
  gpu_forms gpu;
  const char *report;  // text of --emit=report
  bool check;          // --check: promised ranges are verified
} artifact_recurrence;

// Entry points that stand for variants of a recurrence.
typedef struct artifact_entry {
  const char *symbol;
  const char *same_as;  // NULL, or the symbol that this is another name of
  VEC(int) variants;    // NULL above: several positions in recurrences, which differ in sizes alone
} artifact_entry;

// -D of several sizes.
typedef struct artifact_choice {
  const char *axis, *name;  // name: as -D has it, ITEM.AXIS
  VEC(int64_t) sizes;
} artifact_choice;

struct artifact {
  const char *name;  // file name without folder and extension: mamba2
  // what recc's command line calls the program, without folder: mamba2.rec, or std.mamba2
  const char *source;
  const char *prefix;           // --prefix, or ""
  number_type dtype;            // --dtype
  int level;                    // -O
  int save_every;               // --save-every, 0: chosen
  int chunk;                    // --chunk, 0: chosen
  schedule_form form;           // --form
  bool tf32;                    // --tf32
  int shared_kib;               // --shared-memory, or 0
  const char *without;          // --without, or ""
  unsigned gpu_targets;         // --target: bits 1 << GPU_SM_80, ..
  unsigned clones;              // --target: bits 1 << CLONE_V2, ..; 0: all of what recc runs on
  bool check;                   // --check
  bool summary;                 // --summary
  const char *from;             // --from: "recurrence", or NULL: a program
  VEC(const char *) defines;    // the -D of the command line, as written
  VEC(const char *) exported;   // --export
  VEC(const source *) sources;  // the compiled file first, then every import
  VEC(artifact_recurrence) recurrences;
  const char *program;  // JSON of graph and schedules, or NULL
  // Of a whole library:
  VEC(number_type) dtypes;  // `dtype` is the first
  VEC(artifact_choice) choices;
  VEC(artifact_entry) entries;
};

// The symbol of a body, which none of the others before it has.
const char *abi_symbol(arena *a, const char *prefix, const typed_body *body,
                       const char *const *others, int count);
// That of a variant of it, or of several.
const char *abi_variant_symbol(arena *a, const char *plain, const char *suffix,
                               const char *const *others, int count);
// Lays out the arguments of a body.
abi_recurrence *abi_layout(arena *a, const typed_body *body, const char *symbol);
// Whether the arguments of both are the same struct.
bool abi_same_arguments(const abi_recurrence *left, const abi_recurrence *right);

// The field of this kind; of an axis, or of a part of a memory, by its index (else -1).
const abi_field *abi_field_of(const abi_recurrence *abi, abi_field_kind kind, int index);
// The memory of a tensor (lag -1) or lag buffer (tensor -1) in a role; -1 if there is none.
int abi_find(const abi_recurrence *abi, abi_role role, int tensor, int lag);
// The axes of one entry of a memory in the order of memory: header positions. Returns their number.
int abi_axes(const abi_recurrence *abi, const abi_memory *memory, int axes[TYPED_MAX_AXES]);
// Numbers per entry of those axes: 2 if complex, times the depth of a lag buffer.
int abi_factor(const abi_recurrence *abi, const abi_memory *memory);
// How its numbers are stored in a library with that --dtype.
number_type abi_number_type(const abi_memory *memory, number_type dtype);
// One entry per batch entry: everything but parameters.
bool abi_per_batch(const abi_recurrence *abi, const abi_memory *memory);
// "[batch,time,G,R]", "[batch,3,K]" (lag buffer), "[G,2]" (complex parameter). Without `time`: of one
// step.
const char *abi_shape(arena *a, const abi_recurrence *abi, const abi_memory *memory,
                      const char *comma, bool time);

// 16 hexadecimal digits, of everything that decides what the library computes.
const char *artifact_hash(arena *a, const artifact *library);
// A device of the formulas of sizes: ARTIFACT_HOST or a class of GPUs below ARTIFACT_CLASSES.
enum { ARTIFACT_HOST = -1, ARTIFACT_CLASSES = 3 };
// The formulas of `saved` in the manifest, by device + 1; NULL: the library has no kernels for it.
typedef struct artifact_saved_texts {
  const char *batch[ARTIFACT_CLASSES + 1], *packed[ARTIFACT_CLASSES + 1];
} artifact_saved_texts;
artifact_saved_texts artifact_saved_formulas(arena *a, const artifact *library,
                                             const artifact_recurrence *r);

char *artifact_header(arena *a, const artifact *library);
// For those who launch the GPU's kernels by themselves.
char *artifact_gpu_header(arena *a, const artifact *library);
// What each GPU kernel takes (--emit=resources).
char *artifact_resources(arena *a, const artifact *library, const codegen_gpu_object *object);
// Lines of --emit=report for GPUs: each form, forward and backward. "" without one.
const char *artifact_gpu_report(arena *a, const gpu_forms *forms, codegen_gpu_options options);
// What the machine code of a target says of its kernels (--emit=gpu-cost); none without ptxas.
typedef VEC(struct gpu_model_code) artifact_codes;
artifact_codes artifact_machine_codes(arena *a, const codegen_gpu_object *object,
                                      codegen_gpu_target target);
// Runs the GPU code of a linked library in its executor and prints what that costs, for each target
// of the library. NULL, or one line that says why not.
const char *artifact_gpu_cost(arena *a, const artifact *library, link_object linked,
                              const codegen_gpu_object *object, FILE *out);
char *artifact_manifest(arena *a, const artifact *library, bool indented);

// Puts variants together: their recurrences, and the entry points that stand for several. NULL, or
// one line that says why that cannot be.
const char *artifact_join(arena *a, const artifact *const *variants, int count, artifact *whole);

// What codegen compiles for a variant: every kernel, and beside them tables and entry points. With
// `whole` also what belongs to all: the manifest, the entry points that choose a variant.
codegen_input artifact_contents(arena *a, const artifact *variant, const artifact *whole);

// Runs of `ptxas` (a path, or a name in $PATH) that make the cubins of the images for `targets`
// (bits 1 << GPU_..). They run side by side, while further images are made. artifact_assemble_image
// starts one; it becomes codegen_gpu_options.made. `lines`: with those of -g. `tells`: the images
// keep what it says of their kernels.
typedef struct artifact_assembly artifact_assembly;
artifact_assembly *artifact_assemble_begin(arena *a, const char *ptxas, unsigned targets,
                                           bool lines, bool tells);
void artifact_assemble_image(void *assembly, int image, const codegen_gpu_image *made);
// Waits, and gives the images their cubins. NULL, or one line that says why some have none.
// `no_files`: temporary files could not be written, which is not the fault of ptxas.
const char *artifact_assemble_end(artifact_assembly *assembly, codegen_gpu_object *gpu,
                                  bool *no_files);

// Adds the PTX and cubins of a library to its objects.
void artifact_add_images(arena *a, codegen_object *object, const codegen_gpu_object *gpu);

// What the ending of a path asks for: .a and .o; everything else is a shared library.
typedef enum artifact_kind { ARTIFACT_SHARED, ARTIFACT_ARCHIVE, ARTIFACT_OBJECT } artifact_kind;
// `stem`: the length of the path without that ending, to which the header's is added.
artifact_kind artifact_kind_of(const char *path, size_t *stem);

// A variant compiled; `gpu`: NULL without a GPU target.
typedef struct artifact_part {
  codegen_input contents;
  const codegen_object *object;
  const codegen_gpu_object *gpu;
} artifact_part;

// Links the variants with the support code into what the path asks for. NULL, or one line that says
// what went wrong.
const char *artifact_link(arena *a, const artifact *whole, const artifact_part *parts, int count,
                          const char *library_path, link_object *linked);
// What a manifest says about the making of its library.
typedef struct artifact_text {
  const char *path, *text;
} artifact_text;

typedef struct artifact_carried {
  VEC(artifact_text) sources;  // the compiled file first
  const char *from;            // what they are: NULL or "recurrence"
  VEC(const char *) words;     // recc's options: --dtype=f32 -O3 -DP=32
} artifact_carried;

// Reads a file that holds a manifest. NULL, or one line that says what went wrong.
const char *artifact_read_carried(arena *a, const char *path, artifact_carried *carried);

// Writes a file whole or not at all (compiler/abi/output.h, which has the flags). With
// OUTPUT_MARK the bytes may be changed. comment: what begins the last line, which holds the mark;
// NULL: no such line. NULL, or one line that says what went wrong.
const char *write_file(arena *a, const char *path, const void *bytes, size_t size,
                       const char *comment, unsigned flags);

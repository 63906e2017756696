// The pickle of a dictionary of tensors, as a machine with a stack and numbered memories:
//
//   } X "w" c torch._utils _rebuild_tensor_v2 ( ( X "storage" c torch FloatStorage X "0" .. t Q
//     K 0 K 2 K 3 86 .. R s .
//
// Each instruction makes at most one value, so memory is bounded by the length of the pickle. What
// an instruction does not need is refused, as is every function but those that rebuild tensors.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/torch_file.h"

typedef enum value_kind {
  VALUE_NONE,
  VALUE_MARK,
  VALUE_NUMBER,
  VALUE_TEXT,
  VALUE_TUPLE,  // also a list
  VALUE_DICT,   // keys and values in turn
  VALUE_REBUILD_TENSOR,
  VALUE_REBUILD_PARAMETER,
  VALUE_MAKE_DICT,
  VALUE_STORAGE_TYPE,
  VALUE_STORAGE,
  VALUE_TENSOR
} value_kind;

typedef struct value value;
struct value {
  value_kind kind;
  rec_dtype dtype;   // STORAGE_TYPE, STORAGE, TENSOR
  int64_t number;    // NUMBER; TENSOR: offset
  const char *text;  // TEXT; STORAGE, TENSOR: the key of the storage
  value **items;     // TUPLE, DICT
  size_t count, room;
  int rank;  // TENSOR
  int64_t *shape, *strides;
};

enum { MOST_AXES = 16 };

typedef struct machine {
  const char *path;
  const unsigned char *bytes;
  size_t size, at;
  rec_blocks blocks;
  value **stack, **memory;
  size_t depth, stack_room, memory_room;
  size_t remembered;  // behind the last memory
  rec_status status;
} machine;

// False, as all that cannot go on.
static bool fail_pickle(machine *m, const char *what) {
  if (!m->status)
    m->status =
        rec_fail(REC_ERROR_FORMAT, "%s: expected a dictionary of tensors, found %s", m->path, what);
  return false;
}

static void *machine_memory(machine *m, size_t size) {
  void *memory = m->status ? NULL : rec_blocks_take(&m->blocks, size);
  if (!memory && !m->status) m->status = rec_no_memory();
  return memory;
}

static value *make_pickle_value(machine *m, value_kind kind) {
  value *v = machine_memory(m, sizeof *v);
  if (v) v->kind = kind;
  return v;
}

// An array that holds `wanted` pointers. New ones are NULL.
static bool grow_array(machine *m, value ***array, size_t *room, size_t wanted) {
  size_t before = *room;
  if (wanted <= before) return true;
  if (!rec_list_grow(array, room, before, wanted - before, sizeof **array))
    return m->status = rec_no_memory(), false;
  memset(*array + before, 0, (*room - before) * sizeof **array);
  return true;
}

static bool push(machine *m, value *v) {
  if (m->status || !v || !grow_array(m, &m->stack, &m->stack_room, m->depth + 1)) return false;
  m->stack[m->depth++] = v;
  return true;
}

static value *top(machine *m) {
  if (!m->depth || m->stack[m->depth - 1]->kind == VALUE_MARK) fail_pickle(m, "too few values");
  return m->status ? NULL : m->stack[m->depth - 1];
}

static value *pop(machine *m) {
  value *v = top(m);
  if (v) m->depth--;
  return v;
}

// The values above the last mark, which is removed with them.
static size_t to_mark(machine *m) {
  size_t first = m->depth;
  while (first > 0 && m->stack[first - 1]->kind != VALUE_MARK) first--;
  if (first == 0) fail_pickle(m, "a list without its mark");
  return first;
}

// ---- operands -----------------------------------------------------------------------------------

static const unsigned char *pickle_operand(machine *m, size_t size) {
  if (m->status || size > m->size - m->at) return fail_pickle(m, "a truncated pickle"), NULL;
  m->at += size;
  return m->bytes + m->at - size;
}

static uint64_t read_integer(machine *m, int size) {
  const unsigned char *bytes = pickle_operand(m, (size_t)size);
  uint64_t x = 0;
  for (int i = size - 1; bytes && i >= 0; i--) x = x << 8 | bytes[i];
  return x;
}

static bool push_pickle_number(machine *m, int64_t x) {
  value *v = make_pickle_value(m, VALUE_NUMBER);
  if (v) v->number = x;
  return push(m, v);
}

static bool push_text(machine *m, uint64_t size) {
  const unsigned char *bytes = size > m->size ? (fail_pickle(m, "a truncated pickle"), NULL)
                                              : pickle_operand(m, (size_t)size);
  value *v = bytes ? make_pickle_value(m, VALUE_TEXT) : NULL;
  char *text = v ? machine_memory(m, (size_t)size + 1) : NULL;
  if (!text) return false;
  if (memchr(bytes, 0, (size_t)size)) return fail_pickle(m, "a text with a NUL");
  memcpy(text, bytes, (size_t)size);
  v->text = text;
  return push(m, v);
}

static bool push_long(machine *m) {
  size_t size = read_integer(m, 1);
  if (size > 8) return fail_pickle(m, "a number of more than 64 bits");
  const unsigned char *bytes = pickle_operand(m, size);
  uint64_t x = bytes && size && bytes[size - 1] & 0x80 ? UINT64_MAX : 0;
  for (size_t i = size; bytes && i-- > 0;) x = x << 8 | bytes[i];
  return push_pickle_number(m, (int64_t)x);
}

// ---- names --------------------------------------------------------------------------------------

static const struct {
  const char *name;
  rec_dtype dtype;
} storage_types[] = {{"FloatStorage", REC_F32},     {"HalfStorage", REC_F16},
                     {"BFloat16Storage", REC_BF16}, {"DoubleStorage", REC_F64},
                     {"LongStorage", REC_I64},      {"IntStorage", REC_I32},
                     {"ShortStorage", REC_I16},     {"CharStorage", REC_I8},
                     {"ByteStorage", REC_U8},       {"BoolStorage", REC_BOOL}};

static bool push_global(machine *m, const char *module, const char *name) {
  if (!strcmp(module, "collections") && !strcmp(name, "OrderedDict"))
    return push(m, make_pickle_value(m, VALUE_MAKE_DICT));
  if (!strcmp(module, "torch._utils") && !strcmp(name, "_rebuild_tensor_v2"))
    return push(m, make_pickle_value(m, VALUE_REBUILD_TENSOR));
  if (!strcmp(module, "torch._utils") && !strcmp(name, "_rebuild_parameter"))
    return push(m, make_pickle_value(m, VALUE_REBUILD_PARAMETER));
  for (size_t i = 0; i < sizeof storage_types / sizeof *storage_types; i++)
    if (!strcmp(module, "torch") && !strcmp(name, storage_types[i].name)) {
      value *v = make_pickle_value(m, VALUE_STORAGE_TYPE);
      if (v) v->dtype = storage_types[i].dtype;
      return push(m, v);
    }
  if (!m->status)
    m->status = rec_fail(
        REC_ERROR_FORMAT,
        "%s: expected nothing but tensors, found a call of %.100s.%.100s, which is not run",
        m->path, module, name);
  return !m->status;
}

static const char *line(machine *m) {
  const unsigned char *begin = m->bytes + m->at, *end = memchr(begin, '\n', m->size - m->at);
  char *text = end ? machine_memory(m, (size_t)(end - begin) + 1) : NULL;
  if (!end) fail_pickle(m, "a truncated pickle");
  if (!text) return "";
  memcpy(text, begin, (size_t)(end - begin));
  m->at += (size_t)(end - begin) + 1;
  return text;
}

static bool stack_global(machine *m) {
  value *name = pop(m), *module = pop(m);
  if (m->status) return false;
  if (name->kind != VALUE_TEXT || module->kind != VALUE_TEXT)
    return fail_pickle(m, "a name that is no text");
  return push_global(m, module->text, name->text);
}

// ---- lists and dictionaries ---------------------------------------------------------------------

static bool append_items(machine *m, value *to, value *const *items, size_t count) {
  if (m->status || !count) return false;
  if (to->count + count > to->room) {
    size_t room = (to->count + count) * 2;
    value **larger = machine_memory(m, room * sizeof *larger);
    if (!larger) return false;
    if (to->count) memcpy(larger, to->items, to->count * sizeof *larger);
    to->items = larger;
    to->room = room;
  }
  memcpy(to->items + to->count, items, count * sizeof *items);
  to->count += count;
  return !m->status;
}

// Of the values from `first` on; `keep` of the stack stay below it.
static bool make_tuple(machine *m, size_t first, size_t keep) {
  value *v = m->status ? NULL : make_pickle_value(m, VALUE_TUPLE);
  if (!v) return false;
  append_items(m, v, m->stack + first, m->depth - first);
  m->depth = keep;
  return push(m, v);
}

static bool make_last(machine *m, size_t count) {
  if (count > m->depth) return fail_pickle(m, "too few values");
  for (size_t i = m->depth - count; i < m->depth; i++)
    if (m->stack[i]->kind == VALUE_MARK) return fail_pickle(m, "too few values");
  return make_tuple(m, m->depth - count, m->depth - count);
}

static bool make_to_mark(machine *m) {
  size_t first = to_mark(m);
  return make_tuple(m, first, first - 1);
}

// `first` is the place of the first of the values on the stack, `keep` what is left of it.
static bool add_to_container(machine *m, value_kind kind, size_t first, size_t keep) {
  if (m->status) return false;
  value *to = keep ? m->stack[keep - 1] : NULL;
  size_t count = m->depth - first;
  if (!to || to->kind != kind || (kind == VALUE_DICT && count % 2))
    return fail_pickle(m, "values that are added to something else than a list or dictionary");
  append_items(m, to, m->stack + first, count);
  m->depth = keep;
  return !m->status;
}

static bool add_to_mark(machine *m, value_kind kind) {
  size_t first = to_mark(m);
  return !m->status && add_to_container(m, kind, first, first - 1);
}

static bool add_top_values(machine *m, value_kind kind, size_t count) {
  if (count >= m->depth) return fail_pickle(m, "too few values");
  return add_to_container(m, kind, m->depth - count, m->depth - count);
}

// ---- tensors ------------------------------------------------------------------------------------

static bool item_is(const value *tuple, size_t place, value_kind kind) {
  return place < tuple->count && tuple->items[place]->kind == kind;
}

// ("storage", type, key, device, count)
static bool persistent(machine *m) {
  value *id = pop(m), *v = NULL;
  if (m->status) return false;
  if (id->kind != VALUE_TUPLE || id->count != 5 || !item_is(id, 0, VALUE_TEXT) ||
      strcmp(id->items[0]->text, "storage") != 0 || !item_is(id, 1, VALUE_STORAGE_TYPE) ||
      !item_is(id, 2, VALUE_TEXT))
    return fail_pickle(m, "a reference that is no storage");
  if ((v = make_pickle_value(m, VALUE_STORAGE))) {
    v->dtype = id->items[1]->dtype;
    v->text = id->items[2]->text;
  }
  return push(m, v);
}

static int64_t *read_pickle_axes(machine *m, const value *tuple) {
  int64_t *axes = machine_memory(m, sizeof *axes * (tuple->count + 1));
  for (size_t i = 0; axes && i < tuple->count; i++) {
    if (tuple->items[i]->kind != VALUE_NUMBER || tuple->items[i]->number < 0)
      return fail_pickle(m, "a tensor whose shape is not of whole numbers"), NULL;
    axes[i] = tuple->items[i]->number;
  }
  return axes;
}

static value *rebuild_tensor(machine *m, const value *with) {
  if (with->count < 4 || !item_is(with, 0, VALUE_STORAGE) || !item_is(with, 1, VALUE_NUMBER) ||
      !item_is(with, 2, VALUE_TUPLE) || !item_is(with, 3, VALUE_TUPLE) ||
      with->items[1]->number < 0 || with->items[2]->count != with->items[3]->count ||
      with->items[2]->count > MOST_AXES)
    return fail_pickle(m, "a tensor without storage, place, shape and strides"), NULL;
  value *v = make_pickle_value(m, VALUE_TENSOR);
  if (!v) return NULL;
  v->dtype = with->items[0]->dtype;
  v->text = with->items[0]->text;
  v->number = with->items[1]->number;
  v->rank = (int)with->items[2]->count;
  v->shape = read_pickle_axes(m, with->items[2]);
  v->strides = read_pickle_axes(m, with->items[3]);
  return v;
}

static bool pickle_reduce(machine *m) {
  value *with = pop(m), *what = pop(m);
  if (m->status) return false;
  if (with->kind != VALUE_TUPLE) return fail_pickle(m, "a call without arguments");
  switch (what->kind) {
    case VALUE_MAKE_DICT:
      if (with->count) return fail_pickle(m, "a dictionary made of values");
      return push(m, make_pickle_value(m, VALUE_DICT));
    case VALUE_REBUILD_TENSOR: return push(m, rebuild_tensor(m, with));
    case VALUE_REBUILD_PARAMETER:
      if (!item_is(with, 0, VALUE_TENSOR)) return fail_pickle(m, "a parameter that is no tensor");
      return push(m, with->items[0]);
    default: return fail_pickle(m, "a call of something that is no function");
  }
}

// ---- the machine --------------------------------------------------------------------------------

static bool remember(machine *m, uint64_t place) {
  value *v = top(m);
  // A pickle numbers its memories from 0 on, one instruction each.
  if (!m->status && place > m->size) fail_pickle(m, "a memory beyond all others");
  if (m->status || !grow_array(m, &m->memory, &m->memory_room, (size_t)place + 1)) return false;
  m->memory[place] = v;
  if (place >= m->remembered) m->remembered = (size_t)place + 1;
  return true;
}

static bool recall(machine *m, uint64_t place) {
  if (place >= m->memory_room || !m->memory[place]) return fail_pickle(m, "a memory of nothing");
  return push(m, m->memory[place]);
}

static bool unknown(machine *m, unsigned char code) {
  if (!m->status)
    m->status = rec_fail(REC_ERROR_FORMAT,
                         "%s: expected the instructions of a dictionary of tensors, found %d "
                         "('%c') at byte %zu of the pickle",
                         m->path, code, code > 32 && code < 127 ? code : '?', m->at - 1);
  return !m->status;
}

// False: the end.
static bool run_opcode(machine *m) {
  const unsigned char *code = pickle_operand(m, 1);
  if (!code) return false;
  switch (*code) {
    case 0x80: read_integer(m, 1); break;                        // protocol
    case 0x95: read_integer(m, 8); break;                        // frame
    case '}': push(m, make_pickle_value(m, VALUE_DICT)); break;  //
    case ']':
    case ')': push(m, make_pickle_value(m, VALUE_TUPLE)); break;
    case '(': push(m, make_pickle_value(m, VALUE_MARK)); break;
    case 'N': push(m, make_pickle_value(m, VALUE_NONE)); break;
    case 0x88: push_pickle_number(m, 1); break;
    case 0x89: push_pickle_number(m, 0); break;
    case 'K': push_pickle_number(m, (int64_t)read_integer(m, 1)); break;
    case 'M': push_pickle_number(m, (int64_t)read_integer(m, 2)); break;
    case 'J': push_pickle_number(m, (int32_t)read_integer(m, 4)); break;
    case 0x8a: push_long(m); break;
    case 'X': push_text(m, read_integer(m, 4)); break;
    case 0x8c: push_text(m, read_integer(m, 1)); break;
    case 'c': {
      const char *module = line(m), *name = line(m);
      if (!m->status) push_global(m, module, name);
      break;
    }
    case 0x93: stack_global(m); break;
    case 'q': remember(m, read_integer(m, 1)); break;
    case 'r': remember(m, read_integer(m, 4)); break;
    case 0x94: remember(m, m->remembered); break;
    case 'h': recall(m, read_integer(m, 1)); break;
    case 'j': recall(m, read_integer(m, 4)); break;
    case 't': make_to_mark(m); break;
    case 0x85: make_last(m, 1); break;
    case 0x86: make_last(m, 2); break;
    case 0x87: make_last(m, 3); break;
    case 'a': add_top_values(m, VALUE_TUPLE, 1); break;
    case 's': add_top_values(m, VALUE_DICT, 2); break;
    case 'e': add_to_mark(m, VALUE_TUPLE); break;
    case 'u': add_to_mark(m, VALUE_DICT); break;
    case 'Q': persistent(m); break;
    case 'R': pickle_reduce(m); break;
    case 'b': pop(m); break;  // attributes of a dictionary, as _metadata, are not needed
    case '.': return false;
    default: unknown(m, *code);
  }
  return !m->status;
}

// ---- the result ---------------------------------------------------------------------------------

static bool read_tensors(machine *m, const value *dict, torch_pickle *to) {
  to->tensors = machine_memory(m, sizeof *to->tensors * (dict->count / 2 + 1));
  for (size_t i = 0; !m->status && i < dict->count; i += 2) {
    const value *key = dict->items[i], *v = dict->items[i + 1];
    if (key->kind != VALUE_TEXT) return fail_pickle(m, "a key that is no text");
    if (v->kind != VALUE_TENSOR) {
      m->status =
          rec_fail(REC_ERROR_FORMAT,
                   "%s: expected a dictionary of tensors, found something else under '%.200s'",
                   m->path, key->text);
      return false;
    }
    to->tensors[to->count++] =
        (torch_tensor){key->text, v->text, v->dtype, v->number, v->rank, v->shape, v->strides};
  }
  return !m->status;
}

rec_status torch_pickle_read(const char *path, rec_mapping bytes, torch_pickle *pickle) {
  machine m = {.path = path, .bytes = bytes.bytes, .size = bytes.size};
  *pickle = (torch_pickle){0};
  while (run_opcode(&m)) continue;
  if (!m.status && (m.depth != 1 || m.stack[0]->kind != VALUE_DICT))
    fail_pickle(&m, "something else");
  if (!m.status) read_tensors(&m, m.stack[0], pickle);
  free(m.stack);
  free(m.memory);
  pickle->memory = m.blocks;
  if (m.status) torch_pickle_free(pickle);
  return m.status;
}

void torch_pickle_free(torch_pickle *pickle) {
  rec_blocks_free(&pickle->memory);
  *pickle = (torch_pickle){0};
}

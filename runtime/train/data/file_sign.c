#include "runtime/train/data/file_sign.h"

#include <string.h>

#include "runtime/train/data/data.h"

enum { LOOKED_AT = 4096, LEAST_TEXT = 16 };

typedef struct sign {
  size_t place, size;
  const char *bytes, *what;
} sign;

#define SIGN(place, bytes, what) {place, sizeof bytes - 1, bytes, what}

// As long as formats allow: two bytes alone may be a token.
static const sign signs[] = {
    SIGN(0, "\x1F\x8B\x08", "gzip; gunzip -k unpacks it"),
    SIGN(0, "\x28\xB5\x2F\xFD", "Zstandard; unzstd unpacks it"),
    SIGN(0, "\xFD\x37zXZ\0", "xz; unxz -k unpacks it"),
    SIGN(4, "1AY&SY", "bzip2; bunzip2 -k unpacks it"),
    SIGN(0, "\x04\x22\x4D\x18", "LZ4; unlz4 unpacks it"),
    SIGN(0, "7z\xBC\xAF\x27\x1C", "7z; 7z x unpacks it"),
    SIGN(0, "PK\x03\x04", "a zip archive, as .npz and torch's files are"),
    SIGN(257, "ustar", "a tar archive; tar -xf unpacks it"),
    SIGN(0, "\x93NUMPY", "NumPy's header; tokens(\"..\", format = npy) reads whole numbers"),
    SIGN(0, "LITPKDS", "a packed dataset of LitGPT, whose header tokens(..) does not read"),
    SIGN(0, "MMIDIDX\0",
         "Megatron's index; tokens(\"NAME.bin\", format = megatron) reads the file beside it"),
    SIGN(0, "TNTIDX\0\0", "an index of fairseq"),
    SIGN(0, "\x88\xD6\x34\x01\x01\0\0\0", "llm.c's header; tokens(\"..\", format = llmc) reads it"),
    SIGN(0, "\xA1\xD7\x34\x01\x07\0\0\0", "llm.c's header; tokens(\"..\", format = llmc) reads it"),
    SIGN(0, "PAR1", "Parquet"),
    SIGN(0, "ARROW1\0\0", "Arrow"),
    SIGN(0, "\xFF\xFF\xFF\xFF", "a stream of Arrow"),
    SIGN(0, "\x89HDF\r\n\x1A\n", "HDF5"),
    SIGN(0, "SQLite format 3\0", "a database of SQLite"),
    SIGN(0, "GGUF", "GGUF"),
    SIGN(8, "{\"", "safetensors"),
    SIGN(0, "\x80\x04\x95", "a pickle of Python"),
    SIGN(0, "\x80\x05\x95", "a pickle of Python"),
    SIGN(0, "%PDF-", "PDF"),
    SIGN(0, "\x89PNG\r\n\x1A\n", "PNG"),
    SIGN(0, "\x7F\x45LF", "ELF")};

static bool has_sign(rec_mapping bytes, const sign *s) {
  return bytes.size >= s->place + s->size &&
         !memcmp((const char *)bytes.bytes + s->place, s->bytes, s->size);
}

// Eight bytes, the length of the header, stand before it.
static bool is_safetensors(rec_mapping bytes) {
  uint64_t header;
  memcpy(&header, bytes.bytes, sizeof header);
  return header < bytes.size;
}

const char *file_sign(rec_mapping bytes) {
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
    if (has_sign(bytes, &signs[i]) && (signs[i].place != 8 || is_safetensors(bytes)))
      return signs[i].what;
  return NULL;
}

const char *file_binary(rec_mapping bytes) {
  if (file_is_text(bytes)) return NULL;
  const char *what = file_sign(bytes), *text = bytes.bytes;
  if (what || bytes.size < 2) return what;
  if (!memcmp(text, "\xFF\xFE", 2) || !memcmp(text, "\xFE\xFF", 2))
    return "UTF-16; iconv -f utf-16 -t utf-8 makes UTF-8 of it";
  return memchr(text, 0, bytes.size < LOOKED_AT ? bytes.size : LOOKED_AT)
             ? "bytes 0, which no text has"
             : NULL;
}

bool file_is_text(rec_mapping bytes) {
  const unsigned char *text = bytes.bytes;
  size_t at = 0, size = bytes.size < LOOKED_AT ? bytes.size : LOOKED_AT;
  for (uint32_t point; at < size;) {
    int length = train_character(text + at, bytes.size - at, &point);
    if (!length || (point < ' ' && !strchr("\t\n\f\r", (int)point)) || !point) return false;
    at += (size_t)length;
  }
  return size >= LEAST_TEXT;
}

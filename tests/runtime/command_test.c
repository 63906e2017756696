// The other subcommands from the outside: what they print for a small program, and how they refuse.
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/compiled.h"

static const char program[] =
    "/// A leaky sum.\n"
    "recurrence leak(G, N = 8) {\n"
    "  input  x[G,N]\n"
    "  param  a[G]\n"
    "  state  h[G,N]\n"
    "  output y[G]\n"
    "\n"
    "  h = sigmoid(a) * h[t-1] + x\n"
    "  y = sum[N](h)\n"
    "}\n";

static char folder[] = "/tmp/command_test.XXXXXX";
static char source[64], library[64], header[64];
static char output[1 << 16];

// Runs a shell command in the folder of the binaries; its output, both streams, in `output`.
// Returns the exit status.
static int run(const char *format, const char *argument) {
  char command[1024], line[2048];
  snprintf(command, sizeof command, format, argument);
  snprintf(line, sizeof line, "cd %s/bin && { %s; } 2>&1", REC_BINARY_DIR, command);
  FILE *pipe = popen(line, "r");
  if (!pipe) return -1;
  size_t size = fread(output, 1, sizeof output - 1, pipe);
  output[size] = '\0';
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void says(const char *what, const char *text) {
  check(strstr(output, text) != NULL, "%s: expected \"%s\" in\n%s", what, text, output);
}

static void check_help(void) {
  static const char *const commands[] = {"apply", "bench", "info", "fmt"};
  check(run("./rec --help", "") == 0, "rec --help");
  for (int i = 0; i < 4; i++) says("rec --help", commands[i]);
  check(run("./rec --version", "") == 0, "rec --version");
  says("rec --version", "rec " REC_VERSION "\n");
  check(run("./rec", "") == 2, "rec alone");
  check(run("./rec nonsense", "") == 2, "an unknown command");
  says("an unknown command", "rec: unknown command `nonsense`; the commands are apply,");
  for (int i = 0; i < 4; i++) {
    check(run("./rec %s --help", commands[i]) == 0, "rec %s --help", commands[i]);
    says("help of a command", commands[i]);
    check(run("./rec %s", commands[i]) == 2, "rec %s without words", commands[i]);
    says("a command without words", "--help`\n");
  }
}

static void check_info(void) {
  check(run("file=%s && ./recc $file -o ${file%%.rec}.so", source) == 0, "recc: %s", output);
  check(run("./rec info %s", library) == 0, "rec info: %s", output);
  says("rec info", "leak  A leaky sum.");
  says("rec info", "inputs      x[G,N]\n");
  says("rec info", "states      h[G,N]\n");
  says("rec info", "N = 8");
  check(run("./rec info --source %s", library) == 0, "rec info --source");
  check(strcmp(output, program) == 0, "rec info --source prints\n%s", output);
  check(run("./rec info --manifest %s", library) == 0 && output[0] == '{', "rec info --manifest");
  check(run("./rec info %s", source) == 2, "rec info of a text");
  says("rec info of a text",
       "not a library that can be loaded: it is a program; recc makes a library of it, FILE.so");
}

// Two objects in one program must not have names in common: only entry points are seen.
static void check_object(void) {
  check(run("file=%s && cd ${file%%/*} && $OLDPWD/recc $file -O0 -o leak.o && "
            "nm -g --defined-only leak.o && rm leak.o",
            source) == 0,
        "recc -o leak.o: %s", output);
  says("an object", " leak_forward\n");
  check(!strstr(output, " rec_kernel_"), "an object shows what is its own:\n%s", output);
}

static void check_bench(void) {
  check(run("./rec bench %s --time 64", library) == 2, "rec bench without a size");
  says("rec bench without a size",
       "rec bench: leak: expected a size for the axis G; give one by -D G=..\n");
  check(run("./rec bench %s -D G=3 --time 64 --rounds 9 --threads 1 --json", library) == 0,
        "rec bench: %s", output);
  says("rec bench --json", "\"forward_fraction\": ");
  says("rec bench --json", "\"both_over_forward\": ");
  check(run("./rec bench %s leak -D G=3 --time 64 --rounds 9 --forward", source) == 0,
        "rec bench: %s", output);
  says("rec bench", "GFLOP/s multiply-add");
  says("rec bench", "B=1 T=64 G=3 N=8, f32");
  says("rec bench", "% of the limit");
  check(run("./rec bench %s leak -D G=3 -D N=16", library) == 2, "rec bench of another size");
  says("rec bench", "rec bench: leak: expected the size 8 for the axis N, which ");
  says("rec bench", " fixes, found 16; compile it with recc -D N=16, or measure its .rec file\n");
  check(run("./rec bench %s leak -D G=3 -D leak.N=8 --time 64 --rounds 9 --forward", library) == 0,
        "rec bench: %s", output);
  check(run("./rec bench %s leak -D M=16", library) == 2, "rec bench of an unknown axis");
  says("rec bench", ": expected -D AXIS=SIZE of an axis of leak, found `-D M=16`; there are G N\n");
  check(run("./rec bench %s leak -D G=x", library) == 2, "rec bench of no size");
  says("rec bench", "rec bench: expected -D G=SIZE, found `-D G=x`\n");
}

static void check_format(void) {
  check(run("./rec fmt --check %s", source) == 0, "rec fmt --check: %s", output);
  check(run("./rec fmt - <%s", source) == 0 && strcmp(output, program) == 0, "rec fmt -: %s",
        output);
  FILE *file = fopen(source, "w");
  if (!file || fputs("recurrence leak(G) {input x[G] // kept\n output y[G] y=x+1}", file) < 0 ||
      fclose(file))
    abort();
  check(run("./rec fmt --check %s", source) == 1, "rec fmt --check of another layout");
  check(run("./rec fmt %s", source) == 0 && output[0] == '\0', "rec fmt: %s", output);
  check(run("./rec fmt --check %s", source) == 0, "formatting twice changes something");
  check(run("cat %s", source) == 0, "the file is gone");
  says("rec fmt", "// kept");
  says("rec fmt", "  output y[G]\n");
  check(run("./rec fmt %s/nothing.rec", folder) == 2, "rec fmt of no file");
}

// What is formatted keeps its mode, and a link to it stays a link.
static void check_links(void) {
  check(run("cd %s && mkdir deep && printf 'recurrence r(G) {input x[G] output y[G] y=x}' "
            ">deep/r.rec && chmod 640 deep/r.rec && ln -s deep/r.rec link.rec",
            folder) == 0,
        "no file to format: %s", output);
  check(run("./rec fmt %s/link.rec", folder) == 0 && output[0] == '\0', "rec fmt of a link: %s",
        output);
  check(run("cd %s && [ -h link.rec ] && grep -q '^  output y\\[G\\]$' deep/r.rec && [ \"$(stat -c "
            "%%a deep/r.rec)\" = 640 ] && [ \"$(ls -A deep)\" = r.rec ]",
            folder) == 0,
        "rec fmt replaces a link or a mode");
  check(run("cd %s && rm -r deep link.rec", folder) == 0, "%s", output);
}

// Output that cannot be written is an error, however short it is.
static void check_output(void) {
  static const char *const of_rec[] = {
      "./rec --help >/dev/full",
      "./rec --version >/dev/full",
      "./rec fmt --help >/dev/full",
      "./rec fmt - <%s >/dev/full",
      "./rec info %s >/dev/full",
      "./rec bench %s leak -D G=3 --time 64 --rounds 9 --forward >/dev/full"};
  static const char *const of_recc[] = {
      "./recc --help >/dev/full", "./recc --version >/dev/full", "./recc fmt %s >/dev/full",
      "./recc --emit=recurrence %s >/dev/full", "./recc --emit=ast %s >/dev/full"};
  for (size_t i = 0; i < sizeof of_rec / sizeof *of_rec; i++)
    check(run(of_rec[i], strstr(of_rec[i], "info") ? library : source) == 2 &&
              strcmp(output, "rec: standard output: No space left on device\n") == 0,
          "%s is not noticed", of_rec[i]);
  for (size_t i = 0; i < sizeof of_recc / sizeof *of_recc; i++)
    check(run(of_recc[i], source) == 1 &&
              strcmp(output, "error: standard output: No space left on device\n") == 0,
          "%s is not noticed", of_recc[i]);
}

int main(void) {
  if (!mkdtemp(folder)) return 1;
  snprintf(source, sizeof source, "%s/leak.rec", folder);
  snprintf(library, sizeof library, "%s/leak.so", folder);
  snprintf(header, sizeof header, "%s/leak.h", folder);
  FILE *file = fopen(source, "w");
  if (!file || fputs(program, file) < 0 || fclose(file)) return 1;
  check_help();
  check_info();
  check_object();
  check_bench();
  check_format();
  check_links();
  check_output();
  unlink(source);
  unlink(library);
  unlink(header);
  check(rmdir(folder) == 0, "files were left behind");
  return checked();
}

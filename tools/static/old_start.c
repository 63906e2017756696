// The start of a program that runs with older C libraries, too (REC_STATIC).
//
// Until 2.33, glibc left constructors to a function of the program, which its start file handed
// over. Start files of today hand over none. Newer C libraries call such a function as well, in
// place of what they would do themselves.
typedef int main_function(int, char **, char **);
typedef void constructor(int, char **, char **);
extern constructor *__init_array_start[], *__init_array_end[];
extern void _init(void);
int __real___libc_start_main(main_function *, int, char **, constructor *, void (*)(void),
                             void (*)(void), void *);
int __wrap___libc_start_main(main_function *, int, char **, constructor *, void (*)(void),
                             void (*)(void), void *);

static void construct(int count, char **words, char **environment) {
  _init();
  for (constructor **each = __init_array_start; each < __init_array_end; each++)
    (*each)(count, words, environment);
}

int __wrap___libc_start_main(main_function *main, int count, char **words, constructor *unused,
                             void (*finish)(void), void (*finish_loader)(void), void *stack_end) {
  (void)unused;
  return __real___libc_start_main(main, count, words, construct, finish, finish_loader, stack_end);
}

/* SPDX-License-Identifier: MIT */
/* Executes the script line by line. A line is a call and its words, after the optional prefixes
 * "interrupted" (a signal arrives while the call sleeps), "step100" (a handler does I/O after 100
 * instructions of the call), "bad_buffer" and "bad_argument" (the bytes, or what describes them,
 * are at a bad address). Any text is a script: a line that makes no sense does nothing, so the
 * driver may leave out lines. */
#include "program.h"

char *program_path;

static __thread struct block *cursor;

/* The rest of a line that opens a block, up to the brace that closes it. */
struct block next_block(void)
{
    struct block *rest = cursor;
    const char *line = rest->begin;
    int depth = 1;
    /* The opening line was read last. */
    const char *before = line - 2;
    if (before < shared->script || *before != '{')
        return (struct block){line, line};
    for (const char *at = line; at < rest->end;) {
        const char *end = memchr(at, '\n', (size_t)(rest->end - at));
        end = end ? end + 1 : rest->end;
        const char *last = end - 1;
        while (last > at && (*last == '\n' || *last == ' '))
            last--;
        const char *first = at + strspn(at, " ");
        if (*first == '}' && --depth == 0) {
            rest->begin = end;
            return (struct block){line, at};
        }
        if (*last == '{')
            depth++;
        at = end;
    }
    rest->begin = rest->end;
    return (struct block){line, rest->end};
}

enum { CALLS_MOST = 200 };

static struct call {
    const char *name;
    call_function *function;
} calls[CALLS_MOST];
static int n_calls;

void add_call(const char *name, call_function *function)
{
    if (n_calls == CALLS_MOST)
        abort();
    calls[n_calls++] = (struct call){name, function};
}

static call_function *find_call(const char *name)
{
    for (int i = 0; i < n_calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].function;
    return NULL;
}

static void split(struct op *op)
{
    char *save = NULL;
    for (char *word = strtok_r(op->copy, " ={}\n", &save); word && op->words < WORDS;
         word = strtok_r(NULL, " ={}\n", &save))
        op->word[op->words++] = word;
}

static bool take_prefix(struct op *op)
{
    bool stepped = strncmp(op->word[0], "step", 4) == 0;
    if (stepped)
        op->steps = atoi(op->word[0] + 4);
    bool *prefix = strcmp(op->word[0], "interrupted") == 0    ? &op->interrupted
                   : strcmp(op->word[0], "bad_buffer") == 0   ? &op->bad_buffer
                   : strcmp(op->word[0], "bad_argument") == 0 ? &op->bad_argument
                                                              : &stepped;
    if (prefix == &stepped && !stepped)
        return false;
    *prefix = true;
    op->words--;
    memmove(op->word, op->word + 1, sizeof op->word - sizeof *op->word);
    return true;
}

static void run_line(const char *line, size_t size)
{
    struct op op = {.words = 0};
    if (size >= sizeof op.copy)
        size = sizeof op.copy - 1;
    memcpy(op.copy, line, size);
    memcpy(shared->current, op.copy, sizeof shared->current);
    for (size_t i = 0; i < size && op.copy[i] != '\n' && op.length < 180; i++)
        op.line[op.length++] = op.copy[i];
    split(&op);
    while (op.words && take_prefix(&op))
        ;
    if (op.words == 0 || op.word[0][0] == '#')
        return;
    /* A pending signal, or a tick, may also end the call. Which one ends it depends on time. */
    sigset_t waiting;
    sigemptyset(&waiting);
    RAW(rt_sigpending, &waiting, 8, 0, 0);
    op.interrupted &= sigisemptyset(&waiting) == 1 && !ticking;
    call_function *function = find_call(op.word[0]);
    note(&op, ":");
    if (function)
        function(&op);
    else
        note(&op, " unknown");
    note_signals(&op);
    trace_line(&op);
}

void run_block(struct block block)
{
    struct block *outer = cursor;
    cursor = &block;
    while (block.begin < block.end) {
        const char *line = block.begin;
        const char *end = memchr(line, '\n', (size_t)(block.end - line));
        end = end ? end + 1 : block.end;
        block.begin = end;
        run_line(line, (size_t)(end - line));
        cursor = &block;
    }
    cursor = outer;
}

/* The part of another program. Its arguments: DESCRIPTOR CONNECTION BYTES. */
static int spawned(char **arguments)
{
    struct slot slot = {.fd = atoi(arguments[1]), .connection = atoi(arguments[2])};
    struct op op = {.line = "spawned: ", .length = 9};
    size_t size = (size_t)atol(arguments[3]);
    if (raw_option(slot.fd, SOL_SOCKET, SO_ACCEPTCONN) == 1) {
        note_number(&op, " TCP_NODELAY ", raw_option(slot.fd, IPPROTO_TCP, TCP_NODELAY));
        note_number(&op, " TCP_DELACK_MAX_US ", raw_option(slot.fd, IPPROTO_TCP, 46));
        trace_line(&op);
        return 8;
    }
    CALL(&op, write(slot.fd, outgoing_bytes(&slot, (long)size), size));
    if (op.result > 0)
        outgoing(&slot)->written += op.result;
    trace_line(&op);
    return 8;
}

int main(int argc, char **argv)
{
    program_path = argv[0];
    if (argc == 2)
        return 9; /* the program that "end exec" starts */
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, SHARED_FD, 0);
    if (shared == MAP_FAILED)
        return 99;
    if (argc == 4)
        return spawned(argv);
    for (int i = 0; i < SLOTS; i++)
        slots[i] = (struct slot){.fd = -1, .connection = -1};
    run_block((struct block){shared->script, shared->script + strlen(shared->script)});
    static const char end[] = "descriptors\nend return\n";
    run_block((struct block){end, end + sizeof end - 1});
    return 0;
}

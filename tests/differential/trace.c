/* SPDX-License-Identifier: MIT */
/* Writes the lines of the trace. Before each call it sets errno and sends the runner the requests
 * for later; after it, it saves errno. Async-signal-safe, because handlers make calls. */
#include "program.h"

void note(struct op *op, const char *text)
{
    size_t size = strlen(text);
    if (size > sizeof(op->line) - 2 - op->length)
        size = sizeof(op->line) - 2 - op->length;
    memcpy(op->line + op->length, text, size);
    op->length += (unsigned)size;
}

static void note_digits(struct op *op, long value)
{
    char digits[24];
    char *at = digits + sizeof digits - 1;
    unsigned long rest = value < 0 ? 0UL - (unsigned long)value : (unsigned long)value;
    *at = '\0';
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0)
        *--at = '-';
    note(op, at);
}

void note_number(struct op *op, const char *name, long value)
{
    note(op, name);
    note_digits(op, value);
}

void note_error(struct op *op, int error)
{
    if (error == UNTOUCHED)
        return;
    const char *name = error ? strerrorname_np(error) : "0";
    note(op, " ");
    note(op, name ? name : "?");
}

void note_result(struct op *op)
{
    note_number(op, " = ", op->result);
    note_error(op, op->error);
}

void note_some(struct op *op)
{
    if (op->result > 0)
        note(op, " = >0");
    else
        note_number(op, " = ", op->result);
    note_error(op, op->error);
}

void trace_line(struct op *op)
{
    op->line[op->length++] = '\n';
    uint32_t at = shared->trace_length;
    if (at + op->length < TRACE_MOST) {
        memcpy(shared->trace + at, op->line, op->length);
        shared->trace_length = at + op->length;
    }
    op->length = 0;
}

static void later(struct op *op, struct message message)
{
    message.what = message.verb;
    message.verb = LATER;
    message.thread = (int32_t)RAW(gettid, 0, 0, 0, 0);
    message.process = (int32_t)RAW(getpid, 0, 0, 0, 0);
    (void)op;
    RAW(write, CONTROL_FD, &message, sizeof message, 0);
}

void call_begins(struct op *op)
{
    shared->calls++;
    if (op->interrupted)
        later(op, (struct message){.verb = SIGNAL, .number = SIGALRM});
    /* A call that the signal ends needs no other request. */
    if (op->later.verb != NOTHING &&
        (!op->interrupted || (op->restarts && (alarm_flags & SA_RESTART))))
        later(op, op->later);
    errno = UNTOUCHED;
    if (op->steps)
        step_on(op->steps);
}

void call_ended(struct op *op, long result, int error)
{
    if (op->steps)
        step_off(op);
    op->result = result;
    op->error = error;
    tick_on();
    if (op->interrupted || op->later.verb != NOTHING)
        ask(DONE, 0, 0, 0);
    if (op->later.verb == RESUME) /* the call may have slept, or not, for another reason */
        ask(STOP, op->later.connection, 0, 0);
    op->interrupted = false;
    op->later.verb = NOTHING;
}

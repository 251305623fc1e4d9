/* SPDX-License-Identifier: MIT */
/* Fuzzes the records of observed processes, which these could write themselves, up to the report in
 * text and in JSON. The input is a number of slots, the record's head, the slots, and samples. What
 * is printed must be UTF-8 without control characters, and the JSON must be valid.
 * NS_FUZZ_BROKEN in the environment: no row is expected, so that it fails. */
#include "cli/cli.h"
#include "cli/diagnose/diagnose.h"
#include "judge/record.h"
#include "must.h"

#include <locale.h>
#include <wchar.h>

/* Copies up to n bytes of the input to the file. */
static size_t put(struct input *in, int fd, size_t n, off_t offset)
{
    size_t left = (size_t)(in->end - in->at);
    n = n < left ? n : left;
    MUST(n == 0 || pwrite(fd, in->at, n, offset) == (ssize_t)n);
    in->at += n;
    return n;
}

static void write_record(struct input *in, int directory)
{
    struct ns_record_head head = {.magic = NS_RECORD_MAGIC, .version = NS_RECORD_VERSION};
    unsigned what = take(in, 256), slots = what % 16;
    int fd = openat(directory, "1-1" NS_RECORD_SUFFIX, O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0);
    put(in, fd, sizeof head, 0);
    put(in, fd, slots * sizeof(struct ns_record_slot), NS_RECORD_SLOTS_AT);
    put(in, fd, sizeof(struct ns_record_event) * 64, NS_RECORD_EVENTS_AT);
    if (what < 240) { /* a record that is read; a new length of a tick costs 0.1 s */
        MUST(pwrite(fd, &head.magic, sizeof head.magic, 0) > 0);
        MUST(pwrite(fd, &head.version, sizeof head.version,
                    offsetof(struct ns_record_head, version)) > 0);
        head.tick_ns = 4000000;
        MUST(pwrite(fd, &head.tick_ns, sizeof head.tick_ns,
                    offsetof(struct ns_record_head, tick_ns)) > 0);
    }
    close(fd);
}

static void must_be_harmless(const char *text)
{
    mbstate_t state = {0};
    wchar_t one;
    for (size_t n, left = strlen(text); left > 0; text += n, left -= n) {
        n = mbrtowc(&one, text, left, &state);
        MUST(n > 0 && n <= left);
        MUST(one == L'\n' || one == L'\t' || (one >= 0x20 && one != 0x7f));
        MUST((one < 0x80 || one >= 0xa0) && (one < 0x202a || one > 0x202e) &&
             (one < 0x2066 || one > 0x2069));
    }
}

static void report(struct ns_diagnosis *diagnosis)
{
    char *text = NULL, *json, *page;
    size_t size;
    FILE *before = stderr;
    struct ns_report report = {
        .diagnosis = diagnosis, .command = "nagleshim", .policy = ns_diagnosis_policy(diagnosis)};
    ns_output_start();
    ns_report_advise(&report);
    stderr = open_memstream(&text, &size);
    ns_report_print(&report, 80);
    fclose(stderr);
    stderr = before;
    must_be_harmless(text);
    ns_report_fill_json(&report);
    json = ns_output_take(0);
    must_be_harmless(json);
    cJSON *parsed = cJSON_ParseWithOpts(json, NULL, true);
    MUST(parsed);
    page = ns_report_page(json);
    MUST(strstr(page, "</html>"));
    cJSON_Delete(parsed);
    cJSON_Delete(report.policy);
    free(page);
    free(json);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int directory = -1;
    static struct ns_diagnosis diagnosis;
    struct input in = {data, data + size};
    if (directory < 0) {
        char name[] = "/dev/shm/nagleshim-fuzz.XXXXXX";
        MUST(setlocale(LC_CTYPE, "C.UTF-8") && mkdtemp(name));
        directory = open(name, O_RDONLY | O_DIRECTORY);
        ns_cli_verb = "diagnose";
        MUST(directory >= 0);
    }
    write_record(&in, directory);
    ns_recorded_read(directory, &diagnosis);
    diagnosis.end = diagnosis.begin + 1000000000;
    ns_diagnosis_finish(&diagnosis);
    MUST(!(getenv("NS_FUZZ_BROKEN") && diagnosis.n_rows > 0));
    report(&diagnosis);
    ns_diagnosis_release(&diagnosis);
    ns_words_forget();
    return 0;
}

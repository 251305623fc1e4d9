/* SPDX-License-Identifier: MIT */
/* Owns the page of a diagnosis: one file that can be mailed, opened and printed anywhere. It must
 * have neither script nor address of anything outside, and nothing in it may be taken as it comes:
 * names of processes and arguments are anybody's choice. Not async-signal-safe. */
#include "cli/diagnose/diagnosis_report.h"

#include "cli/diagnose/diagnosis_words.h"

#include "policy/scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TEXT_MOST = 1024 };

#define MS 1e6

static const char head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\">\n"
    "<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n"
    "<title>nagleshim diagnose</title>\n"
    "<style>\n"
    ":root { --page: #fff; --ink: #1d2129; --soft: #5b6470; --line: #d5dae1; --card: #f4f6f8;\n"
    "  --bad: #b3261e; --maybe: #9a5b00; --good: #1b6e3c; --other: #4a78b5; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  :root { --page: #16181c; --ink: #e6e8eb; --soft: #a0a8b3; --line: #3a4049; --card: "
    "#1f2329;\n"
    "    --bad: #ff8a80; --maybe: #f2b04b; --good: #74d69a; --other: #7fa8e0; } }\n"
    "body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; background: var(--page); color: "
    "var(--ink);\n"
    "  font: 16px/1.5 system-ui, sans-serif; }\n"
    "h1 { font-size: 1rem; font-weight: 600; color: var(--soft); margin: 0; overflow-wrap: "
    "anywhere; }\n"
    "h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }\n"
    ".verdict { font-size: 1.35rem; line-height: 1.35; margin: .5rem 0 1rem; padding: 1rem "
    "1.2rem;\n"
    "  background: var(--card); border-left: .4rem solid var(--soft); overflow-wrap: anywhere; }\n"
    ".verdict.proven { border-color: var(--bad); } .verdict.likely { border-color: var(--maybe); "
    "}\n"
    ".verdict.none { border-color: var(--good); }\n"
    ".soft { color: var(--soft); }\n"
    ".wide { overflow-x: auto; }\n"
    "table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }\n"
    "th, td { text-align: left; vertical-align: top; padding: .4rem .7rem .4rem 0; }\n"
    "th { font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line); }\n"
    "tbody { border-bottom: 1px solid var(--line); }\n"
    "td.n, th.n { text-align: right; white-space: nowrap; }\n"
    "td.more { padding-top: 0; color: var(--soft); overflow-wrap: anywhere; }\n"
    ".grade { font-weight: 600; } .grade.proven { color: var(--bad); } .grade.likely { color: "
    "var(--maybe); }\n"
    ".grade.none { color: var(--good); }\n"
    "pre { background: var(--card); padding: .8rem 1rem; overflow-x: auto; white-space: pre-wrap;\n"
    "  overflow-wrap: anywhere; font: 14px/1.45 ui-monospace, monospace; }\n"
    "svg { width: 100%; height: auto; display: block; }\n"
    "svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }\n"
    "svg .axis { stroke: var(--line); fill: none; } svg .held { stroke: var(--bad); fill: none; }\n"
    "svg .late { stroke: var(--maybe); fill: none; } svg rect.held { fill: var(--bad); stroke: "
    "none; }\n"
    "svg rect.other { fill: var(--other); } svg rect.late { fill: var(--maybe); stroke: none; }\n"
    "i { display: inline-block; width: .8em; height: .8em; margin-right: .35em; }\n"
    "i.bad { background: var(--bad); } i.maybe { background: var(--maybe); } i.other { background: "
    "var(--other); }\n"
    "</style>\n"
    "</head>\n"
    "<body>\n";

/* What has a meaning in HTML is written so that it has none; what is no UTF-8 or drives a terminal
 * is not shown as it is. */
static void print_escaped(FILE *stream, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        size_t length = ns_scan_utf8(text, left);
        unsigned char c = (unsigned char)*text;
        size_t step = length ? length : 1;

        if (c == '<')
            fputs("&lt;", stream);
        else if (c == '>')
            fputs("&gt;", stream);
        else if (c == '&')
            fputs("&amp;", stream);
        else if (c == '"')
            fputs("&quot;", stream);
        else if (c == '\'')
            fputs("&#39;", stream);
        else if (length == 0 || (c < 0x20 && c != '\n') || c == 0x7f)
            fputs("\xEF\xBF\xBD", stream);
        else
            fwrite(text, 1, length, stream);
        text += step;
        left -= step;
    }
}

/* A grade as a class of the style: one word. */
static const char *grade_class(enum ns_grade grade)
{
    return grade == NS_GRADE_PROVEN   ? "proven"
           : grade == NS_GRADE_LIKELY ? "likely"
           : grade == NS_GRADE_NONE   ? "none"
                                      : "unclear";
}

static void print_verdict(FILE *stream, const struct ns_diagnosis_report *report)
{
    const struct ns_diagnosis *diagnosis = report->diagnosis;
    time_t began = (time_t)diagnosis->began;
    char text[TEXT_MOST], when[64] = "";
    struct tm tm;

    if (gmtime_r(&began, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
    fputs("<h1>nagleshim diagnose: ", stream);
    print_escaped(stream, report->subject);
    fprintf(stream, "</h1>\n<p class=\"verdict %s\">", grade_class(diagnosis->grade));
    ns_diagnosis_headline(diagnosis, text, sizeof(text));
    if (*text >= 'a' && *text <= 'z')
        *text = (char)(*text - 'a' + 'A');
    print_escaped(stream, text);
    fprintf(stream, ".</p>\n<p class=\"soft\">Watched for %.1f s from %s, in %" PRIu64 " looks",
            (double)(diagnosis->end - diagnosis->begin) / MS / 1e3, when, diagnosis->looks);
    if (diagnosis->missed)
        fprintf(stream, "; %" PRIu64 " came too late", diagnosis->missed);
    fputs(".</p>\n", stream);
}

static void print_more(FILE *stream, const char *label, const char *text)
{
    fprintf(stream, "<tr><td class=\"more\" colspan=\"7\">%s: ", label);
    print_escaped(stream, text);
    fputs("</td></tr>\n", stream);
}

static void print_row(FILE *stream, const struct ns_diagnosis *diagnosis,
                      const struct ns_diagnosed *row)
{
    const struct ns_verdict *verdict = &row->verdict;
    char text[TEXT_MOST];

    fputs("<tbody><tr><td>", stream);
    print_escaped(stream, row->process->name);
    fprintf(stream, " <span class=\"soft\">%d</span></td><td>", row->process->pid);
    print_escaped(stream, ns_diagnosis_where(row, text, sizeof(text)));
    fprintf(stream, "</td><td class=\"grade %s\">%s</td>", grade_class(verdict->grade),
            ns_grade_name(verdict->grade));
    fprintf(stream,
            "<td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64
            "</td><td class=\"n\">%.1f</td><td class=\"n\">%.1f</td></tr>\n",
            verdict->requests, ns_diagnosis_stall_count(row), ns_diagnosis_lost_ms(row),
            (double)(verdict->waited_ns ? verdict->waited_ns : verdict->watched_ns) / MS);
    if (row->pattern[0])
        print_more(stream, "Pattern", row->pattern);
    if (verdict->grade != NS_GRADE_NONE)
        print_more(stream, verdict->grade == NS_GRADE_PROVEN ? "Proof" : "Signs",
                   ns_diagnosis_proof(row, text, sizeof(text)));
    for (unsigned cause = 0; cause < NS_CAUSE_COUNT; cause++)
        if (ns_diagnosis_besides(row, cause, text, sizeof(text)))
            print_more(stream, "Besides", text);
    for (unsigned i = 0; ns_diagnosis_cure(diagnosis, row, i, text, sizeof(text)); i++)
        print_more(stream, i == 0 ? "Cure" : "Or", text);
    fputs("</tbody>\n", stream);
}

static void print_table(FILE *stream, const struct ns_diagnosis *diagnosis)
{
    if (diagnosis->n_rows == 0)
        return;
    fputs("<h2>Connections</h2>\n<div class=\"wide\"><table>\n"
          "<thead><tr><th>Process</th><th>Connection</th><th>Stalls?</th><th "
          "class=\"n\">Requests</th>"
          "<th class=\"n\">Stalls</th><th class=\"n\">ms lost</th><th class=\"n\">ms "
          "in all</th></tr></thead>\n",
          stream);
    for (size_t i = 0; i < diagnosis->n_rows; i++)
        print_row(stream, diagnosis, &diagnosis->rows[i]);
    fputs("</table></div>\n", stream);
}

static void print_experiments(FILE *stream, const struct ns_diagnosis *diagnosis)
{
    char text[TEXT_MOST];

    if (diagnosis->n_experiments)
        fputs("<h2>Experiment</h2>\n", stream);
    for (size_t i = 0; i < diagnosis->n_experiments; i++) {
        fputs("<p>", stream);
        print_escaped(stream,
                      ns_diagnosis_experiment(&diagnosis->experiments[i], text, sizeof(text)));
        fputs(".</p>\n", stream);
    }
}

static void print_cure(FILE *stream, const struct ns_diagnosis_report *report)
{
    if (!report->next && !report->policy)
        return;
    fputs("<h2>What to do</h2>\n", stream);
    if (report->next) {
        fputs("<pre>", stream);
        print_escaped(stream, report->next);
        fputs("</pre>\n", stream);
    }
    if (report->policy) {
        fputs("<p>The policy that takes just what stalls:</p>\n<pre>", stream);
        print_escaped(stream, report->policy);
        fputs("</pre>\n", stream);
    }
}

void ns_diagnosis_print_html(FILE *stream, const struct ns_diagnosis_report *report)
{
    fputs(head, stream);
    print_verdict(stream, report);
    print_table(stream, report->diagnosis);
    ns_diagnosis_draw_holds(stream, report->diagnosis);
    ns_diagnosis_draw_waits(stream, report->diagnosis);
    print_experiments(stream, report->diagnosis);
    print_cure(stream, report);
    for (unsigned i = 0; i < report->n_notes; i++) {
        fputs("<p class=\"soft\">", stream);
        print_escaped(stream, report->notes[i]);
        fputs(".</p>\n", stream);
    }
    fputs("</body>\n</html>\n", stream);
}

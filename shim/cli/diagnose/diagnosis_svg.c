/* SPDX-License-Identifier: MIT */
/* Owns the two pictures of a diagnosis's page. Their colours are the page's style's, so that they
 * follow it into the dark. Only numbers are drawn: no text of a process comes in here. */
#include "cli/diagnose/diagnosis_report.h"

#include <inttypes.h>
#include <math.h>

enum { WIDTH = 960, HEIGHT = 240, LEFT = 56, RIGHT = 12, TOP = 14, BOTTOM = 36 };

#define MS 1e6

/* The next round number (1, 2 or 5 times a power of ten) that is no less. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(fmax(value, 1e-3))));

    for (int i = 0; i < 3; i++) {
        static const double steps[] = {1, 2, 5};

        if (steps[i] * power >= value)
            return steps[i] * power;
    }
    return 10 * power;
}

static double x_at(double part)
{
    return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static double y_at(double part)
{
    return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
}

static void draw_frame(FILE *stream, const char *label)
{
    fprintf(stream, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", WIDTH, HEIGHT,
            label);
    fprintf(stream, "<path class=\"axis\" d=\"M%d %dV%.0fH%d\"/>\n", LEFT, TOP, y_at(0),
            WIDTH - RIGHT);
}

/* Up to five marks between 0 and most. */
static void draw_scale(FILE *stream, double most, const char *unit, bool upwards)
{
    double step = round_up(most / 5);

    for (double value = 0; value <= most * 1.001; value += step) {
        if (upwards)
            fprintf(stream,
                    "<path class=\"axis\" d=\"M%d %.1fH%d\" opacity=\".5\"/>"
                    "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g%s</text>\n",
                    LEFT, y_at(value / most), WIDTH - RIGHT, LEFT - 6, y_at(value / most) + 4,
                    value, unit);
        else
            fprintf(stream, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g%s</text>\n",
                    x_at(value / most), HEIGHT - BOTTOM + 16, value, unit);
    }
}

/* All holds of one kind, a line each, as one path. */
static size_t draw_lines(FILE *stream, const struct ns_diagnosis *diagnosis, bool waited,
                         double seconds, double most)
{
    double wide = 0.7 * (WIDTH - LEFT - RIGHT) / ((double)diagnosis->n_holds + 1);
    size_t n = 0;

    for (size_t i = 0; i < diagnosis->n_holds; i++) {
        const struct ns_hold *hold = &diagnosis->holds[i].hold;
        double at = hold->begin > diagnosis->begin
                        ? (double)(hold->begin - diagnosis->begin) / MS / 1e3
                        : 0;
        double held = (double)(hold->end - hold->begin) / MS;

        if (hold->waited != waited)
            continue;
        if (n++ == 0)
            fprintf(stream, "<path class=\"%s\" stroke-width=\"%.1f\" d=\"",
                    waited ? "held" : "late", fmin(4, fmax(1, wide)));
        fprintf(stream, "M%.1f %.1fV%.1f", x_at(fmin(1, at / seconds)), y_at(0),
                y_at(fmin(1, held / most)));
    }
    if (n)
        fputs("\"/>\n", stream);
    return n;
}

void ns_diagnosis_draw_holds(FILE *stream, const struct ns_diagnosis *diagnosis)
{
    double seconds = (double)(diagnosis->end - diagnosis->begin) / MS / 1e3, longest = 0, most;

    for (size_t i = 0; i < diagnosis->n_holds; i++)
        longest = fmax(
            longest, (double)(diagnosis->holds[i].hold.end - diagnosis->holds[i].hold.begin) / MS);
    if (diagnosis->n_holds == 0 || seconds <= 0)
        return;
    most = round_up(longest);
    fputs("<h2>When bytes were held, and how long</h2>\n", stream);
    draw_frame(stream, "Holds over time: when each began, and how many milliseconds it took");
    draw_scale(stream, most, " ms", true);
    draw_scale(stream, seconds, " s", false);
    draw_lines(stream, diagnosis, true, seconds, most);
    draw_lines(stream, diagnosis, false, seconds, most);
    fputs("</svg>\n<p class=\"soft\">A line is a hold: <i class=\"bad\"></i>the program waited; "
          "<i class=\"maybe\"></i>nobody did.",
          stream);
    if (diagnosis->holds_untold)
        fprintf(stream, " %" PRIu64 " later ones are not drawn.", diagnosis->holds_untold);
    fputs("</p>\n", stream);
}

struct histogram {
    uint64_t all[NS_VERDICT_BUCKETS], held[NS_VERDICT_BUCKETS], most;
    unsigned first, last;
};

static void sum_up(const struct ns_diagnosis *diagnosis, struct histogram *sum)
{
    sum->first = NS_VERDICT_BUCKETS;
    for (unsigned i = 0; i < NS_VERDICT_BUCKETS; i++) {
        for (size_t row = 0; row < diagnosis->n_rows; row++) {
            /* The worst rows come first: those that do not stall are not mixed with those that do.
             */
            if (diagnosis->rows[row].verdict.grade < diagnosis->grade)
                break;
            sum->all[i] += diagnosis->rows[row].verdict.waits[i];
            sum->held[i] += diagnosis->rows[row].verdict.held_waits[i];
        }
        /* From outside only those with a hold are known. */
        if (sum->all[i] < sum->held[i])
            sum->all[i] = sum->held[i];
        if (sum->all[i] == 0)
            continue;
        if (sum->first == NS_VERDICT_BUCKETS)
            sum->first = i;
        sum->last = i;
        if (sum->all[i] > sum->most)
            sum->most = sum->all[i];
    }
}

/* From 2^bucket microseconds on. */
static void print_duration(FILE *stream, unsigned bucket)
{
    double us = ldexp(1, (int)bucket);

    if (us < 1000)
        fprintf(stream, "%.0f µs", us);
    else if (us < 1e6)
        fprintf(stream, "%.*f ms", us < 10000 ? 1 : 0, us / 1e3);
    else
        fprintf(stream, "%.1f s", us / 1e6);
}

static void draw_bar(FILE *stream, const struct histogram *sum, unsigned bucket)
{
    double slots = sum->last - sum->first + 1;
    double left = x_at((bucket - sum->first) / slots), slot = x_at(1 / slots) - x_at(0);
    double width = fmin(slot * 0.8, 60), x = left + (slot - width) / 2;
    double all = (double)sum->all[bucket] / (double)sum->most;
    double held = (double)sum->held[bucket] / (double)sum->most;

    fprintf(stream, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", left + slot / 2,
            HEIGHT - BOTTOM + 16);
    if (slots <= 15 || (bucket - sum->first) % 2 == 0)
        print_duration(stream, bucket);
    if (slots <= 6) {
        fputs(" to ", stream);
        print_duration(stream, bucket + 1);
    }
    fputs("</text>\n", stream);
    if (sum->all[bucket] == 0)
        return;
    /* The smallest count can still be seen. */
    all = fmax(all, 0.01);
    held = sum->held[bucket] ? fmax(held, 0.01) : 0;
    fprintf(stream,
            "<rect class=\"other\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>"
            "<rect class=\"held\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>"
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%" PRIu64 "</text>\n",
            x, y_at(all), width, y_at(held) - y_at(all), x, y_at(held), width, y_at(0) - y_at(held),
            x + width / 2, y_at(all) - 4, sum->all[bucket]);
}

void ns_diagnosis_draw_waits(FILE *stream, const struct ns_diagnosis *diagnosis)
{
    struct histogram sum = {0};

    sum_up(diagnosis, &sum);
    if (sum.most == 0)
        return;
    fputs("<h2>How long waits took</h2>\n", stream);
    draw_frame(stream, "How many waits took how long, with and without a hold");
    for (unsigned i = sum.first; i <= sum.last; i++)
        draw_bar(stream, &sum, i);
    fputs("</svg>\n<p class=\"soft\">Waits for an answer where it is worst; a bar has those from "
          "its time up to twice that: "
          "<i class=\"bad\"></i>bytes were held meanwhile; <i class=\"other\"></i>none were.</p>\n",
          stream);
}

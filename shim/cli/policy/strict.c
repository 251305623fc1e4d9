/* SPDX-License-Identifier: MIT */
/* Owns the rules of JSON that cJSON does not check: numbers such as 007 and 1., control characters,
 * UTF-8, and escapes of 4 hex digits. Relies on cJSON having accepted the text. */
#include "cli/policy/check.h"

#include "policy/text.h"
#include "process/sanitize.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What is wrong with the number at p, which strtod accepts; or NULL. */
static const char *judge_number(const char *p)
{
    p += *p == '-';
    size_t digits = strspn(p, "0123456789");
    bool good = digits > 0 && (*p != '0' || digits == 1) &&
                (p[digits] != '.' || strspn(p + digits + 1, "0123456789") > 0);
    return good ? NULL : "not a JSON number; no leading 0, and digits on both sides of a point";
}

/* At a backslash. */
static const char *judge_escape(const char *p)
{
    if (p[1] != 'u')
        return NULL;
    if (strncmp(p, "\\u0000", 6) == 0)
        return "\\u0000 is not allowed in a policy";
    return strspn(p + 2, "0123456789abcdefABCDEF") >= 4 ? NULL : "\\u needs 4 hex digits";
}

int ns_check_strictly(const char *text, size_t len, struct ns_policy_error *error)
{
    const char *wrong = NULL, *p = text;
    bool in_string = false;
    for (size_t step; p < text + len; p += step) {
        step = ns_utf8_length(p, (size_t)(text + len - p));
        if (step == 0)
            wrong = "not UTF-8; a policy is UTF-8 text";
        else if (*p == '\0')
            wrong = "a NUL byte; a policy is text";
        else if (in_string && step == 1 && *p < ' ')
            wrong = "a control character in a string; write \\n, \\t, \\u001b ...";
        else if (!in_string && *p < ' ' && !strchr("\t\n\r", *p))
            wrong = "a control character; between tokens JSON has space, tab, CR and LF only";
        else if (in_string && *p == '\\')
            wrong = judge_escape(p), step = 2;
        else if (*p == '"')
            in_string = !in_string;
        else if (!in_string && strchr("-0123456789", *p))
            wrong = judge_number(p), step = strspn(p, "-+.eE0123456789");
        if (wrong)
            break;
    }
    if (!wrong)
        return 0;
    snprintf(error->message, sizeof error->message, "%s", wrong);
    ns_text_place(text, p, error);
    return -EINVAL;
}

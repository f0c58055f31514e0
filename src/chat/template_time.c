/* template_time.c - strftime for strftime_now: the calendar in the C locale, whatever the host's
 * is.
 *
 * Source: POSIX strftime, and the flags '-', '_', '0', '^', '#' of the GNU C library, which
 * templates use. Days to dates as in Howard Hinnant's "chrono-compatible low-level date
 * algorithms". */
#include <stdio.h>
#include <string.h>

#include "chat/template_functions.h"
#include "chat/template_render.h"

typedef struct moment {
    int64_t year;
    int month, day, hour, minute, second; /* month and day from 1 */
    int weekday;                          /* 0 is Sunday */
    int yearday;                          /* from 0 */
    int64_t seconds;
} moment;

static const char *const DAYS[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const MONTHS[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static moment moment_of(int64_t seconds)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int64_t days = seconds / 86400, rest = seconds % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    moment m = {.seconds = seconds};
    m.hour = (int)(rest / 3600);
    m.minute = (int)(rest / 60 % 60);
    m.second = (int)(rest % 60);
    m.weekday = (int)(((days + 4) % 7 + 7) % 7);
    int64_t shifted = days + 719468;
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    m.day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
    m.month = (int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
    m.year = year_of_era + era * 400 + (m.month <= 2 ? 1 : 0);
    m.yearday = before[m.month - 1] + m.day - 1 + (m.month > 2 && is_leap(m.year) ? 1 : 0);
    return m;
}

/* ISO 8601 week, and the year it belongs to. */
static int iso_week(const moment *m, int64_t *year)
{
    int weekday = (m->weekday + 6) % 7;
    int week = (m->yearday - weekday + 10) / 7;
    *year = m->year;
    if (week < 1) {
        *year = m->year - 1;
        int days = is_leap(*year) ? 366 : 365;
        return (m->yearday + days - weekday + 10) / 7;
    }
    int days = is_leap(m->year) ? 366 : 365;
    if (week == 53 && m->yearday - weekday + 3 >= days) {
        *year = m->year + 1;
        return 1;
    }
    return week;
}

/* A number's field: value, digits and filling as the letter has them. */
typedef struct field {
    int64_t value;
    int width;
    char fill;
} field;

static bool clock_field(const moment *m, char letter, field *f)
{
    int hour12 = m->hour % 12 == 0 ? 12 : m->hour % 12;
    switch (letter) {
    case 'H':
        *f = (field){m->hour, 2, '0'};
        return true;
    case 'k':
        *f = (field){m->hour, 2, ' '};
        return true;
    case 'I':
        *f = (field){hour12, 2, '0'};
        return true;
    case 'l':
        *f = (field){hour12, 2, ' '};
        return true;
    case 'M':
        *f = (field){m->minute, 2, '0'};
        return true;
    case 'S':
        *f = (field){m->second, 2, '0'};
        return true;
    case 's':
        *f = (field){m->seconds, 1, '0'};
        return true;
    case 'f':
        *f = (field){0, 6, '0'};
        return true;
    default:
        return false;
    }
}

static bool week_field(const moment *m, char letter, field *f)
{
    int64_t iso_year;
    int week = iso_week(m, &iso_year);
    switch (letter) {
    case 'u':
        *f = (field){m->weekday == 0 ? 7 : m->weekday, 1, '0'};
        return true;
    case 'w':
        *f = (field){m->weekday, 1, '0'};
        return true;
    case 'G':
        *f = (field){iso_year, 1, '0'};
        return true;
    case 'g':
        *f = (field){(iso_year % 100 + 100) % 100, 2, '0'};
        return true;
    case 'V':
        *f = (field){week, 2, '0'};
        return true;
    case 'U':
        *f = (field){(m->yearday + 7 - m->weekday) / 7, 2, '0'};
        return true;
    case 'W':
        *f = (field){(m->yearday + 7 - (m->weekday + 6) % 7) / 7, 2, '0'};
        return true;
    default:
        return false;
    }
}

static bool date_field(const moment *m, char letter, field *f)
{
    switch (letter) {
    case 'Y':
        *f = (field){m->year, 1, '0'};
        return true;
    case 'C':
        *f = (field){m->year / 100, 2, '0'};
        return true;
    case 'y':
        *f = (field){(m->year % 100 + 100) % 100, 2, '0'};
        return true;
    case 'm':
        *f = (field){m->month, 2, '0'};
        return true;
    case 'd':
        *f = (field){m->day, 2, '0'};
        return true;
    case 'e':
        *f = (field){m->day, 2, ' '};
        return true;
    case 'j':
        *f = (field){m->yearday + 1, 3, '0'};
        return true;
    default:
        return clock_field(m, letter, f) || week_field(m, letter, f);
    }
}

/* Letters that stand for other formats. */
static const char *expansion(char letter)
{
    switch (letter) {
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'R':
        return "%H:%M";
    case 'r':
        return "%I:%M:%S %p";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    default:
        return NULL;
    }
}

/* Letters that are words; NULL for others. */
static const char *word(const moment *m, char letter, size_t *n)
{
    const char *w = NULL;
    *n = SIZE_MAX;
    switch (letter) {
    case 'a':
        *n = 3;
        w = DAYS[m->weekday];
        break;
    case 'A':
        w = DAYS[m->weekday];
        break;
    case 'b':
    case 'h':
        *n = 3;
        w = MONTHS[m->month - 1];
        break;
    case 'B':
        w = MONTHS[m->month - 1];
        break;
    case 'p':
        w = m->hour < 12 ? "AM" : "PM";
        break;
    case 'P':
        w = m->hour < 12 ? "am" : "pm";
        break;
    case 'n':
        w = "\n";
        break;
    case 't':
        w = "\t";
        break;
    case '%':
        w = "%";
        break;
    case 'Z':
    case 'z':
        w = "";
        break;
    default:
        return NULL;
    }
    if (*n > strlen(w)) *n = strlen(w);
    return w;
}

static bool add_word(tpl_render *r, tpl_buffer *b, str w, char flag)
{
    for (size_t i = 0; i < w.len; i++) {
        char c = w.ptr[i];
        bool is_lower = c >= 'a' && c <= 'z';
        if ((flag == '^' || flag == '#') && is_lower) c = (char)(c - 'a' + 'A');
        if (!tpl_buffer_add(r, b, (str){&c, 1}, false)) return false;
    }
    return true;
}

static bool add_number(tpl_render *r, tpl_buffer *b, field f, char flag)
{
    char text[32];
    if (flag == '-') f.width = 1;
    if (flag == '_') f.fill = ' ';
    if (flag == '0') f.fill = '0';
    int n = f.fill == ' ' ? snprintf(text, sizeof text, "%*lld", f.width, (long long)f.value)
                          : snprintf(text, sizeof text, "%0*lld", f.width, (long long)f.value);
    return n > 0 && tpl_buffer_add(r, b, (str){text, (size_t)n}, false);
}

static bool format_moment(tpl_render *r, tpl_buffer *b, const moment *m, str format, bool nested)
{
    for (size_t i = 0; i < format.len; i++) {
        char c = format.ptr[i];
        char flag = '\0';
        size_t at = i + 1;
        while (c == '%' && at < format.len && strchr("-_0^#", format.ptr[at]) != NULL &&
               format.ptr[at] != '\0') {
            flag = format.ptr[at++];
        }
        if (c != '%' || at >= format.len) {
            if (!tpl_buffer_add(r, b, (str){&c, 1}, false)) return false;
            continue;
        }
        char letter = format.ptr[at];
        size_t n;
        field f;
        const char *w = word(m, letter, &n);
        const char *inner = nested ? NULL : expansion(letter);
        bool ok;
        if (w != NULL) {
            ok = add_word(r, b, (str){w, n}, flag);
        } else if (inner != NULL) {
            ok = format_moment(r, b, m, str_of(inner), true);
        } else if (date_field(m, letter, &f)) {
            ok = add_number(r, b, f, flag);
        } else {
            ok = tpl_buffer_add(r, b, (str){format.ptr + i, at + 1 - i}, false);
        }
        if (!ok) return false;
        i = at;
    }
    return true;
}

bool tpl_strftime(tpl_render *r, int64_t seconds, const tpl_text *format, tpl_value *out)
{
    /* Years that Python's datetime has. */
    if (seconds < -62135596800 || seconds > 253402300799) {
        return tpl_fail(r, WEFT_ARGUMENT, "the time %lld is outside the years 1 to 9999",
                        (long long)seconds);
    }
    moment m = moment_of(seconds);
    tpl_buffer *b = tpl_buffer_new(r, 64);
    if (b == NULL || !format_moment(r, b, &m, tpl_text_str(format), false)) return false;
    tpl_text *t = tpl_buffer_text(r, b);
    if (t == NULL) return false;
    if (!tpl_text_trusted(format)) tpl_text_distrust(t);
    *out = tpl_text_value(t);
    return true;
}

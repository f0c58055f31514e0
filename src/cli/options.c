/* options.c - tables of options: parsing through getopt_long, and help from the same rows. */
#include "cli/options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { ROWS_MOST = 64, FIRST_LONG = 256 };

/* ---- values ---------------------------------------------------------------------------------- */

bool number_parse(str text, uint64_t most, uint64_t *value)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') return false;
        uint64_t digit = (uint64_t)(text.ptr[i] - '0');
        if (n > (UINT64_MAX - digit) / 10) return false;
        n = n * 10 + digit;
    }
    *value = n;
    return text.len > 0 && n <= most;
}

static bool parse_bytes(const option_row *row, str text, uint64_t *value)
{
    static const char UNITS[] = "KMG";
    uint32_t shift = 0;
    size_t n_before = row->choices == NULL ? 0 : strlen(row->choices);
    if (text.len < n_before) return false;
    if (n_before > 0 && memcmp(text.ptr, row->choices, n_before) != 0) return false;
    text.ptr += n_before;
    text.len -= n_before;
    if (text.len > 0) {
        const char *unit = strchr(UNITS, text.ptr[text.len - 1]);
        if (unit != NULL && *unit != '\0') {
            shift = 10 * (uint32_t)(unit - UNITS + 1);
            text.len--;
        }
    }
    if (!number_parse(text, UINT64_MAX >> shift, value)) return false;
    *value <<= shift;
    return (double)*value >= row->min;
}

static bool parse_count(const option_row *row, str text, uint32_t *value)
{
    uint64_t n;
    if (!number_parse(text, (uint64_t)row->max, &n) || (double)n < row->min) return false;
    *value = (uint32_t)n;
    return true;
}

/* The program never leaves the C locale for numbers, so strtod reads a point. */
static bool parse_real(const option_row *row, const char *text, float *value)
{
    char *end;
    if (strspn(text, "0123456789.eE+-") != strlen(text)) return false;
    double n = strtod(text, &end);
    if (end == text || *end != '\0' || !(n >= row->min && n <= row->max)) return false;
    *value = (float)n;
    return true;
}

static bool parse_list(const option_row *row, const char *text, option_list *list)
{
    list->n = 0;
    for (;;) {
        size_t n = strcspn(text, ",");
        if (list->n == OPTION_LIST_MOST) return false;
        if (!parse_count(row, (str){text, n}, &list->values[list->n++])) return false;
        if (text[n] == '\0') return true;
        text += n + 1;
    }
}

static bool add_text(const char *text, option_texts *list)
{
    if (list->n == OPTION_TEXTS_MOST) return false;
    list->values[list->n++] = text;
    return true;
}

bool choice_has(const char *choices, const char *text)
{
    size_t n = strlen(text);
    while (n > 0) {
        size_t length = strcspn(choices, "|");
        if (length == n && memcmp(choices, text, n) == 0) return true;
        if (choices[length] == '\0') return false;
        choices += length + 1;
    }
    return false;
}

static const char *dashes(const option_row *row)
{
    return row->name[1] == '\0' ? "-" : "--";
}

static weft_status refuse(const option_row *row, const char *text, weft_error *err)
{
    switch (row->kind) {
    case OPTION_TEXTS:
        return err_set(err, WEFT_ARGUMENT, "%s%s is there more than %d times", dashes(row),
                       row->name, OPTION_TEXTS_MOST);
    case OPTION_CHOICE:
        return err_set(err, WEFT_ARGUMENT, "%s%s is '%s', expected %s", dashes(row), row->name,
                       text, row->choices);
    case OPTION_BYTES:
        return err_set(err, WEFT_ARGUMENT,
                       "%s%s is '%s', expected %sa number of bytes such as 512M or 2G", dashes(row),
                       row->name, text, row->choices == NULL ? "" : row->choices);
    case OPTION_SEED:
        return err_set(err, WEFT_ARGUMENT, "%s%s is '%s', expected a whole number from 0",
                       dashes(row), row->name, text);
    case OPTION_LIST:
        return err_set(err, WEFT_ARGUMENT,
                       "%s%s is '%s', expected at most %d numbers from %.0f to %.0f, with commas",
                       dashes(row), row->name, text, OPTION_LIST_MOST, row->min, row->max);
    default:
        return err_set(err, WEFT_ARGUMENT, "%s%s is '%s', expected a number from %.9g to %.10g",
                       dashes(row), row->name, text, row->min, row->max);
    }
}

static weft_status take_value(const option_row *row, const char *text, void *values,
                              weft_error *err)
{
    void *to = (char *)values + row->offset;
    bool ok = true;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)to = true;
        break;
    case OPTION_TEXT:
        *(const char **)to = text;
        break;
    case OPTION_TEXTS:
        ok = add_text(text, to);
        break;
    case OPTION_CHOICE:
        ok = choice_has(row->choices, text);
        *(const char **)to = text;
        break;
    case OPTION_COUNT:
        ok = parse_count(row, str_of(text), to);
        break;
    case OPTION_SEED:
        ok = number_parse(str_of(text), UINT64_MAX, &((option_seed *)to)->value);
        ((option_seed *)to)->given = true;
        break;
    case OPTION_BYTES:
        ok = parse_bytes(row, str_of(text), to);
        break;
    case OPTION_REAL:
        ok = parse_real(row, text, to);
        break;
    case OPTION_LIST:
        ok = parse_list(row, text, to);
        break;
    }
    return ok ? WEFT_OK : refuse(row, text, err);
}

/* ---- the command line ------------------------------------------------------------------------ */

typedef struct index {
    const option_row *rows[ROWS_MOST];
    struct option longs[ROWS_MOST + 2];
    char shorts[2 * ROWS_MOST + 2];
    uint32_t n_rows, n_longs, n_shorts;
} option_index;

static void index_row(option_index *x, const option_row *row)
{
    ASSERT(x->n_rows < ROWS_MOST);
    if (row->name[1] == '\0') {
        x->shorts[x->n_shorts++] = row->name[0];
        if (row->kind != OPTION_FLAG) x->shorts[x->n_shorts++] = ':';
    } else {
        x->longs[x->n_longs++] =
            (struct option){row->name, row->kind == OPTION_FLAG ? no_argument : required_argument,
                            NULL, FIRST_LONG + (int)x->n_rows};
    }
    x->rows[x->n_rows++] = row;
}

static const option_row *row_of(const option_index *x, int code)
{
    if (code >= FIRST_LONG) return x->rows[code - FIRST_LONG];
    for (uint32_t i = 0; i < x->n_rows; i++) {
        if (x->rows[i]->name[1] == '\0' && x->rows[i]->name[0] == code) return x->rows[i];
    }
    return NULL;
}

/* getopt_long says ':' for a missing value and '?' for what it does not know. */
static weft_status refuse_word(const option_index *x, int code, char **argv, weft_error *err)
{
    const option_row *row = optopt != 0 ? row_of(x, optopt) : NULL;
    if (code == ':' && row != NULL)
        return err_set(err, WEFT_ARGUMENT, "%s%s needs a value", dashes(row), row->name);
    if (row != NULL && row->name[1] != '\0')
        return err_set(err, WEFT_ARGUMENT, "--%s takes no value", row->name);
    if (optopt != 0 && optopt < FIRST_LONG)
        return err_set(err, WEFT_ARGUMENT, "there is no option -%c", optopt);
    return err_set(err, WEFT_ARGUMENT, "there is no option '%s'", argv[optind - 1]);
}

static weft_status take_operands(option_parse *p, int argc, char **argv, weft_error *err)
{
    const char *names[OPTION_OPERANDS] = {p->operand, p->second};
    int n = argc - optind;
    int n_wanted = p->operand == NULL ? 0 : p->second == NULL ? 1 : 2;
    int n_least = n_wanted > 0 && p->operand[0] == '[' ? 0 : n_wanted;
    if (n > n_wanted && n_wanted == 0)
        return err_set(err, WEFT_ARGUMENT, "'%s' is one word too many", argv[optind]);
    if (n > n_wanted && !p->takes_rest)
        return err_set(err, WEFT_ARGUMENT, "'%s' is one word too many after %s '%s'",
                       argv[optind + n_wanted], names[n_wanted - 1], argv[optind + n_wanted - 1]);
    if (n < n_least) return err_set(err, WEFT_ARGUMENT, "%s is missing", names[n]);
    p->given = n > 0 ? argv[optind] : NULL;
    p->given_second = n_wanted > 1 && n > 1 ? argv[optind + 1] : NULL;
    if (n > n_wanted) p->rest = (option_words){argv + optind + n_wanted, (uint32_t)(n - n_wanted)};
    return WEFT_OK;
}

weft_status options_parse(option_parse *p, int argc, char **argv, weft_error *err)
{
    static const option_row HELP[] = {{"help", OPTION_FLAG, 0, NULL, "", 0, 0, NULL},
                                      {"h", OPTION_FLAG, 0, NULL, "", 0, 0, NULL}};
    option_index x = {.n_shorts = 1, .shorts = ":"};
    for (size_t i = 0; i < COUNT_OF(HELP); i++) index_row(&x, &HELP[i]);
    for (uint32_t i = 0; i < p->n_sets; i++) {
        for (size_t k = 0; k < p->sets[i].n_rows; k++) index_row(&x, &p->sets[i].rows[k]);
    }
    opterr = 0;
    optind = 1;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): before any thread is started
        int code = getopt_long(argc, argv, x.shorts, x.longs, NULL);
        if (code == -1) return take_operands(p, argc, argv, err);
        if (code == '?' || code == ':') return refuse_word(&x, code, argv, err);
        const option_row *row = row_of(&x, code);
        if (row == &HELP[0] || row == &HELP[1]) {
            p->help = true;
            return WEFT_OK;
        }
        status = take_value(row, optarg, p->values, err);
    }
    return status;
}

/* ---- help ------------------------------------------------------------------------------------ */

enum { HELP_INDENT = 26, HELP_COLUMNS = 96 };

/* Words until the line is full, then the next line under the first. */
static void print_wrapped(const char *text, strbuf *out)
{
    size_t column = HELP_INDENT;
    while (*text != '\0') {
        size_t n = strcspn(text, " ");
        if (column > HELP_INDENT && column + 1 + n > HELP_COLUMNS) {
            strbuf_printf(out, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else if (column > HELP_INDENT) {
            strbuf_add_char(out, ' ');
            column++;
        }
        strbuf_add(out, text, n);
        column += n;
        text += n + (text[n] == ' ');
    }
    strbuf_add_char(out, '\n');
}

void options_print(const option_row *rows, size_t n_rows, bool markdown, strbuf *out)
{
    for (size_t i = 0; i < n_rows; i++) {
        const option_row *row = &rows[i];
        const char *space = row->value != NULL ? " " : "";
        const char *value = row->value != NULL ? row->value : "";
        if (markdown) {
            strbuf_printf(out, "| `%s%s%s%s` | %s |\n", dashes(row), row->name, space, value,
                          row->help);
            continue;
        }
        int used = (int)(strlen(dashes(row)) + strlen(row->name) + strlen(space) + strlen(value));
        strbuf_printf(out, "  %s%s%s%s%*s  ", dashes(row), row->name, space, value,
                      used < HELP_INDENT - 4 ? HELP_INDENT - 4 - used : 0, "");
        print_wrapped(row->help, out);
    }
}

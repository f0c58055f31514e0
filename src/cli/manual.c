/* manual.c - help and manual from the tables of the commands. */
#include "cli/manual.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

static const char OPENING[] =
    "<!-- Written by `weft --help-markdown`; a test compares the two. -->\n"
    "# The program `weft`\n"
    "\n"
    "    weft COMMAND ...\n"
    "    weft COMMAND --help\n"
    "    weft --help | --version\n"
    "\n"
    "MODEL is a folder with `config.json` and `*.safetensors`, a `.gguf` file, or the name of a "
    "model\n"
    "that `weft pull` or another tool has fetched from a hub, `ORG/NAME[@REV][:QUANT]`; what is "
    "there\n"
    "as a file comes first. Options may stand before or after it. The exit status is 0 when all "
    "went\n"
    "well, 1 when something failed and 2 for wrong usage; a failure is one sentence on stderr. "
    "Progress\n"
    "is shown on a terminal only.\n";

static const char COMMON_OPENING[] = "\n"
                                     "## Options of commands that compute\n"
                                     "\n";

static const char COMMON_CLOSING[] = " take\n"
                                     "them; `bench` and `eval` have a `--context` of their own.\n"
                                     "\n"
                                     "| option | |\n"
                                     "|---|---|\n";

static const char ALL_OPENING[] =
    "\n"
    "## Options of all commands\n"
    "\n"
    "A `tokenizer.json` of more than a megabyte is read once: the tables that it is turned into "
    "are\n"
    "kept in `$XDG_CACHE_HOME/weft`, or `~/.cache/weft`, and opened from there the next time. "
    "What is\n"
    "there may be deleted at any time.\n"
    "\n"
    "| option | |\n"
    "|---|---|\n";

static int give(strbuf *out)
{
    if (out->status != WEFT_OK) {
        report_note("out of memory for the manual");
        strbuf_deinit(out);
        return EXIT_FAILED;
    }
    fwrite(strbuf_text(out), 1, out->len, stdout);
    strbuf_deinit(out);
    return output_finish() ? EXIT_FINE : EXIT_FAILED;
}

static const char *operand_of(const command *c)
{
    return c->operand != NULL ? c->operand : "";
}

int manual_print(void)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add_text(&out, "usage: weft COMMAND ...\n\n");
    for (uint32_t i = 0; i < N_COMMANDS; i++) {
        const command *c = COMMANDS[i];
        strbuf_printf(&out, "  %-9s %-10s  %s\n", c->name, operand_of(c), c->summary);
    }
    strbuf_add_text(&out,
                    "\nMODEL is a folder with config.json and *.safetensors, a .gguf file, or "
                    "a name of weft list.\n"
                    "weft COMMAND --help says more; weft --version prints the version.\n");
    return give(&out);
}

static void print_sets(const command *c, bool markdown, strbuf *out)
{
    options_print(c->options, c->n_options, markdown, out);
    if (c->more_options != NULL) options_print(c->more_options, *c->n_more_options, markdown, out);
    for (uint32_t set = SESSION_ENGINE; set <= SESSION_LAST && !markdown; set <<= 1) {
        option_set options = session_options(set);
        if ((c->session_sets & set) != 0)
            options_print(options.rows, options.n_rows, markdown, out);
    }
}

/* The command and the words that it takes. */
static void print_words(const command *c, strbuf *out)
{
    const char *const words[] = {c->name, c->verbs, c->operand, c->second, c->rest};
    strbuf_add_text(out, "weft");
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (words[i] != NULL && words[i][0] != '\0') strbuf_printf(out, " %s", words[i]);
    }
}

int manual_print_command(const command *c)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add_text(&out, "usage: ");
    print_words(c, &out);
    strbuf_printf(&out, " [options]\n\n%s\n\n", c->summary);
    print_sets(c, false, &out);
    strbuf_printf(&out, "  %-22s  %s\n", "--help", "prints this");
    if (c->details[0] != '\0') strbuf_printf(&out, "\n%s", c->details);
    return give(&out);
}

static void print_section(const command *c, strbuf *out)
{
    strbuf_add_text(out, "\n## ");
    print_words(c, out);
    strbuf_printf(out, "\n\n%c%s.\n\n| option | |\n|---|---|\n", c->summary[0] - ('a' - 'A'),
                  c->summary + 1);
    print_sets(c, true, out);
    if (c->details[0] != '\0') strbuf_printf(out, "\n%s", c->details);
}

/* "`run`, `serve` and `embed`": who takes the options of an engine. */
static void print_who_computes(strbuf *out)
{
    const char *last = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_COMMANDS; i++) {
        if ((COMMANDS[i]->session_sets & SESSION_ENGINE) == 0) continue;
        if (last != NULL) strbuf_printf(out, "%s`%s`", n++ > 0 ? ", " : "", last);
        last = COMMANDS[i]->name;
    }
    if (last != NULL) strbuf_printf(out, "%s`%s`", n > 0 ? " and " : "", last);
}

int manual_print_markdown(void)
{
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add_text(&out, OPENING);
    for (uint32_t i = 0; i < N_COMMANDS; i++) print_section(COMMANDS[i], &out);
    strbuf_add_text(&out, COMMON_OPENING);
    print_who_computes(&out);
    strbuf_add_text(&out, COMMON_CLOSING);
    for (uint32_t set = SESSION_ENGINE; set <= SESSION_CONTEXT; set <<= 1) {
        option_set options = session_options(set);
        options_print(options.rows, options.n_rows, true, &out);
    }
    option_set all = session_options(SESSION_OPEN);
    strbuf_add_text(&out, ALL_OPENING);
    options_print(all.rows, all.n_rows, true, &out);
    return give(&out);
}

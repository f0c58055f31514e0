/* chat.c - a conversation on the terminal: every turn renders the whole of it by the model's
 * template. */
#include "cli/chat.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/commands/command.h"
#include "cli/line.h"

/* ---- history --------------------------------------------------------------------------------- */

weft_status chat_history_init(chat_history *h, const char *system, weft_error *err)
{
    strbuf_init(&h->json, mem_system(), 0);
    weft_status status = strbuf_add_char(&h->json, '[');
    if (status != WEFT_OK) return err_set(err, status, "out of memory for the conversation");
    if (system != NULL) status = chat_history_add(h, "system", str_of(system), err);
    h->start = h->json.len;
    return status;
}

void chat_history_deinit(chat_history *h)
{
    strbuf_deinit(&h->json);
}

void chat_history_cut(chat_history *h, size_t n_bytes)
{
    h->json.status = WEFT_OK;
    h->json.len = n_bytes;
    h->json.ptr[n_bytes] = '\0';
}

weft_status chat_history_add(chat_history *h, const char *role, str content, weft_error *err)
{
    size_t before = h->json.len;
    strbuf_printf(&h->json, "%s{\"role\":\"%s\",\"content\":", before > 1 ? "," : "", role);
    json_write_text(content, &h->json);
    weft_status status = strbuf_add_char(&h->json, '}');
    if (status == WEFT_OK) return WEFT_OK;
    chat_history_cut(h, before);
    return err_set(err, status, "out of memory for the conversation");
}

weft_status chat_history_show(chat_history *h, uint32_t n_images, str content, weft_error *err)
{
    if (n_images == 0) return chat_history_add(h, "user", content, err);
    size_t before = h->json.len;
    strbuf_printf(&h->json, "%s{\"role\":\"user\",\"content\":[", before > 1 ? "," : "");
    for (uint32_t i = 0; i < n_images; i++) strbuf_add_text(&h->json, "{\"type\":\"image\"},");
    strbuf_add_text(&h->json, "{\"type\":\"text\",\"text\":");
    json_write_text(content, &h->json);
    weft_status status = strbuf_add_text(&h->json, "}]}");
    if (status == WEFT_OK) return WEFT_OK;
    chat_history_cut(h, before);
    return err_set(err, status, "out of memory for the conversation");
}

weft_status chat_history_ids(chat_history *h, const session *s, id_list *ids, weft_error *err)
{
    size_t before = h->json.len;
    weft_status status = strbuf_add_char(&h->json, ']');
    if (status == WEFT_OK) {
        status = session_chat(s, strbuf_text(&h->json), NULL, 0, ids, err);
    } else {
        status = err_set(err, status, "out of memory for the conversation");
    }
    chat_history_cut(h, before);
    return status;
}

/* ---- one turn -------------------------------------------------------------------------------- */

typedef struct chat {
    session *s;
    const chat_options *options;
    chat_history history;
    strbuf text;  /* raw: all of it */
    strbuf reply; /* of this turn */
    id_list ids;
    line_reader *lines;
} chat;

static void show_text(void *user, const char *bytes, size_t n_bytes)
{
    chat *c = user;
    strbuf_add(&c->reply, bytes, n_bytes);
    text_write(stdout, bytes, n_bytes);
    fflush(stdout);
}

static size_t chat_mark(const chat *c)
{
    return c->options->raw ? c->text.len : c->history.json.len;
}

static void chat_cut(chat *c, size_t mark)
{
    if (!c->options->raw) {
        chat_history_cut(&c->history, mark);
    } else if (c->text.ptr != NULL) {
        c->text.status = WEFT_OK;
        c->text.len = mark;
        c->text.ptr[mark] = '\0';
    }
}

static weft_status chat_add(chat *c, const char *role, str content, weft_error *err)
{
    if (!c->options->raw) return chat_history_add(&c->history, role, content, err);
    weft_status status = strbuf_add(&c->text, content.ptr, content.len);
    return status == WEFT_OK ? WEFT_OK : err_set(err, status, "out of memory for the conversation");
}

static weft_status chat_ids(chat *c, weft_error *err)
{
    if (!c->options->raw) return chat_history_ids(&c->history, c->s, &c->ids, err);
    str text = {strbuf_text(&c->text), c->text.len};
    return session_tokenize(c->s, text, WEFT_TOKENIZE_SPECIALS, &c->ids, err);
}

/* A turn that fails leaves the conversation as it was. */
static weft_status chat_turn(chat *c, str line, weft_error *err)
{
    size_t mark = chat_mark(c);
    generate_answer answer = {0};
    generate_request request = {.prompt = &c->ids,
                                .how = c->options->how,
                                .continues = c->options->raw,
                                .user = c,
                                .text = show_text};
    strbuf_clear(&c->reply);
    weft_status status = chat_add(c, "user", line, err);
    if (status == WEFT_OK) status = chat_ids(c, err);
    if (status == WEFT_OK) status = generate(c->s, &request, &answer, err);
    if (c->reply.len > 0) putchar('\n');
    fflush(stdout);
    if (status == WEFT_OK && c->reply.status != WEFT_OK)
        status = err_set(err, c->reply.status, "out of memory for the answer");
    if (status == WEFT_OK)
        status = chat_add(c, "assistant", (str){strbuf_text(&c->reply), c->reply.len}, err);
    if (status == WEFT_OK) {
        generate_print_speed(c->s, &request, &answer);
    } else {
        chat_cut(c, mark);
    }
    id_list_deinit(&answer.ids);
    return status;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void print_help(void)
{
    puts("/help   this\n"
         "/clear  forgets the conversation, but for --system\n"
         "/quit   leaves, as Ctrl-D does\n"
         "Ctrl-C stops an answer or drops the line; twice on an empty line, it leaves.\n"
         "A line that ends in \\ goes on in the next.");
}

/* LINE_READ with the whole of what was typed, over several lines when they end in a backslash. */
static line_result read_message(chat *c, strbuf *message, strbuf *line)
{
    const char *prompt = "> ";
    strbuf_clear(message);
    for (;;) {
        line_result result = line_read(c->lines, prompt, line);
        if (result != LINE_READ) return result;
        bool more = line->len > 0 && line->ptr[line->len - 1] == '\\';
        strbuf_add(message, strbuf_text(line), line->len - more);
        if (!more) return message->status == WEFT_OK ? LINE_READ : LINE_TOO_LONG;
        strbuf_add_char(message, '\n');
        prompt = ". ";
    }
}

/* False: the person leaves. */
static bool take_message(chat *c, str message)
{
    if (message.len == 0) return true;
    if (str_equal_text(message, "/quit")) return false;
    if (str_equal_text(message, "/help")) {
        print_help();
    } else if (str_equal_text(message, "/clear")) {
        chat_cut(c, c->options->raw ? 0 : c->history.start);
        puts("The conversation is forgotten.");
    } else if (message.ptr[0] == '/' && memchr(message.ptr, ' ', message.len) == NULL) {
        printf("There is no command %.*s; /help lists them.\n", (int)message.len, message.ptr);
    } else {
        weft_error err = {WEFT_OK, ""};
        weft_status status = chat_turn(c, message, &err);
        if (status != WEFT_OK) report_failure(&err, false);
        if (status == WEFT_LIMIT)
            report_note("the message was not taken; /clear starts a new conversation");
    }
    return !ferror(stdout);
}

static void chat_loop(chat *c)
{
    strbuf line;
    strbuf message;
    strbuf_init(&line, mem_system(), 64u << 20);
    strbuf_init(&message, mem_system(), 64u << 20);
    uint32_t n_interrupts = 0;
    for (bool goes_on = true; goes_on;) {
        switch (read_message(c, &message, &line)) {
        case LINE_READ:
            n_interrupts = 0;
            goes_on = take_message(c, (str){strbuf_text(&message), message.len});
            break;
        case LINE_INTERRUPTED:
            goes_on = ++n_interrupts < 2;
            puts(goes_on ? "\n(Ctrl-C again or Ctrl-D leaves.)" : "");
            break;
        case LINE_DROPPED:
            n_interrupts = 0;
            putchar('\n');
            break;
        case LINE_TOO_LONG:
            report_note("the message has more than %zu bytes", line.limit);
            break;
        case LINE_END:
            putchar('\n');
            goes_on = false;
            break;
        }
    }
    strbuf_deinit(&line);
    strbuf_deinit(&message);
}

static void greet(const session *s)
{
    weft_engine_info info = {.struct_size = sizeof info};
    weft_engine_get_info(s->engine, &info, NULL);
    printf("%s, %.1fM parameters, context of %u tokens, on %s%s%s with %u threads.\n"
           "/help lists what can be typed besides a message.\n",
           s->info.family, (double)s->info.n_params / 1e6, info.context, info.backend,
           info.isa[0] != '\0' ? " " : "", info.isa, info.n_threads);
}

int chat_run(session *s, const chat_options *options)
{
    chat c = {.s = s, .options = options};
    weft_error err = {WEFT_OK, ""};
    strbuf_init(&c.text, mem_system(), 0);
    strbuf_init(&c.reply, mem_system(), 0);
    weft_status status = chat_history_init(&c.history, options->system, &err);
    if (status == WEFT_OK) status = line_reader_create(&c.lines, &err);
    if (status == WEFT_OK) {
        interrupt_arm();
        greet(s);
        chat_loop(&c);
        interrupt_disarm();
    }
    line_reader_destroy(c.lines);
    id_list_deinit(&c.ids);
    chat_history_deinit(&c.history);
    strbuf_deinit(&c.reply);
    strbuf_deinit(&c.text);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, false);
}

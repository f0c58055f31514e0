/* turns.c - blocks to messages. */
#include "server/turns.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

void turns_init(turns *t, generation *g, char *param, weft_error *err)
{
    *t = (turns){.g = g, .param = param, .err = err};
    strbuf_init(&t->text, mem_system(), WEFT_CHAT_MESSAGES_BYTES);
    strbuf_init(&t->parts, mem_system(), WEFT_CHAT_MESSAGES_BYTES);
    strbuf_init(&t->reasoning, mem_system(), WEFT_CHAT_MESSAGES_BYTES);
    strbuf_init(&t->calls, mem_system(), WEFT_CHAT_MESSAGES_BYTES);
}

void turns_deinit(turns *t)
{
    messages_forget_results(&t->results);
    strbuf_deinit(&t->text);
    strbuf_deinit(&t->parts);
    strbuf_deinit(&t->reasoning);
    strbuf_deinit(&t->calls);
}

static weft_status check(turns *t, weft_status status)
{
    return status == WEFT_OK ? status : err_set(t->err, status, "the messages are too long");
}

static str text_of(const strbuf *text)
{
    return (str){strbuf_text(text), text->len};
}

/* The text since the last image becomes a part. */
static void end_part(turns *t)
{
    if (t->text.len == 0) return;
    if (t->parts.len > 0) strbuf_add_char(&t->parts, ',');
    strbuf_add_text(&t->parts, "{\"type\":\"text\",\"text\":");
    json_write_text(text_of(&t->text), &t->parts);
    strbuf_add_char(&t->parts, '}');
    strbuf_clear(&t->text);
}

static weft_status write_calls(turns *t, bool has_ids)
{
    strbuf *out = &t->g->messages;
    json_doc doc;
    strbuf calls;
    size_t first = out->len;
    if (t->calls.len > 0) {
        strbuf_add_text(out, ",\"tool_calls\":[");
        strbuf_add(out, t->calls.ptr, t->calls.len);
        strbuf_add_char(out, ']');
    }
    if (!has_ids || out->status != WEFT_OK) return out->status;
    if (t->calls.len == 0) {
        messages_add_ids(t->g, text_of(&t->text), NULL);
        return out->status;
    }
    strbuf_init(&calls, mem_system(), 0);
    strbuf_add(&calls, out->ptr + first + sizeof ",\"tool_calls\":" - 1,
               out->len - first - (sizeof ",\"tool_calls\":" - 1));
    weft_status status = calls.status;
    if (status == WEFT_OK) status = json_parse(&doc, calls.ptr, calls.len, t->err);
    if (status == WEFT_OK) {
        messages_add_ids(t->g, text_of(&t->text), doc.root);
        json_doc_free(&doc);
    }
    strbuf_deinit(&calls);
    return status == WEFT_OK ? out->status : status;
}

static weft_status close_turn(turns *t)
{
    strbuf *out = &t->g->messages;
    if (t->role == NULL) return WEFT_OK;
    if (t->n_messages++ == MESSAGES_MOST) {
        return err_set(t->err, WEFT_LIMIT, "the conversation has more than %d messages",
                       MESSAGES_MOST);
    }
    strbuf_add_text(out, out->len == 0 ? "[" : ",");
    strbuf_printf(out, "{\"role\":\"%s\",\"content\":", t->role);
    bool has_parts = t->parts.len > 0;
    bool is_answer = strcmp(t->role, "assistant") == 0;
    weft_status status = t->text.status;
    if (has_parts) {
        end_part(t);
        strbuf_add_char(out, '[');
        strbuf_add(out, t->parts.ptr, t->parts.len);
        strbuf_add_char(out, ']');
    } else {
        json_write_text(text_of(&t->text), out);
    }
    if (t->result_id.ptr != NULL) {
        strbuf_add_text(out, ",\"tool_call_id\":");
        json_write_text(t->result_id, out);
    }
    if (t->reasoning.len > 0) {
        strbuf_add_text(out, ",\"reasoning_content\":");
        json_write_text(text_of(&t->reasoning), out);
    }
    if (status == WEFT_OK) status = t->parts.status;
    if (status == WEFT_OK) status = t->reasoning.status;
    if (status == WEFT_OK) status = t->calls.status;
    if (status == WEFT_OK) status = write_calls(t, is_answer && !has_parts);
    strbuf_add_char(out, '}');
    strbuf_clear(&t->text);
    strbuf_clear(&t->parts);
    strbuf_clear(&t->reasoning);
    strbuf_clear(&t->calls);
    t->role = NULL;
    t->result_id = (str){NULL, 0};
    return check(t, status == WEFT_OK ? out->status : status);
}

weft_status turns_open(turns *t, const char *role, bool joins)
{
    bool same = t->role != NULL && strcmp(t->role, role) == 0;
    if (same && strcmp(role, "system") == 0) return check(t, strbuf_add_text(&t->text, "\n\n"));
    if (same && joins) return WEFT_OK;
    weft_status status = close_turn(t);
    if (status == WEFT_OK) t->role = role;
    if (strcmp(role, "assistant") == 0) messages_forget_results(&t->results);
    return status;
}

weft_status turns_open_result(turns *t, str id, const char *name)
{
    bool again = false;
    weft_status status = close_turn(t);
    if (status == WEFT_OK) status = messages_note_result(&t->results, id, &again, t->err);
    if (status != WEFT_OK) return status;
    if (again) {
        return field_wrong(t->param, name, t->err, "is '%.*s', and that call has a result already",
                           (int)(id.len < 64 ? id.len : 64), id.ptr);
    }
    t->role = "tool";
    t->result_id = id;
    return WEFT_OK;
}

weft_status turns_add_text(turns *t, str text)
{
    ASSERT(t->role != NULL);
    return check(t, strbuf_add(&t->text, text.ptr, text.len));
}

weft_status turns_add_image(turns *t, str image, const char *name)
{
    generation *g = t->g;
    if (g->n_images == GENERATION_IMAGES)
        return field_wrong(t->param, name, t->err, "is one image more than %d", GENERATION_IMAGES);
    g->images[g->n_images++] = image;
    end_part(t);
    if (t->parts.len > 0) strbuf_add_char(&t->parts, ',');
    return check(t, strbuf_add_text(&t->parts, "{\"type\":\"image\"}"));
}

weft_status turns_add_reasoning(turns *t, str text)
{
    return check(t, strbuf_add(&t->reasoning, text.ptr, text.len));
}

weft_status turns_add_call(turns *t, str id, str name, const json *arguments)
{
    strbuf *out = &t->calls;
    if (out->len > 0) strbuf_add_char(out, ',');
    strbuf_add_text(out, "{\"type\":\"function\",\"id\":");
    json_write_text(id, out);
    strbuf_add_text(out, ",\"function\":{\"name\":");
    json_write_text(name, out);
    strbuf_add_text(out, ",\"arguments\":");
    if (json_kind_of(arguments) == JSON_KIND_NULL) {
        strbuf_add_text(out, "{}");
    } else {
        json_write(arguments, 0, out);
    }
    return check(t, strbuf_add_text(out, "}}"));
}

weft_status turns_end(turns *t)
{
    weft_status status = close_turn(t);
    if (t->n_messages == 0) strbuf_add_char(&t->g->messages, '[');
    return status == WEFT_OK ? check(t, strbuf_add_char(&t->g->messages, ']')) : status;
}

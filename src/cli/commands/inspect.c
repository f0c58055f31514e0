/* inspect.c - weft inspect: what a checkpoint is made of, and what its state costs. */
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/bytes.h"
#include "cli/codecs.h"
#include "cli/commands/command.h"
#include "cli/kv_plan.h"

typedef struct inspect_values {
    session_values session;
    bool tensors, json;
} inspect_values;

#define AT(field) offsetof(inspect_values, field)

static const option_row OPTIONS[] = {
    {"tensors", OPTION_FLAG, AT(tensors), NULL, "lists each tensor too", 0, 0, NULL},
    {"kv", OPTION_TEXT, AT(session.kv), "SPEC",
     "shows what each layer stores with this spec, with --act bf16", 0, 0, NULL},
    {"json", OPTION_FLAG, AT(json), NULL, "prints one JSON object", 0, 0, NULL},
};

static const inspect_values DEFAULTS = {.tensors = false};

enum { GROUPS_MOST = 64 };

typedef struct group {
    const char *encoding;
    uint32_t n_tensors;
    uint64_t n_params, n_bytes;
} group;

typedef struct inspection {
    session s;
    group groups[GROUPS_MOST];
    uint32_t n_groups;
    const char *codecs[CODECS_USUAL]; /* [n_codecs] */
    weft_kv_info kv[CODECS_USUAL];
    uint32_t n_codecs;
    kv_plan plan; /* with --kv */
} inspection;

static uint64_t count_params(const weft_tensor_info *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) n *= t->dims[i];
    return n;
}

/* A table of encodings has far fewer rows than there are places; what does not fit shares the
 * last. */
static void add_tensor(inspection *x, const weft_tensor_info *t)
{
    uint32_t i = 0;
    while (i < x->n_groups && strcmp(x->groups[i].encoding, t->encoding) != 0) i++;
    if (i == GROUPS_MOST) {
        i = GROUPS_MOST - 1;
        x->groups[i].encoding = "others";
    } else if (i == x->n_groups) {
        x->groups[x->n_groups++].encoding = t->encoding;
    }
    x->groups[i].n_tensors++;
    x->groups[i].n_params += count_params(t);
    x->groups[i].n_bytes += t->n_bytes;
}

static weft_status tensor_at(const inspection *x, uint32_t i, weft_tensor_info *t, weft_error *err)
{
    *t = (weft_tensor_info){.struct_size = sizeof *t};
    return weft_model_tensor(x->s.model, i, t, err);
}

static weft_status collect(inspection *x, weft_error *err)
{
    for (uint32_t i = 0; i < x->s.info.n_tensors; i++) {
        weft_tensor_info t;
        weft_status status = tensor_at(x, i, &t, err);
        if (status != WEFT_OK) return status;
        add_tensor(x, &t);
    }
    for (uint32_t i = 0; i < CODECS_USUAL && x->s.info.drafts_for == 0; i++) {
        weft_error why;
        weft_kv_info kv = {.struct_size = sizeof kv};
        weft_status status = weft_model_kv(x->s.model, CODECS[i], &kv, &why);
        if (status == WEFT_UNSUPPORTED) continue;
        if (status != WEFT_OK) {
            *err = why;
            return status;
        }
        x->codecs[x->n_codecs] = CODECS[i];
        x->kv[x->n_codecs++] = kv;
    }
    return WEFT_OK;
}

static double bits_per_weight(const weft_model_info *info)
{
    return info->n_params > 0 ? 8.0 * (double)info->n_bytes / (double)info->n_params : 0.0;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void print_shape(const weft_tensor_info *t, char *text, size_t capacity)
{
    size_t used = 0;
    for (uint32_t i = 0; i < t->n_dims && used < capacity; i++) {
        int n = snprintf(text + used, capacity - used, "%s%llu", i == 0 ? "[" : ", ",
                         (unsigned long long)t->dims[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used < capacity) snprintf(text + used, capacity - used, "]");
}

static weft_status print_tensors(const inspection *x, weft_error *err)
{
    puts("");
    for (uint32_t i = 0; i < x->s.info.n_tensors; i++) {
        weft_tensor_info t;
        char shape[96];
        weft_status status = tensor_at(x, i, &t, err);
        if (status != WEFT_OK) return status;
        print_shape(&t, shape, sizeof shape);
        printf("%-12s %-20s %12llu  ", t.encoding, shape, (unsigned long long)t.n_bytes);
        text_write(stdout, t.name, strlen(t.name));
        putchar('\n');
    }
    return WEFT_OK;
}

static void print_kv(const inspection *x)
{
    if (x->n_codecs == 0) return;
    puts("\nkeys and values   bytes a token   bytes a sequence besides");
    for (uint32_t i = 0; i < x->n_codecs; i++) {
        printf("%-16s %14llu %26llu\n", x->codecs[i], (unsigned long long)x->kv[i].bytes_per_token,
               (unsigned long long)x->kv[i].bytes_fixed);
    }
    if (x->kv[0].n_recurrent == 0) return;
    printf("stored so in %u of %u layers, %u are recurrent: their states are f32 with any codec\n",
           x->kv[0].n_encoded, x->s.info.n_layers, x->kv[0].n_recurrent);
}

static weft_status print_text(const inspection *x, const char *path, bool tensors, weft_error *err)
{
    const weft_model_info *info = &x->s.info;
    text_write(stdout, path, strlen(path));
    printf("\narchitecture  %s, %u layers, width %u, vocabulary %u\n", info->family, info->n_layers,
           info->n_embd, info->n_vocab);
    printf("format        %s\ncontext       %u tokens\nparameters    %llu\n", info->format,
           info->context, (unsigned long long)info->n_params);
    char bytes[BYTES_TEXT];
    bytes_print(info->n_bytes, bytes);
    printf("weights       %s, %.2f bits each\n", bytes, bits_per_weight(info));
    printf("tokenizer     %s\nchat template %s\n", info->has_tokenizer ? "yes" : "no",
           info->has_template ? "yes" : "no");
    if (info->drafts_for != 0)
        printf("drafts for    models of width %u, with --draft\n", info->drafts_for);
    puts("\nencoding         tensors      parameters           bytes  bits each");
    for (uint32_t i = 0; i < x->n_groups; i++) {
        const group *g = &x->groups[i];
        printf("%-16s %7u %15llu %15llu %10.2f\n", g->encoding, g->n_tensors,
               (unsigned long long)g->n_params, (unsigned long long)g->n_bytes,
               g->n_params > 0 ? 8.0 * (double)g->n_bytes / (double)g->n_params : 0.0);
    }
    print_kv(x);
    if (x->plan.spec != NULL) kv_plan_print(&x->plan);
    return tensors ? print_tensors(x, err) : WEFT_OK;
}

/* ---- for programs ---------------------------------------------------------------------------- */

static weft_status add_tensors(const inspection *x, strbuf *out, weft_error *err)
{
    strbuf_add_text(out, ",\"tensor_list\":[");
    for (uint32_t i = 0; i < x->s.info.n_tensors; i++) {
        weft_tensor_info t;
        weft_status status = tensor_at(x, i, &t, err);
        if (status != WEFT_OK) return status;
        strbuf_printf(out, "%s{\"name\":", i > 0 ? "," : "");
        json_write_text(str_of(t.name), out);
        strbuf_printf(out, ",\"encoding\":\"%s\",\"shape\":[", t.encoding);
        for (uint32_t k = 0; k < t.n_dims; k++)
            strbuf_printf(out, "%s%llu", k > 0 ? "," : "", (unsigned long long)t.dims[k]);
        strbuf_printf(out, "],\"bytes\":%llu}", (unsigned long long)t.n_bytes);
    }
    strbuf_add_char(out, ']');
    return WEFT_OK;
}

static void add_groups(const inspection *x, strbuf *out)
{
    strbuf_add_text(out, ",\"encodings\":[");
    for (uint32_t i = 0; i < x->n_groups; i++) {
        const group *g = &x->groups[i];
        strbuf_printf(out,
                      "%s{\"encoding\":\"%s\",\"tensors\":%u,\"parameters\":%llu,\"bytes\":%llu}",
                      i > 0 ? "," : "", g->encoding, g->n_tensors, (unsigned long long)g->n_params,
                      (unsigned long long)g->n_bytes);
    }
    strbuf_add_text(out, "],\"kv\":[");
    for (uint32_t i = 0; i < x->n_codecs; i++) {
        const weft_kv_info *kv = &x->kv[i];
        strbuf_printf(out, "%s{\"codec\":\"%s\",\"bytes_per_token\":%llu,\"bytes_fixed\":%llu",
                      i > 0 ? "," : "", x->codecs[i], (unsigned long long)kv->bytes_per_token,
                      (unsigned long long)kv->bytes_fixed);
        strbuf_printf(out, ",\"layers_encoded\":%u,\"layers_recurrent\":%u}", kv->n_encoded,
                      kv->n_recurrent);
    }
    strbuf_add_char(out, ']');
}

static weft_status print_json(const inspection *x, const char *path, bool tensors, weft_error *err)
{
    const weft_model_info *info = &x->s.info;
    strbuf out;
    strbuf_init(&out, mem_system(), 0);
    strbuf_add_text(&out, "{\"path\":");
    json_write_text(str_of(path), &out);
    strbuf_printf(&out, ",\"format\":\"%s\",\"architecture\":\"%s\",\"layers\":%u,\"width\":%u",
                  info->format, info->family, info->n_layers, info->n_embd);
    strbuf_printf(&out, ",\"vocabulary\":%u,\"context\":%u,\"tensors\":%u", info->n_vocab,
                  info->context, info->n_tensors);
    strbuf_printf(&out, ",\"parameters\":%llu,\"bytes\":%llu,\"bits_per_weight\":%.4f",
                  (unsigned long long)info->n_params, (unsigned long long)info->n_bytes,
                  bits_per_weight(info));
    strbuf_printf(&out, ",\"tokenizer\":%s,\"chat_template\":%s",
                  info->has_tokenizer ? "true" : "false", info->has_template ? "true" : "false");
    if (info->drafts_for != 0) strbuf_printf(&out, ",\"drafts_for\":%u", info->drafts_for);
    add_groups(x, &out);
    if (x->plan.spec != NULL) {
        strbuf_add_text(&out, ",\"kv_plan\":");
        kv_plan_add_json(&x->plan, &out);
    }
    weft_status status = tensors ? add_tensors(x, &out, err) : WEFT_OK;
    strbuf_add_text(&out, "}\n");
    if (status == WEFT_OK && out.status != WEFT_OK)
        status = err_set(err, out.status, "out of memory for the report");
    if (status == WEFT_OK) fwrite(out.ptr, 1, out.len, stdout);
    strbuf_deinit(&out);
    return status;
}

static int run(const void *values, const char *path)
{
    const inspect_values *v = values;
    inspection x = {.n_groups = 0};
    weft_error err = {WEFT_OK, ""};
    weft_status status = session_open_model(&x.s, &v->session, path, &err);
    bool usage = false;
    if (status == WEFT_OK && v->session.kv != NULL) {
        status = kv_plan_init(&x.plan, &x.s, v->session.kv, &err);
        usage = status != WEFT_OK;
    }
    if (status == WEFT_OK) status = collect(&x, &err);
    if (status == WEFT_OK && v->json) {
        status = print_json(&x, path, v->tensors, &err);
    } else if (status == WEFT_OK) {
        status = print_text(&x, path, v->tensors, &err);
    }
    kv_plan_deinit(&x.plan);
    session_close(&x.s);
    return status == WEFT_OK ? EXIT_FINE : report_failure(&err, usage);
}

const command COMMAND_inspect = {
    .name = "inspect",
    .operand = "PATH",
    .summary = "architecture, tensors, bytes, bits a weight, cost of keys and values",
    .details =
        "Bytes of keys and values are those with --act bf16. With --kv neighbours that store the\n"
        "same are one line; a recurrent layer keeps its state in f32 whatever the spec says, one\n"
        "that shares the keys and values of another stores none.\n",
    .options = OPTIONS,
    .n_options = COUNT_OF(OPTIONS),
    .session_sets = SESSION_OPEN,
    .defaults = &DEFAULTS,
    .values_size = sizeof DEFAULTS,
    .run = run,
};

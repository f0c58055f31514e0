/* operations.c - what an operator asks: GET /health, /metrics (Prometheus), /stats.
 *
 * Metrics have vLLM's names where they mean the same (its documentation, "Production metrics"), so
 * that dashboards made for it show something; the others begin with weft. */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/apis/api.h"
#include "server/server_state.h"

/* ---- health ---------------------------------------------------------------------------------- */

/* 503 while the first model is loaded at the start, when the only one could not be, when a device
 * failed, and when the server is about to end. */
static void health(exchange *x)
{
    strbuf out;
    const server *s = x->server;
    weft_error why = {WEFT_OK, ""};
    const char *status = s->draining ? "draining" : "ok";
    for (uint32_t i = 0; i < fleet_size(s->fleet); i++) {
        fleet_model *m = fleet_at(s->fleet, i);
        bool starting = m->state == FLEET_STATE_WAITING || m->state == FLEET_STATE_LOADING;
        if (i == 0 && starting && m->loaded_ms == 0 && m->metrics.n_requests == 0)
            status = "loading";
        if (i == 0 && m->state == FLEET_STATE_FAILED && fleet_size(s->fleet) == 1) {
            status = "failed";
            why = m->error;
        }
        weft_error broken;
        if (m->state != FLEET_STATE_READY || fleet_is_well(m, &broken)) continue;
        status = "failed";
        why = broken;
    }
    strbuf_init(&out, mem_system(), 0);
    strbuf_printf(&out, "{\"status\":\"%s\"", status);
    if (why.status != WEFT_OK) {
        strbuf_add_text(&out, ",\"error\":");
        json_write_text(str_of(why.message), &out);
    }
    strbuf_add_char(&out, '}');
    exchange_respond_buf(x, strcmp(status, "ok") == 0 ? 200 : 503, "application/json", &out);
}

/* ---- metrics --------------------------------------------------------------------------------- */

typedef struct sampled {
    const fleet_model *m;
    weft_engine_info info;
} sampled;

static void write_label(strbuf *out, const char *name)
{
    strbuf_add_text(out, "{model_name=\"");
    for (const char *c = name; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') strbuf_add_char(out, '\\');
        if (*c == '\n') {
            strbuf_add_text(out, "\\n");
        } else {
            strbuf_add_char(out, *c);
        }
    }
    strbuf_add_char(out, '"');
}

static double count_of(uint64_t n)
{
    return (double)n;
}

static double kv_share(const sampled *s)
{
    return s->info.kv_bytes_budget == 0
               ? 0.0
               : (double)s->info.kv_bytes_live / (double)s->info.kv_bytes_budget;
}

#define METRIC_INFO(name, field)                                                                   \
    static double name(const sampled *s)                                                           \
    {                                                                                              \
        return count_of(s->info.field);                                                            \
    }
#define METRIC_OWN(name, field)                                                                    \
    static double name(const sampled *s)                                                           \
    {                                                                                              \
        return count_of(s->m->metrics.field);                                                      \
    }

METRIC_INFO(value_running, n_active)
METRIC_INFO(value_waiting, n_waiting)
METRIC_INFO(value_lookups, n_cache_lookups)
METRIC_INFO(value_hits, n_cache_hits)
METRIC_INFO(value_cache_tokens, n_cache_tokens)
METRIC_INFO(value_paused, n_paused)
METRIC_INFO(value_steps, n_steps)
METRIC_INFO(value_live, kv_bytes_live)
METRIC_INFO(value_budget, kv_bytes_budget)
METRIC_INFO(value_cached_bytes, kv_bytes_cached)
METRIC_INFO(value_drafted, n_drafted)
METRIC_INFO(value_accepted, n_accepted)
METRIC_OWN(value_prompt, n_prompt_tokens)
METRIC_OWN(value_new, n_new_tokens)
METRIC_OWN(value_requests, n_requests)

static double value_step_seconds(const sampled *s)
{
    return (double)s->info.ns_steps / 1e9;
}

typedef struct metric_row {
    const char *name, *type, *help;
    double (*value)(const sampled *s);
} metric_row;

static const metric_row METRICS[] = {
    {"vllm:num_requests_running", "gauge", "Requests that have a sequence.", value_running},
    {"vllm:num_requests_waiting", "gauge", "Requests that wait for one.", value_waiting},
    {"vllm:kv_cache_usage_perc", "gauge", "Share of the KV budget that sequences hold; 1 is all.",
     kv_share},
    {"vllm:prompt_tokens_total", "counter", "Tokens of prompts.", value_prompt},
    {"vllm:generation_tokens_total", "counter", "Tokens of answers.", value_new},
    {"vllm:num_preemptions_total", "counter", "Times that a request made room for others.",
     value_paused},
    {"vllm:spec_decode_num_draft_tokens_total", "counter", "Drafts that were verified.",
     value_drafted},
    {"vllm:spec_decode_num_accepted_tokens_total", "counter", "Drafts that were right.",
     value_accepted},
    {"weft:prefix_cache_lookups_total", "counter", "Requests that looked for their prefix.",
     value_lookups},
    {"weft:prefix_cache_hits_total", "counter", "Of these, those that found some of it.",
     value_hits},
    {"weft:prefix_cache_tokens_total", "counter", "Prompt tokens that needed not be read.",
     value_cache_tokens},
    {"weft:requests_total", "counter", "Answers asked for.", value_requests},
    {"weft:steps_total", "counter", "Steps of the engine.", value_steps},
    {"weft:step_seconds_total", "counter", "Time in them.", value_step_seconds},
    {"weft:kv_bytes_live", "gauge", "Bytes that sequences hold.", value_live},
    {"weft:kv_bytes_budget", "gauge", "Bytes that they may.", value_budget},
    {"weft:kv_bytes_cached", "gauge", "Bytes kept for requests to come.", value_cached_bytes},
};

typedef struct histogram_row {
    const char *name, *help;
    const double *bounds;
    size_t offset; /* in metrics */
} histogram_row;

static const histogram_row HISTOGRAMS[] = {
    {"vllm:time_to_first_token_seconds", "From the submit to the first token.", METRICS_FIRST_S,
     offsetof(metrics, first_s)},
    {"vllm:request_time_per_output_token_seconds", "Of an answer, for each token but its first.",
     METRICS_EACH_S, offsetof(metrics, each_s)},
    {"vllm:e2e_request_latency_seconds", "From the submit to the end.", METRICS_WHOLE_S,
     offsetof(metrics, whole_s)},
};

static void write_histogram(strbuf *out, const histogram_row *row, const fleet_model *m)
{
    const histogram *h = (const void *)((const char *)&m->metrics + row->offset);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < METRICS_BUCKETS; i++) {
        sum += h->counts[i];
        strbuf_printf(out, "%s_bucket", row->name);
        write_label(out, m->name);
        strbuf_printf(out, ",le=\"%g\"} %llu\n", row->bounds[i], (unsigned long long)sum);
    }
    sum += h->counts[METRICS_BUCKETS];
    strbuf_printf(out, "%s_bucket", row->name);
    write_label(out, m->name);
    strbuf_printf(out, ",le=\"+Inf\"} %llu\n%s_sum", (unsigned long long)sum, row->name);
    write_label(out, m->name);
    strbuf_printf(out, "} %.9g\n%s_count", h->sum, row->name);
    write_label(out, m->name);
    strbuf_printf(out, "} %llu\n", (unsigned long long)sum);
}

static void write_ends(strbuf *out, const fleet_model *m)
{
    const metrics *n = &m->metrics;
    const struct {
        const char *reason;
        uint64_t n;
    } ENDS[] = {{"stop", n->n_stop},
                {"length", n->n_length},
                {"abort", n->n_cancelled},
                {"error", n->n_errors},
                {"deadline", n->n_deadline}};
    for (size_t i = 0; i < COUNT_OF(ENDS); i++) {
        strbuf_add_text(out, "vllm:request_success_total");
        write_label(out, m->name);
        strbuf_printf(out, ",finished_reason=\"%s\"} %llu\n", ENDS[i].reason,
                      (unsigned long long)ENDS[i].n);
    }
}

static void write_server(const server *s, strbuf *out)
{
    net_info n;
    net_get_info(s->net, &n);
    const struct {
        const char *name, *type;
        uint64_t value;
    } ROWS[] = {{"weft:http_connections", "gauge", n.n_connections},
                {"weft:http_connections_total", "counter", n.n_accepted},
                {"weft:http_refused_total", "counter", n.n_refused},
                {"weft:http_malformed_total", "counter", n.n_bad},
                {"weft:http_timeouts_total", "counter", n.n_timeouts},
                {"weft:http_clients_gone_total", "counter", n.n_gone},
                {"weft:http_requests_total", "counter", s->n_requests}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        strbuf_printf(out, "# TYPE %s %s\n%s %llu\n", ROWS[i].name, ROWS[i].type, ROWS[i].name,
                      (unsigned long long)ROWS[i].value);
    }
}

/* Of models that are loaded. */
static uint32_t sample_all(const server *s, sampled *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < fleet_size(s->fleet); i++) {
        const fleet_model *m = fleet_at(s->fleet, i);
        if (m->state != FLEET_STATE_READY) continue;
        out[n] = (sampled){.m = m, .info = {.struct_size = sizeof out[n].info}};
        if (weft_engine_get_info(m->engine, &out[n].info, NULL) == WEFT_OK) n++;
    }
    return n;
}

static void show_metrics(exchange *x)
{
    strbuf out;
    const server *s = x->server;
    size_t n_bytes = fleet_size(s->fleet) * sizeof(sampled);
    sampled *all = mem_alloc(mem_system(), n_bytes);
    strbuf_init(&out, mem_system(), 0);
    if (all == NULL) {
        exchange_fail(x, 503, NULL, "out of memory for the answer");
        return;
    }
    uint32_t n = sample_all(s, all);
    for (size_t i = 0; i < COUNT_OF(METRICS); i++) {
        strbuf_printf(&out, "# HELP %s %s\n# TYPE %s %s\n", METRICS[i].name, METRICS[i].help,
                      METRICS[i].name, METRICS[i].type);
        for (uint32_t j = 0; j < n; j++) {
            strbuf_add_text(&out, METRICS[i].name);
            write_label(&out, all[j].m->name);
            strbuf_printf(&out, "} %.17g\n", METRICS[i].value(&all[j]));
        }
    }
    for (size_t i = 0; i < COUNT_OF(HISTOGRAMS); i++) {
        strbuf_printf(&out, "# HELP %s %s\n# TYPE %s histogram\n", HISTOGRAMS[i].name,
                      HISTOGRAMS[i].help, HISTOGRAMS[i].name);
        for (uint32_t j = 0; j < n; j++) write_histogram(&out, &HISTOGRAMS[i], all[j].m);
    }
    strbuf_add_text(&out, "# TYPE vllm:request_success_total counter\n");
    for (uint32_t j = 0; j < n; j++) write_ends(&out, all[j].m);
    write_server(s, &out);
    mem_free(mem_system(), all, n_bytes);
    exchange_respond_buf(x, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
}

/* ---- stats ----------------------------------------------------------------------------------- */

static void write_stats(fleet_model *m, strbuf *out)
{
    weft_engine_info e = {.struct_size = sizeof e};
    strbuf_add_text(out, "{\"name\":");
    json_write_text(str_of(m->name), out);
    strbuf_printf(out, ",\"loaded\":%s", m->state == FLEET_STATE_READY ? "true" : "false");
    if (m->state == FLEET_STATE_READY && weft_engine_get_info(m->engine, &e, NULL) == WEFT_OK) {
        strbuf_printf(out,
                      ",\"backend\":\"%s\",\"isa\":\"%s\",\"threads\":%u,\"context\":%u,\"kv\":",
                      e.backend, e.isa, e.n_threads, e.context);
        json_write_text(str_of(e.kv), out);
        strbuf_printf(out, ",\"load_ms\":%llu,\"active\":%u,\"waiting\":%u,\"paused\":%llu",
                      (unsigned long long)m->loaded_ms, e.n_active, e.n_waiting,
                      (unsigned long long)e.n_paused);
        strbuf_printf(out,
                      ",\"kv_bytes_live\":%llu,\"kv_bytes_cached\":%llu,\"kv_bytes_budget\":%llu",
                      (unsigned long long)e.kv_bytes_live, (unsigned long long)e.kv_bytes_cached,
                      (unsigned long long)e.kv_bytes_budget);
        strbuf_printf(out, ",\"steps\":%llu,\"failed_steps\":%llu,\"step_seconds\":%.6f",
                      (unsigned long long)e.n_steps, (unsigned long long)fleet_failed_steps(m),
                      (double)e.ns_steps / 1e9);
    }
    const metrics *n = &m->metrics;
    strbuf_printf(out,
                  ",\"requests\":%llu,\"prompt_tokens\":%llu,\"cached_tokens\":%llu,"
                  "\"new_tokens\":%llu,\"cancelled\":%llu,\"errors\":%llu",
                  (unsigned long long)n->n_requests, (unsigned long long)n->n_prompt_tokens,
                  (unsigned long long)n->n_cached_tokens, (unsigned long long)n->n_new_tokens,
                  (unsigned long long)n->n_cancelled, (unsigned long long)n->n_errors);
    strbuf_printf(out, ",\"drafted\":%llu,\"accepted\":%llu}", (unsigned long long)n->n_drafted,
                  (unsigned long long)n->n_accepted);
}

static void stats(exchange *x)
{
    strbuf out;
    const server *s = x->server;
    net_info n;
    net_get_info(s->net, &n);
    strbuf_init(&out, mem_system(), 0);
    strbuf_printf(&out,
                  "{\"version\":\"%s\",\"uptime_s\":%.3f,\"requests\":%llu,\"under_way\":%u,"
                  "\"connections\":%u,\"clients_gone\":%llu,\"models\":[",
                  weft_version(), (double)(clock_now_ns() - s->begun_ns) / 1e9,
                  (unsigned long long)s->n_requests, s->n_exchanges, n.n_connections,
                  (unsigned long long)n.n_gone);
    for (uint32_t i = 0; i < fleet_size(s->fleet); i++) {
        if (i > 0) strbuf_add_char(&out, ',');
        write_stats(fleet_at(s->fleet, i), &out);
    }
    strbuf_add_text(&out, "]}");
    exchange_respond_buf(x, 200, "application/json", &out);
}

static const server_route ROUTES[] = {
    {"GET", "/health", ROUTE_OPEN | ROUTE_ALWAYS, health},
    {"GET", "/metrics", ROUTE_ADMIN | ROUTE_ALWAYS, show_metrics},
    {"GET", "/stats", ROUTE_ADMIN | ROUTE_ALWAYS, stats},
};

const server_api SERVER_API_operations = {.name = "operations",
                                          .routes = ROUTES,
                                          .n_routes = COUNT_OF(ROUTES),
                                          .write_error = openai_write_error};

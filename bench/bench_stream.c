/* bench_stream.c - tokens a second of several answers at once: taken from an engine in this
 * process, or read from a server over HTTP, with the same work for the engine.
 *
 * Usage: bench_stream MODEL [answers [tokens [threads]]]
 *        bench_stream :PORT [answers [tokens [every_ms]]]
 *
 * Both ask for text and log-probabilities, so that each token is an event, drawn at a temperature
 * of 1, of the same prompt, and count what comes between the last answer's first token and the
 * first answer's end. In this process one thread steps and polls. Over HTTP nothing is parsed: ends
 * of events are counted, of what there is at a time; every_ms 0 reads as soon as there is anything,
 * otherwise only so often. Prints tokens/s and processor time of this process for a token. */
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "weft.h"

enum { ANSWERS_MOST = 64, PROMPT = 64, PROMPT_ID = 100, CONTEXT = 2048, READ_BYTES = 1 << 18 };

typedef struct answer {
    uint32_t n; /* tokens so far */
    char last;  /* byte that was read */
} answer;

static void need(weft_status status, const weft_error *err)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static void need_call(bool fine, const char *what)
{
    if (fine) return;
    perror(what);
    exit(1);
}

static double processor_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* ---- counting -------------------------------------------------------------------------------- */

typedef struct count {
    answer answers[ANSWERS_MOST];
    uint32_t n_answers;
    uint32_t n_begun;
    uint64_t begun_ns, ended_ns; /* of what counts; 0: not yet */
    double begun_s, ended_s;     /* processor time then */
    uint64_t n_tokens;
} count;

static void take(count *c, answer *a, uint32_t n)
{
    if (a->n == 0 && n > 0) c->n_begun++;
    a->n += n;
    if (c->ended_ns != 0) return;
    if (c->begun_ns != 0) {
        c->n_tokens += n;
    } else if (c->n_begun == c->n_answers) {
        c->begun_ns = clock_now_ns();
        c->begun_s = processor_s();
    }
}

static void end(count *c)
{
    if (c->ended_ns != 0) return;
    c->ended_ns = clock_now_ns();
    c->ended_s = processor_s();
}

static void print(const count *c)
{
    double s = (double)(c->ended_ns - c->begun_ns) / 1e9;
    printf("{\"tokens_s\":%.1f,\"processor_us\":%.2f}\n", (double)c->n_tokens / s,
           (c->ended_s - c->begun_s) * 1e6 / (double)c->n_tokens);
}

/* ---- in this process ------------------------------------------------------------------------- */

static void measure_inside(count *c, const char *path, uint32_t n_new, uint32_t n_threads)
{
    weft_error err;
    weft_model *model;
    weft_engine *engine;
    weft_handle handles[ANSWERS_MOST];
    int32_t prompt[PROMPT];
    weft_engine_options options = {
        .struct_size = sizeof options, .context = CONTEXT, .n_threads = n_threads};
    for (uint32_t i = 0; i < PROMPT; i++) prompt[i] = PROMPT_ID;
    need(weft_model_open(path, NULL, &model, &err), &err);
    need(weft_engine_open(model, &options, &engine, &err), &err);
    for (uint32_t i = 0; i < c->n_answers; i++) {
        weft_request r = {.struct_size = sizeof r,
                          .flags = WEFT_REQUEST_IGNORE_STOP | WEFT_REQUEST_NO_CACHE |
                                   WEFT_REQUEST_TEXT | WEFT_REQUEST_CONTINUES,
                          .prompt = prompt,
                          .n_prompt = PROMPT,
                          .max_new = n_new,
                          .sampling = {.temperature = 1.0F, .seed = i}};
        need(weft_submit(engine, &r, &handles[i], &err), &err);
    }
    uint32_t n_active = 1;
    while (n_active > 0) {
        need(weft_step(engine, &n_active, &err), &err);
        for (uint32_t i = 0; i < c->n_answers; i++) {
            weft_event event = {.struct_size = sizeof event};
            do {
                need(weft_poll(engine, handles[i], &event, &err), &err);
                if (event.kind == WEFT_EVENT_TOKEN) take(c, &c->answers[i], 1);
                if (event.kind == WEFT_EVENT_DONE) end(c);
            } while (event.kind != WEFT_EVENT_NONE);
        }
    }
    weft_engine_close(engine);
    weft_model_close(model);
}

/* ---- over HTTP ------------------------------------------------------------------------------- */

static int ask(uint16_t port, uint32_t n_new)
{
    char body[2048];
    char head[256];
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int n = snprintf(
        body, sizeof body,
        "{\"max_tokens\":%u,\"ignore_eos\":true,\"stream\":true,\"logprobs\":0,"
        "\"no_cache\":true,\"temperature\":1,\"top_k\":0,\"top_p\":1,\"min_p\":0,\"prompt\":[%d",
        n_new, PROMPT_ID);
    for (int i = 1; i < PROMPT; i++)
        n += snprintf(body + n, sizeof body - (size_t)n, ",%d", PROMPT_ID);
    n += snprintf(body + n, sizeof body - (size_t)n, "]}");
    int n_head = snprintf(head, sizeof head,
                          "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                          "Content-Length: %d\r\nConnection: close\r\n\r\n",
                          n);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    need_call(s >= 0, "socket");
    need_call(connect(s, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    need_call(write(s, head, (size_t)n_head) == n_head && write(s, body, (size_t)n) == n, "write");
    return s;
}

/* Ends of events: two line feeds; frames of chunks have a carriage return between theirs. */
static uint32_t count_events(answer *a, const char *bytes, size_t n)
{
    uint32_t found = a->last == '\n' && bytes[0] == '\n';
    const char *end_of = bytes + n;
    for (const char *at = bytes; (at = memchr(at, '\n', (size_t)(end_of - at))) != NULL;) {
        at++;
        if (at < end_of && *at == '\n') {
            found++;
            at++;
        }
        if (at >= end_of) break;
    }
    a->last = bytes[n - 1];
    return found;
}

static void measure_http(count *c, uint16_t port, uint32_t n_new, uint32_t every_ms)
{
    static char bytes[READ_BYTES];
    struct pollfd files[ANSWERS_MOST];
    struct timespec pause = {.tv_nsec = (long)every_ms * 1000000L};
    for (uint32_t i = 0; i < c->n_answers; i++) {
        files[i] = (struct pollfd){.fd = ask(port, n_new), .events = POLLIN};
    }
    for (uint32_t n_done = 0; n_done < c->n_answers;) {
        if (every_ms > 0) nanosleep(&pause, NULL);
        need_call(poll(files, c->n_answers, -1) >= 0, "poll");
        for (uint32_t i = 0; i < c->n_answers; i++) {
            if (files[i].revents == 0) continue;
            ssize_t n = read(files[i].fd, bytes, sizeof bytes);
            need_call(n >= 0, "read");
            if (n > 0) take(c, &c->answers[i], count_events(&c->answers[i], bytes, (size_t)n));
            if (n > 0) continue;
            end(c);
            close(files[i].fd);
            files[i].fd = -1;
            files[i].revents = 0;
            n_done++;
        }
    }
}

int main(int argc, char **argv)
{
    static count c;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_stream MODEL|:PORT [answers [tokens [threads|every_ms]]]\n");
        return 2;
    }
    uint32_t numbers[] = {1, 1000, 0};
    for (int i = 2; i < argc && i < 5; i++) numbers[i - 2] = (uint32_t)strtoul(argv[i], NULL, 10);
    if (numbers[0] == 0 || numbers[0] > ANSWERS_MOST) return 2;
    c.n_answers = numbers[0];
    if (argv[1][0] == ':') {
        measure_http(&c, (uint16_t)strtoul(argv[1] + 1, NULL, 10), numbers[1], numbers[2]);
    } else {
        measure_inside(&c, argv[1], numbers[1], numbers[2]);
    }
    print(&c);
    return 0;
}

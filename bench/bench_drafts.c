/* bench_drafts.c - what drafts give and cost: the same questions with each drafter and without, in
 * turn, in processor time, so that other work on the machine counts little.
 *
 * Usage: bench_drafts MODEL [DRAFT_MODEL|-] [rounds] [case]
 *
 * Answers are 200 tokens long, and greedy but for those that are drawn: to random ids at a
 * temperature of 2, prose at 1; these do not repeat themselves. "one loop" does nothing else, "like
 * lines" are those of a table; "a form" is an object of a schema. With a case only those are asked
 * whose name has it. Of each way the fastest round is printed: with how many drafts, and its speed
 * beside that without drafts. The tokens must be the same in all; the program fails where they are
 * not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weft.h"

enum { NEW_TOKENS = 200, PROMPT_MOST = 256, CONTEXT = 512, WAYS_MOST = 4 };

typedef struct way {
    const char *draft; /* NULL: none */
    double seconds;    /* of the fastest round */
    uint32_t n_tokens, n_drafted, n_accepted;
} way;

typedef struct bench {
    const weft_model *model;
    weft_engine *engine;
    way ways[WAYS_MOST];
    uint32_t n_ways, rounds;
    float temperature;
    const weft_grammar *form; /* NULL: none */
    const char *only;         /* what a case's name has; NULL: all are asked */
} bench;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One answer: [NEW_TOKENS] to tokens. */
static weft_status answer(const bench *b, const int32_t *prompt, uint32_t n, way *w,
                          int32_t *tokens, weft_error *err)
{
    weft_request r = {.struct_size = sizeof r,
                      .flags = WEFT_REQUEST_IGNORE_STOP | WEFT_REQUEST_NO_CACHE,
                      .prompt = prompt,
                      .n_prompt = n,
                      .max_new = NEW_TOKENS,
                      .sampling = {.temperature = b->temperature, .top_p = 1.0F},
                      .draft = w->draft,
                      .grammar = b->form};
    weft_handle handle;
    uint32_t n_active = 1;
    double start = seconds();
    weft_status status = weft_submit(b->engine, &r, &handle, err);
    while (status == WEFT_OK && n_active > 0) status = weft_step(b->engine, &n_active, err);
    double took = seconds() - start;
    weft_event event = {.struct_size = sizeof event};
    memset(tokens, 0, NEW_TOKENS * sizeof *tokens);
    for (uint32_t i = 0; status == WEFT_OK && event.kind != WEFT_EVENT_DONE;) {
        status = weft_poll(b->engine, handle, &event, err);
        if (event.kind == WEFT_EVENT_TOKEN) tokens[i++] = event.token;
        w->n_tokens = i;
    }
    if (status == WEFT_OK) status = weft_release(b->engine, handle, err);
    w->n_drafted = event.n_drafted;
    w->n_accepted = event.n_accepted;
    if (w->seconds == 0.0 || took < w->seconds) w->seconds = took;
    return status;
}

/* Every way in turn, again and again; false where one failed or said something else. */
static bool compare(bench *b, const char *label, const int32_t *prompt, uint32_t n)
{
    int32_t plain[NEW_TOKENS];
    int32_t tokens[NEW_TOKENS];
    weft_error err;
    if (b->only != NULL && strstr(label, b->only) == NULL) return true;
    for (uint32_t i = 0; i < b->n_ways; i++) b->ways[i].seconds = 0.0;
    for (uint32_t round = 0; round < b->rounds; round++) {
        for (uint32_t i = 0; i < b->n_ways; i++) {
            int32_t *to = i == 0 && round == 0 ? plain : tokens;
            if (answer(b, prompt, n, &b->ways[i], to, &err) != WEFT_OK) {
                fprintf(stderr, "bench_drafts: %s\n", err.message);
                return false;
            }
            if (to != plain && memcmp(plain, tokens, sizeof plain) != 0) {
                fprintf(stderr, "bench_drafts: other tokens with drafts\n");
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < b->n_ways; i++) {
        const way *w = &b->ways[i];
        printf("%-30.30s  %-6s  %8.1f tok/s  %5.2f x", label, w->draft == NULL ? "none" : w->draft,
               w->n_tokens / w->seconds, b->ways[0].seconds / w->seconds);
        if (w->draft != NULL) printf("  %u of %u drafts right", w->n_accepted, w->n_drafted);
        printf("\n");
    }
    fflush(stdout);
    return true;
}

/* An object with texts, numbers and a list: much of it is forced, and some is not. */
static bool compare_form(bench *b)
{
    static const char SCHEMA[] =
        "{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\",\"maxLength\":60},"
        "\"summary\":{\"type\":\"string\",\"minLength\":80,\"maxLength\":240},"
        "\"year\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":3000},"
        "\"words\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":12},"
        "\"minItems\":3,\"maxItems\":6}},"
        "\"required\":[\"title\",\"summary\",\"year\",\"words\"],\"additionalProperties\":false}";
    static const char MESSAGES[] =
        "[{\"role\":\"user\",\"content\":\"Tell me a story about a fox called Mia.\"}]";
    int32_t ids[PROMPT_MOST];
    size_t n;
    weft_grammar *form = NULL;
    if (weft_grammar_open(b->model, WEFT_GRAMMAR_SCHEMA, SCHEMA, strlen(SCHEMA), &form, NULL) !=
            WEFT_OK ||
        weft_chat_tokenize(b->model, MESSAGES, NULL, 0, ids, PROMPT_MOST, &n, NULL) != WEFT_OK)
        return true; /* the model has no texts */
    b->form = form;
    bool fine = compare(b, "a form", ids, (uint32_t)n);
    b->temperature = 0.8F;
    fine = fine && compare(b, "a form, drawn", ids, (uint32_t)n);
    weft_grammar_close(form);
    return fine;
}

/* What is asked, and how answers are chosen. */
typedef struct question {
    const char *name, *text;
    float temperature;
} question;

static const question QUESTIONS[] = {
    {"a story", "Tell me a story about a fox called Mia.", 0.0F},
    {"an explanation", "What is a volcano?", 0.0F},
    {"instructions", "How do I bake bread?", 0.0F},
    {"prose, drawn", "Describe a harbour town on a winter morning, in long sentences.", 1.0F},
    {"code", "Write a Python class for a bank account with deposit, withdraw and transfer.", 0.0F},
    {"code, drawn", "Write a C function that sorts a linked list, and explain it.", 1.0F},
    {"word for word",
     "Repeat this text word for word, three times. The ferry leaves the northern pier at seven in "
     "the morning and at four in the afternoon. Tickets are sold on board, and bicycles travel "
     "without charge. In a storm the crossing is cancelled, and the fare is returned.",
     0.0F},
    {"like lines",
     "Continue this table up to id 20.\n"
     "id: 1, name: Anna, city: Bern, age: 31, member: yes\n"
     "id: 2, name: Ben, city: Graz, age: 28, member: yes\n"
     "id: 3, name: Cleo, city: Lyon, age: 45, member: no\n",
     0.0F},
};

static bool compare_questions(bench *b)
{
    int32_t ids[PROMPT_MOST];
    bool fine = true;
    for (size_t i = 0; i < sizeof QUESTIONS / sizeof QUESTIONS[0] && fine; i++) {
        char messages[512];
        size_t n = 0;
        n += (size_t)snprintf(messages, sizeof messages, "[{\"role\":\"user\",\"content\":\"");
        for (const char *c = QUESTIONS[i].text; *c != '\0'; c++) {
            if (*c == '\n') messages[n++] = '\\';
            messages[n++] = *c == '\n' ? 'n' : *c;
        }
        snprintf(messages + n, sizeof messages - n, "\"}]");
        if (weft_chat_tokenize(b->model, messages, NULL, 0, ids, PROMPT_MOST, &n, NULL) != WEFT_OK)
            continue;
        b->temperature = QUESTIONS[i].temperature;
        fine = compare(b, QUESTIONS[i].name, ids, (uint32_t)n);
    }
    b->temperature = 0.0F;
    return fine;
}

static bool compare_all(bench *b, uint32_t n_vocab)
{
    int32_t ids[PROMPT_MOST];
    uint64_t x = 88172645463325252u;
    for (uint32_t i = 0; i < PROMPT_MOST; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        ids[i] = (int32_t)(x % n_vocab);
    }
    b->temperature = 2.0F;
    bool fine = compare(b, "random ids", ids, PROMPT_MOST);
    b->temperature = 0.0F;
    for (uint32_t i = 16; i < PROMPT_MOST; i++) ids[i] = ids[i - 16];
    return fine && compare(b, "one loop", ids, PROMPT_MOST) && compare_questions(b) &&
           compare_form(b);
}

int main(int argc, char **argv)
{
    weft_error err = {WEFT_OK, ""};
    weft_model *model = NULL;
    weft_model *drafting = NULL;
    weft_model_info info = {.struct_size = sizeof info};
    if (argc < 2) {
        fprintf(stderr, "usage: bench_drafts MODEL [DRAFT_MODEL|-] [rounds] [case]\n");
        return 2;
    }
    weft_status status = weft_model_open(argv[1], NULL, &model, &err);
    if (status == WEFT_OK) status = weft_model_get_info(model, &info, &err);
    if (status == WEFT_OK && argc > 2 && strcmp(argv[2], "-") != 0)
        status = weft_model_open(argv[2], NULL, &drafting, &err);
    bench b = {.model = model, .n_ways = 2, .rounds = 5};
    if (argc > 3) b.rounds = (uint32_t)strtoul(argv[3], NULL, 10);
    if (argc > 4) b.only = argv[4];
    b.ways[1].draft = "ngram";
    if (info.has_mtp) b.ways[b.n_ways++].draft = "mtp";
    if (drafting != NULL) b.ways[b.n_ways++].draft = "model";
    weft_engine_options o = {.struct_size = sizeof o,
                             .n_threads = 1,
                             .context = CONTEXT,
                             .flags = info.has_mtp ? WEFT_ENGINE_MTP : 0,
                             .draft_model = drafting};
    if (status == WEFT_OK) status = weft_engine_open(model, &o, &b.engine, &err);
    if (status != WEFT_OK) fprintf(stderr, "bench_drafts: %s\n", err.message);
    bool fine = status == WEFT_OK && compare_all(&b, info.n_vocab);
    weft_engine_close(b.engine);
    weft_model_close(drafting);
    weft_model_close(model);
    return fine ? 0 : 1;
}

/* id.c - reading names strictly: they become paths and addresses. */
#include "hub/id.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool contains(str text, const char *part)
{
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= text.len; i++) {
        if (memcmp(text.ptr + i, part, n) == 0) return true;
    }
    return false;
}

static bool copy(str from, char *to, size_t capacity)
{
    if (from.len >= capacity) return false;
    memcpy(to, from.ptr, from.len);
    to[from.len] = '\0';
    return true;
}

/* Two dashes stand for the slash in names of folders. */
static bool name_valid(str text)
{
    if (text.len == 0 || text.len >= HUB_NAME_BYTES) return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!is_alnum(c) && c != '_' && c != '-' && c != '.') return false;
    }
    char first = text.ptr[0];
    char last = text.ptr[text.len - 1];
    return first != '.' && first != '-' && last != '.' && last != '-' && !contains(text, "--") &&
           !contains(text, "..");
}

/* What git takes for a branch or tag, in ASCII. */
static bool revision_valid(str text)
{
    if (text.len == 0 || text.len >= HUB_REVISION_BYTES) return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c <= ' ' || c > '~' || strchr("~^:?*[\\\"'%", c) != NULL) return false;
        if ((c == '.' || c == '-') && (i == 0 || text.ptr[i - 1] == '/')) return false;
    }
    return text.ptr[0] != '/' && text.ptr[text.len - 1] != '/' && !contains(text, "..") &&
           !contains(text, "//") && !contains(text, "@") && !str_ends(text, ".lock") &&
           !contains(text, ".lock/");
}

static bool quant_valid(str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!is_alnum(c) && c != '_' && c != '-' && c != '.') return false;
    }
    return text.len > 0 && text.len < HUB_QUANT_BYTES;
}

/* Cuts text at the first c; *found false: there is none, and the rest is empty. */
static str cut(str *text, char c, bool *found)
{
    const char *at = text->len == 0 ? NULL : memchr(text->ptr, c, text->len);
    *found = at != NULL;
    if (at == NULL) return (str){text->ptr + text->len, 0};
    size_t n = (size_t)(at - text->ptr);
    str rest = {at + 1, text->len - n - 1};
    text->len = n;
    return rest;
}

static int shown(str text)
{
    return text.len > 80 ? 80 : (int)text.len;
}

weft_status hub_id_parse(hub_id *id, str text, weft_error *err)
{
    bool has_quant;
    bool has_revision;
    bool has_org;
    str all = text;
    *id = (hub_id){.org = ""};
    str quant = cut(&text, ':', &has_quant);
    str revision = cut(&text, '@', &has_revision);
    str org = text;
    str name = cut(&org, '/', &has_org);
    if (!has_org) {
        name = text;
        org.len = 0;
    }
    if (!name_valid(name) || (has_org && !name_valid(org)))
        return err_set(err, WEFT_ARGUMENT,
                       "'%.*s' is not the name of a model on a hub, ORG/NAME[@REV][:QUANT]",
                       shown(all), all.ptr);
    if (has_revision && !revision_valid(revision))
        return err_set(err, WEFT_ARGUMENT, "'%.*s' is not a branch, tag or commit", shown(revision),
                       revision.ptr);
    if (has_quant && !quant_valid(quant))
        return err_set(err, WEFT_ARGUMENT, "'%.*s' is not a quantization such as Q4_K_M",
                       shown(quant), quant.ptr);
    bool fits = copy(org, id->org, sizeof id->org) && copy(name, id->name, sizeof id->name) &&
                copy(revision, id->revision, sizeof id->revision) &&
                copy(quant, id->quant, sizeof id->quant);
    return fits ? WEFT_OK : err_set(err, WEFT_LIMIT, "the name of a model is too long");
}

void hub_id_repo(const hub_id *id, char repo[HUB_REPO_BYTES])
{
    snprintf(repo, HUB_REPO_BYTES, "%s%s%s", id->org, id->org[0] != '\0' ? "/" : "", id->name);
}

const char *hub_id_revision(const hub_id *id)
{
    return id->revision[0] != '\0' ? id->revision : "main";
}

bool hub_id_of_folder(hub_id *id, str folder)
{
    static const char PREFIX[] = "models--";
    *id = (hub_id){.org = ""};
    if (!str_starts(folder, PREFIX)) return false;
    str name = {folder.ptr + sizeof PREFIX - 1, folder.len - (sizeof PREFIX - 1)};
    str org = {name.ptr, 0};
    for (size_t i = 0; i + 2 <= name.len; i++) {
        if (memcmp(name.ptr + i, "--", 2) != 0) continue;
        org.len = i;
        name = (str){name.ptr + i + 2, name.len - i - 2};
        if (!name_valid(org)) return false;
        break;
    }
    return name_valid(name) && copy(org, id->org, sizeof id->org) &&
           copy(name, id->name, sizeof id->name);
}

bool hub_is_hex(str text, size_t n_digits)
{
    if (text.len != n_digits) return false;
    for (size_t i = 0; i < n_digits; i++) {
        char c = text.ptr[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
    }
    return true;
}

static bool part_valid(str part)
{
    if (part.len == 0 || part.len > HUB_PART_BYTES_MOST) return false;
    return !str_equal_text(part, ".") && !str_equal_text(part, "..");
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == '\\';
}

bool hub_file_name_valid(str name)
{
    if (name.len == 0 || name.len > HUB_FILE_BYTES_MOST) return false;
    for (size_t i = 0; i < name.len;) {
        uint32_t c;
        size_t n = utf8_decode(name.ptr + i, name.len - i, &c);
        if (n == 0 || is_control(c)) return false;
        i += n;
    }
    bool more = true;
    for (uint32_t n = 0; more; n++) {
        str rest = cut(&name, '/', &more);
        if (n == HUB_PARTS_MOST || !part_valid(name)) return false;
        name = rest;
    }
    return true;
}

// SPDX-License-Identifier: Apache-2.0
// The job file: one YAML document, a mapping of keys, sections inside. Read event by event, so that each value has its
// line and nothing is built that could grow: an event that has no place in a job file ends it. Anchors, aliases and
// tags are not taken.
#include "base/job_draft.h"

#include <stdarg.h>
#include <yaml.h>

#define KEY_MAX 128 // bytes of a key with its sections; longer ones are unknown anyway

struct reader {
    yaml_parser_t parser;
    yaml_event_t event; // the last one read
    struct job_draft *draft;
    int64_t sections[OPTIONS_MAX]; // the line in which options[i]'s section was opened, kept at the section's first
                                   // key: data.columns is not the first of data, so no two share one
};

static long long reader_line(const struct reader *reader) {
    return (long long)reader->event.start_mark.line + 1;
}

__attribute__((format(printf, 2, 3))) static enum status reader_refuse(const struct reader *reader, const char *format,
                                                                       ...) {
    va_list args;
    char *what = NULL;
    va_start(args, format);
    int size = vasprintf(&what, format, args);
    va_end(args);
    enum status status = status_set(STATUS_USAGE, "%s:%lld: %s", reader->draft->file, reader_line(reader),
                                    size < 0 ? "not a job file" : what);
    if (size >= 0)
        free(what);
    return status;
}

static enum status reader_broken(const struct reader *reader) {
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return status_set(STATUS_SYSTEM, "%s: no memory", reader->draft->file);
    return status_set(STATUS_USAGE, "%s:%zu: not YAML: %s%s%s (indent with blanks; quote values with : or #)",
                      reader->draft->file, parser->problem_mark.line + 1, parser->context ? parser->context : "",
                      parser->context ? ", " : "", parser->problem ? parser->problem : "unreadable");
}

// The next event; the one before is gone.
static enum status reader_next(struct reader *reader) {
    yaml_event_delete(&reader->event);
    if (!yaml_parser_parse(&reader->parser, &reader->event))
        return reader_broken(reader);
    const yaml_event_t *event = &reader->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (event->type == YAML_SCALAR_EVENT)
        anchor = event->data.scalar.anchor, tag = event->data.scalar.tag;
    else if (event->type == YAML_SEQUENCE_START_EVENT)
        anchor = event->data.sequence_start.anchor, tag = event->data.sequence_start.tag;
    else if (event->type == YAML_MAPPING_START_EVENT)
        anchor = event->data.mapping_start.anchor, tag = event->data.mapping_start.tag;
    if (event->type == YAML_ALIAS_EVENT)
        return reader_refuse(reader, "alias *%.60s: a job file has no anchors and aliases", event->data.alias.anchor);
    if (anchor)
        return reader_refuse(reader, "anchor &%.60s: a job file has no anchors and aliases", anchor);
    if (tag)
        return reader_refuse(reader, "tag %.60s: a job file has no tags", tag);
    return STATUS_OK;
}

// The scalar as a string: borrowed, valid until the next event. What YAML takes for no value is empty.
static enum status reader_scalar(const struct reader *reader, const char *key, const char **text, bool *quoted) {
    static const char *const nulls[] = {"~", "null", "Null", "NULL"};
    *text = (const char *)reader->event.data.scalar.value;
    *quoted = reader->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (strlen(*text) != reader->event.data.scalar.length)
        return reader_refuse(reader, "%s%sa value holds a NUL byte", key, *key ? ": " : "");
    for (size_t i = 0; !*quoted && i < sizeof nulls / sizeof nulls[0]; i++)
        if (strcmp(*text, nulls[i]) == 0)
            *text = "";
    return STATUS_OK;
}

// The items of a list, joined by commas as in a flag.
static enum status reader_list(struct reader *reader, const struct option *option, struct text *out, bool *quoted) {
    text_puts(out, "[");
    for (;;) {
        TRY(reader_next(reader));
        if (reader->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        const char *text;
        bool quotes;
        if (reader->event.type != YAML_SCALAR_EVENT)
            return reader_refuse(reader, "%s: a list of plain values is wanted", option->key);
        TRY(reader_scalar(reader, option->key, &text, &quotes));
        if (strpbrk(text, ",[]") || !*text)
            return reader_refuse(reader, "%s: '%.80s' can't be in this list", option->key, text);
        *quoted = *quoted || quotes;
        text_printf(out, "%s%s", out->size > 1 ? ", " : "", text);
    }
    text_puts(out, "]");
    return out->failed ? status_set(STATUS_SYSTEM, "job: no memory") : STATUS_OK;
}

static enum status reader_list_value(struct reader *reader, size_t i) {
    struct text list = {0};
    bool quoted = false;
    int64_t line = reader_line(reader);
    enum status status = reader_list(reader, &options[i], &list, &quoted);
    if (status == STATUS_OK)
        status = job_draft_set(reader->draft, i, list.at, quoted, line);
    text_release(&list);
    return status;
}

static enum status reader_value(struct reader *reader, size_t i) {
    const struct option *option = &options[i];
    struct text range = {0};
    const char *text;
    bool quoted;
    if (reader->event.type == YAML_SCALAR_EVENT) {
        TRY(reader_scalar(reader, option->key, &text, &quoted));
        return job_draft_set(reader->draft, i, text, quoted, reader_line(reader));
    }
    if (reader->event.type == YAML_SEQUENCE_START_EVENT && option_is_list(option))
        return reader_list_value(reader, i);
    option_range(&range, option);
    enum status status =
        reader_refuse(reader, "%s: a %s is not allowed; allowed: %s", option->key,
                      reader->event.type == YAML_SEQUENCE_START_EVENT ? "list" : "mapping", text_string(&range));
    text_release(&range);
    return status;
}

static enum status reader_mapping(struct reader *reader, const char *section);

// Which of `options` is the first in the section.
static size_t section_first(const char *section) {
    size_t i = 0, size = strlen(section);
    while (strncmp(options[i].key, section, size) != 0 || options[i].key[size] != '.')
        i++;
    return i;
}

// `at`: the line of the section's name; its value may begin on a later one.
static enum status reader_section(struct reader *reader, const char *section, long long at) {
    int64_t *line = &reader->sections[section_first(section)];
    if (*line)
        return status_set(STATUS_USAGE, "%s:%lld: %s is given twice, first in line %lld", reader->draft->file, at,
                          section, (long long)*line);
    *line = at;
    if (reader->event.type == YAML_MAPPING_START_EVENT)
        return reader_mapping(reader, section);
    const char *text = "a list";
    bool quoted = false;
    if (reader->event.type == YAML_SCALAR_EVENT)
        TRY(reader_scalar(reader, section, &text, &quoted));
    if (!*text && !quoted) // "train:" with all its keys commented out
        return STATUS_OK;
    return reader_refuse(reader, "%s: '%.80s' is not allowed; allowed: a section, with keys as %s below it", section,
                         text, options[section_first(section)].key);
}

static enum status reader_key(struct reader *reader, const char *section) {
    char key[KEY_MAX], where[32];
    const char *name;
    bool quoted;
    if (reader->event.type != YAML_SCALAR_EVENT)
        return reader_refuse(reader, "%s%sa key is wanted here, as name: value", section, *section ? ": " : "");
    TRY(reader_scalar(reader, section, &name, &quoted));
    int size = snprintf(key, sizeof key, "%s%s%s", section, *section ? "." : "", name);
    bool fits = size > 0 && (size_t)size < sizeof key;
    const struct option *option = fits ? option_find(key) : NULL;
    if (!option && !(fits && option_is_section(key))) {
        snprintf(where, sizeof where, ":%lld: ", reader_line(reader));
        return job_draft_unknown(reader->draft->file, where, fits ? key : name);
    }
    long long line = reader_line(reader);
    TRY(reader_next(reader));
    return option ? reader_value(reader, (size_t)(option - options)) : reader_section(reader, key, line);
}

// Behind its start event, up to its end. Recurses into known sections only, so never deep.
static enum status reader_mapping(struct reader *reader, const char *section) {
    for (;;) {
        TRY(reader_next(reader));
        if (reader->event.type == YAML_MAPPING_END_EVENT)
            return STATUS_OK;
        TRY(reader_key(reader, section));
    }
}

static enum status reader_document(struct reader *reader) {
    TRY(reader_next(reader)); // the stream's start
    TRY(reader_next(reader));
    if (reader->event.type == YAML_STREAM_END_EVENT) // nothing but comments
        return STATUS_OK;
    TRY(reader_next(reader)); // behind the document's start
    if (reader->event.type == YAML_MAPPING_START_EVENT) {
        TRY(reader_mapping(reader, ""));
    } else {
        const char *text = "a list";
        bool quoted = true;
        if (reader->event.type == YAML_SCALAR_EVENT)
            TRY(reader_scalar(reader, "", &text, &quoted));
        if (*text || quoted)
            return reader_refuse(reader, "'%.80s' is no job: keys are wanted, as name: value", text);
    }
    TRY(reader_next(reader)); // the document's end
    TRY(reader_next(reader));
    if (reader->event.type != YAML_STREAM_END_EVENT)
        return reader_refuse(reader, "a second document begins: a job file has one");
    return STATUS_OK;
}

static enum status yaml_check_bytes(const char *name, const char *bytes, size_t size) {
    size_t good = utf8_check(bytes, size), line = 1;
    if (size > JOB_FILE_MAX)
        return status_set(STATUS_USAGE, "%s: %zu bytes; a job file has at most %zu", name, size, JOB_FILE_MAX);
    if (good == size)
        return STATUS_OK;
    for (size_t i = 0; i < good; i++)
        line += bytes[i] == '\n';
    return status_set(STATUS_USAGE, "%s:%zu: byte 0x%02x is not UTF-8", name, line, (unsigned char)bytes[good]);
}

enum status job_draft_yaml(struct job_draft *draft, const char *bytes, size_t size) {
    struct reader reader = {.draft = draft};
    TRY(yaml_check_bytes(draft->file, bytes, size));
    if (!yaml_parser_initialize(&reader.parser))
        return status_set(STATUS_SYSTEM, "%s: no memory", draft->file);
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)bytes, size);
    enum status status = reader_document(&reader);
    yaml_event_delete(&reader.event);
    yaml_parser_delete(&reader.parser);
    return status;
}

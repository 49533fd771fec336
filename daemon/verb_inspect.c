// SPDX-License-Identifier: Apache-2.0
// finetuned inspect: what a checkpoint, shard, model directory, archive or run holds; --verify: whether it is intact.
#include "daemon/verbs.h"

#include "base/markup.h"
#include "daemon/flags.h"
#include "daemon/follow.h"
#include "daemon/verify/inspect.h"
#include "daemon/verify/verify.h"

#include <string.h>

struct inspect_flags {
    bool verify, json;
};

static enum status inspect_put(struct text *text, enum status status) {
    const char *string = text_string(text);
    if (!string && status == STATUS_OK)
        status = status_set(STATUS_SYSTEM, "inspect: no memory");
    if (string)
        fputs(string, stdout);
    text_release(text);
    return status;
}

// A run, a sweep, or a folder of checkpoints. With and without --verify the same: what it holds is what can be
// compared.
static enum status inspect_whole(enum inspect_kind kind, const char *path, bool json) {
    struct verify verify;
    struct text text = {0};
    TRY(verify_folder(&verify, kind, path));
    verify_print(&text, &verify, kind, json);
    enum status status = inspect_put(&text, verify_status(&verify));
    verify_release(&verify);
    return status;
}

// Into the object that describes it, before its closing brace.
static void inspect_add_depth(struct text *text, enum verify_depth depth) {
    if (text->failed || text->size < 2)
        return;
    text->size -= strlen("}\n");
    text_printf(text, ", \"intact\": true, \"checked\": \"%s\"}\n", depth == VERIFY_HASHES ? "hashes" : "structure");
}

static enum status inspect_wrong(enum inspect_kind kind, const char *path, enum status status) {
    struct text text = {0};
    text_printf(&text, "{\"kind\": \"%s\", \"path\": ", inspect_kind_name(kind));
    json_string_add(&text, path);
    text_puts(&text, ", \"intact\": false, \"why\": ");
    json_string_add(&text, status_message());
    text_puts(&text, "}\n");
    return inspect_put(&text, status);
}

// One thing, looked at.
struct inspect_look {
    enum inspect_kind kind;
    const struct inspect_flags *flags;
    struct text text;
    enum verify_depth depth;
};

static enum status inspect_look(void *context, const char *path) {
    struct inspect_look *look = context;
    look->depth = VERIFY_STRUCTURE;
    enum status status = look->flags->verify ? verify_one(&look->depth, look->kind, path) : STATUS_OK;
    if (status == STATUS_OK)
        status = inspect_describe(&look->text, look->kind, path, look->flags->json);
    if (status != STATUS_OK)
        text_release(&look->text);
    return status;
}

static enum status inspect_single(enum inspect_kind kind, const char *path, const struct inspect_flags *f) {
    struct inspect_look look = {.kind = kind, .flags = f};
    enum status status = kind == INSPECT_CHECKPOINT ? follow_read(path, inspect_look, &look) // `latest` may move on
                                                    : inspect_look(&look, path);
    if (status != STATUS_OK) {
        bool damage = status == STATUS_DATA || status == STATUS_IO;
        return f->verify && f->json && damage ? inspect_wrong(kind, path, status) : status;
    }
    if (f->verify && f->json)
        inspect_add_depth(&look.text, look.depth);
    else if (f->verify)
        text_puts(&look.text, look.depth == VERIFY_HASHES
                                  ? "intact: every hash agrees\n"
                                  : "well-formed: shapes, offsets and sizes agree, and the checksums of "
                                    "a .bin; no checksums are recorded for it\n");
    return inspect_put(&look.text, status);
}

struct inspect_ask {
    enum inspect_kind kind;
    const char *path; // as given, for the message
};

static enum status inspect_kind_read(void *context, const char *real) {
    struct inspect_ask *ask = context;
    enum status status = inspect_kind_of(&ask->kind, real);
    return status == STATUS_OK ? status : inspect_kind_of(&ask->kind, ask->path);
}

static enum status inspect_run(const char *path, const struct inspect_flags *f) {
    struct inspect_ask ask = {.path = path};
    TRY(follow_read(path, inspect_kind_read, &ask));
    enum inspect_kind kind = ask.kind;
    return kind == INSPECT_RUN || kind == INSPECT_CHECKPOINTS || kind == INSPECT_SWEEP
               ? inspect_whole(kind, path, f->json)
               : inspect_single(kind, path, f);
}

static struct inspect_flags given;
static const struct flag flags[] = {
    {"--verify", FLAG_SWITCH, &given.verify, NULL,
     "compare every hash and checksum that is recorded; what is wrong, where (65). Of a run, a sweep and a checkpoints "
     "folder that is done without it too; of one thing only its structure is looked at",
     NULL, false},
    {"--json", FLAG_SWITCH, &given.json, NULL, "one JSON object", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_inspect_flags = {
    .verb = "inspect",
    .usage = "[--verify] [--json] PATH",
    .about = "PATH: a checkpoint (step-N folder or checkpoint.h5), a model directory, a file of weights (.safetensors, "
             ".bin, .pt, .pth, or an .index.json of shards), a .shard file, an archive (.tar.gz), a run's out folder "
             "or its checkpoints folder: all that those hold, one line each; or a sweep's: its runs, one line each.",
    .flags = flags,
    .min_words = 1,
    .max_words = 1,
    .words = "PATH",
    .examples = "finetuned inspect --verify runs/emotion/checkpoints/latest\nfinetuned inspect --verify runs/emotion",
};

int verb_inspect(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_inspect_flags, argc, argv, argv, &words, &helped);
    return helped ? 0 : verb_exit(status == STATUS_OK ? inspect_run(argv[0], &given) : status);
}

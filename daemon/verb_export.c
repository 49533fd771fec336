// SPDX-License-Identifier: Apache-2.0
// finetuned export: one exporter on a model directory or checkpoint.
#include "daemon/verbs.h"

#include "base/file.h"
#include "base/text.h"
#include "daemon/flags.h"
#include "daemon/follow.h"
#include "daemon/verify/intact.h"
#include "daemon/subject.h"
#include "daemon/paths/taken.h"
#include "export/export.h"
#include "export/foreign.h"
#include "train/card.h"

#include <sys/stat.h>

#define CARD_MAX ((size_t)1 << 24) // bytes of a README.md

struct export_flags {
    const char *from, *to, *out, *job;
    int dtype;
};

// Whether `folder` is the working directory or above it: it can't be replaced while we, and the user's shell, are in
// it.
static bool export_holds_us(const char *folder) {
    char *here = realpath(".", NULL), *there = realpath(folder, NULL);
    size_t size = there ? strlen(there) : 0;
    bool holds =
        here && there && strncmp(here, there, size) == 0 && (here[size] == '/' || here[size] == '\0' || size == 1);
    free(there);
    free(here);
    return holds;
}

// Whether the last name of a path is a link, or leads to a folder of another name: "a/..", ".".
static bool export_leads_away(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct stat info;
    return (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

// A name of an archive, as a folder's: the archive's own name is not ours to choose.
static bool export_names_archive(const char *out) {
    static const char *const ends[] = {".tar.gz", ".tgz"};
    size_t size = strlen(out);
    for (size_t i = 0; i < 2; i++)
        if (size > strlen(ends[i]) && strcmp(out + size - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

// What is to be replaced: "new/" is "new", and a link is what it leads to.
static enum status export_target(char **out, const char *given) {
    size_t size = strlen(given);
    while (size > 1 && given[size - 1] == '/')
        size--;
    char *path = strndup(given, size);
    *out = path;
    if (path && export_leads_away(path)) {
        *out = realpath(path, NULL);
        free(path);
        if (!*out)
            TRY(file_place("export: --out", given));
        if (!*out)
            return status_errno(STATUS_USAGE, "export: --out %s", given);
    }
    return *out ? STATUS_OK : status_set(STATUS_SYSTEM, "export: no memory");
}

// A directory is replaced as a whole, so a folder with other things in it is left alone.
static enum status export_check_foreign(const char *out, const char *given) {
    char *why;
    TRY(foreign_find(&why, out));
    enum status status =
        why ? status_set(STATUS_USAGE,
                         "export: --out %s holds other files: name a new or empty folder, or an earlier export (%s)",
                         given, why)
            : STATUS_OK;
    free(why);
    return status;
}

// `given` is `out` as the user wrote it. An archive is put beside other files.
static enum status export_check_out(const char *out, const char *given, bool directory) {
    TRY(taken_check(&(struct taken_ask){"export: --out", given, .as = directory ? TAKEN_MODEL : TAKEN_ARCHIVES}));
    if (!file_exists(out) && export_names_archive(out))
        return status_set(STATUS_USAGE, "export: --out %s names an archive, but would be a folder: %s", given,
                          directory ? "name the directory of model files"
                                    : "name the folder that model-sagemaker.tar.gz is put into");
    if (!file_exists(out))
        return file_place("export: --out", out);
    if (!file_is_folder(out))
        return status_set(STATUS_USAGE, "export: --out %s is a file", given);
    if (!directory)
        return STATUS_OK;
    if (export_holds_us(out))
        return status_set(STATUS_USAGE,
                          "export: --out %s is the working directory, or above it, and would be replaced as a whole: "
                          "name a folder of its own",
                          given);
    return export_check_foreign(out, given);
}

static enum status export_kind(const char *kind) {
    static const char *const later[] = {"onnx", "neuron", "graviton"};
    if (export_find(kind))
        return STATUS_OK;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(kind, later[i]) == 0)
            return status_set(STATUS_USAGE, "export: --to %s is not in this version yet (hf and sagemaker are)", kind);
    return status_set(STATUS_USAGE, "export: --to is '%s', must be one of: hf, sagemaker", kind);
}

// hf is the directory itself, other kinds are files in --out.
static enum status export_make(struct export_result *out, const struct export_model *what, const struct export_flags *f,
                               struct pool *pool) {
    const struct exporter *exporter = export_find(f->to);
    return exporter->job == JOB_EXPORT_HF ? export_hf_directory(out, what, f->out, pool)
                                          : export_run(out, exporter, what, f->out, pool);
}

// A model directory's card goes with it; a checkpoint knows its settings.
static enum status export_card(char **readme, struct text *facts, const char *from) {
    struct trainer_state state = {0};
    char *path = path_join(from, "README.md");
    enum status status = path ? STATUS_OK : status_set(STATUS_SYSTEM, "export: no memory");
    if (status == STATUS_OK && model_is(from))
        status = file_stays(from, "README.md");
    if (status == STATUS_OK && model_is(from) && file_named(path))
        status = file_read(readme, NULL, path, CARD_MAX);
    if (status == STATUS_OK && !model_is(from))
        status = checkpoint_state(&state, from);
    if (status == STATUS_OK && !model_is(from))
        card_of_checkpoint(facts, &state);
    trainer_state_release(&state);
    free(path);
    return status;
}

// What is exported: the weights and what its card says, of one and the same folder.
struct export_source {
    const char *job;
    struct pool *pool;
    struct model model;
    struct text facts;
    char *readme;
};

static void export_source_release(struct export_source *source) {
    text_release(&source->facts);
    free(source->readme);
    model_close(&source->model);
    *source = (struct export_source){.job = source->job, .pool = source->pool};
}

static enum status export_source_read(void *context, const char *from) {
    struct export_source *source = context;
    enum status status = subject_open(&source->model, NULL, from, source->job, source->pool);
    if (status == STATUS_OK)
        status = export_card(&source->readme, &source->facts, from);
    if (status != STATUS_OK)
        export_source_release(source);
    return status;
}

static enum status export_target_run(const struct export_flags *f) {
    struct export_source source = {.job = f->job};
    struct export_result result = {0};
    enum status status;
    if (model_is(f->from)) // before its weights get a fresh list
        TRY(intact_check("export: --from", f->from));
    TRY(pool_open(&source.pool, 0));
    TRY_GOTO(model_is(f->from) ? export_source_read(&source, f->from)
                               : follow_read(f->from, export_source_read, &source),
             done);
    const struct model *model = &source.model;
    struct export_model what = {
        .config = &model->config,
        .table = &model->table,
        .weights = model->weights,
        .tokenizer = model->tokenizer,
        .settings = model->settings,
        .bf16 = f->dtype == 1,
        .name = "model",
        .card = {.facts = source.facts.size ? text_string(&source.facts) : NULL, .readme = source.readme}};
    status = export_make(&result, &what, f, source.pool);
    if (status == STATUS_IO)
        status = status_add(status, "export: --out %s", f->out);
    if (status != STATUS_OK)
        goto done;
    printf("%s\nbytes %llu  sha256 %s\n%s\n", result.path, (unsigned long long)result.bytes, result.sha256,
           result.check);
done:
    export_result_release(&result);
    export_source_release(&source);
    pool_close(source.pool);
    return status;
}

static enum status export_flags_run(const struct export_flags *f) {
    struct export_flags resolved = *f;
    char *target;
    TRY(export_kind(f->to));
    TRY(export_target(&target, f->out));
    resolved.out = target;
    enum status status = export_check_out(target, f->out, export_find(f->to)->job == JOB_EXPORT_HF);
    if (status == STATUS_OK)
        status = export_target_run(&resolved);
    free(target);
    return status;
}

static struct export_flags given;
static const char *const dtypes[] = {"fp32", "bf16", NULL};
static const struct flag flags[] = {
    {"--from", FLAG_STRING, &given.from, "PATH", "model directory or checkpoint", NULL, true},
    {"--to", FLAG_STRING, &given.to, "KIND",
     "hf: a Hugging Face directory; sagemaker: model-sagemaker.tar.gz, for SageMaker's Hugging Face container", NULL,
     true},
    {"--out", FLAG_STRING, &given.out, "DIR",
     "hf: the directory, an earlier export there is replaced as a whole; else the folder that the archive is put into",
     NULL, true},
    {"--dtype", FLAG_CHOICE, &given.dtype, "TYPE", "of model.safetensors: fp32 (default) or bf16", dtypes, false},
    {"--job", FLAG_STRING, &given.job, "FILE", "a checkpoint's job.yaml, where it is not beside it", NULL, false},
    FLAGS_END,
};

const struct verb_flags verb_export_flags = {
    .verb = "export",
    .usage = "--from PATH --to KIND --out DIR",
    .about = "Writes one artifact and checks that it gives the same answers.",
    .flags = flags,
    .examples = "finetuned export --from runs/emotion/checkpoints/latest --to hf --out exported --dtype bf16",
};

int verb_export(int argc, char **argv) {
    size_t words;
    bool helped;
    enum status status = flags_parse(&verb_export_flags, argc, argv, argv, &words, &helped);
    return helped ? 0 : verb_exit(status == STATUS_OK ? export_flags_run(&given) : status);
}

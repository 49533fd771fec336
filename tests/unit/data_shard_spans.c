// SPDX-License-Identifier: Apache-2.0
// Shards of windows: what they hold, when they are made anew, and that no lie about spans is believed.
#include "shards_support.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "data/batch.h"
#include "data/shard.h"
#include "data/squad.h"
#include "data/window.h"

// `n` questions; contexts of growing length, every fifth without an answer, every seventh unlabelled.
static void world_open(struct world *world, unsigned n) {
    struct text json = {0};
    *world = (struct world){
        .split = SPLIT_VAL,
        .cache = support_folder(),
        .options = {.max_length = 32, .truncation = true, .spans = true, .doc_stride = 5},
    };
    text_puts(&json, "{\"data\": [{\"paragraphs\": [");
    for (unsigned i = 0; i < n; i++) {
        text_printf(&json,
                    "%s{\"context\": \"%.*s key %05u in\", \"qas\": [{\"id\": \"q%u\", \"question\": \"Key %u?\"",
                    i ? ", " : "", (int)(i * 7 % 40), "one two three four five six seven eight nine ten", i, i, i % 10);
        if (i % 5 == 4)
            text_puts(&json, ", \"is_impossible\": true");
        else if (i % 7 != 6)
            text_printf(&json, ", \"answers\": [{\"text\": \"%05u\", \"answer_start\": %u}]", i, i * 7 % 40 + 5);
        text_puts(&json, "}]}");
    }
    text_puts(&json, "]}]}");
    world->text = json.at;
    assert_ok(squad_parse(&world->source, "rooms.json", json.at, json.size, false));
    assert_ok(tokenizer_open_bytes(&world->tokenizer));
}

// Window w of the shard is the one that windows_encode made.
static void window_check(const struct shard *shard, uint32_t w, const struct windows *windows, uint32_t i,
                         const struct example *row) {
    int32_t ids[64], start = row->label, last = row->label;
    uint8_t types[64];
    uint32_t begin[64], end[64], length = windows_length(windows, i);
    uint64_t first = shard->offsets[w];
    windows_copy(windows, i, ids, types, begin, end);
    if (row->n_answers)
        windows_label(windows, i, row->answers[0].begin, row->answers[0].end, &start, &last);
    assert_int_equal(shard->offsets[w + 1] - first, length);
    assert_int_equal(shard->full[w], length);
    assert_int_equal(shard->context[w], windows->context);
    assert_memory_equal(shard->ids + first, ids, length * sizeof *ids);
    assert_memory_equal(shard->types + first, types, length);
    assert_memory_equal(shard->begin + first, begin, length * sizeof *begin);
    assert_memory_equal(shard->end + first, end, length * sizeof *end);
    assert_int_equal(shard->labels[w], start);
    assert_int_equal(shard->ends[w], last);
}

static void shard_check(const struct world *world, const struct shard *shard) {
    struct windows windows = {0};
    struct window_options options = {.max_length = world->options.max_length, .doc_stride = world->options.doc_stride};
    uint32_t w = 0, answered = 0;
    assert_true(shard->spans);
    assert_int_equal(shard->questions, world->source.n);
    assert_int_equal(shard->n_labels, 0);
    for (uint32_t row = 0; row < world->source.n; row++) {
        const struct example *example = &world->source.rows[row];
        assert_ok(windows_encode(&windows, world->tokenizer, example->text, example->text_size, example->pair,
                                 example->pair_size, &options));
        for (uint32_t i = 0; i < windows.n; i++, w++) {
            assert_true(w < shard->n);
            assert_int_equal(shard->rows[w], row);
            window_check(shard, w, &windows, i, example);
            answered += shard->labels[w] > 0;
        }
    }
    assert_int_equal(w, shard->n);
    struct shard_report report = shard_report(shard);
    assert_int_equal(report.n, w);
    assert_int_equal(report.questions, world->source.n);
    assert_int_equal(report.answered, answered);
    assert_int_equal(report.cut + report.tokens_cut, 0);
    windows_release(&windows);
}

static void test_content(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    bool made;
    char *path, *alone, *together;
    size_t size, again;
    world_open(&world, 1500); // several blocks
    assert_ok(pool_open(&world.pool, 0));
    assert_ok(prepare(&world, &shard, &made));
    assert_true(made);
    assert_true(shard.n > 2000);
    shard_check(&world, &shard);
    shard_close(&shard);
    assert_ok(prepare(&world, &shard, &made));
    assert_false(made);
    shard_check(&world, &shard);
    shard_close(&shard);
    // one thread makes the same bytes
    assert_int_equal(shards_in(world.cache, &path), 1);
    assert_ok(file_read(&together, &size, path, 1 << 24));
    assert_ok(file_remove(path));
    pool_close(world.pool);
    world.pool = NULL;
    assert_ok(prepare(&world, &shard, &made));
    shard_close(&shard);
    assert_ok(file_read(&alone, &again, path, 1 << 24));
    assert_int_equal(size, again);
    assert_memory_equal(alone, together, size);
    free(alone);
    free(together);
    free(path);
    world_close(&world);
}

static void test_key(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    bool made;
    world_open(&world, 8);
    assert_ok(prepare(&world, &shard, &made));
    shard_close(&shard);
#define CHANGE(change, undo)                                                                                           \
    do {                                                                                                               \
        change;                                                                                                        \
        assert_ok(prepare(&world, &shard, &made));                                                                     \
        assert_true(made);                                                                                             \
        shard_close(&shard);                                                                                           \
        undo;                                                                                                          \
        assert_ok(prepare(&world, &shard, &made));                                                                     \
        assert_false(made);                                                                                            \
        shard_close(&shard);                                                                                           \
    } while (0)
    struct source_answer *answer = (struct source_answer *)world.source.rows[0].answers;
    char *id = (char *)world.source.rows[0].id;
    CHANGE(world.options.doc_stride = 6, world.options.doc_stride = 5);
    CHANGE(world.options.normalize = NORMALIZE_TWEET, world.options.normalize = NORMALIZE_NONE);
    CHANGE(id[0] = 'p', id[0] = 'q');
    CHANGE(answer->end--, answer->end++);
    CHANGE(world.source.rows[4].label = -1, world.source.rows[4].label = 0);
    assert_true(world.source.rows[6].label == -1);
    world_close(&world);
}

static void test_refused(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    world_open(&world, 20);
    world.options.doc_stride = 22; // 32 - 4 - "Key 0?" = 22
    assert_status(prepare(&world, &shard, NULL), STATUS_DATA);
    if (!strstr(status_message(), "rooms.json: question q2: a question of 6 tokens"))
        fail_msg("%s", status_message());
    world.options.doc_stride = 28;
    assert_status(prepare(&world, &shard, NULL), STATUS_USAGE);
    assert_non_null(strstr(status_message(), "rooms.json: question q2: data.max_length 32"));
    world.options.doc_stride = 5;
    world.options.truncation = false;
    assert_status(prepare(&world, &shard, NULL), STATUS_DATA);
    if (!strstr(status_message(), "rooms.json: question q2: 37 tokens are more than data.max_length, 32"))
        fail_msg("%s", status_message());
    world.options.max_length = 200;
    assert_ok(prepare(&world, &shard, NULL));
    assert_int_equal(shard.n, 20);
    shard_close(&shard);
    world_close(&world);
}

static void lie_check(const char *image, size_t size, uint64_t at, unsigned bytes, uint64_t value, const char *what) {
    struct shard shard;
    char *lie = malloc(size);
    memcpy(lie, image, size);
    memcpy(lie + at, &value, bytes);
    seal_again(lie, size);
    if (shard_parse(&shard, "s", lie, size) != STATUS_DATA)
        fail_msg("%s: %llu was believed", what, (unsigned long long)value);
    free(lie);
}

static void test_lies(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    char *path, *image;
    size_t size;
    world_open(&world, 8);
    assert_ok(prepare(&world, &shard, NULL));
    uint64_t n = shard.n, tokens = shard.tokens, ids = SHARD_HEADER + 8 * (n + 1), labels = ids + 4 * tokens,
             full = labels + 4 * n, ends = full + 4 * n, rows = ends + 4 * n, context = rows + 4 * n,
             begin = context + 4 * n, end = begin + 4 * tokens, types = end + 4 * tokens;
    uint32_t w = 0, without = 0; // windows with an answer, and without
    while (shard.labels[w] <= 0)
        w++;
    while (shard.labels[without])
        without++;
    uint64_t length_without = shard.offsets[without + 1] - shard.offsets[without];
    uint64_t first = shard.offsets[w], length = shard.offsets[w + 1] - first;
    uint32_t start = (uint32_t)shard.labels[w], last = (uint32_t)shard.ends[w], front = shard.context[w];
    assert_true(start < last);
    shard_close(&shard);
    assert_int_equal(shards_in(world.cache, &path), 1);
    assert_ok(file_read(&image, &size, path, 1 << 24));
    assert_int_equal(size, (types + tokens + 7) / 8 * 8);
    assert_ok(shard_parse(&shard, "s", image, size));
    for (size_t cut = 0; cut < size; cut++)
        assert_status(shard_parse(&shard, "s", image, cut), STATUS_DATA);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        image[bit / 8] ^= (char)(1 << bit % 8);
        assert_status(shard_parse(&shard, "s", image, size), STATUS_DATA);
        image[bit / 8] ^= (char)(1 << bit % 8);
    }
    const struct {
        const char *what;
        uint64_t at;
        uint64_t value;
    } lies[] = {
        {"classes", 36, 2},
        {"flags", 96, 0},
        {"flags", 96, 3},
        {"doc_stride", 100, 0},
        {"questions", 104, 7},
        {"questions", 104, 9},
        {"questions", 104, 0},
        {"questions", 104, UINT32_MAX},
        {"start behind end", labels + 4 * w, last + 1},
        {"start in the question", labels + 4 * w, front - 1},
        {"start at the first token alone", labels + 4 * w, 0},
        {"start unlabelled alone", labels + 4 * w, UINT32_MAX},
        {"start", labels + 4 * w, UINT32_MAX - 1},
        {"start", labels + 4 * w, INT32_MAX},
        {"end at the last token", ends + 4 * w, length - 1},
        {"end", ends + 4 * w, length},
        {"end before start", ends + 4 * w, start - 1},
        {"end unlabelled alone", ends + 4 * w, UINT32_MAX},
        {"end", ends + 4 * w, INT32_MAX},
        {"first row", rows, 1},
        {"row left out", rows + 4 * (n - 1), 8},
        {"row", rows + 4 * (n - 1), UINT32_MAX},
        {"row goes back", rows + 4 * (n - 1), 0},
        {"context", context + 4 * w, 1},
        {"context", context + 4 * w, length},
        {"context", context + 4 * w, UINT32_MAX},
        {"context", context + 4 * without, length_without},
        {"context in its middle", context + 4 * w, front + 1},
        {"begin", begin + 4 * (first + start), UINT32_MAX},
        {"begin of a special token", begin + 4 * first, 1},
        {"end of a special token", end + 4 * first, 1},
        {"end of a special token", end + 4 * (first + front - 1), 1},
        {"end of a special token", end + 4 * (first + length - 1), 1},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        lie_check(image, size, lies[i].at, 4, lies[i].value, lies[i].what);
    free(image);
    free(path);
    world_close(&world);
}

// Good in itself, but byte offsets or rows that the source does not have: made anew.
static void test_source(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    bool made;
    char *path, *image;
    size_t size;
    world_open(&world, 8);
    assert_ok(prepare(&world, &shard, NULL));
    uint64_t ends = SHARD_HEADER + 8 * ((uint64_t)shard.n + 1) + 8 * shard.tokens + 20 * (uint64_t)shard.n;
    uint64_t token = shard.offsets[1] - 2; // the last one of the first window's context
    assert_ok(shard_check_source(&shard, "s", &world.source));
    world.source.n--;
    assert_status(shard_check_source(&shard, "s", &world.source), STATUS_DATA);
    world.source.n++;
    shard_close(&shard);
    assert_int_equal(shards_in(world.cache, &path), 1);
    for (int turn = 0; turn < 2; turn++) {
        uint32_t far = turn ? 2000000 : (uint32_t)world.source.rows[0].pair_size + 1;
        assert_ok(file_read(&image, &size, path, 1 << 24));
        memcpy(image + ends + 4 * token, &far, sizeof far);
        seal_again(image, size);
        assert_ok(shard_parse(&shard, "s", image, size));
        assert_int_equal(shard.end[token], far);
        assert_status(shard_check_source(&shard, "s", &world.source), STATUS_DATA);
        assert_ok(file_replace(path, image, size));
        free(image);
        assert_ok(prepare(&world, &shard, &made));
        assert_true(made);
        shard_check(&world, &shard);
        shard_close(&shard);
    }
    free(path);
    world_close(&world);
}

static void test_batch(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    struct batch batch;
    const uint32_t indices[] = {3, 0, 2}, offsets[] = {0, 1, 3};
    world_open(&world, 8);
    assert_ok(prepare(&world, &shard, NULL));
    assert_ok(batch_open(&batch, 200, 4, 2));
    batch_fill(&batch, &shard, indices, offsets, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(batch.labels[i], shard.labels[indices[i]]);
        assert_int_equal(batch.ends[i], shard.ends[indices[i]]);
    }
    assert_true(batch.ends[1] > 0);
    batch_close(&batch);
    shard_close(&shard);
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content), cmocka_unit_test(test_key),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lies),    cmocka_unit_test(test_source), cmocka_unit_test(test_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

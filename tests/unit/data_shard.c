// SPDX-License-Identifier: Apache-2.0
#include "shards_support.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"
#include "base/text.h"
#include "data/shard.h"
#include "data/shard_parts.h"

// `n` texts of 1 to 40 letters.
static void world_open(struct world *world, unsigned n) {
    *world = (struct world){
        .split = SPLIT_TRAIN, .cache = support_folder(), .options = {.max_length = 24, .truncation = true}};
    struct text text = {0}, ids = {0};
    for (unsigned i = 0; i < n; i++) {
        text_printf(&text, "%.*s\n", 1 + (int)(i * 7 % 40), "the quick brown fox jumps over lazy dogs");
        text_printf(&ids, "%u\n", i % 3);
    }
    world->text = text.at;
    world->ids = ids.at;
    assert_ok(labels_parse(&world->labels, "m", "0\ta\n1\tb\n2\tc", 11));
    assert_ok(source_parse(&world->source, "t.txt", text.at, text.size, "l.txt", ids.at, ids.size, 3));
    assert_ok(tokenizer_open_bytes(&world->tokenizer));
}

// The only shard in the cache, malloc'ed path; no lock or temporary file beside it.
static char *shard_path(const struct world *world) {
    char **names, *path;
    size_t n;
    assert_ok(file_list(&names, &n, world->cache));
    assert_int_equal(n, 1);
    assert_non_null(strstr(names[0], ".shard"));
    path = path_join(world->cache, names[0]);
    file_list_free(names, n);
    return path;
}

static void shard_check(const struct world *world, const struct shard *shard) {
    struct encoding encoding = {0};
    struct tokenizer_options options = {.max_length = world->options.max_length};
    assert_int_equal(shard->n, world->source.n);
    assert_int_equal(shard->n_labels, 3);
    for (uint32_t i = 0; i < shard->n; i++) {
        const struct example *example = &world->source.rows[i];
        assert_ok(tokenizer_encode(world->tokenizer, &encoding, example->text, example->text_size, NULL, 0, &options));
        assert_int_equal(shard->offsets[i + 1] - shard->offsets[i], encoding.n);
        assert_memory_equal(shard->ids + shard->offsets[i], encoding.ids, encoding.n * sizeof *encoding.ids);
        assert_memory_equal(shard->types + shard->offsets[i], encoding.types, encoding.n);
        assert_int_equal(shard->full[i], encoding.full);
        assert_int_equal(shard->labels[i], example->label);
    }
    encoding_release(&encoding);
}

static void test_reuse(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    struct stat before, after;
    bool made;
    world_open(&world, 2000); // several blocks
    assert_ok(pool_open(&world.pool, 0));
    assert_ok(prepare(&world, &shard, &made));
    assert_true(made);
    shard_check(&world, &shard);
    shard_close(&shard);
    char *path = shard_path(&world);
    stat(path, &before);
    assert_ok(prepare(&world, &shard, &made));
    assert_false(made);
    shard_check(&world, &shard);
    shard_close(&shard);
    stat(path, &after);
    assert_int_equal(before.st_ino, after.st_ino);
    // one thread makes the same bytes
    char *alone, *together;
    size_t size, again;
    assert_ok(file_read(&together, &size, path, 1 << 24));
    assert_ok(file_remove(path));
    pool_close(world.pool);
    world.pool = NULL;
    assert_ok(prepare(&world, &shard, &made));
    assert_true(made);
    shard_close(&shard);
    assert_ok(file_read(&alone, &again, path, 1 << 24));
    assert_int_equal(size, again);
    assert_memory_equal(alone, together, size);
    free(alone);
    free(together);
    free(path);
    world_close(&world);
}

// What the cache lacks is made in the spare folder, and the cache stays as it is; what it has is taken from it.
static void test_spare(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    bool made;
    world_open(&world, 50);
    char *spare = support_folder();
    world.options.spare = spare;
    assert_ok(prepare(&world, &shard, &made));
    assert_true(made);
    shard_check(&world, &shard);
    assert_int_equal(shards_in(world.cache, NULL), 0);
    assert_int_equal(shards_in(spare, NULL), 1);
    assert_ok(file_remove(spare));
    shard_check(&world, &shard); // what is mapped stays
    shard_close(&shard);
    world.options.spare = NULL;
    assert_ok(prepare(&world, &shard, NULL));
    shard_close(&shard);
    world.options.spare = "/nowhere/at/all";
    assert_ok(prepare(&world, &shard, &made));
    assert_false(made);
    shard_close(&shard);
    free(spare);
    world_close(&world);
}

// Whatever changes, another shard is made; back again, the old one is found.
static void test_rebuilt(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    bool made;
    world_open(&world, 10);
    assert_ok(prepare(&world, &shard, &made));
    shard_close(&shard);
    world.options.doc_stride = 5; // nothing without spans
    assert_ok(prepare(&world, &shard, &made));
    assert_false(made);
    shard_close(&shard);
#define CHANGE(change, undo)                                                                                           \
    do {                                                                                                               \
        size_t had = shards_in(world.cache, NULL);                                                                     \
        change;                                                                                                        \
        assert_ok(prepare(&world, &shard, &made));                                                                     \
        assert_true(made);                                                                                             \
        shard_close(&shard);                                                                                           \
        undo;                                                                                                          \
        assert_ok(prepare(&world, &shard, &made));                                                                     \
        assert_false(made);                                                                                            \
        shard_close(&shard);                                                                                           \
        assert_int_equal(shards_in(world.cache, NULL), had + 1);                                                       \
    } while (0)
    CHANGE(world.text[0] = 'T', world.text[0] = 't');
    CHANGE(world.source.rows[3].label = 1, world.source.rows[3].label = 0);
    CHANGE(world.source.n = 9, world.source.n = 10);
    CHANGE(world.options.max_length = 25, world.options.max_length = 24);
    CHANGE(world.options.special = TOKENIZER_PARSE, world.options.special = TOKENIZER_LITERAL);
    CHANGE(world.labels.names[0][0] = 'x', world.labels.names[0][0] = 'a');
    CHANGE(tokenizer_set_prefix_space(world.tokenizer, true), tokenizer_set_prefix_space(world.tokenizer, false));
    world_close(&world);
}

static void test_truncation(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    bool made = true;
    world_open(&world, 1200);
    assert_ok(pool_open(&world.pool, 0));
    world.options.truncation = false;
    // the first of many that are too long, whatever thread met its own first
    assert_status(prepare(&world, &shard, &made), STATUS_DATA);
    assert_false(made);
    if (!strstr(status_message(), "t.txt:5: 31 tokens are more than data.max_length, 24"))
        fail_msg("%s", status_message());
    assert_int_equal(shards_in(world.cache, NULL), 0);
    world.options.max_length = 100;
    assert_ok(prepare(&world, &shard, &made));
    for (uint32_t i = 0; i < shard.n; i++)
        assert_int_equal(shard.full[i], shard.offsets[i + 1] - shard.offsets[i]);
    shard_close(&shard);
    world_close(&world);
}

static void test_report(void **state) {
    (void)state;
    uint64_t offsets[201];
    uint32_t full[200];
    offsets[0] = 0;
    for (uint32_t i = 0; i < 200; i++) { // lengths 1..200, in a mixed order; 150 are kept at most
        full[i] = i * 7 % 200 + 1;
        offsets[i + 1] = offsets[i] + (full[i] > 150 ? 150 : full[i]);
    }
    struct shard shard = {.n = 200, .offsets = offsets, .full = full, .tokens = offsets[200]};
    struct shard_report report = shard_report(&shard);
    assert_int_equal(report.n, 200);
    assert_int_equal(report.longest, 200);
    assert_int_equal(report.p50, 100);
    assert_int_equal(report.p99, 198);
    assert_int_equal(report.cut, 50);
    assert_int_equal(report.tokens_cut, 50 * 51 / 2);
    assert_int_equal(report.tokens, 200 * 201 / 2 - 50 * 51 / 2);
    assert_near(report.mean, 100.5, 1e-12, 0);
    struct shard empty = {0};
    assert_int_equal(shard_report(&empty).n, 0);
}

// The whole file in memory that starts at a multiple of 8.
static char *image_read(const char *path, size_t *size) {
    char *bytes;
    assert_ok(file_read(&bytes, size, path, 1 << 24));
    return bytes;
}

static void test_damage(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    size_t size;
    world_open(&world, 5);
    assert_ok(prepare(&world, &shard, NULL));
    uint64_t ids = SHARD_HEADER + 8 * 6, labels = ids + 4 * shard.tokens, full = labels + 20, types = full + 20;
    shard_close(&shard);
    char *path = shard_path(&world), *image = image_read(path, &size);
    assert_ok(shard_parse(&shard, "s", image, size));
    for (size_t cut = 0; cut < size; cut++) {
        char *part = malloc(cut ? cut : 1); // exactly as long, for the address sanitizer
        memcpy(part, image, cut);
        assert_status(shard_parse(&shard, "s", part, cut), STATUS_DATA);
        free(part);
    }
    for (size_t bit = 0; bit < 8 * size; bit++) {
        image[bit / 8] ^= (char)(1 << bit % 8);
        assert_status(shard_parse(&shard, "s", image, size), STATUS_DATA);
        image[bit / 8] ^= (char)(1 << bit % 8);
    }
    // bytes that are wrong under hashes that are right
    const struct {
        uint64_t at;
        unsigned size;
        uint64_t value;
    } lies[] = {{8, 4, 3},
                {12, 4, 129},
                {16, 8, 4},
                {16, 8, 6},
                {16, 8, UINT64_C(1) << 62},
                {24, 8, UINT64_C(1) << 61},
                {24, 8, UINT64_MAX},
                {32, 4, 1},
                {36, 4, 1},
                {36, 4, UINT32_MAX},
                {40, 4, 2},
                {44, 4, 2},
                {48, 1, 'G'},
                {80, 8, 0},
                {96, 4, 1}, // spans that aren't there
                {96, 4, 2},
                {100, 4, 1}, // doc_stride
                {104, 4, 4}, // rows of the source
                {108, 1, 1},
                {120, 1, 1},
                {SHARD_HEADER, 8, 1},
                {SHARD_HEADER + 8, 8, UINT64_MAX},
                {SHARD_HEADER + 16, 8, 0},
                {SHARD_HEADER + 40, 8, 1},
                {ids, 4, UINT32_MAX},
                {ids, 4, 1 << 20},
                {labels, 4, 3},
                {labels, 4, UINT32_MAX - 1},
                {full, 4, 0},
                {types, 1, 2}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        char *lie = malloc(size);
        memcpy(lie, image, size);
        memcpy(lie + lies[i].at, &lies[i].value, lies[i].size);
        seal_again(lie, size);
        if (shard_parse(&shard, "s", lie, size) != STATUS_DATA)
            fail_msg("lie %zu was believed", i);
        free(lie);
    }
    free(image);
    free(path);
    world_close(&world);
}

static void test_broken_file(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    bool made;
    world_open(&world, 50);
    assert_ok(prepare(&world, &shard, &made));
    shard_close(&shard);
    char *path = shard_path(&world);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 0)
            assert_int_equal(truncate(path, 200), 0);
        else
            assert_ok(file_replace(path, "rubbish", 7));
        assert_ok(prepare(&world, &shard, &made));
        assert_true(made);
        shard_check(&world, &shard);
        shard_close(&shard);
    }
    // a good shard of another content under this name
    world.text[0] = 'T';
    assert_ok(prepare(&world, &shard, &made));
    shard_close(&shard);
    char **names, *other = NULL;
    size_t n;
    assert_ok(file_list(&names, &n, world.cache));
    for (size_t i = 0; i < n; i++) {
        char *name = path_join(world.cache, names[i]);
        if (strcmp(name, path) != 0)
            other = name;
        else
            free(name);
    }
    file_list_free(names, n);
    assert_int_equal(rename(path, other), 0);
    assert_ok(prepare(&world, &shard, &made));
    assert_true(made);
    shard_check(&world, &shard);
    shard_close(&shard);
    free(other);
    free(path);
    world_close(&world);
}

// Runs `child` in a process of its own; its exit code.
static int in_child(struct world *world, int (*child)(struct world *world)) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(world));
    int how = -1;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128;
}

static int child_prepare(struct world *world) {
    struct shard shard;
    bool made = false;
    if (prepare(world, &shard, &made) != STATUS_OK) {
        fprintf(stderr, "child: %s\n", status_message());
        return 9;
    }
    if (shard.n != world->source.n)
        return 8;
    shard_close(&shard);
    return made;
}

static void test_processes(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    bool made;
    world_open(&world, 20000);
    pid_t pids[4];
    int go[2];
    assert_int_equal(pipe(go), 0);
    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        if (pids[i] == 0) { // all start when the pipe is closed
            char byte;
            close(go[1]);
            (void)!read(go[0], &byte, 1);
            _exit(child_prepare(&world));
        }
    }
    close(go[0]);
    close(go[1]);
    int made_by = 0;
    for (int i = 0; i < 4; i++) {
        int how = -1;
        assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
        assert_true(WIFEXITED(how));
        assert_in_range(WEXITSTATUS(how), 0, 1);
        made_by += WEXITSTATUS(how);
    }
    assert_int_equal(made_by, 1); // tokenised once
    assert_ok(prepare(&world, &shard, &made));
    assert_false(made);
    shard_check(&world, &shard);
    shard_close(&shard);
    free(shard_path(&world));
    world_close(&world);
}

// What a process left that was killed while it made the shard, or right after: no obstacle, and gone afterwards. What
// another shard's maker has under way stays.
static void test_left_lock(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    bool made;
    world_open(&world, 5);
    assert_ok(prepare(&world, &shard, &made));
    shard_close(&shard);
    char *path = shard_path(&world), *lock = text_format("%s.lock", path);
    assert_ok(file_remove(path));
    char *folder = strndup(path, (size_t)(strrchr(path, '/') - path));
    char *half = text_format("%s/.%s.tmp-finetuned-123-0", folder, strrchr(path, '/') + 1);
    char *others = text_format("%s/.other.shard.tmp-finetuned-123-0", folder);
    for (int whole = 0; whole < 2; whole++) {
        assert_ok(file_replace(lock, "", 0));
        assert_ok(file_replace(half, "x", 1));
        assert_ok(file_replace(others, "x", 1));
        assert_ok(prepare(&world, &shard, &made));
        assert_int_equal(made, !whole);
        shard_close(&shard);
        assert_false(file_exists(lock));
        assert_false(file_exists(half));
        assert_true(file_exists(others));
        assert_ok(file_remove(others));
    }
    free(others);
    free(half);
    free(folder);
    free(lock);
    free(path);
    world_close(&world);
}

static int child_disk_full(struct world *world) {
    struct rlimit limit = {512, 512}; // a file may not grow beyond 512 bytes
    struct shard shard;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    return (int)prepare(world, &shard, NULL);
}

static void test_disk_full(void **state) {
    (void)state;
    struct world world;
    world_open(&world, 100);
    assert_int_equal(in_child(&world, child_disk_full), STATUS_IO);
    assert_int_equal(shards_in(world.cache, NULL), 0); // nothing half done stays
    world_close(&world);
}

static int child_read_only(struct world *world) {
    struct shard shard;
    bool made;
    if (geteuid() == 0 && seteuid(65534) != 0)
        return 7;
    if (prepare(world, &shard, &made) != STATUS_OK || made)
        return 1;
    shard_close(&shard);
    world->text[0] = 'T'; // another content can't be written
    return prepare(world, &shard, &made) == STATUS_IO ? 0 : 2;
}

static void test_read_only(void **state) {
    (void)state;
    struct world world;
    struct shard shard;
    world_open(&world, 5);
    assert_ok(prepare(&world, &shard, NULL));
    shard_close(&shard);
    char *path = shard_path(&world);
    chmod(path, 0444);
    chmod(world.cache, 0555);
    assert_int_equal(in_child(&world, child_read_only), 0);
    chmod(world.cache, 0755);
    free(path);
    world_close(&world);
}

static void test_real(void **state) {
    (void)state;
    const char *root = support_path("FINETUNED_DATA", "tweet_eval/emotion/train_text.txt");
    SUPPORT_NEED(root, "TweetEval's emotion");
    root = support_path("FINETUNED_DATA", "tweet_eval");
    struct world world;
    struct shard shard;
    world_open(&world, 1);
    source_close(&world.source);
    labels_release(&world.labels);
    struct source_spec spec = {.format = SOURCE_TWEET_EVAL, .dir = root, .task = "emotion"};
    assert_ok(source_labels(&world.labels, &spec));
    assert_ok(source_read(&world.source, &spec, SPLIT_TRAIN, &world.labels));
    assert_ok(pool_open(&world.pool, 0));
    world.options.max_length = 128;
    assert_ok(prepare(&world, &shard, NULL));
    struct shard_report report = shard_report(&shard);
    assert_int_equal(report.n, world.source.n);
    char *path = shard_path(&world);
    assert_non_null(strstr(path, "/emotion-train-"));
    free(path);
    shard_close(&shard);
    world_close(&world);
}

// Tokens that 32 bits don't count: places are 64 bits wide, and what no address space holds is no shard.
static void large_layout(void **context) {
    (void)context;
    struct shard_layout layout;
    uint64_t n = UINT64_C(4000000000), tokens = UINT64_C(9000000000);
    assert_true(shard_layout_make(&layout, n, tokens, false));
    assert_int_equal(layout.ids, SHARD_HEADER + 8 * (n + 1));
    assert_int_equal(layout.labels, layout.ids + 4 * tokens);
    assert_int_equal(layout.types, layout.full + 4 * n);
    assert_int_equal(layout.size, (layout.types + tokens + 7) / 8 * 8);
    assert_true(shard_layout_make(&layout, n, tokens, true));
    assert_int_equal(layout.types, layout.full + 4 * n + 3 * 4 * n + 2 * 4 * tokens);
    assert_false(shard_layout_make(&layout, UINT64_C(1) << 32, tokens, false));
    assert_false(shard_layout_make(&layout, n, UINT64_C(1) << 45, false));
    assert_false(shard_layout_make(&layout, n, UINT64_MAX, true));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_layout),   cmocka_unit_test(test_reuse),       cmocka_unit_test(test_spare),
        cmocka_unit_test(test_rebuilt),   cmocka_unit_test(test_truncation),  cmocka_unit_test(test_report),
        cmocka_unit_test(test_damage),    cmocka_unit_test(test_broken_file), cmocka_unit_test(test_processes),
        cmocka_unit_test(test_left_lock), cmocka_unit_test(test_disk_full),   cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_real)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// An HDF5 file driver (H5FDpublic.h, version 1.10): the file's pages in memory.
#include "checkpoints/store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define STORE_MAX ((haddr_t)1 << 62)

struct store_file {
    H5FD_t base; // the library's part, first
    struct store *store;
    haddr_t end_allocated;
};

struct store_info {
    struct store *store;
};

static H5FD_t *store_open(const char *name, unsigned flags, hid_t access, haddr_t max) {
    const struct store_info *info = H5Pget_driver_info(access);
    struct store_file *file = info ? calloc(1, sizeof *file) : NULL;
    (void)name, (void)flags, (void)max;
    if (!file)
        return NULL;
    file->store = info->store;
    return &file->base;
}

static herr_t store_close(H5FD_t *base) {
    free(base);
    return 0;
}

// As the library's own driver for files, so that the layout is the same.
static herr_t store_query(const H5FD_t *base, unsigned long *flags) {
    (void)base;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t store_get_allocated(const H5FD_t *base, H5FD_mem_t type) {
    (void)type;
    return ((const struct store_file *)base)->end_allocated;
}

static herr_t store_set_allocated(H5FD_t *base, H5FD_mem_t type, haddr_t end) {
    (void)type;
    ((struct store_file *)base)->end_allocated = end;
    return 0;
}

static haddr_t store_get_end(const H5FD_t *base, H5FD_mem_t type) {
    (void)type;
    return ((const struct store_file *)base)->store->size;
}

static herr_t store_read_back(H5FD_t *base, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t size, void *out) {
    (void)type, (void)transfer;
    store_read(out, ((const struct store_file *)base)->store, at, size);
    return 0;
}

static char *store_page(struct store *store, size_t index) {
    if (index >= store->n_pages) {
        size_t n = index + index / 2 + 64;
        char **grown = realloc(store->pages, n * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + store->n_pages, 0, (n - store->n_pages) * sizeof *grown);
        store->pages = grown;
        store->n_pages = n;
    }
    if (!store->pages[index])
        store->pages[index] = calloc(1, STORE_PAGE);
    return store->pages[index];
}

static herr_t store_write(H5FD_t *base, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t size, const void *bytes) {
    struct store *store = ((struct store_file *)base)->store;
    const char *from = bytes;
    (void)type, (void)transfer;
    if (at > STORE_MAX || size > STORE_MAX - at)
        return -1;
    while (size > 0) {
        size_t within = at % STORE_PAGE, here = STORE_PAGE - within < size ? STORE_PAGE - within : size;
        char *page = store_page(store, (size_t)(at / STORE_PAGE));
        if (!page)
            return -1;
        memcpy(page + within, from, here);
        at += here, from += here, size -= here;
        if (at > store->size)
            store->size = at;
    }
    return 0;
}

static herr_t store_truncate(H5FD_t *base, hid_t transfer, hbool_t closing) {
    struct store_file *file = (struct store_file *)base;
    (void)transfer, (void)closing;
    file->store->size = file->end_allocated;
    return 0;
}

static const H5FD_class_t store_class = {
    .name = "finetuned_store",
    .maxaddr = STORE_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(struct store_info),
    .open = store_open,
    .close = store_close,
    .query = store_query,
    .get_eoa = store_get_allocated,
    .set_eoa = store_set_allocated,
    .get_eof = store_get_end,
    .read = store_read_back,
    .write = store_write,
    .truncate = store_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

// Registered once; the library lets it go at exit.
static hid_t store_driver = H5I_INVALID_HID;
static pthread_once_t store_once = PTHREAD_ONCE_INIT;

static void store_register(void) {
    store_driver = H5FDregister(&store_class);
}

hid_t store_access(struct store *store) {
    struct store_info info = {store};
    pthread_once(&store_once, store_register);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (access >= 0 && H5Pset_driver(access, store_driver, &info) < 0) {
        H5Pclose(access);
        return H5I_INVALID_HID;
    }
    return access;
}

void store_read(void *out, const struct store *store, uint64_t offset, uint64_t size) {
    char *to = out;
    while (size > 0) {
        uint64_t within = offset % STORE_PAGE, here = STORE_PAGE - within < size ? STORE_PAGE - within : size;
        uint64_t index = offset / STORE_PAGE;
        if (index < store->n_pages && store->pages[index])
            memcpy(to, store->pages[index] + within, here);
        else
            memset(to, 0, here);
        offset += here, to += here, size -= here;
    }
}

void store_release(struct store *store) {
    for (size_t i = 0; i < store->n_pages; i++)
        free(store->pages[i]);
    free(store->pages);
    *store = (struct store){0};
}

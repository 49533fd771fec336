// SPDX-License-Identifier: Apache-2.0
// Limits of the process, its environment, and the libraries it runs on.
#include "daemon/doctor/doctor.h"

#include "daemon/units.h"

#include <archive.h>
#include <hdf5.h>
#include <jansson.h>
#include <mpi.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <xxhash.h>
#include <yaml.h>

#define SEGMENT_BYTES ((uint64_t)4 << 20) // Open MPI 4.1: btl_vader_segment_size, of each rank
#define SHARED_SPARE ((uint64_t)16 << 20)
#define FILES_LEAST 1024

extern char **environ;

static struct unit limit_bytes(rlim_t limit) {
    struct unit unlimited = {"unlimited"};
    return limit == RLIM_INFINITY ? unlimited : unit_bytes(limit);
}

// Memory that a network card reads and writes itself must be locked; MPI over TCP and shared memory needs none.
void doctor_locked_memory(struct doctor *d) {
    struct rlimit limit = {0};
    char *path = text_format("%s/sys/class/infiniband", d->root);
    struct statvfs info;
    bool card = path && statvfs(path, &info) == 0;
    free(path);
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (card && limit.rlim_cur != RLIM_INFINITY)
        doctor_warn(d, "ulimit -l unlimited (memlock in /etc/security/limits.d, LimitMEMLOCK=infinity for a service)",
                    "%s, but there is an RDMA or EFA device: MPI can't use it so", limit_bytes(limit.rlim_cur).text);
    else
        doctor_ok(d, "%s%s", limit_bytes(limit.rlim_cur).text,
                  card ? "" : " (only RDMA and EFA devices need more; there is none)");
}

void doctor_open_files(struct doctor *d) {
    struct rlimit limit = {0};
    uint64_t world = d->comm ? (uint64_t)d->comm->world : 1,
             least = FILES_LEAST > 64 + 4 * world ? FILES_LEAST : 64 + 4 * world;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < least)
        doctor_warn(d, "ulimit -n 4096 (nofile in /etc/security/limits.d)",
                    "%llu, fewer than %llu: MPI opens some for each rank", (unsigned long long)limit.rlim_cur,
                    (unsigned long long)least);
    else if (limit.rlim_cur == RLIM_INFINITY)
        doctor_ok(d, "unlimited");
    else
        doctor_ok(d, "%llu", (unsigned long long)limit.rlim_cur);
}

void doctor_file_size(struct doctor *d) {
    struct rlimit limit = {0};
    uint64_t needed = d->trainer ? d->report.disk.checkpoint : 0;
    getrlimit(RLIMIT_FSIZE, &limit);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < needed)
        doctor_fail(d, STATUS_IO, "ulimit -f unlimited", "a file may have %s, a checkpoint has %s",
                    unit_bytes(limit.rlim_cur).text, unit_bytes(needed).text);
    else if (limit.rlim_cur != RLIM_INFINITY && !needed)
        doctor_warn(d, "ulimit -f unlimited", "a file may have at most %s", unit_bytes(limit.rlim_cur).text);
    else
        doctor_ok(d, "%s", limit_bytes(limit.rlim_cur).text);
}

// Ranks of a host talk through files in /dev/shm.
void doctor_shared_memory(struct doctor *d) {
    struct statvfs info;
    char *path = text_format("%s/dev/shm", d->root);
    bool there = path && statvfs(path, &info) == 0;
    unsigned ranks = doctor_ranks(d) > 1 ? doctor_ranks(d) : 2;
    uint64_t left = there ? (uint64_t)info.f_bavail * info.f_frsize : 0, needed = SEGMENT_BYTES * ranks + SHARED_SPARE;
    static const char fix[] =
        "docker run --shm-size=1g; Kubernetes: an emptyDir of medium Memory at /dev/shm; else mount -o "
        "remount,size=1g /dev/shm";
    free(path);
    if (!there)
        doctor_warn(d, fix, "/dev/shm is not there: ranks of one host need it");
    else if (left < needed)
        doctor_warn(d, fix, "%s free in /dev/shm, %u ranks need %s", unit_bytes(left).text, ranks,
                    unit_bytes(needed).text);
    else
        doctor_ok(d, "%s free in /dev/shm", unit_bytes(left).text);
}

// ---- environment

struct variable {
    const char *prefix; // the name; with a * at its end what it begins with
    enum doctor_level level;
    const char *what, *fix;
};

static const struct variable variables[] = {
    {"FINETUNED_FAULT", DOCTOR_WARN, "faults are injected into gradients", "unset FINETUNED_FAULT"},
    {"OMP_*", DOCTOR_OK, "no effect: the number of threads is the key threads, and where they run the CPU mask", NULL},
    {"GOMP_*", DOCTOR_OK, "no effect: there is no OpenMP in here", NULL},
    {"KMP_*", DOCTOR_OK, "no effect: there is no OpenMP in here", NULL},
    {"MKL_*", DOCTOR_OK, "no effect: there is no MKL in here", NULL},
    {"OPENBLAS_*", DOCTOR_OK, "no effect: there is no BLAS in here", NULL},
    {"HDF5_USE_FILE_LOCKING", DOCTOR_OK, "no effect: set to FALSE before HDF5 starts, so that NFS and Lustre work",
     NULL},
    {"HDF5_DRIVER", DOCTOR_WARN, "HDF5 would open checkpoints otherwise than we wrote them", "unset HDF5_DRIVER"},
    {"OMPI_MCA_btl*", DOCTOR_OK, "how Open MPI moves bytes", NULL},
    {"OMPI_MCA_pml*", DOCTOR_OK, "how Open MPI moves bytes", NULL},
    {"OMPI_MCA_mtl*", DOCTOR_OK, "how Open MPI moves bytes", NULL},
    {"OMPI_MCA_coll*", DOCTOR_OK, "how Open MPI's collectives work", NULL},
    {"UCX_*", DOCTOR_OK, "a setting of UCX, if Open MPI uses it", NULL},
    {"FI_*", DOCTOR_OK, "a setting of libfabric, if Open MPI uses it", NULL},
    {"MALLOC_PERTURB_", DOCTOR_WARN, "memory is filled at every allocation: slow", "unset MALLOC_PERTURB_"},
    {"LD_PRELOAD", DOCTOR_WARN, "a library is put before ours", "unset LD_PRELOAD unless it is meant"},
};

static const struct variable *variable_find(const char *name, size_t size) {
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *prefix = variables[i].prefix;
        size_t n = strlen(prefix);
        bool star = prefix[n - 1] == '*';
        if (star ? size >= n && strncmp(prefix, name, n - 1) == 0 : size == n && strncmp(prefix, name, n) == 0)
            return &variables[i];
    }
    return NULL;
}

// Several tasks of a launcher, looked at as one.
static size_t environment_launcher(struct doctor *d) {
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};
    for (size_t i = 0; !d->comm && i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        int64_t tasks;
        if (value && text_to_i64(value, &tasks) && tasks > 1) {
            doctor_warn(d, "add --mpi, under the same launcher",
                        "%s=%s: a launcher speaks of several tasks; without --mpi this is a look "
                        "at one",
                        names[i], value);
            return 1;
        }
    }
    return 0;
}

void doctor_environment(struct doctor *d) {
    size_t said = environment_launcher(d);
    for (char **at = environ; *at; at++) {
        size_t size = strcspn(*at, "=");
        const struct variable *variable = variable_find(*at, size);
        if (!variable || !(*at)[size] || !(*at)[size + 1] || strcmp(*at, "HDF5_USE_FILE_LOCKING=FALSE") == 0)
            continue;
        doctor_say(d, variable->level, STATUS_OK, variable->fix, "%.200s: %s", *at, variable->what);
        said++;
    }
    if (!said)
        doctor_ok(d, "nothing is set that matters");
}

// ---- libraries

void doctor_libraries(struct doctor *d) {
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    unsigned major = 0, minor = 0, release = 0;
    int length = 0;
    MPI_Get_library_version(mpi, &length); // may be called before MPI_Init
    H5get_libversion(&major, &minor, &release);
    int hash = (int)XXH_versionNumber();
    doctor_ok(d, "%.*s; HDF5 %u.%u.%u; %s; jansson %s; libyaml %s; xxHash %d.%d.%d; %s", (int)strcspn(mpi, ","), mpi,
              major, minor, release, archive_version_string(), jansson_version_str(), yaml_get_version_string(),
              hash / 10000, hash / 100 % 100, hash % 100, OpenSSL_version(OPENSSL_VERSION));
    if (major != H5_VERS_MAJOR || minor != H5_VERS_MINOR || release != H5_VERS_RELEASE)
        doctor_fail(d, STATUS_DEVICE, "build against the HDF5 that is installed",
                    "built with HDF5 %d.%d.%d, %u.%u.%u is loaded: it refuses to work so", H5_VERS_MAJOR, H5_VERS_MINOR,
                    H5_VERS_RELEASE, major, minor, release);
}

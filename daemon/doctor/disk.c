// SPDX-License-Identifier: Apache-2.0
// Where a job writes: what file system that is, whether we may write there, and whether there is room.
#include "daemon/doctor/doctor.h"

#include "base/file.h"
#include "daemon/units.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define ROOM_LEAST ((uint64_t)2 << 30) // bytes; without a job: a few checkpoints of a small base

// Numbers that <linux/magic.h> may lack, from their file systems' sources.
#define MAGIC_LUSTRE 0x0bd00bd3
#define MAGIC_NFS 0x6969
#define MAGIC_CIFS 0xff534d42
#define MAGIC_SMB2 0xfe534d42
#define MAGIC_FUSE 0x65735546
#define MAGIC_ZFS 0x2fc12fc1
#define MAGIC_XFS 0x58465342
#define MAGIC_9P 0x01021997

enum file_system_kind { LOCAL, SHARED, MEMORY, LAYER, STRANGE };

static const struct file_system {
    uint32_t magic;
    const char *name;
    enum file_system_kind kind;
} file_systems[] = {
    {EXT4_SUPER_MAGIC, "ext4", LOCAL},   {MAGIC_XFS, "xfs", LOCAL},
    {BTRFS_SUPER_MAGIC, "btrfs", LOCAL}, {MAGIC_ZFS, "zfs", LOCAL},
    {F2FS_SUPER_MAGIC, "f2fs", LOCAL},   {MAGIC_NFS, "nfs", SHARED},
    {MAGIC_LUSTRE, "lustre", SHARED},    {TMPFS_MAGIC, "tmpfs", MEMORY},
    {RAMFS_MAGIC, "ramfs", MEMORY},      {OVERLAYFS_SUPER_MAGIC, "overlay", LAYER},
    {MAGIC_FUSE, "fuse", STRANGE},       {MAGIC_CIFS, "cifs", STRANGE},
    {MAGIC_SMB2, "smb", STRANGE},        {MAGIC_9P, "9p", STRANGE},
};

static const struct file_system *file_system_of(const char *folder, struct statfs *info) {
    static const struct file_system unknown = {0, "a file system we don't know", LOCAL};
    if (statfs(folder, info) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof file_systems / sizeof *file_systems; i++)
        if (file_systems[i].magic == (uint32_t)info->f_type)
            return &file_systems[i];
    return &unknown;
}

// Whether a file can be made here, by one without a name, which leaves nothing behind. What the file system can't do
// that way is taken from the permissions.
static bool folder_takes_files(const char *folder) {
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0) {
        bool written = write(fd, "x", 1) == 1 && fsync(fd) == 0;
        int error = errno;
        close(fd);
        errno = error;
        return written;
    }
    if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL)
        return access(folder, W_OK | X_OK) == 0;
    return false;
}

struct place {
    const char *name, *path; // "checkpoints.dir"
    uint64_t needed;         // bytes to come; 0: not known
    bool lasting;            // what is written is to be found again
};

static void place_kind(struct doctor *d, const struct place *p, const struct file_system *fs) {
    if (!p->lasting)
        return;
    if (fs->kind == MEMORY)
        doctor_warn(d, "set it to a disk",
                    "%s (%s) lies in memory (%s): gone with a restart, and counted as memory in use", p->name, p->path,
                    fs->name);
    if (fs->kind == LAYER)
        doctor_warn(d, "mount a volume there (docker run -v, a Kubernetes volume)",
                    "%s (%s) lies in the container's own layer (%s): gone with the container", p->name, p->path,
                    fs->name);
    if (fs->kind == STRANGE)
        doctor_warn(d, "prefer a local disk, NFS or Lustre",
                    "%s (%s) lies on %s: renames and fsync may not hold what a checkpoint needs", p->name, p->path,
                    fs->name);
}

// Several hosts must see the same checkpoints.
static void place_shared(struct doctor *d, const struct place *p, const struct file_system *fs) {
    bool hosts = d->comm && d->comm->local_world < d->comm->world;
    if (hosts && p->lasting && fs->kind != SHARED && fs->kind != STRANGE)
        doctor_warn(d, "name a folder that all hosts share (NFS, Lustre)",
                    "%s (%s) lies on this host's own %s, but there are several hosts", p->name, p->path, fs->name);
}

static void place_room(struct doctor *d, const struct place *p, const struct file_system *fs,
                       const struct statfs *info) {
    uint64_t left = (uint64_t)info->f_bavail * (uint64_t)info->f_frsize;
    char needed[64] = "";
    if (p->needed)
        snprintf(needed, sizeof needed, ", up to %s to come", unit_bytes(p->needed).text);
    if (info->f_files > 0 && info->f_ffree == 0)
        doctor_fail(d, STATUS_IO, "remove files", "%s (%s): the file system has no place for one more file", p->name,
                    p->path);
    else if (p->needed > left)
        doctor_fail(d, STATUS_IO,
                    d->job && *dry_advice(d->job) ? "free some, lower checkpoints.keep, or name another disk"
                                                  : "free some, or name another disk",
                    "%s (%s): %s free on %s%s", p->name, p->path, unit_bytes(left).text, fs->name, needed);
    else if (!p->needed && left < ROOM_LEAST && p->lasting)
        doctor_warn(d, "free some, or name another disk with out", "%s (%s): %s free on %s", p->name, p->path,
                    unit_bytes(left).text, fs->name);
    else
        doctor_ok(d, "%s (%s): %s free on %s%s%s", p->name, p->path, unit_bytes(left).text, fs->name, needed,
                  fs->kind == SHARED ? ", shared by hosts" : "");
}

static void place_look(struct doctor *d, const struct place *p) {
    struct statfs info;
    char *folder = file_nearest_folder(p->path);
    enum status status = file_place(p->name, p->path);
    const struct file_system *fs = folder ? file_system_of(folder, &info) : NULL;
    if (status != STATUS_OK)
        doctor_fail(d, status, "name a folder that this user may write to", "%s", status_message());
    else if (!fs)
        doctor_fail(d, STATUS_IO, "name another folder", "%s: %s can't be asked", p->name, folder ? folder : p->path);
    else if (!folder_takes_files(folder))
        doctor_fail(d, STATUS_IO, "name a folder that this user may write to", "%s: no file can be made in %s: %s",
                    p->name, folder, strerror(errno));
    if (status == STATUS_OK && fs) {
        place_kind(d, p, fs);
        place_shared(d, p, fs);
        place_room(d, p, fs, &info);
    }
    free(folder);
}

// Bytes to come where `path` lies.
static uint64_t disk_needed(const struct doctor *d, const char *path) {
    char *folder = file_nearest_folder(path);
    struct stat here, there;
    uint64_t needed = 0;
    for (unsigned i = 0; folder && d->trainer && i < d->report.n_rooms; i++)
        if (stat(folder, &here) == 0 && stat(d->report.rooms[i].folder, &there) == 0 && here.st_dev == there.st_dev)
            needed += d->report.rooms[i].needed;
    free(folder);
    return needed;
}

void doctor_disk(struct doctor *d) {
    if (!d->job) {
        place_look(d, &(struct place){"the working directory", ".", 0, true});
        return;
    }
    const struct place places[] = {
        {"out", d->job->out, disk_needed(d, d->job->out), true},
        {"checkpoints.dir", d->job->checkpoints.dir, disk_needed(d, d->job->checkpoints.dir), true},
        {"data.cache", d->job->data.cache, 0, false},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        place_look(d, &places[i]);
}

void doctor_temporary(struct doctor *d) {
    const char *root = getenv("TMPDIR");
    bool set = root && *root;
    if (!file_is_folder(set ? root : "/tmp"))
        doctor_fail(d, STATUS_IO, set ? "set TMPDIR to a folder" : "make /tmp", "%s%s is no folder",
                    set ? "TMPDIR=" : "", set ? root : "/tmp");
    else
        place_look(d, &(struct place){set ? "TMPDIR" : "temporary folder", set ? root : "/tmp", 0, false});
}

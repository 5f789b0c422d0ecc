/* Loaded before every other library of a process (LD_PRELOAD): while the file $FULL_DISK_WHILE is there, nothing can be
 * written to files below $FULL_DISK_OF, as on a disk that is full. Java, SQLite and Python all write by these calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_full(int file) {
    const char *flag = getenv("FULL_DISK_WHILE"), *directory = getenv("FULL_DISK_OF");
    char name[64], path[PATH_MAX];
    int kept = errno;
    ssize_t length = -1;
    if (flag && directory && access(flag, F_OK) == 0) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", file);
        length = readlink(name, path, sizeof path - 1);
    }
    errno = kept;
    if (length < 0)
        return 0;
    path[length] = 0;
    return strncmp(path, directory, strlen(directory)) == 0;
}

#define REFUSE_IF_FULL(file) \
    if (is_full(file)) { \
        errno = ENOSPC; \
        return -1; \
    }
#define NEXT(type, name, ...) \
    static type (*next)(__VA_ARGS__); \
    if (!next) \
        next = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int file, const void *bytes, size_t count) {
    NEXT(ssize_t, "write", int, const void *, size_t);
    REFUSE_IF_FULL(file)
    return next(file, bytes, count);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) {
    NEXT(ssize_t, "pwrite", int, const void *, size_t, off_t);
    REFUSE_IF_FULL(file)
    return next(file, bytes, count, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    NEXT(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    REFUSE_IF_FULL(file)
    return next(file, bytes, count, at);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    NEXT(ssize_t, "writev", int, const struct iovec *, int);
    REFUSE_IF_FULL(file)
    return next(file, parts, count);
}

int fallocate(int file, int mode, off_t at, off_t length) {
    NEXT(int, "fallocate", int, int, off_t, off_t);
    REFUSE_IF_FULL(file)
    return next(file, mode, at, length);
}

int posix_fallocate(int file, off_t at, off_t length) {
    NEXT(int, "posix_fallocate", int, off_t, off_t);
    if (is_full(file))
        return ENOSPC;
    return next(file, at, length);
}

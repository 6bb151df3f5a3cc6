/* Preloaded by the simulator: a virtual clock, seeded randomness, and a hook before every change of a file.
 *
 * Python, SQLite and OpenSSL's callers go through the C library for the time, for random bytes and for files, so that
 * this library stands between the code of dpmpc, unchanged, and the system. The hook is called before each operation
 * on a file below one folder; if it returns an error number, the operation fails with it and nothing is changed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum operation { CREATE = 1, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MAKE_FOLDER, OPEN_TO_CHANGE };
enum kind { OTHER = 0, FILE_OF_OURS, FOLDER_OF_OURS };

typedef int (*hook_type)(int operation, unsigned long inode, long offset, long length, const void *data,
                         const char *path, const char *target);

#define DESCRIPTORS 65536
#define NANOSECONDS 1000000000LL
#define BOOT_SECONDS 1800000000LL /* when the machine started: what monotonic clocks count from */

static hook_type hook;
static char root[512];
static size_t root_length;
static int clock_is_virtual, random_is_seeded;
static int64_t now_ns; /* since 1970 */
static uint64_t random_state;
static unsigned char kinds[DESCRIPTORS];
static unsigned long inodes[DESCRIPTORS];

void simulator_hook(hook_type given, const char *folder) {
  hook = given;
  strncpy(root, folder, sizeof root - 1);
  root_length = strlen(root);
}
void simulator_clock(int is_virtual, int64_t ns) { clock_is_virtual = is_virtual, now_ns = ns; }
void simulator_random(int is_seeded, uint64_t seed) { random_is_seeded = is_seeded, random_state = seed; }

#define REAL(result, name, ...)                                                                                        \
  static result (*real)(__VA_ARGS__);                                                                                  \
  if (!real) real = dlsym(RTLD_NEXT, name)

/* Clocks */

int clock_gettime(clockid_t id, struct timespec *time) {
  REAL(int, "clock_gettime", clockid_t, struct timespec *);
  if (!clock_is_virtual) return real(id, time);
  int64_t ns = now_ns;
  if (id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID) ns = 0;
  else if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) ns -= BOOT_SECONDS * NANOSECONDS;
  time->tv_sec = ns / NANOSECONDS, time->tv_nsec = ns % NANOSECONDS;
  return 0;
}
int gettimeofday(struct timeval *time, void *zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  time->tv_sec = precise.tv_sec, time->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *result) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (result) *result = precise.tv_sec;
  return precise.tv_sec;
}

/* Random bytes: splitmix64 */

ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
  REAL(ssize_t, "getrandom", void *, size_t, unsigned int);
  if (!random_is_seeded) return real(buffer, length, flags);
  unsigned char *bytes = buffer;
  for (size_t i = 0; i < length; i++) {
    uint64_t z = (random_state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull, z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    bytes[i] = (z ^ (z >> 31)) & 255;
  }
  return (ssize_t)length;
}
int getentropy(void *buffer, size_t length) { return getrandom(buffer, length, 0) < 0 ? -1 : 0; }

/* Files. SQLite keeps the memory that its connections share in a file that ends in -shm, which no disk has to keep. */

static int is_ours(const char *path) {
  return hook && path && !strncmp(path, root, root_length) && !strstr(path, "-shm");
}
static int is_tracked(int fd) { return hook && fd >= 0 && fd < DESCRIPTORS && kinds[fd] != OTHER; }
static int refused(int operation, unsigned long inode, long offset, long length, const void *data, const char *path,
                   const char *target) {
  int error = hook(operation, inode, offset, length, data, path, target);
  if (error) errno = error;
  return error != 0;
}

static int is_missing(const char *path, int flags) {
  struct stat found;
  return (flags & O_CREAT) && lstat(path, &found) != 0;
}
static int track(int fd, const char *path, int is_new, int flags) {
  if (fd < 0 || fd >= DESCRIPTORS) return fd;
  kinds[fd] = OTHER;
  struct stat found;
  if (!is_ours(path) || fstat(fd, &found)) return fd;
  kinds[fd] = S_ISDIR(found.st_mode) ? FOLDER_OF_OURS : FILE_OF_OURS;
  inodes[fd] = found.st_ino;
  if (is_new) hook(CREATE, found.st_ino, 0, 0, 0, path, 0);
  else if (flags & O_TRUNC) hook(TRUNCATE, found.st_ino, 0, 0, 0, path, 0);
  return fd;
}

#define MODE_OF(flags)                                                                                                 \
  mode_t mode = 0;                                                                                                     \
  if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                               \
    va_list more;                                                                                                      \
    va_start(more, flags);                                                                                             \
    mode = va_arg(more, mode_t);                                                                                       \
    va_end(more);                                                                                                      \
  }
#define BEFORE_OPENING(path, flags)                                                                                    \
  int is_new = is_ours(path) && is_missing(path, flags);                                                               \
  if ((is_new || (is_ours(path) && ((flags) & O_TRUNC))) && refused(OPEN_TO_CHANGE, 0, 0, 0, 0, path, 0)) return -1

#define OPEN(name)                                                                                                     \
  int name(const char *path, int flags, ...) {                                                                         \
    REAL(int, #name, const char *, int, ...);                                                                          \
    MODE_OF(flags)                                                                                                     \
    BEFORE_OPENING(path, flags);                                                                                       \
    return track(real(path, flags, mode), path, is_new, flags);                                                        \
  }
#define OPENAT(name)                                                                                                   \
  int name(int folder, const char *path, int flags, ...) {                                                             \
    REAL(int, #name, int, const char *, int, ...);                                                                     \
    MODE_OF(flags)                                                                                                     \
    BEFORE_OPENING(path, flags);                                                                                       \
    return track(real(folder, path, flags, mode), path, is_new, flags);                                                \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
  REAL(int, "close", int);
  if (fd >= 0 && fd < DESCRIPTORS) kinds[fd] = OTHER;
  return real(fd);
}
ssize_t write(int fd, const void *data, size_t length) {
  REAL(ssize_t, "write", int, const void *, size_t);
  if (is_tracked(fd) && refused(WRITE, inodes[fd], lseek(fd, 0, SEEK_CUR), (long)length, data, 0, 0)) return -1;
  return real(fd, data, length);
}
#define PWRITE(name, type)                                                                                             \
  ssize_t name(int fd, const void *data, size_t length, type offset) {                                                 \
    REAL(ssize_t, #name, int, const void *, size_t, type);                                                             \
    if (is_tracked(fd) && refused(WRITE, inodes[fd], offset, (long)length, data, 0, 0)) return -1;                     \
    return real(fd, data, length, offset);                                                                             \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)
#define TRUNCATE_TO(name, type)                                                                                        \
  int name(int fd, type length) {                                                                                      \
    REAL(int, #name, int, type);                                                                                       \
    if (is_tracked(fd) && refused(TRUNCATE, inodes[fd], 0, length, 0, 0, 0)) return -1;                                \
    return real(fd, length);                                                                                           \
  }
TRUNCATE_TO(ftruncate, off_t)
TRUNCATE_TO(ftruncate64, off64_t)
#define SYNCHRONISE(name)                                                                                              \
  int name(int fd) {                                                                                                   \
    REAL(int, #name, int);                                                                                             \
    if (!is_tracked(fd)) return real(fd);                                                                              \
    char link[64], path[600] = "";                                                                                     \
    if (kinds[fd] == FOLDER_OF_OURS) {                                                                                 \
      snprintf(link, sizeof link, "/proc/self/fd/%d", fd);                                                             \
      ssize_t length = readlink(link, path, sizeof path - 1);                                                          \
      path[length > 0 ? length : 0] = 0;                                                                               \
    }                                                                                                                  \
    return refused(SYNC, inodes[fd], 0, 0, 0, path, 0) ? -1 : 0;                                                       \
  }
SYNCHRONISE(fsync)
SYNCHRONISE(fdatasync)

int rename(const char *from, const char *to) {
  REAL(int, "rename", const char *, const char *);
  return is_ours(from) && refused(RENAME, 0, 0, 0, 0, from, to) ? -1 : real(from, to);
}
int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  REAL(int, "renameat", int, const char *, int, const char *);
  return is_ours(from) && refused(RENAME, 0, 0, 0, 0, from, to) ? -1 : real(from_folder, from, to_folder, to);
}
int unlink(const char *path) {
  REAL(int, "unlink", const char *);
  return is_ours(path) && refused(UNLINK, 0, 0, 0, 0, path, 0) ? -1 : real(path);
}
int unlinkat(int folder, const char *path, int flags) {
  REAL(int, "unlinkat", int, const char *, int);
  return is_ours(path) && refused(UNLINK, 0, 0, 0, 0, path, 0) ? -1 : real(folder, path, flags);
}
int mkdir(const char *path, mode_t mode) {
  REAL(int, "mkdir", const char *, mode_t);
  struct stat found;
  if (is_ours(path) && stat(path, &found) && refused(MAKE_FOLDER, 0, 0, 0, 0, path, 0)) return -1;
  return real(path, mode);
}

/*
 * The native side of the plugin: the system calls of host.ts for a QuickJS context that runs quickjs-main.ts, compiled to
 * bytecode and linked in. Nothing is read or evaluated at run time but that bytecode.
 *
 * Every function returns promptly or is limited by a deadline of the monotonic clock. Signals do not cut calls short: EINTR is
 * retried. Descriptors are close-on-exec. Sizes are checked before memory is taken.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "deadline.h"
#include "join.h"
#include "memory.h"
#include "probe.h"
#include "quickjs.h"

/* Of linux/magic.h, which not every C library for static programs has beside it. */
#define NSFS_MAGIC 0x6e736673

extern const uint8_t seine_plugin[];
extern const uint32_t seine_plugin_size;

static JSValue f_getenv(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv) {
  const char *name = JS_ToCString(ctx, argv[0]);
  if (!name) return JS_EXCEPTION;
  const char *value = getenv(name);
  JS_FreeCString(ctx, name);
  return value ? JS_NewString(ctx, value) : JS_UNDEFINED;
}

/* readStdin(bytesMax): string | errno. EFBIG if there is more. */
static JSValue f_read_stdin(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv) {
  int64_t max;
  if (JS_ToInt64(ctx, &max, argv[0])) return JS_EXCEPTION;
  if (isatty(STDIN_FILENO)) return JS_NewStringLen(ctx, "", 0);
  size_t capacity = 4096, length = 0;
  char *bytes = malloc(capacity);
  if (!bytes) return JS_NewInt32(ctx, ENOMEM);
  int failed = 0;
  for (;;) {
    if (length == capacity) {
      char *grown = realloc(bytes, capacity * 2);
      if (!grown) {
        failed = ENOMEM;
        break;
      }
      bytes = grown;
      capacity *= 2;
    }
    ssize_t got = read(STDIN_FILENO, bytes + length, capacity - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN && wait_for(STDIN_FILENO, POLLIN, INT64_MAX) == 0) continue; /* the caller made it non-blocking */
    if (got < 0) failed = errno;
    if (got <= 0) break;
    length += (size_t)got;
    if ((int64_t)length > max) {
      failed = EFBIG;
      break;
    }
  }
  JSValue result = failed ? JS_NewInt32(ctx, failed) : JS_NewStringLen(ctx, bytes, length);
  free(bytes);
  return result;
}

/* readHead(path, bytesMax): string | undefined. A link is not followed, and nothing waited for. */
static JSValue f_read_head(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv) {
  char bytes[4096];
  uint32_t max;
  if (JS_ToUint32(ctx, &max, argv[1])) return JS_EXCEPTION;
  const char *path = JS_ToCString(ctx, argv[0]);
  if (!path) return JS_EXCEPTION;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  JS_FreeCString(ctx, path);
  if (fd < 0) return JS_UNDEFINED;
  ssize_t got;
  do {
    got = read(fd, bytes, max < sizeof bytes ? max : sizeof bytes);
  } while (got < 0 && errno == EINTR);
  close(fd);
  return got < 0 ? JS_UNDEFINED : JS_NewStringLen(ctx, bytes, (size_t)got);
}

/* Writes all of it, or returns an errno. */
static int write_all(int fd, const char *bytes, size_t length) {
  for (size_t at = 0; at < length;) {
    ssize_t put = write(fd, bytes + at, length - at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN && wait_for(fd, POLLOUT, INT64_MAX) == 0) continue;
    if (put < 0) return errno;
    at += (size_t)put;
  }
  return 0;
}

/* write(fd, text). A reader that has gone away is not our failure. */
static JSValue f_write(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv) {
  int fd;
  size_t length;
  if (JS_ToInt32(ctx, &fd, argv[0])) return JS_EXCEPTION;
  const char *text = JS_ToCStringLen(ctx, &length, argv[1]);
  if (!text) return JS_EXCEPTION;
  write_all(fd, text, length);
  JS_FreeCString(ctx, text);
  return JS_UNDEFINED;
}

/* Reads exactly `length` bytes; an end before that is ECONNRESET. */
static int receive_all(int fd, char *bytes, size_t length, int64_t deadline) {
  for (size_t at = 0; at < length;) {
    ssize_t got = recv(fd, bytes + at, length - at, 0);
    if (got > 0) {
      at += (size_t)got;
      continue;
    }
    if (got == 0) return ECONNRESET;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return errno;
    int failed = wait_for(fd, POLLIN, deadline);
    if (failed) return failed;
  }
  return 0;
}

/* One frame out, one frame in: 4 bytes of length, big-endian, and the JSON. `*reply` is for the caller to free. */
static int exchange(int fd, const char *request, size_t length, size_t reply_max, int64_t deadline, char **reply, size_t *reply_length) {
  uint32_t header = htonl((uint32_t)length);
  /* At once: an agent that is woken by the header alone has to be woken again. */
  char *frame = malloc(sizeof header + length);
  if (!frame) return ENOMEM;
  memcpy(frame, &header, sizeof header);
  memcpy(frame + sizeof header, request, length);
  int failed = send_all(fd, frame, sizeof header + length, deadline);
  free(frame);
  if (!failed) failed = receive_all(fd, (char *)&header, sizeof header, deadline);
  if (failed) return failed;
  *reply_length = ntohl(header);
  if (*reply_length > reply_max) return EMSGSIZE;
  *reply = malloc(*reply_length + 1);
  if (!*reply) return ENOMEM;
  return receive_all(fd, *reply, *reply_length, deadline);
}

/* Returns a connected, non-blocking socket, or a negative errno. EAGAIN: the agent's queue of connections is full. */
static int connect_to(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(path);
  if (length == 0 || length >= sizeof address.sun_path) return -ENAMETOOLONG;
  memcpy(address.sun_path, path, length + 1);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -errno;
  int result;
  do {
    result = connect(fd, (const struct sockaddr *)&address, sizeof address);
  } while (result < 0 && errno == EINTR);
  if (result == 0) return fd;
  int failed = errno;
  close(fd);
  return -failed;
}

/* call(path, request, timeoutMs, replyBytesMax): string | errno, negative if it was never connected. */
static JSValue f_call(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv) {
  int64_t timeout_ms, reply_max;
  size_t length;
  if (JS_ToInt64(ctx, &timeout_ms, argv[2]) || JS_ToInt64(ctx, &reply_max, argv[3])) return JS_EXCEPTION;
  int64_t deadline = now_ms() + timeout_ms;
  const char *path = JS_ToCString(ctx, argv[0]);
  const char *request = path ? JS_ToCStringLen(ctx, &length, argv[1]) : NULL;
  JSValue result = JS_EXCEPTION;
  if (request) {
    int fd = connect_to(path);
    if (fd < 0) {
      result = JS_NewInt32(ctx, fd);
    } else {
      char *reply = NULL;
      size_t reply_length = 0;
      int failed = length > UINT32_MAX ? EMSGSIZE : exchange(fd, request, length, (size_t)reply_max, deadline, &reply, &reply_length);
      close(fd);
      result = failed ? JS_NewInt32(ctx, failed) : JS_NewStringLen(ctx, reply, reply_length);
      free(reply);
    }
    JS_FreeCString(ctx, request);
  }
  if (path) JS_FreeCString(ctx, path);
  return result;
}

static JSValue f_monotonic_ms(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv) {
  return JS_NewInt64(ctx, now_ms());
}

static JSValue f_sleep(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv) {
  int64_t ms;
  if (JS_ToInt64(ctx, &ms, argv[0])) return JS_EXCEPTION;
  if (ms < 0) ms = 0;
  struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};
  while (nanosleep(&left, &left) < 0 && errno == EINTR) {
  }
  return JS_UNDEFINED;
}

/* Opens a folder that it makes if need be, 0700. Returns a descriptor or a negative errno. */
static int open_folder(int parent, const char *name) {
  if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST) return -errno;
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

/* 0, or ENOSPC if there are as many entries as allowed. */
static int check_room(int folder, int64_t files_max) {
  int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *listing = copy < 0 ? NULL : fdopendir(copy);
  if (!listing) {
    int failed = errno;
    if (copy >= 0) close(copy);
    return failed;
  }
  int64_t count = -2; /* "." and ".." */
  while (readdir(listing)) count++;
  closedir(listing);
  return count >= files_max ? ENOSPC : 0;
}

static int save_in(int folder, const char *name, const char *text, size_t length, int64_t files_max) {
  if (faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
    int full = check_room(folder, files_max);
    if (full) return full;
  }
  char temporary[64];
  snprintf(temporary, sizeof temporary, ".new-%ld-%lld", (long)getpid(), (long long)now_ms());
  int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  int failed = write_all(fd, text, length);
  if (!failed && fsync(fd) < 0) failed = errno;
  if (close(fd) < 0 && !failed) failed = errno;
  if (!failed && renameat(folder, temporary, folder, name) < 0) failed = errno;
  if (!failed && fsync(folder) < 0) failed = errno;
  if (failed) unlinkat(folder, temporary, 0);
  return failed;
}

/* saveFile(folder, name, text, filesMax): 0 or errno. The folder's parent is made too; what is above must be there. */
static int save_file(char *folder, const char *name, const char *text, size_t length, int64_t files_max) {
  if (strchr(name, '/')) return EINVAL;
  char *slash = strrchr(folder, '/');
  if (!slash || slash == folder) return EINVAL;
  *slash = '\0';
  int parent = open_folder(AT_FDCWD, folder);
  if (parent < 0) return -parent;
  int inner = open_folder(parent, slash + 1);
  close(parent);
  if (inner < 0) return -inner;
  int failed = save_in(inner, name, text, length, files_max);
  close(inner);
  return failed;
}

static JSValue f_save_file(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv) {
  int64_t files_max;
  size_t length;
  if (JS_ToInt64(ctx, &files_max, argv[3])) return JS_EXCEPTION;
  const char *folder = JS_ToCString(ctx, argv[0]);
  const char *name = folder ? JS_ToCString(ctx, argv[1]) : NULL;
  const char *text = name ? JS_ToCStringLen(ctx, &length, argv[2]) : NULL;
  JSValue result = JS_EXCEPTION;
  if (text) {
    char *own = strdup(folder);
    result = JS_NewInt32(ctx, own ? save_file(own, name, text, length, files_max) : ENOMEM);
    free(own);
    JS_FreeCString(ctx, text);
  }
  if (name) JS_FreeCString(ctx, name);
  if (folder) JS_FreeCString(ctx, folder);
  return result;
}

/* Mounts a new network namespace as `name` in an open folder, whose path is `folder`, unless one is mounted there. 0 or an errno. */
static int pin_in(int folder_fd, const char *folder, const char *name) {
  /* Another plugin is at it: the lock ends with its process, however that ends. */
  if (flock(folder_fd, LOCK_EX | LOCK_NB) < 0) return errno == EWOULDBLOCK ? 0 : errno;
  int fd = openat(folder_fd, name, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0400);
  if (fd < 0) return errno;
  struct statfs system;
  int failed = fstatfs(fd, &system) < 0 ? errno : 0;
  close(fd);
  if (failed || system.f_type == NSFS_MAGIC) return failed;
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return ENAMETOOLONG;
  if (unshare(CLONE_NEWNET) < 0) return errno;
  return mount("/proc/self/ns/net", path, NULL, MS_BIND, NULL) < 0 ? errno : 0;
}

/* pinNamespace(folder, name): 0 or errno. What is above the folder must be there. */
static JSValue f_pin_namespace(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv) {
  const char *folder = JS_ToCString(ctx, argv[0]);
  const char *name = folder ? JS_ToCString(ctx, argv[1]) : NULL;
  JSValue result = JS_EXCEPTION;
  if (name) {
    int fd = strchr(name, '/') ? -EINVAL : open_folder(AT_FDCWD, folder);
    result = JS_NewInt32(ctx, fd < 0 ? -fd : pin_in(fd, folder, name));
    if (fd >= 0) close(fd);
    JS_FreeCString(ctx, name);
  }
  if (folder) JS_FreeCString(ctx, folder);
  return result;
}

static JSValue f_describe(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv) {
  int code;
  if (JS_ToInt32(ctx, &code, argv[0])) return JS_EXCEPTION;
  return JS_NewString(ctx, strerror(code));
}

static JSValue f_exit(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv) {
  int code;
  if (JS_ToInt32(ctx, &code, argv[0])) code = 1;
  _exit(code); /* nothing is buffered, and tearing the engine down would only take time */
}

static const JSCFunctionListEntry functions[] = {
    JS_CFUNC_DEF("getenv", 1, f_getenv),
    JS_CFUNC_DEF("readStdin", 1, f_read_stdin),
    JS_CFUNC_DEF("write", 2, f_write),
    JS_CFUNC_DEF("call", 4, f_call),
    JS_CFUNC_DEF("monotonicMs", 0, f_monotonic_ms),
    JS_CFUNC_DEF("sleep", 1, f_sleep),
    JS_CFUNC_DEF("saveFile", 4, f_save_file),
    JS_CFUNC_DEF("readHead", 2, f_read_head),
    JS_CFUNC_DEF("pinNamespace", 2, f_pin_namespace),
    JS_CFUNC_DEF("describe", 1, f_describe),
    JS_CFUNC_DEF("exit", 1, f_exit),
};

/* A bug of ours: the runtime still gets JSON on stdout, and a human the reason on stderr. */
static int report_exception(JSContext *ctx) {
  JSValue exception = JS_GetException(ctx);
  const char *text = JS_ToCString(ctx, exception);
  fprintf(stderr, "seine: %s\n", text ? text : "exception");
  static const char answer[] = "{\"cniVersion\":\"1.0.0\",\"code\":100,\"msg\":\"the plugin failed\"}";
  write_all(STDOUT_FILENO, answer, sizeof answer - 1);
  return 1;
}

/* Runtimes give no arguments. */
int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--version") == 0) return puts("seine " SEINE_VERSION) == EOF;
  if (argc > 1 && strcmp(argv[1], "--probe") == 0) return probe_agent(argc - 2, argv + 2);
  signal(SIGPIPE, SIG_IGN);
  if (argc > 1 && strcmp(argv[1], "--join") == 0) return join_agent(argc - 2, argv + 2);
  JSRuntime *runtime = JS_NewRuntime2(&engine_memory, NULL);
  JSContext *ctx = runtime ? JS_NewContextRaw(runtime) : NULL;
  if (!ctx) return 1;
  JS_SetMemoryLimit(runtime, 64 * 1024 * 1024);
  JS_AddIntrinsicBaseObjects(ctx);
  JS_AddIntrinsicRegExp(ctx);
  JS_AddIntrinsicJSON(ctx);
  JS_AddIntrinsicPromise(ctx);
  JSValue global = JS_GetGlobalObject(ctx);
  JSValue native = JS_NewObject(ctx);
  JS_SetPropertyFunctionList(ctx, native, functions, sizeof functions / sizeof functions[0]);
  JS_SetPropertyStr(ctx, global, "native", native);
  JSValue code = JS_ReadObject(ctx, seine_plugin, seine_plugin_size, JS_READ_OBJ_BYTECODE);
  /* Kept: the process ends sooner than all of it would be freed. */
  if (JS_IsException(code) || JS_IsException(JS_EvalFunction(ctx, JS_DupValue(ctx, code)))) return report_exception(ctx);
  JSContext *job;
  for (int ran = 1; ran > 0;) {
    ran = JS_ExecutePendingJob(runtime, &job);
    if (ran < 0) return report_exception(job);
  }
  fprintf(stderr, "seine: ended without an answer\n"); /* f_exit is the only regular way out */
  return 1;
}

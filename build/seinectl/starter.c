/*
 * The head of the one-file `seinectl`: Node, its libraries and the program follow in the same file, and are copied into a file
 * system in memory that no other process sees and that ends with it. Statically linked: the node needs a kernel and
 * /proc, and nothing else.
 *
 * The file ends with an index, a line "OFFSET SIZE MODE PATH" for each file and "- - - PATH" for each folder, and the trailer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct trailer {
  char magic[8];
  uint64_t index_at;
  uint64_t index_size;
};

static const char magic[8] = "SEINECTL";
static const uint64_t index_most = 1 << 16;
static const char *const places[] = {"/run", "/tmp", "/var/tmp", "/dev/shm"};
static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int failed = 2;

static char place[64];
static volatile pid_t child;

static void clean_up(void) {
  if (place[0] == 0) return;
  if (chdir("/") == 0) umount2(place, MNT_DETACH);
  rmdir(place);
}

static void fail(const char *what) {
  fprintf(stderr, "seinectl: %s: %s\n", what, strerror(errno));
  clean_up();
  exit(failed);
}

static void pass_on(int number) {
  if (child > 0) kill(child, number);
}

/* A folder in memory that only this process and its children see. Later mounts of the node are visible here too. */
static void make_place(void) {
  for (size_t at = 0; at < sizeof places / sizeof *places && place[0] == 0; at++) {
    snprintf(place, sizeof place, "%s/seinectl-XXXXXX", places[at]);
    if (mkdtemp(place) == NULL) place[0] = 0;
  }
  if (place[0] == 0) fail("no folder can be made in /run, /tmp, /var/tmp or /dev/shm");
  if (unshare(CLONE_NEWNS)) fail("needs to be root, with CAP_SYS_ADMIN");
  if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL)) fail("the root of this process is no mount");
  if (mount("seinectl", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700")) fail(place);
}

static void copy(int from, uint64_t offset, uint64_t size, mode_t mode, const char *path) {
  int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (to < 0) fail(path);
  off_t at = (off_t)offset;
  while (size > 0) {
    ssize_t done = sendfile(to, from, &at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = EIO;
    if (done <= 0) fail(path);
    size -= (uint64_t)done;
  }
  if (close(to)) fail(path);
}

static void unpack(void) {
  int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (from < 0) fail("/proc/self/exe");
  off_t end = lseek(from, 0, SEEK_END);
  struct trailer trailer;
  if (pread(from, &trailer, sizeof trailer, end - (off_t)sizeof trailer) != sizeof trailer) fail("the end of this file");
  errno = EBADF;
  if (memcmp(trailer.magic, magic, sizeof magic) != 0 || trailer.index_size > index_most) fail("this file is not whole");
  char *index = calloc(1, trailer.index_size + 1);
  if (index == NULL) fail("memory");
  if (pread(from, index, trailer.index_size, (off_t)trailer.index_at) != (ssize_t)trailer.index_size) fail("the index of this file");
  if (chdir(place)) fail(place);
  for (char *line = strtok(index, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    unsigned long long offset, size;
    unsigned mode;
    char path[256];
    if (sscanf(line, "- - - %255s", path) == 1) {
      if (mkdir(path, 0700)) fail(path);
    } else if (sscanf(line, "%llu %llu %o %255s", &offset, &size, &mode, path) == 4)
      copy(from, offset, size, mode, path);
    else
      fail("the index of this file");
  }
  free(index);
  close(from);
}

/* `ld.so --library-path lib node seinectl.mjs ARGUMENTS`, in the original working folder. */
static void become(int argc, char **argv, int started_in) {
  static char paths[4][96];
  static const char *const names[4] = {"ld.so", "lib", "node", "dist/seinectl.mjs"};
  char **line = calloc((size_t)argc + 5, sizeof *line);
  if (line == NULL) fail("memory");
  for (int at = 0; at < 4; at++) snprintf(paths[at], sizeof paths[at], "%s/%s", place, names[at]);
  line[0] = paths[0];
  line[1] = "--library-path";
  for (int at = 1; at < 4; at++) line[at + 1] = paths[at];
  for (int at = 1; at < argc; at++) line[at + 4] = argv[at];
  if (fchdir(started_in)) _exit(failed);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execv(line[0], line);
  fprintf(stderr, "seinectl: %s: %s\n", line[0], strerror(errno));
  _exit(failed);
}

int main(int argc, char **argv) {
  sigset_t held, before;
  struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
  sigemptyset(&held);
  for (size_t at = 0; at < sizeof passed_on / sizeof *passed_on; at++) sigaddset(&held, passed_on[at]);
  sigprocmask(SIG_BLOCK, &held, &before);
  make_place();
  /* Not before: it would be a folder of the node's mount namespace, not of this one. */
  int started_in = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (started_in < 0) fail("the current folder");
  unpack();
  child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, NULL);
    become(argc, argv, started_in);
  }
  for (size_t at = 0; at < sizeof passed_on / sizeof *passed_on; at++) sigaction(passed_on[at], &action, NULL);
  sigprocmask(SIG_SETMASK, &before, NULL);
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("wait");
  clean_up();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

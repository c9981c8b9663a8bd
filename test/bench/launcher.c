/*
 * Runs programs and prints the duration of each, from before its start until it has been reaped.
 *
 * Node needs several milliseconds to start a process; the measured programs take about as long. So this program
 * starts the processes: vfork, exec, wait, and CLOCK_MONOTONIC around them.
 *
 * Lines on standard input, fields separated by tabs:
 *   job PROGRAM STDIN_FILE STDOUT_FILE KEY=VALUE...   another job; its environment has only the given variables
 *   run WIDTH                                         runs the jobs so far, WIDTH at a time
 *   gone INTERFACE                                    waits until the namespace has no such interface, 10 s at most
 * Answers: for each job `EXIT_CODE NANOSECONDS` in the order given, then `all NANOSECONDS`; for gone `gone` or `there`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS_MAX 4096
#define FIELDS_MAX 64

struct job {
	char *line;
	char *fields[FIELDS_MAX];
	pid_t pid;
	int exit_code;
	long long started, took;
};

static struct job jobs[JOBS_MAX];
static int job_count;

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "launcher: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void add_job(const char *text)
{
	if (job_count == JOBS_MAX)
		die("too many jobs");
	struct job *job = &jobs[job_count++];
	int count = 0;
	job->line = strdup(text);
	for (char *field = strtok(job->line, "\t"); field; field = strtok(NULL, "\t")) {
		if (count == FIELDS_MAX - 1)
			die("too many fields");
		job->fields[count++] = field;
	}
	job->fields[count] = NULL;
	if (count < 3)
		die("a job without its files");
}

static void start(struct job *job)
{
	char *argv[] = { job->fields[0], NULL };
	posix_spawn_file_actions_t files;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, job->fields[1], O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, 1, job->fields[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	job->started = now();
	errno = posix_spawn(&job->pid, job->fields[0], &files, NULL, argv, job->fields + 3);
	if (errno)
		die(job->fields[0]);
	posix_spawn_file_actions_destroy(&files);
}

static void end_one(void)
{
	int status;
	pid_t pid = wait(&status);
	long long ended = now();
	if (pid < 0)
		die("wait");
	for (int i = 0; i < job_count; i++)
		if (jobs[i].pid == pid) {
			jobs[i].took = ended - jobs[i].started;
			jobs[i].exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			jobs[i].pid = 0;
		}
}

static void run_all(int width)
{
	long long started = now();
	int running = 0;
	for (int next = 0; next < job_count; next++) {
		if (running == width) {
			end_one();
			running--;
		}
		start(&jobs[next]);
		running++;
	}
	for (; running > 0; running--)
		end_one();
	long long took = now() - started;
	for (int i = 0; i < job_count; i++) {
		printf("%d %lld\n", jobs[i].exit_code, jobs[i].took);
		free(jobs[i].line);
	}
	printf("all %lld\n", took);
	job_count = 0;
}

static void until_gone(const char *interface)
{
	long long deadline = now() + 10000000000LL;
	while (if_nametoindex(interface) && now() < deadline)
		usleep(1000);
	puts(if_nametoindex(interface) ? "there" : "gone");
}

int main(void)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t length;
	while ((length = getline(&line, &size, stdin)) > 0) {
		line[length - 1] = '\0';
		if (!strncmp(line, "job\t", 4))
			add_job(line + 4);
		else if (!strncmp(line, "run\t", 4))
			run_all(atoi(line + 4));
		else if (!strncmp(line, "gone\t", 5))
			until_gone(line + 5);
		else
			die("a line that is none");
		fflush(stdout);
	}
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * replay.c - runs a fuzz target once over each file it is given.
 *
 * Linked with every fuzz_*.c in place of libFuzzer, so that `make check`
 * replays the corpora under the sanitizers with any compiler.  Arguments are
 * files or directories of files; without any input there is still the empty
 * one.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static unsigned replay_count;

static void
replay_file(const char *path, size_t size)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = malloc(size + (size == 0));

	if (file == NULL || data == NULL ||
	    fread(data, 1, size, file) != size) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
	fclose(file);
	/* The last line of a crash's output names its input. */
	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	replay_count++;
}

static void
replay_path(const char *path)
{
	struct dirent **names = NULL;
	struct stat st;
	char *below;
	int count, i;

	if (stat(path, &st) == -1) {
		return;
	}
	if (!S_ISDIR(st.st_mode)) {
		replay_file(path, (size_t)st.st_size);
		return;
	}
	count = scandir(path, &names, NULL, alphasort);
	for (i = 0; i < count; i++) {
		if (names[i]->d_name[0] != '.' && asprintf(&below, "%s/%s",
		    path, names[i]->d_name) != -1) {
			replay_path(below);
			free(below);
		}
		free(names[i]);
	}
	free(names);
}

int
main(int argc, char *argv[])
{
	int i;

	if (LLVMFuzzerInitialize != NULL) {
		LLVMFuzzerInitialize(&argc, &argv);
	}
	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (i = 1; i < argc; i++) {
		replay_path(argv[i]);
	}
	printf("%u inputs\n", replay_count);
	return 0;
}
